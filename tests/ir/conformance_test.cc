// What every op must satisfy, by being listed: each sample of each op is run,
// sharded along each factor of its axis rule, tiled, differentiated, priced
// and printed.
#include <cmath>

#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verifier.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

class OneDevice : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    call_ = GetParam().Parse();
    operands_ = GetParam().Fill(call_.operands);
    results_ = ASYRA_VALUE(
        InferTypes(*call_.def, call_.attrs, call_.operands, Mesh{}));
  }

  AxisRule Rule() const {
    return ASYRA_VALUE(
        AxisRuleOf({*call_.def, call_.attrs, call_.operands, results_}));
  }

  std::vector<Tensor> Evaluated() const {
    return ASYRA_VALUE(Evaluate(*call_.def, call_.attrs, operands_));
  }

  ParsedCall call_;
  std::vector<Tensor> operands_;
  std::vector<Type> results_;
};

TEST_P(OneDevice, ReferenceFillsTheInferredTypes) {
  std::vector<Tensor> got = Evaluated();
  ASSERT_EQ(got.size(), results_.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), results_[i].dtype);
    EXPECT_EQ(got[i].shape(), results_[i].shape());
  }
  if (call_.def->is_pure) {
    EXPECT_TRUE(SameBytes(got[0], Evaluated()[0]));
  }
}

TEST_P(OneDevice, WorkIsFinite) {
  Work work = WorkOf({*call_.def, call_.attrs, call_.operands, results_}, {});
  for (double amount : {work.flops, work.read_bytes, work.write_bytes}) {
    EXPECT_TRUE(std::isfinite(amount));
    EXPECT_GE(amount, 0);
  }
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
  AxisList partial;
  for (size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::kSum) continue;
    partial.insert(partial.end(), axes[f].begin(), axes[f].end());
  }
  std::sort(partial.begin(), partial.end());
  for (size_t i = 0; i < results.size(); ++i) {
    absl::StatusOr<Type> type =
        ApplyFactorAxes(results[i], rule.results[i], rule, axes, mesh);
    if (!type.ok()) return type.status();
    type->partial = partial;
    types.push_back(*type);
  }
  Op op{.def = call.def, .attrs = call.attrs};
  op.operands.assign(operands.begin(), operands.end());
  std::vector<ValueId> values =
      builder.Append(op, types, std::vector<std::string>(types.size(), "y"));
  for (ValueId value : values) {
    if (!partial.empty()) {
      value = ASYRA_VALUE(
          builder.AddOne("all_reduce", {value}, {{"axes", partial}}));
    }
    builder.Output(value);
  }
  return std::move(builder).Finish();
}

bool MayShard(const Factor& factor, int64_t parts) {
  return factor.kind != FactorKind::kWhole && factor.size % parts == 0 &&
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

TEST_P(OneDevice, ShardedAlongEachFactorItComputesTheSame) {
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

TEST_P(OneDevice, WholeFactorsAreRefused) {
  Mesh mesh = ParseMesh("(a=2)");
  AxisRule rule = Rule();
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::kWhole) continue;
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

// Splits values into two summands.
std::vector<Tensor> Minus(const std::vector<Tensor>& a,
                          const std::vector<Tensor>& b) {
  std::vector<Tensor> differences;
  for (size_t i = 0; i < a.size(); ++i) {
    Tensor difference(a[i].dtype(), a[i].shape());
    for (int64_t k = 0; k < difference.num_elements(); ++k) {
      difference.Set(k, a[i].Get(k) - b[i].Get(k));
    }
    differences.push_back(std::move(difference));
  }
  return differences;
}

TEST_P(OneDevice, IsAsLinearAsItsRuleSays) {
  AxisRule rule = Rule();
  Mesh mesh = ParseMesh("(a=2)");
  std::vector<Tensor> other = GetParam().Fill(call_.operands, 1);
  std::vector<Tensor> rest = Minus(operands_, other);
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (call_.operands[i].dtype == DType::kBool) continue;
    // Unless they are joint, operand i alone is partial.
    bool joint = rule.linearity == Linearity::kJoint;
    std::vector<Type> types = call_.operands;
    std::vector<Tensor> on_first = operands_, on_second = operands_;
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (k != i && !joint) continue;
      types[k].partial = {0};
      on_first[k] = other[k];
      on_second[k] = rest[k];
    }
    absl::StatusOr<std::vector<Type>> inferred =
        InferTypes(*call_.def, call_.attrs, types, mesh);
    if (rule.linearity == Linearity::kNone ||
        (rule.linearity == Linearity::kFirst && i > 0)) {
      EXPECT_FALSE(inferred.ok()) << ToString(types, mesh);
      continue;
    }
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    EXPECT_EQ((*inferred)[0].partial, AxisList{0});
    Tensor first = ASYRA_VALUE(Evaluate(*call_.def, call_.attrs, on_first))[0];
    Tensor second =
        ASYRA_VALUE(Evaluate(*call_.def, call_.attrs, on_second))[0];
    EXPECT_TRUE(Near(Minus(Evaluated(), {first})[0], second, 1e-6));
    if (joint) break;
  }
}

