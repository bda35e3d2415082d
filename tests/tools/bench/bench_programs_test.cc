// The calls of a model that asyra-bench measures.
#include "tools/bench/bench_programs.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "tests/tools/scratch_file.h"

namespace asyra {
namespace {

constexpr char kModel[] = R"(asyra 1 global
program @f(%x: f32[8192, 512], %w: f32[512, 1024] weight,
    %v: f32[1024, 512] weight) -> (f32[8192, 512]) {
  %h = matmul(%x, %w) : f32[8192, 1024]
  %r = relu(%h) : f32[8192, 1024]
  %y = matmul(%r, %v) : f32[8192, 512]
  return %y
}
)";

TEST(BenchPrograms, HaveTheFiveFastestShapesOfTheirOverlaps) {
  ScratchFile file("model.asyra", kModel);
  CompileFlags flags;
  flags.model = file.path();
  flags.tp = 2;
  flags.tp_strategy = "sequence";
  flags.tiles = 1;
  flags.set = {"nvlink*=0.2"};
  for (bool overlap : {false, true}) {
    flags.overlap = overlap;
    std::vector<BenchModel> models;
    models.push_back({flags.model, ASYRA_VALUE(LoadRaised(flags))});
    auto programs = ASYRA_VALUE(CallsOfModels(flags, models));
    std::vector<std::string> plans;
    for (const ProgramCalls& calls : programs) {
      for (const CollectiveCall& call : calls.collectives) {
        bool known = absl::c_linear_search(plans, call.text);
        if (absl::StartsWith(call.text, "overlap(") && !call.one_kernel &&
            !known) {
          plans.push_back(call.text);
        }
      }
    }
    EXPECT_EQ(plans.size(), overlap ? 5 : 0);
  }
}

}  // namespace
}  // namespace asyra
