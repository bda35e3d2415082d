// Faults of keys that walk, planted into programs of the pass: the verifier
// names each.
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/support/costs.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

std::string FaultOf(const Program& program) {
  return std::string(Verify(program).message());
}

struct WalkCase {
  std::vector<Mesh::Axis> axes;
  std::string stripes;
  int64_t parts;
  bool merge_each = false;
};

// A model's step, forward and gradients, whose keys walk.
Program WalkedStep(const WalkCase& walk) {
  TrainOptions train;
  train.what = TrainOptions::What::kGradients;
  Program local = ASYRA_VALUE(BuiltinModel(
      "llama3-tiny", {{"layers", 2}, {"batch", 2}, {"seq", 1024}}));
  local.mesh = ASYRA_VALUE(Mesh::Create(walk.axes));
  CostModel costs = Costs(local);
  PassContext context;
  context.costs = &costs;
  ShardingOptions sharding = {.stripes = walk.stripes};
  if (walk.stripes == "never") sharding.pins = ".*attention=1@sp";
  ASYRA_CHECK_OK(RunPasses(local, ShardPasses(sharding, train), context));
  ASYRA_CHECK_OK(
      RunPasses(local, WalkPasses(walk.parts, walk.merge_each), context));
  return local;
}

// Over several axes, in stripes and not, in parts of one device and of more.
const std::vector<Program>& WalkedSteps() {
  static const auto* steps = new std::vector<Program>{
      WalkedStep({{{"sp", 4}}, "always", 0}),
      WalkedStep({{{"sp", 4}}, "never", 0}),
      WalkedStep({{{"sp", 4}}, "always", 0, true}),
      WalkedStep({{{"sp", 8}}, "always", 4}),
      WalkedStep({{{"sp", 8}}, "always", 2}),
      WalkedStep({{{"dp", 2}, {"sp", 4}}, "never", 2}),
      WalkedStep({{{"sp.context", 4}, {"sp", 2}}, "always", 0})};
  return *steps;
}

bool HasShards(const Op& op) {
  return (op.def->name == "attention" || op.def->name == "attention_grad") &&
         op.attrs.Int("shards") > 1;
}

// Plants a fault at each op for which `plant` returns true, in each program of
// WalkedSteps(), and expects an error with `text`. Returns how many.
template <typename Plant>
int ExpectFaults(std::string_view text, Plant plant) {
  int planted = 0;
  for (const Program& right : WalkedSteps()) {
    EXPECT_EQ(Verify(right), absl::OkStatus());
    for (size_t i = 0; i < right.ops.size(); ++i) {
      Program wrong = right;
      if (!plant(wrong, wrong.ops[i])) continue;
      ++planted;
      EXPECT_THAT(FaultOf(wrong), HasSubstr(text))
          << ToString(right.mesh) << " "
          << right.value_name(right.ops[i].results[0]);
    }
  }
  return planted;
}

TEST(WalkFaults, ShiftOfAnother) {
  auto plant = [](Program&, Op& op) {
    if (!HasShards(op)) return false;
    op.attrs.Set("shift", (op.attrs.Int("shift") + 1) % op.attrs.Int("shards"));
    return true;
  };
  EXPECT_GT(ExpectFaults("before, shift says", plant), 50);
}

TEST(WalkFaults, WalksTooFar) {
  auto plant = [](Program& program, Op& op) {
    if (op.def->collective != CollectiveKind::kShift) return false;
    int64_t n = program.mesh.size(op.attrs.Get<AxisList>("axes"));
    if (n == 2) return false;
    op.attrs.Set("by", op.attrs.Int("by") % (n - 1) + 1);
    return true;
  };
  EXPECT_GT(ExpectFaults("before", plant), 50);
}

// Gradients alone: keys that go back.
TEST(WalkFaults, GradientsReturnTooFar) {
  auto plant = [](Program& program, Op& op) {
    if (op.def->collective != CollectiveKind::kShift) return false;
    int64_t n = program.mesh.size(op.attrs.Get<AxisList>("axes"));
    bool read = absl::c_any_of(program.ops, [&](const Op& use) {
      return use.def->name == "add" &&
             absl::c_linear_search(use.operands, op.results[0]);
    });
    if (n == 2 || !read) return false;
    op.attrs.Set("by", op.attrs.Int("by") % (n - 1) + 1);
    return true;
  };
  EXPECT_GT(ExpectFaults("has gradients of keys that come from", plant), 20);
}

