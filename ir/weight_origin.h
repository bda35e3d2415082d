// The origin of a weight of a program: passes split and rename weights, and
// what users see and files hold is the tensor that the model had.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

struct WeightOrigin {
  // Rows [start, start + size) of dimension `dim` of the tensor seen as
  // `split`, a shape of as many elements.
  struct Cut {
    Shape split;
    int dim = 0;
    int64_t start = 0, size = 0;
    friend bool operator==(const Cut&, const Cut&) = default;
  };
  // Another tensor of the file with the same elements.
  struct Tied {
    std::string tensor;
    bool transposed = false;  // of the first one, both as users know them
    // The same as below.
    std::string stored_as;
    bool stored_transposed = false;
    friend bool operator==(const Tied&, const Tied&) = default;
  };

  std::string tensor;  // the name for users
  Shape shape;         // of the tensor as the program reads it, before cuts
  // The name in the model's file; empty: as users call it.
  std::string stored_as;
  // The tensor that users know is a matrix; the file, and the program, have its
  // transpose.
  bool transposed = false;
  std::vector<Cut> cuts;  // one after the other; none: it is the whole tensor
  std::vector<Tied> tied;
  // Why it is no parameter, where the file says so; empty: it may be one.
  std::string constant;
  bool made = false;  // by a pass: the file has no such tensor

  friend bool operator==(const WeightOrigin&, const WeightOrigin&) = default;
};

// The origin of an input. One without is a whole tensor of its own name.
WeightOrigin OriginOf(const Program& program, const Input& input);

// The name of the model's tensor that a weight is, or is a part of.
const std::string& UserName(const Program& program, const Input& input);

// Elements that are contiguous in a part and in the whole tensor.
struct OriginRun {
  int64_t whole = 0;  // the first one, in the whole tensor
  int64_t count = 0;
};
// The longest run from element `at` of the part on; ascending `at` give
// ascending `whole`.
OriginRun RunAt(const WeightOrigin& origin, int64_t at, int64_t part_elements);

// The part, of `shape`, of the whole tensor.
Tensor TakePart(const WeightOrigin& origin, const Tensor& whole,
                const Shape& shape);
// Writes the elements of the part where they are in `whole`, whose element type
// is the same.
void PutPart(const WeightOrigin& origin, const Tensor& part, Tensor* whole);

// The origin of the transposed tensor, of weights whose origin is a matrix that
// was cut along columns: users' rows. None where it was cut otherwise.
std::optional<WeightOrigin> Transposed(const WeightOrigin& origin);
// A matrix, transposed.
Tensor TransposedMatrix(const Tensor& matrix);

// The text form, behind the type of an input: `of "c_attn.weight" [16, 48] cut
// [16, 48] 1 0 16`.
std::string ToString(const WeightOrigin& origin);

}  // namespace asyra
