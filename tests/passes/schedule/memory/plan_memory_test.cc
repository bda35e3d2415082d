// Planned memory is what the static checks accept, and these accept exactly
// what goes well in every execution (tests/support/executions.h).
#include "passes/schedule/memory/plan_memory.h"

#include <iostream>
#include <random>

#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/memory/memory_blocks.h"
#include "ir/memory/place_blocks.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "simulator/replay/memory.h"
#include "simulator/replay/simulate.h"
#include "tests/executor/runnable.h"
#include "tests/support/costs.h"
#include "tests/support/executions.h"

namespace asyra {
namespace {

Program Allocated(Program program, const CostModel* costs = nullptr,
                  double memory_gib = -1) {
  PassContext context{.costs = costs};
  ASYRA_CHECK_OK(
      PlanMemoryPass(program, {{"memory_gib", memory_gib}}, context).status());
  return program;
}

int64_t ArenaOf(const Program& program) {
  int64_t bytes = 0;
  for (const Value& value : program.values) {
    if (value.offset < 0) continue;
    bytes =
        std::max(bytes, value.offset + LocalBytes(value.type, program.mesh));
  }
  return bytes;
}

// Every second one keeps its data input as a state, which the result replaces.
Program RandomScheduled(int seed, int steps) {
  Program program = RunnableProgram(seed, steps);
  if (seed % 2 == 1) {
    program.inputs[0].role = InputRole::kState;
    program.outputs[0].alias = program.inputs[0].value;
  }
  return program;
}

class PlannedMemory : public testing::TestWithParam<int> {};

TEST_P(PlannedMemory, VerifiesAndReuses) {
  Program program = Allocated(RandomScheduled(GetParam(), 60));
  absl::Status status = Verify(program);
  EXPECT_TRUE(status.ok()) << status;
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryBlocks blocks(program, order, def_use);
  int64_t sum = 0;
  for (const MemoryBlock& block : blocks.all()) sum += block.bytes;
  ArenaLayout layout = PlaceBlocks(blocks);
  EXPECT_GE(layout.bytes, blocks.PeakBytes(kArenaAlignment));
  EXPECT_LT(layout.bytes, sum);
  for (int64_t offset : layout.offsets) {
    EXPECT_EQ(offset % kArenaAlignment, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlannedMemory, testing::Range(0, 60));

// What a device needs for the program, which is allocated.
int64_t DeviceBytes(const Program& program, const CostModel& costs) {
  return ReportMemory(program, Simulate(program, costs), costs.machine())
      .device_bytes;
}

double GibOf(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

int64_t InUseAtOnce(const Program& program) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  return MemoryBlocks(program, order, def_use).PeakBytes(kArenaAlignment);
}

// Values of 0.5 to 200 KiB, each read once, some time after it is made; with
// `negated` often by an op that may work in place.
Program OfManySizes(uint32_t seed, bool negated = false) {
  std::mt19937 random(seed);
  Builder builder(Mesh(), Stage::kScheduled);
  ValueId one = builder.Input("one", Type(DType::kF32, Shape{1}));
  std::vector<ValueId> live;
  for (int step = 0; step < 60; ++step) {
    if (live.size() < 4 || random() % 2 == 0) {
      int64_t size = 128 * (1 + static_cast<int64_t>(random() % 400));
      live.push_back(ASYRA_VALUE(
          builder.AddOne("broadcast", {one}, {{"shape", Ints{size}}})));
      continue;
    }
    std::swap(live[random() % live.size()], live.back());
    if (negated && random() % 4 != 0) {
      live.back() = ASYRA_VALUE(builder.AddOne("neg", {live.back()}));
      continue;
    }
    builder.Output(ASYRA_VALUE(builder.AddOne(
        "reduce_sum", {live.back()}, {{"dims", Ints{0}}, {"keep", false}})));
    live.pop_back();
  }
  for (ValueId value : live) builder.Output(value);
  return std::move(builder).Finish();
}

// An arena that is nearly as small as it can be is enough, except on a device
// that the step fits only with a smaller one.
TEST(PlanMemory, TheLastPercentIsLookedForWhereItIsNeeded) {
  int larger = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Program program = OfManySizes(seed);
    CostModel costs = Costs(program);
    Program quick = Allocated(program, &costs);
    // No arena is smaller than what is in use at once.
    int64_t least =
        DeviceBytes(quick, costs) - (ArenaOf(quick) - InUseAtOnce(program));
    Program smallest = Allocated(program, &costs, GibOf(least));
    EXPECT_LE(ArenaOf(smallest), ArenaOf(quick)) << "seed " << seed;
    if (ArenaOf(smallest) == ArenaOf(quick)) continue;
    ++larger;
    int64_t needed = DeviceBytes(smallest, costs);
    Program fitted = Allocated(program, &costs, GibOf(needed));
    EXPECT_LE(DeviceBytes(fitted, costs), needed) << "seed " << seed;
  }
  std::cout << larger << " programs have a smaller arena than is enough\n";
  EXPECT_GT(larger, 5);
}

// What fits by the simulator's report, which places no result over an operand,
// fits when it is planned.
TEST(PlanMemory, WhatTheReportFitsFits) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Program program =
        seed % 2 == 0 ? OfManySizes(seed, true) : RandomScheduled(seed, 60);
    CostModel costs = Costs(program);
    int64_t needed = DeviceBytes(program, costs);
    Program fitted = Allocated(program, &costs, GibOf(needed));
    EXPECT_LE(DeviceBytes(fitted, costs), needed) << "seed " << seed;
  }
}

// Where nothing can be enough, the first good arena is taken.
TEST(PlanMemory, WhatCannotFitIsPlacedAsIfAnythingDid) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Program program = OfManySizes(seed);
    CostModel costs = Costs(program);
    Program quick = Allocated(program, &costs);
    Program hopeless = Allocated(program, &costs, /*memory_gib=*/1e-9);
    EXPECT_EQ(ToString(hopeless), ToString(quick)) << "seed " << seed;
  }
}

