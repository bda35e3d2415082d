#include "ir/happens_before.h"

#include <random>

#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

// A program over random streams that knows no rule but definition before use:
// `add`s that read what they like, starts and their waits, random `after`s.
// Every result is somewhere in a small arena.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed)
      : random_(seed), builder_(ASYRA_VALUE(Mesh::Create({{"tp", 2}}))) {}

  Program Make(int ops) {
    plain_.push_back(builder_.Input("x", Type(DType::kF32, {4, 4})));
    for (int i = 0; i < ops; ++i) {
      int kind = Below(4);
      if (kind == 0) {
        Add("all_gather", {Sharded()}, true, 3);
      } else if (kind == 1 && !futures_.empty()) {
        Add("wait", {futures_.back()}, false, Below(3));
        futures_.pop_back();
      } else {
        Add("add", {Any(), Any()}, false, Below(3));
      }
    }
    for (; !futures_.empty(); futures_.pop_back()) {
      Add("wait", {futures_.back()}, false, Below(3));
    }
    Program program = std::move(builder_).Finish();
    program.stage = Stage::kAllocated;
    for (int s = 0; s < 4; ++s) program.Stream("s" + std::to_string(s));
    for (Op& op : program.ops) {
      Value& result = program.values[op.results[0]];
      result.offset = op.def->is_view ? program.values[op.operands[0]].offset
                                      : 16 * Below(arena_);
    }
    return program;
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % limit); }
  // Prefers the recent, so that orders are neither all nor nothing.
  ValueId Any() {
    return plain_[plain_.size() - 1 -
                  Below(std::min<int>(4, static_cast<int>(plain_.size())))];
  }
  ValueId Sharded() { return Add("shard", {Any()}, false, Below(3)); }
  ValueId Add(std::string_view name, std::vector<ValueId> operands, bool start,
              int stream) {
    AttrMap attrs;
    if (name == "shard" || name == "all_gather") {
      attrs = {{"axes", AxisList{0}}, {"dim", int64_t{0}}};
    }
    Op op;
    op.def = FindOp(name);
    ASYRA_CHECK_OK(CompleteAttrs(*op.def, &attrs));
    op.attrs = attrs;
    op.operands.assign(operands.begin(), operands.end());
    std::vector<Type> types = ASYRA_VALUE(
        InferTypes(*op.def, attrs, builder_.program().OperandTypes(op),
                   builder_.program().mesh));
    types[0].future = start;
    op.start = start;
    op.stream = static_cast<StreamId>(stream);
    while (Below(2) == 0) op.after.push_back(Any());
    ValueId result = builder_.Append(op, types, {std::string(name)})[0];
    if (start) futures_.push_back(result);
    if (!start && name != "shard") plain_.push_back(result);
    return result;
  }

  std::mt19937_64 random_;
  Builder builder_;
  std::vector<ValueId> plain_, futures_;
  int arena_ = 200;
};

// The rules of the header, closed transitively op by op.
std::vector<std::vector<bool>> Closure(const Program& program) {
  DefUse def_use(program);
  size_t n = program.ops.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) {
    const Op& op = program.ops[b];
    std::vector<int> direct;
    for (size_t a = 0; a < b; ++a) {
      if (program.ops[a].stream == op.stream) direct.push_back(a);
    }
    for (ValueId value : op.after) direct.push_back(def_use.def[value]);
    if (op.start || op.def->is_wait) {
      direct.push_back(def_use.def[op.operands[0]]);
    }
    for (int a : direct) {
      if (a < 0) continue;
      before[b][a] = true;
      for (size_t c = 0; c < n; ++c) {
        if (before[a][c]) before[b][c] = true;
      }
    }
  }
  return before;
}

