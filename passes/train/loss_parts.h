// The loss of a model that ends in one scalar, in parts that may be added up
// over the batches of a step.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/builder.h"
#include "ir/dim_names.h"
#include "ir/program.h"

namespace asyra {

enum class LossForm : uint8_t {
  kMean,      // of as many terms in each batch, and of what no data is in
  kSum,       // over the rows
  kQuotient,  // of a sum over the rows and another one, such as how many labels
              // count, in which no weights are
  kOther,     // the loss of several batches does not follow from theirs
};

struct LossParts {
  LossForm form = LossForm::kOther;
  // The two sums of kQuotient, in `builder`.
  ValueId sum = kNoValue, count = kNoValue;
  std::string why_not;  // of kOther: the op that is in the way
};

// Returns the parts of `loss`, a value of `program`, of which `builder` has a
// copy: its values by those of `program` are `map`. With `guarded` a divisor
// that a scalar keeps from being 0, max(count, 1) or count + 1e-9, is its
// count.
// Error: an op without an axis rule.
absl::StatusOr<LossParts> PartsOfLoss(const Program& program,
                                      const DimNames& names, ValueId loss,
                                      bool guarded,
                                      const std::vector<ValueId>& map,
                                      Builder& builder);

}  // namespace asyra
