#include "tools/bench/bench_programs.h"

#include "ir/plans/fused_reduction.h"
#include "ir/plans/overlap_shape.h"
#include "ir/support/status.h"
#include "passes/schedule/transport/fuse_reductions.h"
#include "passes/search/schedule.h"
#include "passes/search/strategy_search.h"
#include "simulator/replay/plan_tuner.h"
#include "tools/run/run_inputs.h"

namespace asyra {
namespace {

void AddProgram(const Program& program, std::vector<ProgramCalls>* programs) {
  AddCalls(program, IndexLimit(program), &programs->emplace_back());
}

// With every reduction that can be one kernel with its rows.
absl::Status AddFusedReductions(Program program, const CostModel& costs,
                                std::vector<ProgramCalls>* programs) {
  ASYRA_ASSIGN_OR_RETURN(int fused,
                         FuseReductions(program, {.always = true}, costs));
  if (fused > 0) AddProgram(program, programs);
  return absl::OkStatus();
}

// With each of the fastest shapes of its overlaps: which is the fastest is told
// by what was measured of them.
void AddOverlapShapes(const Program& program, const CostModel& costs,
                      std::vector<ProgramCalls>* programs) {
  constexpr size_t kMostShapes = 5;
  std::vector<Program> others;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!op.def->body_communicates || IsOneKernel(op.attrs)) continue;
    std::vector<OverlapTuning> fastest =
        FastestOverlaps(*BodyOf(op.attrs), OpUse(program, op).call().operands,
                        PlanShapeOf(op.attrs).order, costs, kMostShapes);
    for (size_t k = 0; k < fastest.size(); ++k) {
      if (k == others.size()) others.push_back(program);
      SetPlanShape(fastest[k].shape, &others[k].ops[i].attrs);
    }
  }
  if (others.empty()) return;
  // One list: the program's other calls are timed once beside them all.
  ProgramCalls& calls = programs->emplace_back();
  for (const Program& other : others) {
    AddCalls(other, IndexLimit(other), &calls);
  }
}

// Adds the programs of a model as it is partitioned and as it is scheduled.
absl::Status AddScheduled(const CompileFlags& options, const RaisedModel& model,
                          std::vector<ProgramCalls>* programs) {
  ASYRA_ASSIGN_OR_RETURN(CompiledModel result, Compile(options, model));
  if (result.partitioned.has_value()) {
    AddProgram(*result.partitioned, programs);
  }
  AddProgram(result.program, programs);
  AddOverlapShapes(result.program, *result.costs, programs);
  if (options.tiles > 1) return absl::OkStatus();
  return AddFusedReductions(std::move(result.program), *result.costs, programs);
}

// Adds the programs of a model: if ops may be fused, without fusion, with
// fusion but no matmuls, and with matmuls, so that costs can tell which is
// better.
absl::Status AddFused(const CompileFlags& asked, const RaisedModel& model,
                      std::vector<ProgramCalls>* programs) {
  CompileFlags options = asked;
  if (asked.fuse) {
    if (asked.epilogues != "none") {
      options.epilogues = "estimated";
      ASYRA_RETURN_IF_ERROR(AddScheduled(options, model, programs));
    }
    options.epilogues = "none";
    ASYRA_RETURN_IF_ERROR(AddScheduled(options, model, programs));
    options.fuse = false;
  }
  return AddScheduled(options, model, programs);
}

// Every strategy of the program that is compared unasked, and in every number
// of tiles that is, so that costs of these are measured before they choose.
// What does not fit, or numbers that do not cut a model, are left out.
absl::Status AddStrategies(const CompileFlags& asked, const RaisedModel& model,
                           std::vector<ProgramCalls>* programs) {
  CompileFlags options = asked;
  options.scheduler = "segrr";
  options.bucket = false;
  int first = asked.tiles == 0 ? 1 : asked.tiles;
  int last = asked.tiles == 0 ? kMostTiles : asked.tiles;
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(asked));
  ASYRA_ASSIGN_OR_RETURN(CompileOptions compile, OptionsOf(asked));
  for (const std::string& strategy : TpStrategies(compile.sharding, mesh)) {
    options.tp_strategy = strategy;
    for (options.tiles = first; options.tiles <= last; ++options.tiles) {
      absl::Status added = options.tiles == 1
                               ? AddFused(options, model, programs)
                               : AddScheduled(options, model, programs);
      if (IsRefusal(added)) continue;
      ASYRA_RETURN_IF_ERROR(added);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ProgramCalls>> CallsOfModels(
    const CompileFlags& flags, absl::Span<const BenchModel> models) {
  CompileFlags options = flags;
  std::vector<ProgramCalls> programs;
  for (auto add : {AddFused, AddStrategies}) {
    for (const BenchModel& model : models) {
      options.model = model.name;
      ASYRA_RETURN_IF_ERROR(add(options, model.raised, &programs));
    }
  }
  return programs;
}

}  // namespace asyra
