// Compares gradients with recorded ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/tensor.h"
#include "ir/weight_origin.h"

namespace asyra {

class WeightStore;

// The gradient of a tensor of the model's file, as users know the tensor.
struct WholeGradient {
  std::string name;
  std::vector<WeightOrigin::Tied> tied;  // other names of the parameter
  Tensor gradient;
};
// From the gradients of the params of `program`, by name: parts are joined,
// padding is cut off.
std::vector<WholeGradient> WholeGradients(
    const Program& program, const std::map<std::string, Tensor>& gradients);

struct GradientCheck {
  int by_name = 0;   // compared under their own name
  int by_value = 0;  // under another name, that of the same numbers
  std::vector<std::string> unknown;  // computed, not recorded
  std::vector<std::string> missing;  // recorded, not computed
  // "row 0 of w": all 0 as recorded, and left out; PyTorch does not train the
  // row of an embedding's padding_idx, which an exported model does not tell.
  std::vector<std::string> padding;
  // The largest |computed - recorded| of one parameter over its largest
  // |recorded|, and whose. Where that is below a thousandth of the largest of
  // all parameters, over this: some gradients are 0 but for rounding.
  double worst = 0;
  std::string worst_name;
};

// Names fit if one is the other behind a dot ("m.head.weight", "head.weight").
// What has no such name is compared with the recorded gradient that is nearest
// of those left, as it is or transposed, or without rows of zeros at the end,
// if it is within `rtol` of it.
absl::StatusOr<GradientCheck> CheckGradients(
    const std::vector<WholeGradient>& computed, const WeightStore& recorded,
    double rtol);

}  // namespace asyra
