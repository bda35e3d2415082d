// Gradients of random models (random_trained_model.h) in f64: against finite
// differences of the loss, and on any mesh, tiled and fused, against one
// device. ASYRA_SEED in the environment repeats a run.
#include <cmath>
#include <cstdlib>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/fuse/fuse.h"
#include "passes/pipeline.h"
#include "passes/schedule/plan_memory.h"
#include "passes/schedule/reorder.h"
#include "passes/schedule/start_collectives.h"
#include "passes/schedule/tile.h"
#include "passes/shard/partition.h"
#include "passes/train/attach_loss.h"
#include "passes/train/differentiate.h"
#include "simulator/cost_model.h"
#include "tests/schedules/on_streams.h"
#include "tests/schedules/random_trained_model.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

Program WithGradients(Program model) {
  PassContext context;
  TrainOptions options;
  options.what = TrainOptions::What::kGradients;
  absl::Status status = RunPasses(model, TrainPasses(options), context);
  EXPECT_TRUE(status.ok()) << status << ToString(model);
  EXPECT_EQ(Verify(model), absl::OkStatus()) << ToString(model);
  return model;
}

// Ids, labels of which some do not count, and weights; small integers in a
// linear model.
std::vector<Tensor> InputsOf(const Program& program, bool linear,
                             RandomChoice* choice) {
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    Tensor tensor(type.dtype, type.shape());
    bool labels = program.value_name(input.value) == kLabels;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      auto integer = static_cast<double>(choice->Below(4));
      if (!IsFloat(type.dtype)) {
        bool ignored = labels && choice->Below(4) == 0;
        tensor.Set(i, ignored ? static_cast<double>(kIgnoredLabel) : integer);
      } else {
        tensor.Set(i, linear ? integer - 1 : choice->Uniform(-0.7, 0.7));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

int OutputIndex(const Program& program, std::string_view name) {
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.output_name(program.outputs[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

double LossAt(const Program& program, std::vector<Tensor> inputs, size_t moved,
              const std::vector<double>& direction, double step) {
  Tensor& tensor = inputs[moved];
  Tensor other(tensor.dtype(), tensor.shape());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    other.Set(i, tensor.Get(i) + step * direction[i]);
  }
  tensor = std::move(other);
  std::vector<Tensor> outputs = ASYRA_VALUE(Interpret(program, inputs));
  return outputs[0].Get(0);
}

// The slope of the loss along `direction` of one input, to the sixth order in
// the step.
double Slope(const Program& program, const std::vector<Tensor>& inputs,
             size_t moved, const std::vector<double>& direction) {
  constexpr double kStep = 1e-3;
  auto difference = [&](double step) {
    return (LossAt(program, inputs, moved, direction, step) -
            LossAt(program, inputs, moved, direction, -step)) /
           (2 * step);
  };
  double one = difference(kStep), two = difference(2 * kStep),
         three = difference(3 * kStep);
  return 1.5 * one - 0.6 * two + 0.1 * three;
}

// The loss alone, as output 0.
Program LossOf(Program model) {
  Program program = WithGradients(std::move(model));
  int loss = OutputIndex(program, kLossSum);
  std::swap(program.outputs[0], program.outputs[loss]);
  program.outputs.resize(1);
  return program;
}

struct Seen {
  int params = 0, without_gradient = 0, labels = 0;
  std::map<std::string, int> kinds;
};

void CheckSlopes(uint64_t seed, Seen* seen) {
  RandomChoice choice(seed);
  RandomTrainedModel random(&choice, /*linear=*/false);
  Program model = random.Build(6);
  Program program = WithGradients(model);
  std::vector<Tensor> inputs = InputsOf(program, false, &choice);
  std::vector<Tensor> outputs = ASYRA_VALUE(Interpret(program, inputs));
  Program loss = LossOf(model);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].role != InputRole::kParam) continue;
    ++seen->params;
    const std::string& name = program.value_name(program.inputs[i].value);
    int output = OutputIndex(program, GradientName(name));
    std::vector<double> direction(inputs[i].num_elements());
    for (double& one : direction) one = choice.Uniform(-1, 1);
    double along = 0, size = 0;
    if (output < 0) {
      ++seen->without_gradient;
    } else {
      for (size_t k = 0; k < direction.size(); ++k) {
        double gradient = outputs[output].Get(static_cast<int64_t>(k));
        along += gradient * direction[k];
        size += gradient * gradient;
      }
    }
    double slope = Slope(loss, inputs, i, direction);
    // Relative to the gradient's length: along a direction at a right angle to
    // it the slope is small by cancellation.
    double scale = std::max(std::sqrt(size), 1e-3);
    EXPECT_LT(std::abs(slope - along), 1e-6 * scale)
        << name << ": slope " << slope << ", gradient along it " << along
        << "\n"
        << ToString(program);
  }
  seen->labels += random.has_labels();
  for (const auto& [kind, count] : random.kinds()) seen->kinds[kind] += count;
}

TEST(TrainProperty, GradientsAreTheSlopesOfTheLoss) {
  const char* given = std::getenv("ASYRA_SEED");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  int programs = given != nullptr ? 1 : kSanitized ? 200 : 1000;
  Seen seen;
  for (int i = 0; i < programs; ++i) {
    SCOPED_TRACE(fmt::format("ASYRA_SEED={}", first + i));
    CheckSlopes(first + i, &seen);
    if (HasFailure()) return;
  }
  if (given != nullptr) return;
  EXPECT_GE(seen.params, programs * 3);
  EXPECT_LE(seen.without_gradient, seen.params / 2);
  EXPECT_GE(seen.labels, programs / 4);
  for (const char* kind :
       {"tied", "attention", "rms_norm", "layer_norm", "softmax", "swiglu",
        "moe_combine", "grouped_matmul", "concat", "transpose", "embedding"}) {
    EXPECT_GE(seen.kinds[kind], programs / 20) << kind;
  }
}

// What of a mesh was tried.
struct MeshSeen {
  int planned = 0, tiled = 0, fused = 0, searched = 0;
  int cut = 0;  // with a state cut over a data axis
};

// Fused, tiled, ordered, with memory planned: any of them or none.
void ScheduleSome(RandomChoice* choice, Program* program, MeshSeen* seen) {
  CostModel costs(*LoadMachine("h200x8"), program->mesh);
  PassContext context;
  context.costs = &costs;
  if (choice->Half()) {
    seen->fused += *Fuse(*program,
                         {{"max_ops", int64_t{16}},
                          {"measured_only", false},
                          {"epilogues", std::string("estimated")}},
                         context);
  }
  Program tiled = *program;
  absl::StatusOr<bool> cut =
      Tile(tiled,
           {{"tiles", int64_t{2}},
            {"dim", std::string(choice->Half() ? "batch" : "sequence")}},
           context);
  if (cut.ok() && *cut) {
    *program = std::move(tiled);
    ++seen->tiled;
  }
  ASSERT_TRUE(
      StartCollectives(*program, {{"early", choice->Half()}}, context).ok());
  ASSERT_TRUE(Reorder(*program,
                      {{"scheduler", choice->Pick(Schedulers())},
                       {"steps", int64_t{40}}},
                      context)
                  .ok());
  if (!choice->Half()) return;
  ASSERT_TRUE(PlanMemoryPass(*program, {}, context).ok());
}

void ExpectNear(const Program& program, const std::vector<Tensor>& got,
                const std::vector<Tensor>& want, double tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    double largest = 0, error = 0;
    for (int64_t k = 0; k < want[i].num_elements(); ++k) {
      largest = std::max(largest, std::abs(want[i].Get(k)));
      error = std::max(error, std::abs(want[i].Get(k) - got[i].Get(k)));
    }
    EXPECT_LE(error, tolerance * std::max(largest, 1e-3))
        << program.output_name(program.outputs[i]) << "\n"
        << ToString(program);
  }
}

