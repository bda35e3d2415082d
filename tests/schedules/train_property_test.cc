// Gradients of random models (random_trained_model.h) in f64: against finite
// differences of the loss, and on any mesh, tiled and fused, against one
// device; and searched schedules of their training steps. ASYRA_SEED in the
// environment repeats a run.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/fuse/fuse.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/memory/plan_memory.h"
#include "passes/schedule/memory/recompute.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/order/start_collectives.h"
#include "passes/schedule/tile/tile.h"
#include "passes/search/schedule.h"
#include "passes/shard/partition.h"
#include "passes/shard/stripes.h"
#include "passes/train/attach_loss.h"
#include "passes/train/differentiate.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/simulate.h"
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

// A check for each of so many seeds, until one fails; false if the environment
// names the only one.
template <typename Check>
bool ForSeeds(int programs, Check check) {
  const char* given = std::getenv("ASYRA_SEED");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  if (given != nullptr) programs = 1;
  for (int i = 0; i < programs && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("ASYRA_SEED={}", first + i));
    check(first + i);
  }
  return given == nullptr && !testing::Test::HasFailure();
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
  int programs = kSanitized ? 60 : 400;
  Seen seen;
  auto check = [&](uint64_t seed) { CheckSlopes(seed, &seen); };
  if (!ForSeeds(programs, check)) return;
  EXPECT_GE(seen.params, programs * 5 / 2);
  EXPECT_LE(seen.without_gradient, seen.params / 10);
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
  int striped = 0;
};

// Planned by random costs. None if an axis has nothing to shard.
std::optional<Program> Sharded(const Program& program, std::optional<int> zero,
                               RandomChoice* choice, MeshSeen* seen) {
  PlanOptions options;
  options.costs = choice->RandomCosts();
  options.zero = zero;
  choice->SetStrategies(program.mesh, &options);
  absl::StatusOr<ShardingPlan> plan = PlanWithAnyExperts(program, options);
  if (!plan.ok()) return std::nullopt;
  ++seen->planned;
  return ASYRA_VALUE(Partition(program, *plan, options.costs));
}

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
  ASSERT_TRUE(RunPasses(*program, LowerPasses(), context).ok());
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

// That `local` computes what `single` does of random inputs.
struct Compared {
  std::vector<Tensor> inputs, want;
};
Compared ExpectSame(const Program& single, const Program& local, bool linear,
                    double tolerance, RandomChoice* choice) {
  EXPECT_EQ(Verify(local), absl::OkStatus()) << ToString(local);
  Compared compared{InputsOf(single, linear, choice), {}};
  compared.want = ASYRA_VALUE(Interpret(single, compared.inputs));
  absl::StatusOr<std::vector<Tensor>> got = Interpret(local, compared.inputs);
  EXPECT_TRUE(got.ok()) << got.status() << "\n" << ToString(local);
  if (got.ok()) ExpectNear(local, *got, compared.want, tolerance);
  return compared;
}

void CheckMesh(uint64_t seed, MeshSeen* seen) {
  RandomChoice choice(seed);
  bool linear = seed % 2 == 0;
  RandomTrainedModel random(&choice, linear);
  Program model = random.Build(linear ? 4 : 6);
  Program single = WithGradients(model), program = single;
  std::optional<Program> striped =
      ASYRA_VALUE(StripeSequence(model, choice.Half() ? 2 : 3));
  if (striped.has_value()) {
    ++seen->striped;
    program = WithGradients(*std::move(striped));
  }
  program.mesh = choice.RandomMesh();
  std::optional<Program> local = Sharded(program, 0, &choice, seen);
  if (!local.has_value()) return;
  ScheduleSome(&choice, &*local, seen);
  Compared compared =
      ExpectSame(single, *local, linear, linear ? 0 : 1e-12, &choice);
  if (!linear) return;
  EXPECT_EQ(DifferenceOnStreams(*local, compared.inputs, compared.want, seed),
            "");
}

