// A pass is a free function on a program, and a record that names it.
// The record is listed in a part of passes/pass_records.h; --help, the
// catalogue in passes/README.md and the pipeline text all come from it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "ir/attr.h"
#include "ir/dim_names.h"
#include "ir/op_sources.h"
#include "ir/program.h"

namespace asyra {

class CostModel;
struct ShardingPlan;

// Options of one run of a pass, complete: defaults are filled in.
using PassOptions = AttrMap;

// The progress of searches, one of which may run inside another.
struct SearchTally {
  size_t made = 0;      // candidates
  size_t expected = 0;  // of them in all that have begun, about
  double best_us = 0;   // that fit, with all layers; 0: none yet
};

// Context shared by passes. Remarks are for the user: what was decided, what
// was not done and why.
struct PassContext {
  // Estimates ops and collectives; null where no machine was given, and then a
  // pass that needs costs fails with an error that names --machine.
  // Over the mesh of the program.
  const CostModel* costs = nullptr;
  // `costs`, where a pass has changed the mesh; else null.
  std::shared_ptr<const CostModel> own_costs;
  // The model's names for the dimensions of its inputs; may be empty.
  DimNames dim_names;
  // Sources of the model's ops; may be empty.
  OpSources op_sources;
  // The plan that plan_sharding leaves for partition.
  std::shared_ptr<const ShardingPlan> plan;
  // The level of ZeRO that plan_sharding took for a training step.
  int zero = 0;
  std::vector<std::string> remarks;
  // Called at the beginning of phases that may take long; may be empty.
  std::function<void(const std::string&)> progress;
  // Counts of all searches of a compilation, for `progress`; null: each alone.
  std::shared_ptr<SearchTally> tally;

  void Begin(const std::string& what) const {
    if (progress) progress(what);
  }

  template <typename... Args>
  void Remark(fmt::format_string<Args...> text, Args&&... args) {
    remarks.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
};

// Changes the program in place and says whether it did. On error the program
// is unspecified. A pass that was asked for and changes nothing says why in a
// remark.
using PassFn = absl::StatusOr<bool> (*)(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

struct PassRecord {
  std::string_view name;     // "reorder", as in --passes and --print-after
  std::string_view summary;  // one sentence for --help
  Stage from_stage;          // stage it takes ...
  Stage to_stage;            // ... and leaves
  std::vector<AttrDef> options = {};
  PassFn fn = nullptr;
};

}  // namespace asyra
