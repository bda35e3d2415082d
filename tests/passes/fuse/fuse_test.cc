// Random programs of rows, elements and matmuls, fused: they compute the same,
// bit by bit, on one device or several, also once they are cut into tiles and
// ordered; they are never slower, nor do they take more memory.
#include "passes/fuse/fuse.h"

#include <random>

#include "gtest/gtest.h"
#include "ir/body.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "passes/fuse/fusion_clusters.h"
#include "passes/pass_manager.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/support/costs.h"
#include "tests/support/fixture.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

Mesh RandomMesh(uint64_t seed) {
  switch (seed % 4) {
    case 0:
      return {};
    case 1:
      return ASYRA_VALUE(Mesh::Create({{"dp", 2}}));
    case 2:
      return ASYRA_VALUE(Mesh::Create({{"tp", 2}}));
    default:
      return ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"tp", 2}}));
  }
}

// A local program over values of shape [batch, 4, 6], the batch sharded over
// dp, in which matmuls are sharded over tp.
class RandomRows {
 public:
  RandomRows(uint64_t seed, int ops)
      : random_(seed), builder_(RandomMesh(seed), Stage::kLocal) {
    for (const char* name : {"x", "y"}) {
      whole_.push_back(builder_.Input(name, Rows(DType::kF32, {4, 6})));
    }
    row_ = builder_.Input("scale", Type(DType::kF32, {6}), InputRole::kWeight);
    for (int i = 0; i < ops; ++i) Add();
    int outputs = 1 + Below(3);
    for (int i = 0; i < outputs; ++i) builder_.Output(Any());
    // Nobody starts what nobody waits for.
    DefUse uses(builder_.program());
    for (ValueId sum : sums_) {
      bool read = !uses.uses[sum].empty() || uses.output_uses[sum] > 0;
      if (!read) builder_.Output(sum);
    }
  }
  Program Finish() && { return std::move(builder_).Finish(); }

 private:
  int Below(size_t n) { return static_cast<int>(random_() % n); }
  std::string OneOf(std::vector<std::string> names) {
    return names[Below(names.size())];
  }
  ValueId Whole() { return whole_[Below(whole_.size())]; }
  ValueId Any() {
    return Below(5) == 0 && !small_.empty() ? small_[Below(small_.size())]
                                            : Whole();
  }

  Type Rows(DType dtype, std::vector<int64_t> inner) {
    Type type(dtype, inner);
    AxisId dp = builder_.program().mesh.Find("dp");
    type.dims.insert(type.dims.begin(),
                     Dim{4, dp < 0 ? AxisList{} : AxisList{dp}});
    return type;
  }

  // What cannot be, such as a sum of two element types, is left out.
  void Try(std::string_view op, std::vector<ValueId> operands, AttrMap attrs,
           std::vector<ValueId>* to) {
    auto value = builder_.AddOne(op, operands, std::move(attrs));
    if (value.ok()) to->push_back(*value);
  }

  void Add() {
    switch (Below(12)) {
      case 0:
      case 1:
        return Try(OneOf({"neg", "silu", "gelu", "abs"}), {Any()}, {}, &whole_);
      case 2:
      case 3:
      case 4:
        return Try(OneOf({"add", "mul", "max", "swiglu"}), {Whole(), Any()}, {},
                   &whole_);
      case 5:
        return Try("add", {Whole(), row_}, {}, &whole_);
      case 6:
        return Try("rms_norm", {Whole(), row_}, {{"eps", 0.5}}, &whole_);
      case 7:
        return Try("softmax", {Whole()}, {{"dim", int64_t{-1}}}, &whole_);
      case 8:
        return Try(OneOf({"reduce_sum", "reduce_mean", "reduce_max"}),
                   {Whole()}, {{"dims", Ints{2}}, {"keep", true}}, &small_);
      case 9:
        return Cast();
      case 10:
        return Try("broadcast", {row_}, {{"shape", Ints{4, 4, 6}}}, &whole_);
      default:
        return Matmul();
    }
  }

  // There and back again, where values are of single precision.
  void Cast() {
    Try("cast", {Whole()}, {{"to", DType::kBF16}}, &whole_);
    Try("cast", {whole_.back()}, {{"to", DType::kF32}}, &whole_);
  }