// Whether values of overlapping bytes are ordered, pair by pair, or one is
// computed in place on the other. Operands of a start are read by its wait.
bool MemoryIsSafe(const Program& program,
                  const std::vector<std::vector<bool>>& before) {
  std::vector<ValueId> root(program.values.size());
  std::vector<std::vector<int>> accesses(program.values.size());
  std::vector<ValueId> owners;
  DefUse def_use(program);
  for (size_t i = 0; i < program.values.size(); ++i) root[i] = i;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.def->is_view) {
      root[op.results[0]] = root[op.operands[0]];
    } else {
      owners.push_back(op.results[0]);
    }
    accesses[root[op.results[0]]].push_back(i);
    for (ValueId value : op.operands) accesses[root[value]].push_back(i);
    if (!op.start) continue;
    int wait = def_use.uses[op.results[0]][0];
    accesses[root[op.operands[0]]].push_back(wait);
  }
  for (size_t i = 0; i < owners.size(); ++i) {
    for (size_t j = i + 1; j < owners.size(); ++j) {
      const Value& a = program.values[owners[i]];
      const Value& b = program.values[owners[j]];
      int64_t a_end = a.offset + a.type.Local(program.mesh).bytes();
      int64_t b_end = b.offset + b.type.Local(program.mesh).bytes();
      if (a_end <= b.offset || b_end <= a.offset) continue;
      int def = def_use.def[owners[j]];
      for (int access : accesses[owners[i]]) {
        // All values but shards are of one type, and no shard is added.
        bool in_place = access == def && a.offset == b.offset &&
                        program.ops[def].def == FindOp("add");
        if (!before[def][access] && !in_place) return false;
      }
    }
  }
  return true;
}

bool ReadsAreOrdered(const Program& program,
                     const std::vector<std::vector<bool>>& before) {
  DefUse def_use(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].operands) {
      int def = def_use.def[value];
      if (def >= 0 && !before[i][def]) return false;
    }
  }
  return true;
}

TEST(HappensBefore, AgreesWithTheClosureOfItsRules) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Program program = RandomProgram(seed).Make(30);
    HappensBefore order(program, DefUse(program));
    auto before = Closure(program);
    int n = static_cast<int>(program.ops.size());
    for (int b = 0; b < n; ++b) {
      EXPECT_TRUE(order.Finished(-1, b));
      EXPECT_FALSE(order.Finished(b, -1));
      for (int a = 0; a < n; ++a) {
        ASSERT_EQ(order.Finished(a, b), before[b][a])
            << a << " before " << b << "\n"
            << ToString(program);
      }
    }
  }
}

// A constant runs no kernel in a step, but has a place on its stream.
TEST(HappensBefore, ConstantsKeepTheirPlaceAndAreAlwaysThere) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled
program @f(%x: f32[4]) -> (f32[4], f32[4]) {
  %a = exp(%x) on one : f32[4]
  %c = constant() {value=f32[](2.0)} on one : f32[]
  %y = mul(%x, %c) on two after(%c) : f32[4]
  %z = mul(%x, %c) on three : f32[4]
  return %y, %z
}
)"));
  HappensBefore order(program, DefUse(program));
  enum { kA, kC, kY, kZ };
  EXPECT_TRUE(order.Finished(kA, kY));  // by way of %c
  EXPECT_TRUE(order.Finished(kC, kY));
  EXPECT_FALSE(order.Finished(kA, kZ));
  EXPECT_FALSE(order.Finished(kC, kZ));
  EXPECT_TRUE(order.Computed(kC, kZ));
  EXPECT_FALSE(order.Computed(kA, kZ));
  EXPECT_EQ(Verify(program), absl::OkStatus());
}

TEST(HappensBefore, VerifierAgreesWithPairsOfBuffers) {
  int safe = 0, unsafe = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Program program = RandomProgram(seed).Make(5 + seed % 5);
    auto before = Closure(program);
    bool expected =
        ReadsAreOrdered(program, before) && MemoryIsSafe(program, before);
    ++(expected ? safe : unsafe);
    absl::Status status = Verify(program);
    ASSERT_EQ(status.ok(), expected) << status << "\n" << ToString(program);
  }
  // Neither answer is the only one that was tested.
  EXPECT_GT(safe, 100);
  EXPECT_GT(unsafe, 100);
}

}  // namespace
}  // namespace asyra