// Mutations ------------------------------------------------------------------

class Mutator {
 public:
  Mutator(const Program& program, uint32_t seed)
      : program_(program), random_(seed) {}

  // What was changed, or "" where the dice found nothing to change.
  std::string Mutate(Program* program) {
    *program = program_;
    switch (Below(4)) {
      case 0:
        return MoveBytes(program);
      case 1:
        return DropAfter(program);
      case 2:
        return ChangeStream(program);
      default:
        return MoveOp(program);
    }
  }

 private:
  int Below(size_t n) { return static_cast<int>(random_() % n); }

  // A value and its views elsewhere: a live range is shortened.
  std::string MoveBytes(Program* program) {
    auto& values = program->values;
    int moved = Below(values.size()), to = Below(values.size());
    int64_t from = values[moved].offset;
    if (from < 0 || values[to].offset < 0) return "";
    for (const Op& op : program->ops) {
      if (op.def->is_view && op.results[0] == moved) return "";
    }
    int64_t offset = values[to].offset + kArenaAlignment * (Below(3) - 1);
    if (offset < 0 || offset == from) return "";
    SetOffset(program, moved, offset);
    return fmt::format("%{} from {} to {}", values[moved].name, from, offset);
  }
  static void SetOffset(Program* program, ValueId value, int64_t offset) {
    program->values[value].offset = offset;
    for (const Op& op : program->ops) {
      if (op.def->is_view && op.operands[0] == value) {
        SetOffset(program, op.results[0], offset);
      }
    }
  }

  std::string DropAfter(Program* program) {
    Op& op = program->ops[Below(program->ops.size())];
    if (op.after.empty()) return "";
    std::string text = "without an after: " + ToString(*program, op);
    op.after.erase(op.after.begin() + Below(op.after.size()));
    return text;
  }