TEST(TrainProperty, GradientsAreTheSameOnEveryMesh) {
  int programs = kSanitized ? 20 : 120;
  MeshSeen seen;
  auto check = [&](uint64_t seed) { CheckMesh(seed, &seen); };
  if (!ForSeeds(programs, check)) return;
  EXPECT_GE(seen.planned, programs / 2);
  EXPECT_GE(seen.tiled, programs / 20);
  EXPECT_GE(seen.fused, programs / 20);
  EXPECT_GE(seen.striped, programs / 20);
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
std::optional<int> RandomZero(RandomChoice* choice) {
  auto zero = static_cast<int>(choice->Below(5));
  return zero == 4 ? std::nullopt : std::optional(zero);
}

// A step of a random model on a random mesh, if it can be sharded, and in
// `single` on one device.
std::optional<Program> RandomStep(RandomChoice* choice, bool linear,
                                  Program* single, MeshSeen* seen) {
  RandomTrainedModel random(choice, linear);
  Program model = random.Build(linear ? 4 : 6);
  double clip = choice->Half() ? 1 : 0;
  *single = Step(model, {}, clip);
  Program program = Step(model, choice->RandomMesh(), clip);
  return Sharded(program, RandomZero(choice), choice, seen);
}

void CheckStep(uint64_t seed, MeshSeen* seen) {
  RandomChoice choice(seed);
  bool linear = seed % 2 == 0;
  Program single;
  std::optional<Program> local = RandomStep(&choice, linear, &single, seen);
  if (!local.has_value()) return;
  seen->cut += HasCutState(*local);
  ScheduleSome(&choice, &*local, seen);
  ExpectSame(single, *local, linear, 1e-12, &choice);
}

TEST(TrainProperty, StepsAreTheSameOnEveryMesh) {
  int programs = kSanitized ? 20 : 100;
  MeshSeen seen;
  auto check = [&](uint64_t seed) { CheckStep(seed, &seen); };
  if (!ForSeeds(programs, check)) return;
  EXPECT_GE(seen.planned, programs / 2);
  EXPECT_GE(seen.cut, programs / 10);
}

// What of computing again was seen.
struct AgainSeen : MeshSeen {
  int classes = 0, added = 0, collectives = 0;
};

int CountCollectives(const Program& program) {
  return static_cast<int>(absl::c_count_if(
      program.ops, [](const Op& op) { return op.is_collective(); }));
}

// A step that computes any of what backward reads again gives the same bits.
void CheckAgain(uint64_t seed, AgainSeen* seen) {
  RandomChoice choice(seed);
  RandomTrainedModel random(&choice, /*linear=*/false);
  Program model = random.Build(6);
  Program single = Step(model, {}, 1);
  std::optional<Program> local = Sharded(Step(model, choice.RandomMesh(), 1),
                                         RandomZero(&choice), &choice, seen);
  if (!local.has_value()) return;
  Stash stash(*local);
  std::set<int> dropped;
  for (const StashClass& one : stash.classes()) {
    if (!choice.Half()) continue;
    ++seen->classes;
    dropped.insert(one.ops.begin(), one.ops.end());
  }
  Program again = ASYRA_VALUE(RecomputeOps(*local, stash, dropped));
  ASSERT_EQ(Verify(again), absl::OkStatus()) << ToString(again);
  seen->added += static_cast<int>(again.ops.size() - local->ops.size());
  seen->collectives += CountCollectives(again) - CountCollectives(*local);
  std::vector<Tensor> inputs = InputsOf(single, false, &choice);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(*local, inputs));
  std::vector<Tensor> got = ASYRA_VALUE(Interpret(again, inputs));
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].ToDoubles(), want[i].ToDoubles())
        << again.output_name(again.outputs[i]) << "\n"
        << ToString(again);
  }
  ScheduleSome(&choice, &again, seen);
  ExpectSame(single, again, /*linear=*/false, 1e-12, &choice);
}

TEST(TrainProperty, WhatIsComputedAgainIsTheSame) {
  int programs = kSanitized ? 12 : 60;
  AgainSeen seen;
  auto check = [&](uint64_t seed) { CheckAgain(seed, &seen); };
  if (!ForSeeds(programs, check)) return;
  std::string counts =
      fmt::format("{} planned, {} classes, {} ops and {} collectives again",
                  seen.planned, seen.classes, seen.added, seen.collectives);
  RecordProperty("seen", counts);
  EXPECT_GE(seen.planned, programs / 2) << counts;
  EXPECT_GE(seen.classes, programs) << counts;
  EXPECT_GE(seen.added, programs) << counts;
  EXPECT_GE(seen.collectives, programs / 10) << counts;
  printf("%s\n", counts.c_str());
}

