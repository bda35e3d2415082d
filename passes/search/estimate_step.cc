#include "passes/search/estimate_step.h"

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/search/strategy_search.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

constexpr int64_t kLossChunks = 8;

// A way to need less memory.
struct Saving {
  std::string_view name;  // "" for none
  bool recompute = false, chunks = false;
};

class Estimator {
 public:
  Estimator(const CompileOptions& options, PassContext& context,
            CompileResult* result)
      : options_(options), context_(context), result_(result) {}

  absl::Status Run() {
    Program sharded = result_->program;
    ASYRA_RETURN_IF_ERROR(Shard(sharded));
    int64_t capacity = CapacityOf(options_.schedule, context_.costs->machine());
    std::string_view last;
    for (const Saving& saving : Savings()) {
      Program program = sharded;
      PassContext context = context_;
      ASYRA_RETURN_IF_ERROR(Save(saving, program, context));
      SimResult simulated = Simulate(program, *context.costs);
      int64_t bytes = ReportMemory(program, simulated, context.costs->machine())
                          .device_bytes;
      result_->program = result_->partitioned.emplace(std::move(program));
      result_->simulated = std::move(simulated);
      last = saving.name;
      if (capacity == 0 || bytes <= capacity) break;
    }
    result_->estimate = fmt::format(
        "estimate: a schedule of this program takes between {}, its lower "
        "bound, and {}, where no collective hides; none was searched",
        TimeText(result_->simulated->lower_bound_us),
        TimeText(result_->simulated->makespan_us));
    if (!last.empty()) result_->estimate += fmt::format("; {}", last);
    return absl::OkStatus();
  }

 private:
  absl::Status RunAll(Program& program, const Pipeline& passes,
                      PassContext& context) {
    return RunPasses(program, passes, context, options_.manager,
                     &result_->timings);
  }

  absl::Status Shard(Program& program) {
    if (program.stage != Stage::kGlobal) return absl::OkStatus();
    ShardingOptions sharding = options_.sharding;
    sharding.tp_strategy = TpStrategies(sharding, program.mesh).front();
    sharding.memory_gib = CapacityGib(options_.schedule.capacity_bytes);
    return RunAll(program, ShardPasses(sharding, options_.train), context_);
  }

  // The first is what was asked for; those behind it need less memory.
  std::vector<Saving> Savings() const {
    if (!options_.train.has_value()) return {{}};
    bool open = options_.train->recompute == "auto";
    std::vector<Saving> savings = {{}};
    if (open) {
      savings.push_back(
          {"all values of forward are computed again, or it "
           "would not fit",
           true, false});
    }
    if (open && options_.train->loss_chunks == 0) {
      savings.push_back(
          {"all values of forward are computed again, and the "
           "loss in 8 chunks, or it would not fit",
           true, true});
    }
    return savings;
  }

  absl::Status Save(const Saving& saving, Program& program,
                    PassContext& context) {
    int64_t chunks = saving.chunks ? kLossChunks : 0;
    std::string again = saving.recompute ? "all" : "none";
    if (options_.train.has_value()) {
      const TrainOptions& train = *options_.train;
      if (train.loss_chunks > 1) chunks = train.loss_chunks;
      if (train.recompute != "auto") again = train.recompute;
    }
    if (chunks > 1) {
      // Not all tokens divide by all numbers.
      Program whole = program;
      if (!RunAll(program, ChunkPasses(chunks), context).ok()) program = whole;
    }
    if (again != "none") {
      ASYRA_RETURN_IF_ERROR(RunAll(
          program, {MakePass("recompute", {{"values", again}})}, context));
    }
    if (!options_.fuse) return absl::OkStatus();
    return RunAll(program,
                  FusePasses(options_.measured_only, options_.epilogues),
                  context);
  }

  const CompileOptions& options_;
  PassContext& context_;
  CompileResult* const result_;
};

}  // namespace

absl::Status EstimateStep(const CompileOptions& options, PassContext& context,
                          CompileResult* result) {
  return Estimator(options, context, result).Run();
}

}  // namespace asyra
