// What a training step keeps from its forward part for the gradients: the
// stash, most of the memory of a step after parameters and their states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace asyra {

// Results of ops that have one name but for its numbers, as those of all layers
// do.
struct StashClass {
  std::string name;      // StarName (simulator/report/text.h): "layer*.swiglu"
  std::vector<int> ops;  // that make it
  int64_t bytes = 0;     // of a device, all together
};

// Of a local program. Without a loss (attach_loss.h) nothing is forward.
class Stash {
 public:
  explicit Stash(const Program& program);

  // Whether the loss depends on the op.
  bool IsForward(int op) const { return forward_[op]; }
  // Whether it is forward, no view, and what it makes is read after forward,
  // itself or through views.
  bool IsKept(int op) const { return kept_[op]; }
  // Whether a layer hands it on to the next (repeats.h). Such values are what
  // others are computed again from.
  bool IsBetweenLayers(int op) const { return between_layers_[op]; }

  // What may be computed again instead of kept, the largest first: all but
  // constants and what is between layers.
  const std::vector<StashClass>& classes() const { return classes_; }

 private:
  // The forward op that makes `value` or what it is a view of; -1: none.
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