// The program whose op runs on each half of each of `blocks` blocks of its
// factor `f`, the results put together or, where it sums over f, added. An
// error where these are no tiles of some operand.
class HalfByHalf {
 public:
  HalfByHalf(const Program& whole, const AxisRule& rule, FactorId f,
             int64_t blocks)
      : whole_(whole),
        op_(whole.ops[0]),
        rule_(rule),
        f_(f),
        blocks_(blocks),
        builder_(whole.mesh, whole.stage) {}

  absl::StatusOr<Program> Build() {
    for (ValueId operand : op_.operands) {
      inputs_.push_back(builder_.Input("x", whole_.type(operand)));
    }
    std::vector<Type> half;
    for (size_t i = 0; i < op_.results.size(); ++i) {
      half.push_back(whole_.type(op_.results[i]).Global());
      int64_t dim = DimOf(rule_.results[i]);
      if (dim >= 0) half.back().dims[dim].size /= 2;
    }
    std::vector<std::vector<ValueId>> parts(op_.results.size());
    for (int64_t part : {0, 1}) {
      std::vector<ValueId> operands = inputs_;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        ASYRA_RETURN_IF_ERROR(Cut(i, part, &operands[i]));
      }
      AttrMap attrs = op_.attrs;
      if (op_.def->resize != nullptr) op_.def->resize(&attrs, half);
      ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                             builder_.Add(op_.def->name, operands, attrs));
      for (size_t i = 0; i < results.size(); ++i) {
        parts[i].push_back(results[i]);
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(Join(i, parts[i]));
    }
    return std::move(builder_).Finish();
  }

 private:
  int64_t DimOf(const OperandFactors& dims) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(dims[d].begin(), dims[d].end(), f_) != dims[d].end()) {
        return static_cast<int64_t>(d);
      }
    }
    return -1;
  }

  // Of all blocks, those of one device.
  int64_t BlocksOf(ValueId value, int64_t dim) const {
    int64_t shards = whole_.mesh.size(whole_.type(value).dims[dim].axes);
    return blocks_ % shards == 0 ? blocks_ / shards : 0;
  }

  absl::Status Cut(size_t i, int64_t part, ValueId* operand) {
    int64_t dim = DimOf(rule_.operands[i]);
    if (dim < 0) return absl::OkStatus();
    if (rule_.Leading(static_cast<int>(i), static_cast<int>(dim)) != f_) {
      return absl::OutOfRangeError("not leading");
    }
    auto tile = builder_.AddOne("tile", {inputs_[i]},
                                {{"dim", dim},
                                 {"part", part},
                                 {"of", int64_t{2}},
                                 {"blocks", BlocksOf(op_.operands[i], dim)}});
    if (!tile.ok()) return tile.status();
    *operand = *tile;
    return absl::OkStatus();
  }

  absl::Status Join(size_t i, const std::vector<ValueId>& parts) {
    int64_t dim = DimOf(rule_.results[i]);
    auto joined =
        dim < 0 ? builder_.AddOne("add", parts)
                : builder_.AddOne("untile", parts,
                                  {{"dim", dim},
                                   {"blocks", BlocksOf(op_.results[i], dim)}});
    if (!joined.ok()) return joined.status();
    ValueId value = *joined;
    const AxisList& partial = builder_.type(value).partial;
    if (!partial.empty()) {
      value = ASYRA_VALUE(
          builder_.AddOne("all_reduce", {value}, {{"axes", partial}}));
    }
    builder_.Output(value);
    return absl::OkStatus();
  }

  const Program& whole_;
  const Op& op_;
  const AxisRule& rule_;
  FactorId f_;
  int64_t blocks_;
  Builder builder_;
  std::vector<ValueId> inputs_;
};

// Whether f is the first factor of every dimension of a result that has it.
bool LeadsInResults(const AxisRule& rule, FactorId f) {
  for (const OperandFactors& dims : rule.results) {
    for (const DimFactors& dim : dims) {
      bool outer = true;
      for (FactorId at : dim) {
        if (at == f && !outer) return false;
        outer &= rule.factors[at].size == 1;
      }
    }
  }
  return true;
}

