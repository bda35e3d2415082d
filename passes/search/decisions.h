// Decisions on a tiled program beside its order: the streams it has, the
// carriers of its collectives, the SMs that its matmuls leave. Each decision is
// a pass with some settings, and one record here. The search walks the list
// (candidate_search.h), and a plan holds the passes that were decided on
// (candidate.h): neither knows a decision by name.
//
// Three decisions are not records, since a record is one setting for a whole
// candidate, taken before its order is searched:
// - How many CTAs a collective gets (assign_streams.h): the best number depends
//   on what is beside it, so it is chosen in the order that was found, for one
//   class of collectives after the other. As settings of a candidate, numbers
//   for classes would multiply, and each would take its part of the steps.
// - Whether reductions are decomposed (decompose_reduce_scatter.h): that
//   changes what can be fused, and so the program that all candidates are made
//   of (strategy_search.h).
// - Which collectives are joined (bucket.h): each join is tried alone, in the
//   order that was found, and the set that pays most is taken.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "passes/pass_manager.h"
#include "simulator/machine/machine.h"

namespace asyra {

// One way to decide, beside leaving everything as it is.
struct Setting {
  std::string name;  // ", SM margin 8", as it follows a candidate's name
  PassRun pass;
};

struct Decision {
  std::string_view pass;
  std::vector<Setting> settings;
  // True if its pass moves ops to other streams; else it sets attributes, which
  // come after everything that changes ops.
  bool moves_ops = false;
  // True if it makes other ops of some, or reorders the program; `moves_ops` is
  // set too.
  bool changes_ops = false;
  // True if values then share fewer bytes: on several streams, less is ordered.
  bool costs_memory = false;
  // Returns whether it can pay for a program on a machine; null: for any.
  bool (*is_for)(const Program& program, const Machine& machine) = nullptr;
  // The number of best candidates it is tried on; 0: the best of each that
  // differ in the passes of `best_of_each`.
  size_t tried = 0;
  std::vector<std::string_view> best_of_each;
  // The number of results that are searched further.
  size_t kept = 0;
  // True if it is tried on the candidate without tiles too, in addition to
  // everything else.
  bool is_extra = false;
  enum When : uint8_t {
    kAlways,
    kUnlessOpened,  // by the options (ScheduleOptions::opened)
    kOpened,
  };
  When when = kAlways;
  // The share of the time by which a result must be faster than others: what
  // estimates of it err.
  double least_gain = 0;
};

// Returns the time by which a result that has to be faster than others by this
// share (Decision::least_gain) is compared with them.
inline double ComparedUs(double us, double least_gain) {
  return us / (1 - least_gain);
}

// Returns the decisions in the order in which they are tried.
absl::Span<const Decision> Decisions();

// Returns the passes of decisions that `text` names (name_list.h). Error:
// InvalidArgument for what is none.
absl::StatusOr<std::vector<std::string>> DecisionsNamed(
    const std::string& text);

}  // namespace asyra