  // Sharded over tp within, summed behind.
  void Matmul() {
    const Mesh& mesh = builder_.program().mesh;
    AxisId tp = mesh.Find("tp");
    AxisList axes = tp < 0 ? AxisList{} : AxisList{tp};
    Type up(DType::kF32, {6, 8}), down(DType::kF32, {8, 6});
    up.dims[1].axes = down.dims[0].axes = axes;
    ValueId x = Whole();
    auto first = builder_.AddOne(
        "matmul", {x, builder_.Input("up", up, InputRole::kWeight)});
    if (!first.ok()) return;
    ValueId hidden = Behind(*first, axes);
    ValueId sum = ASYRA_VALUE(builder_.AddOne(
        "matmul", {hidden, builder_.Input("down", down, InputRole::kWeight)}));
    if (tp >= 0) {
      sum = ASYRA_VALUE(builder_.AddOne("all_reduce", {sum}, {{"axes", axes}}));
      sums_.push_back(sum);
    } else {
      sum = Behind(sum, {});
    }
    whole_.push_back(sum);
  }

  // Epilogues and what is none; `axes` shard the columns.
  ValueId Behind(ValueId matmul, const AxisList& axes) {
    Type bias(DType::kF32, {builder_.type(matmul).dims.back().size});
    bias.dims[0].axes = axes;
    for (int i = 0; i < 2; ++i) {
      ValueId other = Below(2) == 0
                          ? builder_.Input("bias", bias, InputRole::kWeight)
                          : Whole();
      auto sum = builder_.AddOne("add", {matmul, other});
      if (sum.ok()) matmul = *sum;  // else of another shape or type
    }
    std::string last = OneOf({"silu", "relu", "gelu_tanh", ""});
    return last.empty() ? matmul : ASYRA_VALUE(builder_.AddOne(last, {matmul}));
  }

  std::mt19937_64 random_;
  Builder builder_;
  std::vector<ValueId> whole_, small_, sums_;
  ValueId row_ = kNoValue;
};

struct Fusions {
  int all = 0, matmuls = 0;
  void Count(const Program& program) {
    for (const Op& op : program.ops) {
      const Body* body = BodyOf(op.attrs);
      if (body == nullptr) continue;
      ++all;
      matmuls += BeginsWithMatmul(*body);
    }
  }
};

void ExpectSame(const Program& program, const std::vector<Tensor>& inputs,
                const std::vector<Tensor>& want) {
  absl::Status verified = Verify(program);
  ASSERT_TRUE(verified.ok()) << verified << "\n" << ToString(program);
  auto again = ParseProgram(ToString(program));
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << ToString(program);
  EXPECT_EQ(ToString(*again), ToString(program));
  auto got = Interpret(*again, inputs);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(SameOutputs(want, *got, 0), absl::OkStatus()) << ToString(program);
}

TEST(Fuse, RandomProgramsComputeTheSame) {
  Fusions fusions;
  int tiled = 0;
  constexpr int kPrograms = kSanitized ? 50 : 150;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE(seed);
    Program program = RandomRows(seed, 14).Finish();
    CostModel costs = Costs(program);
    PassContext context;
    // Half of them by bytes, without a machine.
    if (seed % 2 == 0) context.costs = &costs;
    std::vector<Tensor> inputs = SmallIntegerInputs(program);
    std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
    SimResult before = Simulate(program, costs);
    Program fused = program;
    // Two thirds of them with matmuls.
    ASSERT_EQ(
        RunPasses(fused, seed % 3 == 0 ? "fuse" : "fuse{epilogues=estimated}",
                  context),
        absl::OkStatus());
    ExpectSame(fused, inputs, want);
    fusions.Count(fused);
    if (context.costs != nullptr) {
      SimResult after = Simulate(fused, costs);
      EXPECT_LE(after.makespan_us, before.makespan_us);
      EXPECT_LE(after.peak_bytes, before.peak_bytes);
    }
    context.costs = &costs;
    Program cut = fused;
    if (RunPasses(cut, "tile{tiles=2}", context).ok()) {
      ExpectSame(cut, inputs, want);
      ++tiled;
      fused = std::move(cut);
    }
    ASSERT_EQ(RunPasses(fused,
                        "start_collectives, reorder, bucket, assign_streams, "
                        "plan_memory",
                        context),
              absl::OkStatus());
    ExpectSame(fused, inputs, want);
  }
  EXPECT_GT(fusions.all, kPrograms);
  EXPECT_GT(fusions.matmuls, kPrograms / 3);
  EXPECT_GT(tiled, kPrograms / 2);
}