// How many programs of tiles were compared with the whole.
int ExpectTilesMakeTheWhole(const Program& whole, const AxisRule& rule,
                            const std::vector<Tensor>& operands) {
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(whole, operands));
  int compared = 0;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    FactorId id = static_cast<FactorId>(f);
    if (factor.kind == FactorKind::kWhole || factor.positional ||
        operands.empty() || !LeadsInResults(rule, id)) {
      continue;
    }
    for (int64_t blocks : {1, 2, 4}) {
      if (factor.size % (2 * blocks) != 0) continue;
      absl::StatusOr<Program> tiled =
          HalfByHalf(whole, rule, id, blocks).Build();
      if (!tiled.ok()) continue;  // not inside the shards
      SCOPED_TRACE(ToString(*tiled));
      if (whole.type(whole.inputs[0].value).partial.empty()) {
        absl::Status verified = Verify(*tiled);
        EXPECT_TRUE(verified.ok()) << verified;
      }
      absl::StatusOr<std::vector<Tensor>> got = Interpret(*tiled, operands);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok()) return compared;
      // A sum of two parts is rounded once more.
      double tolerance = factor.kind == FactorKind::kSum ? 1e-6 : 0;
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(Near((*got)[i], want[i], tolerance));
      }
      ++compared;
    }
  }
  return compared;
}

// The case as a program: its operands, the op, and an all_reduce where the
// result is partial.
Program OneOp(const ParsedCall& call, const Mesh& mesh, Stage stage) {
  Builder builder(mesh, stage);
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(builder.Input("x", type));
  }
  for (ValueId value :
       ASYRA_VALUE(builder.Add(call.def->name, operands, call.attrs))) {
    AxisList partial = builder.type(value).partial;
    if (!partial.empty()) {
      value = ASYRA_VALUE(
          builder.AddOne("all_reduce", {value}, {{"axes", partial}}));
    }
    builder.Output(value);
  }
  return std::move(builder).Finish();
}

TEST_P(OneDevice, TilesMakeTheWhole) {
  ExpectTilesMakeTheWhole(OneOp(call_, {}, Stage::kGlobal), Rule(), operands_);
}

void ExpectTextRoundTrip(const Program& program) {
  std::string text = ToString(program);
  absl::StatusOr<Program> parsed = ParseProgram(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
  EXPECT_EQ(ToString(*parsed), text);
  EXPECT_EQ(parsed->ops[0].attrs, program.ops[0].attrs);
}

TEST_P(OneDevice, TextRoundTrips) {
  Program program = OneOp(call_, {}, Stage::kGlobal);
  absl::Status verified = Verify(program);
  EXPECT_TRUE(verified.ok()) << verified;
  ExpectTextRoundTrip(program);
}

// Sum of results[0] weighted by `weights`.
double Loss(const ParsedCall& call, const std::vector<Tensor>& operands,
            const Tensor& weights) {
  Tensor y = ASYRA_VALUE(Evaluate(*call.def, call.attrs, operands))[0];
  double loss = 0;
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    loss += y.Get(i) * weights.Get(i);
  }
  return loss;
}

Tensor Uniform(const Type& type, double low, double high,
               std::mt19937_64* random) {
  Tensor tensor(type.dtype, type.shape());
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, uniform(*random));
  }
  return tensor;
}

// Float operands without gradient: angles follow from positions.
bool IsConstantByNature(const OpDef& def, size_t operand) {
  return def.name == "rotary" && operand > 0;
}

// The vjp of the case as a program from operands and result gradient to the
// gradients of the float operands.
Program GradientProgram(const ParsedCall& call, const Type& result) {
  Builder builder;
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(builder.Input("x", type));
  }
  ValueId dy = builder.Input("dy", result);
  std::vector<ValueId> results =
      ASYRA_VALUE(builder.Add(call.def->name, operands, call.attrs));
  std::vector<ValueId> dys(results.size(), kNoValue);
  dys[0] = dy;  // the loss is of the first result
  std::vector<ValueId> gradients =
      ASYRA_VALUE(call.def->vjp(builder, {call.attrs, operands, results, dys}));
  EXPECT_EQ(gradients.size(), operands.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i] != kNoValue, IsFloat(call.operands[i].dtype) &&
                                            !IsConstantByNature(*call.def, i))
        << "operand " << i;
    if (gradients[i] == kNoValue) continue;
    EXPECT_EQ(builder.type(gradients[i]), call.operands[i]);
    builder.Output(gradients[i]);
  }
  return std::move(builder).Finish();
}

