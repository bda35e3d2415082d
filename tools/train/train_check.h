// Comparisons of training with what another framework recorded.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/tensor.h"
#include "passes/pipeline.h"

namespace asyra {

// A run of another framework: NAME.safetensors with `ids` and `labels` [steps,
// rows, length], `rate`, `loss` and `norm` [steps], and `logits_after` the last
// step, of ids[0]; its metadata `hyper` has the optimizer's numbers.
struct RecordedRun {
  Tensor ids, labels;
  std::vector<double> rate, loss, norm;
  Tensor logits_after;

  int64_t steps() const { return static_cast<int64_t>(rate.size()); }
  Tensor Batch(const Tensor& all, int64_t step) const;
};

// Also sets what the file says of `train`. Errors: the file's; a tensor that
// is missing or whose shape does not fit the others; an optimizer that is not
// known.
absl::StatusOr<RecordedRun> ReadRecordedRun(const std::string& path,
                                            TrainOptions* train);

// |a - b| / |b|; 0 where both are equal.
double RelativeError(double a, double b);
// The larger of two errors; NaN where one is, which std::max may lose.
double Worse(double a, double b);
// The largest |a - b| over the largest |b|, which counts as at least `floor`.
// Error: other sizes.
absl::StatusOr<double> ErrorOfLargest(const Tensor& a, const Tensor& b,
                                      double floor = 0);

}  // namespace asyra