  std::string ChangeStream(Program* program) {
    Op& op = program->ops[Below(program->ops.size())];
    auto stream = static_cast<StreamId>(Below(program->streams.size()));
    if (op.is_collective() || op.stream == stream) return "";
    std::string text = fmt::format("on {}: {}", program->streams[stream],
                                   ToString(*program, op));
    op.stream = stream;
    return text;
  }

  // To another place in the text, where what it reads is still above it.
  std::string MoveOp(Program* program) {
    auto& ops = program->ops;
    int from = Below(ops.size()), to = Below(ops.size());
    std::string text =
        fmt::format("op {} to {}: {}", from, to, ToString(*program, ops[from]));
    if (from < to) {
      std::rotate(ops.begin() + from, ops.begin() + from + 1,
                  ops.begin() + to + 1);
    } else {
      std::rotate(ops.begin() + to, ops.begin() + from, ops.begin() + from + 1);
    }
    return from == to || !DefinesBeforeUse(*program) ? "" : text;
  }
  static bool DefinesBeforeUse(const Program& program) {
    std::vector<bool> defined(program.values.size());
    for (const Input& input : program.inputs) defined[input.value] = true;
    for (const Op& op : program.ops) {
      for (ValueId value : op.operands) {
        if (!defined[value]) return false;
      }
      for (ValueId value : op.after) {
        if (!defined[value]) return false;
      }
      for (ValueId value : op.results) defined[value] = true;
    }
    return true;
  }

  const Program& program_;
  std::mt19937 random_;
};

class StaticChecks : public testing::TestWithParam<int> {};

// Mutations that change what happens in some execution are refused, all
// others are accepted.
TEST_P(StaticChecks, RefuseWhatGoesWrongInSomeExecutionAndNothingElse) {
  constexpr int kTries = 60;
  Program program = Allocated(RandomScheduled(GetParam(), 7));
  ASSERT_EQ(FindHazard(program), "") << ToString(program);
  Mutator mutator(program, static_cast<uint32_t>(GetParam()));
  int refused = 0, accepted = 0;
  for (int i = 0; i < kTries; ++i) {
    Program mutant;
    std::string what = mutator.Mutate(&mutant);
    if (what.empty()) continue;
    std::string hazard = FindHazard(mutant);
    absl::Status status = Verify(mutant);
    EXPECT_EQ(status.ok(), hazard.empty())
        << what << "\nverifier: " << status << "\nexecution: " << hazard << "\n"
        << ToString(program);
    (hazard.empty() ? accepted : refused) += 1;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StaticChecks, testing::Range(0, 60));

// By hand --------------------------------------------------------------------

// Two branches on streams of their own: values of one may still be in use
// when the other has long gone on, until the streams meet.
TEST(MemoryBlocks, WhatNothingOrdersInterferes) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled
program @f(%x: f32[512]) -> (f32[512]) {
  %a = exp(%x) on a : f32[512]
  %b = reduce_sum(%a) {dims=[0], keep=false} on a : f32[]
  %c = exp(%x) on b : f32[512]
  %d = add(%c, %c) on b after(%b) : f32[512]
  %e = exp(%x) on b : f32[512]
  return %d
}
)"));
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryBlocks blocks(program, order, def_use);
  auto block = [&](std::string_view name) {
    return blocks.BlockOf(program.FindValue(name));
  };
  EXPECT_EQ(block("x"), MemoryBlocks::kOutside);
  EXPECT_TRUE(blocks.Interfere(block("a"), block("c")));
  EXPECT_EQ(block("c"), block("d")) << "in place";
  EXPECT_FALSE(blocks.Interfere(block("a"), block("e")));
  EXPECT_TRUE(blocks.Interfere(block("d"), block("e"))) << "d is an output";
}

}  // namespace
}  // namespace asyra