// What of searched schedules was seen.
struct SearchSeen : MeshSeen {
  int faster = 0, limited = 0, refused = 0, compared = 0;
};

// Of a device, gaps between values included.
int64_t BytesOf(const Program& program, const CostModel& costs,
                int64_t enough_bytes = 0) {
  return ReportMemory(program, Simulate(program, costs), costs.machine(),
                      enough_bytes)
      .device_bytes;
}

// What the program takes of a device in its own order.
int64_t BaselineBytes(const Program& local, PassContext context) {
  ScheduleOptions unsearched{.tiles = 1, .scheduler = "serial"};
  ScheduleResult result = ASYRA_VALUE(Schedule(local, unsearched, context));
  return BytesOf(result.program, *context.costs);
}

// A searched schedule is no slower than the unscheduled program, within the
// budget, which may be smaller than what that takes, and computes the same.
void CheckSearch(uint64_t seed, SearchSeen* seen) {
  RandomChoice choice(seed);
  bool linear = seed % 2 == 0;
  Program single;
  std::optional<Program> local = RandomStep(&choice, linear, &single, seen);
  if (!local.has_value()) return;
  Machine machine = ASYRA_VALUE(
      LoadMachine(choice.Pick({"h200x8", "a800x8", "rtx4090x8", "l4x8"})));
  CostModel costs(machine, local->mesh);
  PassContext context{.costs = &costs};
  SimResult unscheduled = Simulate(*local, costs);
  ScheduleOptions options{.search_steps = 200};
  int64_t values = unscheduled.peak_bytes - unscheduled.weight_bytes;
  double part = choice.Pick({0.0, 0.6, 1.0, 2.0});
  if (part > 0) {
    options.capacity_bytes =
        BaselineBytes(*local, context) +
        static_cast<int64_t>((part - 1) * static_cast<double>(values));
    ++seen->limited;
  }
  absl::StatusOr<ScheduleResult> result = Schedule(*local, options, context);
  if (!result.ok()) {
    EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
    // Small values take much more where they are aligned.
    EXPECT_TRUE(part > 0 && part <= 1) << result.status();
    ++seen->refused;
    return;
  }
  double us = Simulate(result->program, costs).makespan_us;
  // Where the unscheduled program does not fit, what does may be slower.
  auto baseline = absl::c_find_if(
      result->candidates,
      [](const ScheduleChoice& one) { return one.name == "baseline"; });
  ASSERT_NE(baseline, result->candidates.end());
  if (part == 0 || baseline->device_bytes <= *options.capacity_bytes) {
    EXPECT_LE(us, unscheduled.makespan_us * (1 + 1e-9));
    ++seen->compared;
  }
  seen->faster += us < 0.99 * unscheduled.makespan_us;
  seen->tiled += result->tiles > 1;
  if (part > 0) {
    int64_t capacity = *options.capacity_bytes;
    EXPECT_LE(BytesOf(result->program, costs, capacity), capacity);
    Program planned = result->program;
    double gib = static_cast<double>(capacity) / (1 << 30);
    ASYRA_CHECK_OK(
        PlanMemoryPass(planned, {{"memory_gib", gib}}, context).status());
    EXPECT_LE(BytesOf(planned, costs), capacity);
  }
  ExpectSame(single, result->program, linear, 1e-12, &choice);
}

TEST(TrainProperty, SearchedSchedulesAreNoSlowerWithinTheBudgetAndTheSame) {
  int programs = kSanitized ? 8 : 40;
  SearchSeen seen;
  auto check = [&](uint64_t seed) { CheckSearch(seed, &seen); };
  if (!ForSeeds(programs, check)) return;
  std::string counts = fmt::format(
      "{} planned, {} limited, {} refused, {} faster, {} tiled", seen.planned,
      seen.limited, seen.refused, seen.faster, seen.tiled);
  RecordProperty("seen", counts);
  EXPECT_GE(seen.planned, programs / 2) << counts;
  EXPECT_GE(seen.limited, programs / 4) << counts;
  EXPECT_GE(seen.compared, programs / 4) << counts;
  EXPECT_GE(seen.faster, programs / 8) << counts;
  EXPECT_LE(seen.refused, programs / 3) << counts;
  printf("%s\n", counts.c_str());
}

}  // namespace
}  // namespace asyra
