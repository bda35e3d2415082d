// What follows the matmul of a body (ir/body.h), where it is something
// that libraries of matmuls compute with it:
//   activation(matmul + residual + bias)
// in any order of the sums, each part at most once, in f16, bf16 or f32. Passes
// ask before they make such a body and devices before they take it whole, so
// that they agree.
#pragma once

#include <optional>
#include <string>

#include "ir/body.h"

namespace asyra {

struct Epilogue {
  // gelu_tanh only in bf16: libraries approximate it to less than f16 has.
  enum Activation : uint8_t { kNone, kRelu, kGeluTanh };

  // Operands of the body, or -1.
  int residual = -1;  // of the shape of the result
  int bias = -1;      // one row of it, added to all
  Activation activation = kNone;
};

// Nothing where the body does not begin with a matmul, where something else
// follows it, or where another than the last value is given. `operands`
// are the types of the body's operands. The matmul alone has an empty one.
std::optional<Epilogue> EpilogueOf(const Body& body,
                                   absl::Span<const Type> operands);

// "residual+bias+gelu_tanh"; of an empty one "none".
std::string ToString(const Epilogue& epilogue);

}  // namespace asyra
