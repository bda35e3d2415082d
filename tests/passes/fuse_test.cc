// Random programs of rows and elements, fused: they compute the same, bit by
// bit, on one device or several, also once they are cut into tiles and ordered;
// they are never slower, nor do they take more memory.
#include "passes/fuse.h"

#include <random>

#include "gtest/gtest.h"
#include "ir/body.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verifier.h"
#include "passes/fusion_clusters.h"
#include "passes/pass_manager.h"
#include "simulator/simulate.h"
#include "tests/support/fixture.h"

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
// dp, in which products are sharded over tp.
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
        return Product();
    }
  }

  // There and back again, where values are of single precision.
  void Cast() {
    Try("cast", {Whole()}, {{"to", DType::kBF16}}, &whole_);
    Try("cast", {whole_.back()}, {{"to", DType::kF32}}, &whole_);
  }

  // Sharded over tp within, summed behind.
  void Product() {
    const Mesh& mesh = builder_.program().mesh;
    AxisId tp = mesh.Find("tp");
    AxisList axes = tp < 0 ? AxisList{} : AxisList{tp};
    Type up(DType::kF32, {6, 8}), down(DType::kF32, {8, 6});
    up.dims[1].axes = down.dims[0].axes = axes;
    ValueId x = Whole();
    auto first = builder_.AddOne(
        "matmul", {x, builder_.Input("up", up, InputRole::kWeight)});
    if (!first.ok()) return;
    ValueId hidden = *first;
    if (Below(2) == 0) hidden = ASYRA_VALUE(builder_.AddOne("silu", {hidden}));
    ValueId sum = ASYRA_VALUE(builder_.AddOne(
        "matmul", {hidden, builder_.Input("down", down, InputRole::kWeight)}));
    if (tp >= 0) {
      sum = ASYRA_VALUE(builder_.AddOne("all_reduce", {sum}, {{"axes", axes}}));
      sums_.push_back(sum);
    }
    whole_.push_back(sum);
  }

  std::mt19937_64 random_;
  Builder builder_;
  std::vector<ValueId> whole_, small_, sums_;
  ValueId row_ = kNoValue;
};

int CountFusions(const Program& program) {
  int count = 0;
  for (const Op& op : program.ops) count += BodyOf(op.attrs) != nullptr;
  return count;
}

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
  int fusions = 0, tiled = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Program program = RandomRows(seed, 14).Finish();
    CostModel costs(*LoadMachine("h200x8"), program.mesh);
    PassContext context;
    // Half of them by bytes, without a machine.
    if (seed % 2 == 0) context.costs = &costs;
    std::vector<Tensor> inputs = SmallIntegerInputs(program);
    std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
    SimResult before = Simulate(program, costs);
    Program fused = program;
    ASSERT_EQ(RunPasses(fused, "fuse", context), absl::OkStatus());
    ExpectSame(fused, inputs, want);
    fusions += CountFusions(fused);
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
  EXPECT_GT(fusions, 150);
  EXPECT_GT(tiled, 75);
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

// Prices that nobody measured are not taken where only measured ones count.
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