TEST(WalkFaults, ValuesOfAnotherShard) {
  auto plant = [](Program& program, Op& op) {
    if (!HasShards(op)) return false;
    for (const Op& other : program.ops) {
      if (&other == &op) return false;
      if (other.def == op.def && HasShards(other) &&
          other.operands[0] == op.operands[0] &&
          other.attrs.Int("shift") != op.attrs.Int("shift")) {
        op.operands[2] = other.operands[2];
        return true;
      }
    }
    return false;
  };
  EXPECT_GT(ExpectFaults("its values come from", plant), 50);
}

TEST(WalkFaults, MergedTwice) {
  auto plant = [](Program&, Op& op) {
    if (op.def->name != "attention_merge") return false;
    for (int k : {0, 1}) op.operands[2 + k] = op.operands[k];
    return true;
  };
  EXPECT_GT(ExpectFaults("is merged twice", plant), 10);
}

TEST(WalkFaults, LeftOut) {
  auto plant = [](Program&, Op& op) {
    if (op.def->name != "attention_merge") return false;
    op.operands.resize(op.operands.size() - 2);
    return true;
  };
  EXPECT_GT(ExpectFaults("which rows see", plant), 10);
}

TEST(WalkFaults, LogSumsOfAnother) {
  auto plant = [](Program&, Op& op) {
    if (op.def->name != "attention_merge") return false;
    std::swap(op.operands[1], op.operands[3]);
    return true;
  };
  EXPECT_GT(ExpectFaults("its log sums of", plant), 10);
}

TEST(WalkFaults, QueriesOfAnother) {
  auto plant = [](Program& program, Op& op) {
    if (op.def->name != "attention" || op.attrs.Int("shift") == 0) return false;
    for (const Op& other : program.ops) {
      if (&other == &op) return false;
      if (other.def != op.def || other.operands[0] == op.operands[0] ||
          other.operands[1] != op.operands[1] ||
          program.type(other.operands[0]) != program.type(op.operands[0])) {
        continue;
      }
      op.operands[0] = other.operands[0];
      return true;
    }
    return false;
  };
  EXPECT_GT(ExpectFaults("has the queries", plant), 5);
}

TEST(WalkFaults, AnotherOrderOfRuns) {
  auto plant = [](Program&, Op& op) {
    if (!HasShards(op) || op.attrs.Int("runs") == 0) return false;
    op.attrs.Set("runs", -op.attrs.Int("runs"));
    return true;
  };
  EXPECT_GT(ExpectFaults("has runs=", plant), 50);
}

TEST(WalkFaults, UnequalStripes) {
  auto plant = [](Program&, Op& op) {
    bool order = op.def->name == "stripe" || op.def->name == "unstripe";
    if (!order || op.attrs.Int("dim") != 2) return false;
    op.attrs.Set("pairs", int64_t{1});
    return true;
  };
  EXPECT_GT(ExpectFaults("{pairs=1} of", plant), 20);
}

// Returns whether the op adds gradients of a walk, two parts at least.
bool AddsParts(const Program& program, const Op& op) {
  if (op.def->name != "add") return false;
  return absl::c_all_of(op.operands, [&](ValueId value) {
    return absl::c_any_of(program.ops, [&](const Op& from) {
      return absl::c_linear_search(from.results, value) &&
             ((from.def->name == "attention_grad" && HasShards(from)) ||
              from.def->collective == CollectiveKind::kShift);
    });
  });
}

TEST(WalkFaults, GradientCountsTwice) {
  auto plant = [](Program& program, Op& op) {
    if (!AddsParts(program, op)) return false;
    op.operands[1] = op.operands[0];
    return true;
  };
  EXPECT_GT(ExpectFaults("twice", plant), 20);
}

TEST(WalkFaults, GradientLeftOut) {
  auto plant = [](Program& program, Op& op) {
    if (!AddsParts(program, op)) return false;
    for (Op& use : program.ops) {
      for (ValueId& operand : use.operands) {
        if (operand == op.results[0]) operand = op.operands[0];
      }
    }
    return true;
  };
  EXPECT_GT(ExpectFaults("no output depends on", plant), 20);
}

}  // namespace
}  // namespace asyra
