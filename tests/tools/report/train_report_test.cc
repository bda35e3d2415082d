#include "tools/report/train_report.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "nlohmann/json.hpp"
#include "passes/training_mfu.h"
#include "simulator/replay/memory.h"
#include "tools/compile.h"

namespace asyra {
namespace {

CompileFlags StepFlags(const std::string& model) {
  CompileFlags flags;
  flags.model = model;
  flags.tiles = 1;
  flags.scheduler = "serial";
  flags.search_steps = 1;
  flags.reduce_scatter = "fused";
  flags.tp_strategy = "sequence";
  flags.train = TrainOptions();
  return flags;
}

CompiledModel Compiled(const CompileFlags& flags) {
  return ASYRA_VALUE(Compile(flags));
}

std::map<std::string, int64_t> MemoryOf(const CompiledModel& model) {
  std::map<std::string, int64_t> parts;
  for (const MemoryPart& part :
       StepMemory(model.program, *model.simulated, model.costs->machine())) {
    parts[part.name] = part.bytes;
  }
  return parts;
}

int64_t BytesOfRole(const Program& program, InputRole role) {
  int64_t bytes = 0;
  for (const Input& input : program.inputs) {
    if (input.role != role) continue;
    bytes += LocalBytes(program.type(input.value), program.mesh);
  }
  return bytes;
}

TEST(StepMemory, PartsAddUpToThePeakAndToTheDevice) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (int64_t tp : {1, 2}) {
      CompileFlags flags = StepFlags("llama3-tiny");
      flags.dtype = dtype;
      flags.tp = tp;
      flags.dp = 2;
      CompiledModel model = Compiled(flags);
      std::map<std::string, int64_t> parts = MemoryOf(model);
      MemoryReport report =
          ReportMemory(model.program, *model.simulated, model.costs->machine());
      int64_t live = 0, all = 0;
      for (const auto& [name, bytes] : parts) {
        all += bytes;
        bool beside =
            name == "placement" || name == "workspace" || name == "libraries";
        if (!beside) live += bytes;
      }
      EXPECT_EQ(live, report.live_bytes);
      EXPECT_EQ(all, report.device_bytes);
      // Each is what it is called.
      EXPECT_EQ(parts["moments"],
                BytesOfRole(model.program, InputRole::kState));
      int64_t params = BytesOfRole(model.program, InputRole::kParam);
      if (std::string_view(dtype) == "f32") {
        EXPECT_EQ(parts["master"], 0);
        EXPECT_GE(parts["parameters"], params);
      } else {
        EXPECT_GT(parts["master"], 0.9 * static_cast<double>(params));
        EXPECT_LE(parts["master"], params);
      }
      EXPECT_GT(parts["stash"] + parts["gradients"], 0);
    }
  }
}

TEST(StepMemory, LongerSequencesKeepMoreForBackward) {
  CompileFlags flags = StepFlags("llama3-tiny");
  flags.dims = {"seq=64"};
  std::map<std::string, int64_t> shorter = MemoryOf(Compiled(flags));
  flags.dims = {"seq=1024"};
  std::map<std::string, int64_t> longer = MemoryOf(Compiled(flags));
  EXPECT_GT(longer["stash"], 4 * shorter["stash"]);
  EXPECT_EQ(longer["moments"], shorter["moments"]);
}

TEST(StepMemory, IsEmptyForOtherSteps) {
  CompileFlags flags = StepFlags("llama3-tiny");
  flags.train.reset();
  CompiledModel model = Compiled(flags);
  EXPECT_TRUE(MemoryOf(model).empty());
  Profile profile;
  EXPECT_FALSE(ReportTraining(model.program, *model.simulated,
                              model.costs->machine(), &profile)
                   .has_value());
}

// Of forward and backward: three times the forward matmuls, but for what no
// gradient is needed of.
TEST(TrainingMfu, IsThatOfThreeForwardSteps) {
  CompileFlags flags = StepFlags("llama3-tiny");
  CompiledModel step = Compiled(flags);
  flags.train.reset();
  CompiledModel forward = Compiled(flags);
  const Machine& machine = step.costs->machine();
  double of_step = TrainingMfu(step.program, machine, 1000);
  double of_forward = ModelFlopUtilization(forward.program, machine, 1000);
  EXPECT_NEAR(of_step / of_forward, 3, 0.01);
  EXPECT_EQ(TrainingMfu(forward.program, machine, 1000), 0);
}

TEST(TrainReport, PhasesAddUpToTheStep) {
  CompileFlags flags = StepFlags("llama3-tiny");
  flags.tp = 2;
  CompiledModel model = Compiled(flags);
  Profile profile =
      MakeProfile(model.program, *model.simulated, *model.costs, {});
  std::optional<TrainReport> report = ReportTraining(
      model.program, *model.simulated, model.costs->machine(), &profile);
  ASSERT_TRUE(report.has_value());
  nlohmann::json json = TrainJson(*report);
  double us = 0;
  for (const auto& phase : json["phases"]) {
    EXPECT_GT(phase["elapsed_us"], 0);
    us += phase["elapsed_us"].get<double>();
  }
  EXPECT_EQ(json["phases"].size(), 3u);
  EXPECT_NEAR(us, model.simulated->makespan_us, 1e-6);
  EXPECT_GT(profile.mfu, 0);
}

}  // namespace
}  // namespace asyra