void CheckMesh(uint64_t seed, MeshSeen* seen) {
  RandomChoice choice(seed);
  bool linear = seed % 2 == 0;
  RandomTrainedModel random(&choice, linear);
  Program single = WithGradients(random.Build(linear ? 4 : 6));
  Program program = single;
  program.mesh = choice.RandomMesh();
  PlanOptions options;
  options.costs = choice.RandomCosts();
  choice.SetStrategies(program.mesh, &options);
  absl::StatusOr<ShardingPlan> plan = PlanWithAnyExperts(program, options);
  if (!plan.ok()) return;  // an axis has nothing to shard
  ++seen->planned;
  absl::StatusOr<Program> local = Partition(program, *plan, options.costs);
  ASSERT_TRUE(local.ok()) << local.status() << ToString(program);
  ScheduleSome(&choice, &*local, seen);
  EXPECT_EQ(Verify(*local), absl::OkStatus()) << ToString(*local);
  std::vector<Tensor> inputs = InputsOf(single, linear, &choice);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(single, inputs));
  absl::StatusOr<std::vector<Tensor>> got = Interpret(*local, inputs);
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(*local);
  ExpectNear(*local, *got, want, linear ? 0 : 1e-12);
  if (!linear) return;
  EXPECT_EQ(DifferenceOnStreams(*local, inputs, want, seed), "");
}