TEST_P(OneDevice, GradientIsTheSlopeOfTheReference) {
  if (call_.def->vjp == nullptr) return;
  for (Type& type : call_.operands) {
    if (IsFloat(type.dtype)) type.dtype = DType::kF64;
  }
  Type result = ASYRA_VALUE(
      InferTypes(*call_.def, call_.attrs, call_.operands, Mesh{}))[0];
  if (result.dtype != DType::kF64) return;  // too coarse for differences
  const auto& [text, low, high, mesh] = GetParam().sample;
  std::mt19937_64 random(Seed());
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!IsFloat(call_.operands[i].dtype)) continue;
    operands_[i] = Uniform(call_.operands[i], low, high, &random);
  }
  Tensor dy = Uniform(result, -1, 1, &random);
  std::vector<Tensor> inputs = operands_;
  inputs.push_back(dy);
  Program program = GradientProgram(call_, result);
  SCOPED_TRACE(ToString(program));
  std::vector<Tensor> gradients = ASYRA_VALUE(Interpret(program, inputs));
  size_t next = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!IsFloat(call_.operands[i].dtype) ||
        IsConstantByNature(*call_.def, i)) {
      continue;
    }
    const Tensor& gradient = gradients[next++];
    Tensor slope(DType::kF64, gradient.shape());
    for (int64_t k = 0; k < slope.num_elements(); ++k) {
      constexpr double kStep = 1e-4;
      std::vector<Tensor> moved = operands_;
      double loss[2];
      for (int side : {0, 1}) {
        std::vector<double> values = operands_[i].ToDoubles();
        values[k] += side == 0 ? -kStep : kStep;
        moved[i] =
            Tensor::FromDoubles(DType::kF64, operands_[i].shape(), values);
        loss[side] = Loss(call_, moved, dy);
      }
      slope.Set(k, (loss[1] - loss[0]) / (2 * kStep));
    }
    EXPECT_TRUE(Near(gradient, slope, 1e-6)) << "operand " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, OneDevice,
                         testing::ValuesIn(Cases(false)), CaseName);

// Values over a mesh: a tensor on every device, and what they mean together.
struct Spread {
  Type type;
  std::vector<Tensor> shards;
};

// Different summands on the devices of partial axes.
Spread RandomSpread(const Type& type, const OpCase& op_case, const Mesh& mesh,
                    uint64_t salt) {
  Spread spread{type, {}};
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    uint64_t summand = mesh.GroupIndex(device, type.partial);
    Tensor whole = op_case.Fill({type}, salt + summand)[0];
    spread.shards.push_back(Shard(whole, type, mesh, device));
  }
  return spread;
}

Tensor Meaning(const Spread& spread, const Mesh& mesh) {
  Type summand = spread.type;
  summand.partial.clear();
  Tensor sum(summand.dtype, summand.shape());
  for (int64_t part = 0; part < mesh.size(spread.type.partial); ++part) {
    // Every device looks at the one that differs from it by the summand.
    std::vector<Tensor> shards;
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      shards.push_back(
          spread.shards[mesh.Group(device, spread.type.partial)[part]]);
    }
    Tensor whole = Unshard(shards, summand, mesh);
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      EXPECT_TRUE(
          SameBytes(Shard(whole, summand, mesh, device), shards[device]))
          << "copies differ on device " << device;
    }
    for (int64_t i = 0; i < sum.num_elements(); ++i) {
      sum.Set(i, sum.Get(i) + whole.Get(i));
    }
  }
  return sum;
}

class OverMesh : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    mesh_ = GetParam().mesh();
    call_ = GetParam().Parse();
    absl::StatusOr<std::vector<Type>> inferred =
        InferTypes(*call_.def, call_.attrs, call_.operands, mesh_);
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    result_.type = (*inferred)[0];
    for (size_t i = 0; i < call_.operands.size(); ++i) {
      operands_.push_back(
          RandomSpread(call_.operands[i], GetParam(), mesh_, 16 * i));
    }
    result_.shards.resize(mesh_.num_devices());
    if (call_.def->group_reference != nullptr) {
      RunGroups();
    } else {
      RunDevices();
    }
  }

  void RunGroups() {
    const AxisList& axes = call_.attrs.Get<AxisList>("axes");
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      std::vector<int64_t> group = mesh_.Group(device, axes);
      std::vector<Tensor> operands, results(group.size());
      for (int64_t member : group) {
        operands.push_back(operands_[0].shards[member]);
      }
      ASYRA_CHECK_OK(call_.def->group_reference(
          {call_.attrs, operands, absl::MakeSpan(results)}));
      result_.shards[device] = results[mesh_.GroupIndex(device, axes)];
    }
  }

  void RunDevices() {
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      std::vector<Tensor> operands;
      for (const Spread& spread : operands_) {
        operands.push_back(spread.shards[device]);
      }
      Type local = result_.type.Local(mesh_);
      Tensor result(local.dtype, local.shape());
      ASYRA_CHECK_OK(call_.def->reference({*call_.def,
                                           call_.attrs,
                                           call_.operands,
                                           {result_.type},
                                           operands,
                                           absl::MakeSpan(&result, 1),
                                           mesh_,
                                           device}));
      result_.shards[device] = result;
    }
  }

  Mesh mesh_;
  ParsedCall call_;
  std::vector<Spread> operands_;
  Spread result_;
};