TEST(Fuse, MakesNothingOfWhatIsFusedAlready) {
  Program program = RandomRows(2, 14).Finish();
  PassContext context;
  ASSERT_EQ(RunPasses(program, "fuse", context), absl::OkStatus());
  std::string once = ToString(program);
  context.remarks.clear();
  ASSERT_EQ(RunPasses(program, "fuse", context), absl::OkStatus());
  EXPECT_EQ(ToString(program), once);
  ASSERT_FALSE(context.remarks.empty());
}

// What rows get with matmuls fused is never slower than without.
TEST(Fuse, MatmulsDoNotSpoilRows) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Program rows = RandomRows(seed, 14).Finish();
    Program both = rows;
    CostModel costs = Costs(rows);
    PassContext context;
    context.costs = &costs;
    ASSERT_EQ(RunPasses(rows, "fuse{epilogues=none}", context),
              absl::OkStatus());
    ASSERT_EQ(RunPasses(both, "fuse{epilogues=estimated}", context),
              absl::OkStatus());
    SimResult without = Simulate(rows, costs), with = Simulate(both, costs);
    EXPECT_LE(with.makespan_us, without.makespan_us);
    EXPECT_LE(with.peak_bytes, without.peak_bytes);
  }
}

constexpr std::string_view kBiasAndRelu = R"(asyra 1 local
program @f(%x: f32[64, 64], %w: f32[64, 64] weight, %b: f32[64] weight)
    -> (f32[64, 64]) {
  %p = matmul(%x, %w) : f32[64, 64]
  %s = add(%p, %b) : f32[64, 64]
  %y = relu(%s) : f32[64, 64]
  return %y
}
)";

// h200x8 with this one measurement.
Machine WithMeasured(std::string_view call, double us) {
  Machine machine = *LoadMachine("h200x8");
  Measurements table;
  table.points.push_back({std::string(call), 1, us});
  machine.table = ASYRA_VALUE(CostTable::Calibrate(table, machine));
  return machine;
}

int MatmulsFused(const Machine& machine) {
  Program program = ASYRA_VALUE(ParseProgram(kBiasAndRelu));
  CostModel costs(machine, program.mesh);
  PassContext context;
  context.costs = &costs;
  EXPECT_EQ(RunPasses(program, "fuse", context), absl::OkStatus());
  Fusions fusions;
  fusions.Count(program);
  return fusions.matmuls;
}

TEST(Fuse, MatmulsGoByWhatWasMeasured) {
  constexpr std::string_view kMatmul = "matmul(f32[64,64], f32[64,64])";
  constexpr std::string_view kWhole =
      "fusion(f32[64,64], f32[64,64], f32[64]) {"
      "%3 = matmul(%0, %1) : f32[64,64] %4 = add(%3, %2) : f32[64,64] "
      "%5 = relu(%4) : f32[64,64] return %5}";
  EXPECT_EQ(MatmulsFused(*LoadMachine("h100x8")), 0);
  EXPECT_EQ(MatmulsFused(WithMeasured(kMatmul, 3)), 0);
  EXPECT_EQ(MatmulsFused(WithMeasured(kWhole, 3)), 1);
  EXPECT_EQ(MatmulsFused(WithMeasured(kWhole, 3000)), 0);
}

// Where the whole does not pay, the matmul may take up a part.
TEST(Fuse, MatmulsTakeUpWhatPays) {
  Program program = ASYRA_VALUE(ParseProgram(kBiasAndRelu));
  CostModel costs(WithMeasured("fusion(f32[64,64], f32[64,64], f32[64]) {"
                               "%3 = matmul(%0, %1) : f32[64,64] "
                               "%4 = add(%3, %2) : f32[64,64] return %4}",
                               3),
                  program.mesh);
  PassContext context;
  context.costs = &costs;
  ASSERT_EQ(RunPasses(program, "fuse", context), absl::OkStatus());
  ASSERT_EQ(program.ops.size(), 2u);
  EXPECT_EQ(OpLabel(*program.ops[0].def, program.ops[0].attrs),
            "fusion(matmul+add)");
  EXPECT_EQ(program.ops[1].def->name, "relu");
}

// Costs that nobody measured are not taken where only measured ones count.
TEST(Fuse, MeasuredOnlyTakesNoFormula) {
  Program program = RandomRows(2, 14).Finish();
  CostModel costs(*LoadMachine("h100x8"), program.mesh);
  PassContext context;
  context.costs = &costs;
  Program fused = program;
  ASSERT_EQ(RunPasses(fused, "fuse{measured_only=true}", context),
            absl::OkStatus());
  EXPECT_EQ(ToString(fused), ToString(program));
}

}  // namespace
}  // namespace asyra
