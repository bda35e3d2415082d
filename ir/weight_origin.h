// Where a weight of a program comes from: passes split and rename weights, and
// what users see and files hold is the tensor that the model had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ir/tensor.h"

namespace asyra {

struct WeightOrigin {
  // The tensor seen as `split`, of as many elements: of dimension `dim` the
  // rows [start, start + size).
  struct Cut {
    Shape split;
    int dim = 0;
    int64_t start = 0, size = 0;
    friend bool operator==(const Cut&, const Cut&) = default;
  };
  // Another tensor of the file with the same elements.
  struct Tied {
    std::string tensor;
    bool transposed = false;
    friend bool operator==(const Tied&, const Tied&) = default;
  };

  std::string tensor;  // its name for users
  Shape shape;         // of the tensor, as the program reads it
  // What the model's file calls it; empty: as users do.
  std::string stored_as;
  // The program reads the transpose of what users call `tensor`.
  bool transposed = false;
  std::vector<Cut> cuts;  // one after the other; none: it is the whole tensor
  std::vector<Tied> tied;

  friend bool operator==(const WeightOrigin&, const WeightOrigin&) = default;
};

}  // namespace asyra