TEST_P(OverMesh, ResultsHaveTheInferredLocalTypes) {
  Type local = result_.type.Local(mesh_);
  for (const Tensor& shard : result_.shards) {
    EXPECT_EQ(shard.dtype(), local.dtype);
    EXPECT_EQ(shard.shape(), local.shape());
  }
}

TEST_P(OverMesh, CollectivesKeepTheGlobalValue) {
  // Tiles cut and join each device's shard, whatever that is globally.
  if (call_.def->is_tile || call_.def->is_untile) {
    int rank = result_.type.rank();
    int dim = NormalizeDim(call_.attrs.Int("dim"), rank);
    int64_t blocks = call_.attrs.Int("blocks");
    // Block `b` of a shard, or part `part` of `of` of it.
    auto block = [&](const Tensor& shard, int64_t b, int64_t part = 0,
                     int64_t of = 1) {
      int64_t size = shard.size(dim) / (blocks * of);
      return shard.Slice(dim, (b * of + part) * size, size);
    };
    for (size_t i = 0; i < result_.shards.size(); ++i) {
      for (int64_t b = 0; b < blocks; ++b) {
        const Tensor& first = operands_[0].shards[i];
        Tensor want =
            call_.def->is_tile
                ? block(first, b, call_.attrs.Int("part"),
                        call_.attrs.Int("of"))
                : Tensor::Concat(
                      {block(first, b), block(operands_[1].shards[i], b)}, dim);
        EXPECT_TRUE(SameBytes(block(result_.shards[i], b), want));
      }
    }
  } else {
    EXPECT_NE(result_.type, call_.operands[0]);
    EXPECT_TRUE(Near(Meaning(result_, mesh_), Meaning(operands_[0], mesh_), 0));
  }
}

TEST_P(OverMesh, TextRoundTrips) {
  ExpectTextRoundTrip(OneOp(call_, mesh_, Stage::kLocal));
}

TEST_P(OverMesh, TilesMakeTheWhole) {
  if (call_.def->is_wait) return;  // a future is not cut
  std::vector<Tensor> whole;
  for (const Spread& spread : operands_) {
    whole.push_back(GetParam().Fill({spread.type})[0]);
  }
  AxisRule rule = ASYRA_VALUE(AxisRuleOf(
      {*call_.def, call_.attrs, call_.operands, {&result_.type, 1}}));
  int compared =
      ExpectTilesMakeTheWhole(OneOp(call_, mesh_, Stage::kLocal), rule, whole);
  // None of them changes the global value: some tiles can be cut.
  if (call_.def->group_reference != nullptr) {
    EXPECT_GT(compared, 0);
  }
}

TEST_P(OverMesh, WorkIsFinite) {
  Work work = WorkOf(
      {*call_.def, call_.attrs, call_.operands, {&result_.type, 1}}, mesh_);
  for (double amount : {work.flops, work.read_bytes, work.write_bytes}) {
    EXPECT_TRUE(std::isfinite(amount));
    EXPECT_GE(amount, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, OverMesh, testing::ValuesIn(Cases(true)),
                         CaseName);

TEST(OpSet, EveryOpIsExercised) {
  Mesh mesh = ParseMesh("(a=2, b=2)");
  for (const OpDef* def : AllOps()) {
    SCOPED_TRACE(def->name);
    EXPECT_FALSE(def->samples.empty());
    EXPECT_FALSE(def->summary.empty());
    EXPECT_NE(def->infer, nullptr);
    EXPECT_NE(def->axes, nullptr);
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
    EXPECT_EQ(sharded > 0, def->distribute == nullptr);
  }
}

}  // namespace
}  // namespace asyra
