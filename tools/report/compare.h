// Outputs of a run against recorded ones.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

struct Tolerance {
  double relative = 1e-4;
  double absolute = 1e-5;
};

// The accuracy of a deep model in that element type: 1e-4 and 1e-5 for f32 and
// wider, 2e-3 for f16, 2e-2 for bf16.
Tolerance ToleranceFor(DType dtype);

// Returns how far a sharded program may be from the same one on one device,
// relative to the largest magnitude of the output: sums are only taken in
// another order. 1e-5 for f32 and wider, 2e-3 for f16, 2e-2 for bf16.
double ShardedToleranceFor(DType dtype);

struct Comparison {
  double max_abs_error = 0;  // max |a - e|
  double max_rel_error =
      0;               // max |a - e| / |e|, where |e| > tolerance.absolute
  double largest = 0;  // max |e| of those that are finite
  // Elements beyond |a - e| <= absolute + relative * |e|; for integers and
  // bools, those that are not equal. Not-a-numbers and infinities agree with
  // their equals only.
  int64_t wrong = 0;
  int64_t first_wrong = -1;  // index of the first such element
};

// Recorded floats of 32 or 64 bits may be of another float type than those of
// the model, which --dtype may have changed.
// Error: other element type or shape, both named.
absl::StatusOr<Comparison> Compare(const Tensor& actual, const Tensor& expected,
                                   const Tolerance& tolerance);

// max |a - e| / max |e|; 0 where all are equal.
double ErrorOfLargest(const Comparison& comparison);

// "min -1.5, max 2.25, mean 0.01".
std::string Summary(const Tensor& tensor);

}  // namespace asyra
