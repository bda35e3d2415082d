// The batch and token dimensions of a program, derived from how values flow,
// without knowledge of any model. They tell a data axis of the mesh (dp, sp)
// from a model axis (tp, ep).
//
// A dimension of a data input is followed along the factors of axis rules to
// the ops that read it (dim_flow.h), together with those of other inputs that
// share a factor with it. A name that is known (dim_words.h) decides: about all
// of them, or, where names contradict each other, about the dimension that has
// it. Otherwise the uses of the dimension decide (dim_uses.h), first match:
//   tokens    attention has a row for each index of it
//   features  matmuls with weights sum over it: neither of the two. Where they
//             also have it as rows, if it comes last or beside named tokens
//   batch     attention and other matmuls of activations are done for each
//             index of it, and the input has but tokens and features before it
//   rows      of matmuls with weights alone: the batch where it is the first
//             such dimension of its inputs, tokens otherwise
//   unread    by any of these: dimension 0 is the batch, dimension 1 tokens
// The last three add no batch to an input that has one by name, and the last
// adds no tokens to an input that has them by name.
// So [batch, channels, time] has tokens in dimension 2, and an encoder and a
// decoder of different lengths each have their own. A dimension that an op
// makes (the positions of a convolution, tokens with a class token before them)
// is tokens where attention has a row for each index of it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/axis_rule.h"
#include "ir/dim_names.h"
#include "ir/program.h"

namespace asyra {

enum class DimLabel : uint8_t { kNone, kBatch, kSequence };

struct DimLabels {
  // Computes labels and axis rules of a program of stage global or local.
  // `names` are those of its inputs' dimensions, as far as they have any.
  static absl::StatusOr<DimLabels> Of(const Program& program,
                                      const DimNames& names = {});

  std::vector<AxisRule> rules;  // by op
  // By op, by factor; for a factor that covers several dimensions, the
  // outermost one's.
  std::vector<std::vector<DimLabel>> factors;
  // By value, by dimension; of what a reshape merged, the sequence before the
  // batch.
  std::vector<std::vector<DimLabel>> values;
  std::vector<bool> of_weights;  // by value: computed from weights alone
  // Data inputs whose dimension 1 has no name and is unread by matmuls, so that
  // it is tokens by its place alone.
  std::vector<ValueId> unread;
  DimNames names;  // as given
};

}  // namespace asyra
