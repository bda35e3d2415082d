// The shape of an overlap's chunk plan, and whether it gains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/attr.h"
#include "passes/schedule/transport/overlap_sites.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// The overlaps that are taken.
enum class OverlapTaking : uint8_t {
  kMeasured,  // those that gain more than estimates of measured pieces err
  kGaining,   // all that are faster than their ops one after the other
  kAll,
};

// The choice for the sites of one program; equal ones are decided once.
class OverlapChoice {
 public:
  // Refers to all of them.
  OverlapChoice(const Program& program, OverlapTaking taking,
                const CostModel& costs)
      : program_(program), taking_(taking), costs_(costs) {}

  // Returns the attributes of the overlap with the fastest shape
  // (simulator/replay/plan_tuner.h), if it gains.
  std::optional<AttrMap> Choose(const OverlapSite& site);
  // Returns the same if it gains where copy engines carry the collectives and
  // other computation hides what they move: what it saves is their kernels.
  std::optional<AttrMap> ChooseHidden(const OverlapSite& site);

 private:
  struct Known {
    Body body;
    std::vector<Type> operands;
    bool hidden;
    std::optional<AttrMap> attrs;
  };
  // One after the other; the collectives as the library or copy engines carry
  // them, whichever is faster.
  struct Alone {
    double compute_us = 0, comm_us = 0;
    double kernels_us = 0;  // of the collectives on copy engines
  };

  std::optional<AttrMap> Find(const OverlapSite& site, bool hidden);
  Alone AloneOf(const OverlapSite& site, absl::Span<const Type> operands) const;
  double LeastGain(bool hidden) const;
  std::optional<AttrMap> Best(const OverlapSite& site, bool hidden,
                              absl::Span<const Type> operands) const;

  const Program& program_;
  const OverlapTaking taking_;
  const CostModel& costs_;
  std::vector<Known> known_;
};

}  // namespace asyra
