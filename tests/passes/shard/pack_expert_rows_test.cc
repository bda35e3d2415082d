// Random mixtures and their gradients, over meshes, with experts that get all
// tokens or none: packed rows give what slots do.
#include "passes/shard/pack_expert_rows.h"

#include <map>
#include <random>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verifier.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

class RandomMixture {
 public:
  explicit RandomMixture(uint64_t seed) : random_(seed) {
    dp_ = Pick({1, 2, 3});
    sp_ = Pick({1, 2});
    batches_ = sp_ > 1 || Pick({0, 1}) == 1;
    experts_ = Pick({1, 2, 3, 5, 8});
    chosen_ = Pick({1, 2, 3});
    chosen_ = std::min(chosen_, experts_);
    int64_t own = Pick({4, 6, 8});  // tokens of a device
    tokens_ = own * (batches_ ? sp_ : dp_);
    group_ = Pick({1, 2});
    lead_ = batches_ ? fmt::format("{}@dp, ", 2 * dp_) : "";
    rows_ = fmt::format("{}@{}", tokens_, batches_ ? "sp" : "dp");
    partial_ = batches_ ? "sp" : "dp";
  }

  int64_t groups() { return Pick({0, 1, 2}); }

  // Forward, and the gradients of tokens, choices and all weights.
  std::string Text() {
    int64_t h = Pick({1, 3, 4}), f = Pick({2, 5});
    int slots = batches_ ? 2 : 1;
    std::string b = lead_, t = rows_;
    std::string kept = b.empty() ? "" : b;
    std::string text = fmt::format(
        "asyra 1 local\nmesh (dp={}, sp={})\nprogram @f(%x: f64[{}{},{}], "
        "%l: f64[{}{},{}], %w: f64[{},{},{}] weight, %c: f64[{},1,{}] weight, "
        "%v: f64[{},{},{}] weight, %dy: f64[{}{},{}]) -> (",
        dp_, sp_, b, t, h, b, t, experts_, experts_, h, f, experts_, f,
        experts_, h, f, b, t, h);
    std::string sizes = fmt::format("{}{},", b, t);
    std::string of_sum = fmt::format("f64[{}{},{},", kept, experts_, f);
    text += fmt::format(
        "f64[{0}{1}], f64[{0}{1}], f64[{2}{3},{1},{4}], f64[{2}{3},{1},{4}], "
        "f64[{2}{3},{4}], f64[{0}{5},{1}]) {{\n",
        sizes, h, kept, experts_, f, chosen_);
    Line("%s, %e = moe_router(%l) {{k={}, normalize=true}}", chosen_);
    Line(
        "%r = moe_dispatch(%x, %e) {{num_experts={}, group_size={}, "
        "capacity={}}}",
        experts_, group_, group_);
    Line("%a = grouped_matmul(%r, %w)");
    Line("%ab = add(%a, %c)");
    Line("%g = {}(%ab)",
         std::array{"silu", "tanh", "sigmoid"}[Pick({0, 1, 2})]);
    Line("%o = grouped_matmul(%g, %v) {{transpose_b=true}}");
    Line("%y = moe_combine(%o, %e, %s) {{group_size={}}}", group_);
    Line("%p = moe_collect(%o, %e) {{group_size={}}}", group_);
    std::string flat = b.empty() ? "" : fmt::format("{}, ", 2 * dp_);
    Line("%d1 = reshape(%dy) {{shape=[{}{},1,{}]}}", flat, tokens_, h);
    Line("%s1 = reshape(%s) {{shape=[{}{},{},1]}}", flat, tokens_, chosen_);
    Line("%dc = mul(%s1, %d1)");
    Line("%dt = reshape(%dc) {{shape=[{}{},{}]}}", flat, tokens_ * chosen_, h);
    Line("%et = reshape(%e) {{shape=[{}{},1]}}", flat, tokens_ * chosen_);
    Line(
        "%do = moe_dispatch(%dt, %et) {{num_experts={}, group_size={}, "
        "capacity={}}}",
        experts_, group_ * chosen_, group_);
    Line("%dg = grouped_matmul(%do, %v)");
    Line("%dw = matmul_wgrad(%r, %dg) {{keep={}}}", slots);
    Line("%dv = matmul_wgrad(%do, %g) {{keep={}}}", slots);
    Line("%db = reduce_sum(%dg) {{dims=[{}], keep=false}}", slots);
    Line("%dr = grouped_matmul(%dg, %w) {{transpose_b=true}}");
    Line("%dx = moe_combine(%dr, %e, %s) {{group_size={}}}", group_);
    for (const char* sum : {"dw", "dv", "db"}) {
      Line("%{0}.all = all_reduce(%{0}) {{axes={1}}}", sum, partial_);
    }
    return text + body_ +
           "  return %y, %dx, %dw.all, %dv.all, %db.all, %p\n}\n";
  }

  // Logits favour one expert in some of the programs.
  std::vector<Tensor> Inputs(const Program& program) {
    std::normal_distribution<double> normal;
    int64_t favoured = Pick({-1, 0, 1});
    std::vector<Tensor> inputs;
    for (const Input& input : program.inputs) {
      const Type& type = program.type(input.value);
      Tensor tensor(type.dtype, type.shape());
      bool logits = program.value_name(input.value) == "l";
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        bool here = logits && i % experts_ == favoured;
        tensor.Set(i, normal(random_) + (here ? 100 : 0));
      }
      inputs.push_back(std::move(tensor));
    }
    return inputs;
  }

 private:
  int64_t Pick(std::initializer_list<int64_t> from) {
    return from.begin()[random_() % from.size()];
  }
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::mt19937_64 random_;
  int64_t dp_, sp_, experts_, chosen_, tokens_, group_;
  bool batches_;
  std::string lead_, rows_, partial_, body_;
};

void ExpectNear(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  std::vector<double> x = a.ToDoubles(), y = b.ToDoubles();
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i], y[i], 1e-11 * std::max(1.0, std::abs(y[i])));
  }
}

TEST(PackExpertRowsProperty, ComputesWhatSlotsDo) {
  std::map<std::string, int> covered;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomMixture mixture(seed);
    Program program = Parse(mixture.Text());
    std::vector<Tensor> inputs = mixture.Inputs(program);
    auto want = ASYRA_VALUE(Interpret(program, inputs));
    PassContext context;
    PassOptions options = {{"groups", mixture.groups()}};
    Program packed = program;
    ASSERT_TRUE(ASYRA_VALUE(PackExpertRows(packed, options, context)))
        << ToString(program);
    absl::Status verified = Verify(packed);
    ASSERT_TRUE(verified.ok()) << verified << ToString(packed);
    for (const Op& op : packed.ops) {
      std::string name(op.def->name);
      EXPECT_THAT(
          name, testing::Not(testing::AnyOf("moe_dispatch", "grouped_matmul")));
      if (name.starts_with("packed_")) ++covered[name];
    }
    auto got = ASYRA_VALUE(Interpret(packed, inputs));
    for (size_t i = 0; i < want.size(); ++i) ExpectNear(got[i], want[i]);
  }
  EXPECT_EQ(covered.size(), 7u);
  for (const auto& [name, count] : covered) {
    GTEST_LOG_(INFO) << name << ": " << count;
  }
}

}  // namespace
}  // namespace asyra