TEST(TrainProperty, GradientsAreTheSameOnEveryMesh) {
  const char* given = std::getenv("ASYRA_SEED");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  int programs = given != nullptr ? 1 : kSanitized ? 60 : 200;
  MeshSeen seen;
  for (int i = 0; i < programs; ++i) {
    SCOPED_TRACE(fmt::format("ASYRA_SEED={}", first + i));
    CheckMesh(first + i, &seen);
    if (HasFailure()) return;
  }
  if (given != nullptr) return;
  EXPECT_GE(seen.planned, programs / 2);
  EXPECT_GE(seen.tiled, programs / 20);
  EXPECT_GE(seen.fused, programs / 20);
}

// A whole step, by sgd, whose updates go on from the gradients' rounding.
Program Step(Program model, const Mesh& mesh, double clip) {
  model.mesh = mesh;
  PassContext context;
  TrainOptions options;
  options.optimizer = "sgd";
  options.momentum = 0.5;
  options.clip = clip;
  absl::Status status = RunPasses(model, TrainPasses(options), context);
  EXPECT_TRUE(status.ok()) << status << ToString(model);
  return model;
}

bool HasCutState(const Program& program) {
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kState) continue;
    for (const Dim& dim : program.type(input.value).dims) {
      for (AxisId axis : dim.axes) {
        const std::string& name = program.mesh.name(axis);
        if (name == "dp" || name == "sp") return true;
      }
    }
  }
  return false;
}

// Every level of ZeRO, and what memory and costs choose.
void CheckStep(uint64_t seed, MeshSeen* seen) {
  RandomChoice choice(seed);
  bool linear = seed % 2 == 0;
  RandomTrainedModel random(&choice, linear);
  Program model = random.Build(linear ? 4 : 6);
  double clip = choice.Half() ? 1 : 0;
  Program single = Step(model, {}, clip);
  Program program = Step(model, choice.RandomMesh(), clip);
  PlanOptions options;
  options.costs = choice.RandomCosts();
  choice.SetStrategies(program.mesh, &options);
  options.zero = static_cast<int>(choice.Below(5));
  if (*options.zero == 4) options.zero.reset();
  absl::StatusOr<ShardingPlan> plan = PlanWithAnyExperts(program, options);
  if (!plan.ok()) return;  // an axis has nothing to shard
  ++seen->planned;
  absl::StatusOr<Program> local = Partition(program, *plan, options.costs);
  ASSERT_TRUE(local.ok()) << local.status() << ToString(program);
  seen->cut += HasCutState(*local);
  ScheduleSome(&choice, &*local, seen);
  EXPECT_EQ(Verify(*local), absl::OkStatus()) << ToString(*local);
  std::vector<Tensor> inputs = InputsOf(single, linear, &choice);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(single, inputs));
  absl::StatusOr<std::vector<Tensor>> got = Interpret(*local, inputs);
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(*local);
  ExpectNear(*local, *got, want, 1e-12);
}

TEST(TrainProperty, StepsAreTheSameOnEveryMesh) {
  const char* given = std::getenv("ASYRA_SEED");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  int programs = given != nullptr ? 1 : kSanitized ? 40 : 150;
  MeshSeen seen;
  for (int i = 0; i < programs; ++i) {
    SCOPED_TRACE(fmt::format("ASYRA_SEED={}", first + i));
    CheckStep(first + i, &seen);
    if (HasFailure()) return;
  }
  if (given != nullptr) return;
  EXPECT_GE(seen.planned, programs / 2);
  EXPECT_GE(seen.cut, programs / 10);
}

}  // namespace
}  // namespace asyra
