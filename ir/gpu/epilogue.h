// The ops after the matmul of a body (ir/body.h), if matmul libraries can
// compute them as an epilogue:
//   activation(matmul + residual + bias)
// with the additions in any order, each part at most once, in f16, bf16 or f32.
// Passes that make such bodies and devices that run them use the same function.
#pragma once

#include <optional>
#include <string>

#include "ir/body.h"

namespace asyra {

struct Epilogue {
  // gelu_tanh only in bf16: libraries approximate it with less precision than
  // f16.
  enum Activation : uint8_t { kNone, kRelu, kGeluTanh };

  // Operands of the body, or -1.
  int residual = -1;  // of the shape of the result
  int bias = -1;      // one row of it, added to all
  Activation activation = kNone;
};

// None if the body does not begin with a matmul, if something else follows it,
// or if it returns a value other than the last. `operands`
// are the types of the body's operands. The matmul alone has an empty one.
std::optional<Epilogue> EpilogueOf(const Body& body,
                                   absl::Span<const Type> operands);

// "residual+bias+gelu_tanh"; of an empty one "none".
std::string ToString(const Epilogue& epilogue);

}  // namespace asyra
