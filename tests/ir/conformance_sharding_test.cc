// Every op, sharded along each factor of its axis rule, computes the same.
#include "tests/ir/one_op.h"

namespace asyra {
namespace {

class Sharding : public OneDevice {};

// The axes over which result `i` is still to be summed.
AxisList PartialOver(const AxisRule& rule, const FactorAxes& axes, int i) {
  AxisList partial;
  for (size_t f = 0; f < axes.size(); ++f) {
    if (!rule.IsSummedIn(static_cast<FactorId>(f), i)) continue;
    partial.insert(partial.end(), axes[f].begin(), axes[f].end());
  }
  std::sort(partial.begin(), partial.end());
  return partial;
}

// A program of the one op over `mesh`, whose factors are sharded by `axes`.
// An error where the distribution cannot be written.
absl::StatusOr<Program> Sharded(const ParsedCall& call,
                                const std::vector<Type>& results,
                                const AxisRule& rule, const FactorAxes& axes,
                                const Mesh& mesh) {
  Builder builder(mesh, Stage::kLocal);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    absl::StatusOr<Type> type =
        ApplyFactorAxes(call.operands[i], rule.operands[i], rule, axes, mesh);
    if (!type.ok()) return type.status();
    operands.push_back(builder.Input("x", *type));
  }
  std::vector<Type> types;
  for (size_t i = 0; i < results.size(); ++i) {
    absl::StatusOr<Type> type =
        ApplyFactorAxes(results[i], rule.results[i], rule, axes, mesh);
    if (!type.ok()) return type.status();
    type->partial = PartialOver(rule, axes, static_cast<int>(i));
    types.push_back(*type);
  }
  Op op{.def = call.def, .attrs = call.attrs};
  op.operands.assign(operands.begin(), operands.end());
  std::vector<ValueId> values =
      builder.Append(op, types, std::vector<std::string>(types.size(), "y"));
  for (ValueId value : values) {
    AxisList partial = builder.type(value).partial;
    if (!partial.empty()) {
      value = ASYRA_VALUE(
          builder.AddOne("all_reduce", {value}, {{"axes", partial}}));
    }
    builder.Output(value);
  }
  return std::move(builder).Finish();
}

bool MayShard(const Factor& factor, int64_t parts) {
  // What an accumulated one is added to would have to be partial.
  return factor.kind != FactorKind::kWhole &&
         factor.kind != FactorKind::kAccumulated && factor.size % parts == 0 &&
         factor.size >= parts;
}

// Ways to deal the two axes of a mesh to the factors of a rule: one axis to
// one factor, both to one, or each to one.
std::vector<FactorAxes> Deals(const AxisRule& rule) {
  std::vector<FactorAxes> deals;
  size_t n = rule.factors.size();
  for (size_t f = 0; f < n; ++f) {
    FactorAxes deal(n);
    deal[f] = {0};
    if (MayShard(rule.factors[f], 2)) deals.push_back(deal);
    deal[f] = {1, 0};
    if (MayShard(rule.factors[f], 4)) deals.push_back(deal);
    for (size_t g = 0; g < n; ++g) {
      if (g == f || !MayShard(rule.factors[f], 2) ||
          !MayShard(rule.factors[g], 2)) {
        continue;
      }
      deal = FactorAxes(n);
      deal[f] = {0};
      deal[g] = {1};
      deals.push_back(deal);
    }
  }
  return deals;
}

bool OperandsDecide(const AxisRule& rule, const FactorAxes& axes) {
  for (size_t f = 0; f < axes.size(); ++f) {
    bool used = axes[f].empty();
    for (size_t i = 0; i < rule.operands.size(); ++i) {
      used |= rule.UsedByOperand(static_cast<FactorId>(f), static_cast<int>(i));
    }
    if (!used) return false;
  }
  return true;
}

TEST_P(Sharding, ShardedAlongEachFactorItComputesTheSame) {
  Mesh mesh = ParseMesh("(a=2, b=2)");
  AxisRule rule = Rule();
  std::vector<Tensor> want = Evaluated();
  for (const FactorAxes& axes : Deals(rule)) {
    absl::StatusOr<Program> program =
        Sharded(call_, results_, rule, axes, mesh);
    if (!program.ok()) continue;  // an inner factor before the outer one
    SCOPED_TRACE(ToString(*program));
    // What no operand decides is whole by inference; sharded parts of it are
    // for a reader to ask for.
    if (OperandsDecide(rule, axes)) {
      absl::Status verified = Verify(*program);
      EXPECT_TRUE(verified.ok()) << verified;
    }
    absl::StatusOr<std::vector<Tensor>> got = Interpret(*program, operands_);
    ASSERT_TRUE(got.ok()) << got.status();
    bool sums = program->ops.size() > 1;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(Near((*got)[i], want[i], sums ? 1e-6 : 0));
    }
    Work work = WorkOf(OpUse(*program, program->ops[0]), mesh);
    Work whole =
        WorkOf({*call_.def, call_.attrs, call_.operands, results_}, {});
    EXPECT_LE(work.flops, whole.flops);
  }
}

TEST_P(Sharding, WholeFactorsAreRefused) {
  Mesh mesh = ParseMesh("(a=2)");
  AxisRule rule = Rule();
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::kWhole &&
        rule.factors[f].kind != FactorKind::kAccumulated) {
      continue;
    }
    FactorAxes axes(rule.factors.size());
    axes[f] = {0};
    std::vector<Type> types;
    for (size_t i = 0; i < call_.operands.size(); ++i) {
      absl::StatusOr<Type> type = ApplyFactorAxes(
          call_.operands[i], rule.operands[i], rule, axes, mesh);
      if (type.ok()) types.push_back(*type);
    }
    if (types.size() < call_.operands.size() || types == call_.operands) {
      continue;  // of odd size, or a factor of the result alone
    }
    EXPECT_FALSE(InferTypes(*call_.def, call_.attrs, types, mesh).ok())
        << ToString(types, mesh);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Sharding, testing::ValuesIn(Cases(false)),
                         CaseName);

TEST(OpSet, EveryOpIsExercised) {
  Mesh mesh = ParseMesh("(a=2, b=2)");
  for (const OpDef* def : AllOps()) {
    SCOPED_TRACE(def->name);
    EXPECT_FALSE(def->samples.empty());
    EXPECT_FALSE(def->summary.empty());
    EXPECT_NE(def->infer, nullptr);
    EXPECT_NE(def->axes, nullptr);
    if (def->body_communicates) continue;  // overlap_test.cc
    EXPECT_NE(def->reference != nullptr, def->group_reference != nullptr);
    int sharded = 0;
    for (size_t i = 0; i < def->samples.size(); ++i) {
      OpCase op_case{def, def->samples[i], static_cast<int>(i)};
      ParsedCall call = op_case.Parse();
      EXPECT_EQ(call.def, def);
      if (!op_case.sample.mesh.empty()) continue;
      std::vector<Type> results =
          ASYRA_VALUE(InferTypes(*def, call.attrs, call.operands, mesh));
      AxisRule rule =
          ASYRA_VALUE(AxisRuleOf({*def, call.attrs, call.operands, results}));
      for (const FactorAxes& axes : Deals(rule)) {
        sharded += Sharded(call, results, rule, axes, mesh).ok();
      }
    }
    // What distributes its results itself may follow a rule beside.
    if (def->distribute == nullptr) {
      EXPECT_GT(sharded, 0);
    }
  }
}

}  // namespace
}  // namespace asyra
