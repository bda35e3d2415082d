// The values that a training step keeps from its forward part for the
// gradients: the stash, most of the memory of a step after parameters and their
// states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace asyra {

// Results of ops that have one name but for its digits, as those of all layers
// do.
struct StashClass {
  std::string name;      // StarName (simulator/report/text.h): "layer*.swiglu"
  std::vector<int> ops;  // that make it
  int64_t bytes = 0;     // of a device, all together
};

// The stash of a local program. Without a loss (attach_loss.h) nothing is
// forward.
class Stash {
 public:
  explicit Stash(const Program& program);

  // Returns whether the loss depends on the op.
  bool IsForward(int op) const { return forward_[op]; }
  // Returns whether the op is forward, no view, and its results are read after
  // forward, directly or through views.
  bool IsKept(int op) const { return kept_[op]; }
  // Returns whether a layer hands the op's results on to the next (repeats.h).
  // Others are computed again from such values.
  bool IsBetweenLayers(int op) const { return between_layers_[op]; }

  // Returns the values that may be computed again instead of kept, the largest
  // first: all but constants and those between layers.
  const std::vector<StashClass>& classes() const { return classes_; }

 private:
  // Returns the forward op that makes `value` or the value it is a view of; -1:
  // none.
  int Source(ValueId value) const;
  void FindKept();
  void FindBetweenLayers();
  void FindClasses();

  const Program& program_;
  DefUse def_use_;
  std::vector<bool> forward_, kept_, between_layers_;  // by op
  std::vector<StashClass> classes_;
};

}  // namespace asyra
