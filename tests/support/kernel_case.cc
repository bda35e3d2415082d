#include "tests/support/kernel_case.h"

#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

// An input of that type; for a partial one the sum of an input whose parts
// are on different ranks, since inputs have a value of their own.
ValueId AddOperand(const Type& type, const Mesh& mesh, Builder* builder) {
  if (type.partial.empty()) return builder->Input("x", type);
  Type parts = type;
  parts.partial.clear();
  parts.dims.insert(parts.dims.begin(),
                    Dim{mesh.size(type.partial), type.partial});
  return ASYRA_VALUE(builder->AddOne("reduce_sum", {builder->Input("x", parts)},
                                     {{"dims", Ints{0}}, {"keep", false}}));
}

// More parameters than one launch takes, of many lengths and both a type of
// gradients and another.
std::string ManyParams() {
  constexpr int64_t kLengths[] = {1, 4096, 7, 4097, 0, 9001, 600, 16384, 3};
  std::string text = "multi_adamw(f32[], i64[], f32[]";
  for (int i = 0; i < 130; ++i) {
    std::string_view dtype = i / 50 == 1 ? "bf16" : "f32";
    std::string_view grad = i / 25 % 2 == 0 ? "f32" : "bf16";
    int64_t length = kLengths[i % std::size(kLengths)];
    text += fmt::format(", {0}[{2}], {1}[{2}], {0}[{2}], {0}[{2}]", dtype, grad,
                        length);
  }
  return text + ") {weight_decay=0.5}";
}

// More tensors than one launch takes, of lengths around those of pieces.
std::string ManySquares() {
  constexpr int64_t kLengths[] = {1, 8192, 7, 8193, 0, 20000, 600};
  std::string text = "sum_squares(f32[3,5]";
  for (int i = 0; i < 150; ++i) {
    text += fmt::format(", {}[{}]", i % 5 == 1 ? "bf16" : "f32",
                        kLengths[i % std::size(kLengths)]);
  }
  return text + ")";
}

}  // namespace

Program ProgramOf(const ParsedCall& call, const Mesh& mesh) {
  Builder builder(mesh,
                  mesh.num_devices() > 1 ? Stage::kLocal : Stage::kGlobal);
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(AddOperand(type, mesh, &builder));
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

std::vector<Tensor> InputsOf(const Program& program, const OpCase& op_case) {
  std::vector<Type> types;
  for (const Input& input : program.inputs) {
    types.push_back(program.type(input.value));
  }
  return op_case.Fill(types);
}

std::vector<OpCase> ShardedCases() {
  std::vector<OpCase> cases;
  auto add = [&](std::string_view op, std::string_view text, int low = -3,
                 int high = 3, std::string_view mesh = "(a=2, b=2)") {
    const OpDef* def = FindOp(op);
    ASYRA_CHECK(def != nullptr);
    cases.push_back({def, Sample{text, low, high, mesh},
                     100 + static_cast<int>(cases.size())});
  };
  // Reductions and what is computed from them, in one kernel.
  add("overlap",
      "overlap(f32[4,8] partial(a), f32[4,8], f32[8]) {"
      "%3 = all_reduce(%0) {axes=a} : f32[4,8] "
      "%4 = add(%1, %3) : f32[4,8] "
      "%5 = rms_norm(%4, %2) {eps=0.125} : f32[4,8] "
      "return %4, %5} {form=one_kernel}",
      -3, 3, "(a=2)");
  add("overlap",
      "overlap(bf16[300,4096], bf16[300,4096] partial(a), bf16[4096]) {"
      "%3 = all_reduce(%1) {axes=a} : bf16[300,4096] "
      "%4 = add(%0, %3) : bf16[300,4096] "
      "%5 = layer_norm(%4, %2, %2) {eps=0.125} : bf16[300,4096] "
      "return %5, %4} {form=one_kernel}",
      -3, 3, "(a=2)");
  add("overlap",
      "overlap(f16[3,8,24] partial(a), f16[3,8@a,24]) {"
      "%2 = reduce_scatter(%0) {dim=1, axes=a} : f16[3,8@a,24] "
      "%3 = mul(%2, %1) : f16[3,8@a,24] "
      "%4 = softmax(%3) : f16[3,8@a,24] "
      "%5 = all_gather(%4) {dim=1, axes=a} : f16[3,8,24] "
      "return %5, %3} {form=one_kernel}",
      -3, 3, "(a=2)");
  add("overlap",
      "overlap(bf16[2,8@b,16] partial(a), bf16[2,8@(b,a),16], bf16[16]) {"
      "%3 = reduce_scatter(%0) {dim=1, axes=a} : bf16[2,8@(b,a),16] "
      "%4 = add(%3, %1) : bf16[2,8@(b,a),16] "
      "%5 = rms_norm(%4, %2) {eps=0.125} : bf16[2,8@(b,a),16] "
      "%6 = all_gather(%5) {dim=1, axes=a} : bf16[2,8@b,16] "
      "return %6, %4} {form=one_kernel}");
  add("overlap",
      "overlap(f32[16,40] partial(a,b)) {"
      "%1 = reduce_scatter(%0) {dim=0, axes=(a,b)} : f32[16@(a,b),40] "
      "%2 = gelu(%1) : f32[16@(a,b),40] "
      "%3 = neg(%1) : f32[16@(a,b),40] "
      "%4 = all_gather(%2) {dim=0, axes=(a,b)} : f32[16,40] "
      "%5 = all_gather(%3) {dim=0, axes=(a,b)} : f32[16,40] "
      "return %5, %4} {form=one_kernel}");
  // Parts that begin at no multiple of 16 bytes: not one kernel.
  add("overlap",
      "overlap(f32[2,3] partial(a)) {"
      "%1 = reduce_scatter(%0) {dim=0, axes=a} : f32[2@a,3] "
      "%2 = neg(%1) : f32[2@a,3] "
      "return %2} {form=one_kernel}",
      -3, 3, "(a=2)");
  add("embedding", "embedding(f32[4@a,6@b], i64[2,4])", 0, 3);
  add("gather_elements", "gather_elements(f32[4,6@a], i64[4,2]) {dim=1}");
  add("gather_elements", "gather_elements(i32[4@b,6@a], i64[8,6@a]) {dim=0}",
      -4, 3);
  add("scatter_elements",
      "scatter_elements(f32[4@b,6@a], i64[4@b,2], f32[4@b,2]) {dim=1, "
      "reduction=\"add\"}");
  add("scatter_elements",
      "scatter_elements(i64[4,6@a], i64[4,2], i64[4,2]) {dim=1, "
      "reduction=\"max\"}");
  add("scatter_nd",
      "scatter_nd(f32[4@a,4@b,6], i64[2,2], f32[2,6]) {batch_dims=0}");
  add("scatter_nd",
      "scatter_nd(bf16[2,4@a,6], i64[2,3,1], bf16[2,3,6]) {batch_dims=1, "
      "reduction=\"mul\"}",
      -2, 2);
  add("gather_nd", "gather_nd(f32[2@a,4,6@b], i64[2@a,3,1]) {batch_dims=1}");
  add("segment_sum", "segment_sum(f32[2,4,6@b], i64[2,4]) {dim=0, size=4}", 0,
      3);
  add("one_hot", "one_hot(i64[2@a,4]) {depth=4}");
  add("moe_dispatch",
      "moe_dispatch(f32[8@a,6@b], i64[8@a,2]) {num_experts=4, group_size=2, "
      "capacity=1}",
      0, 3);
  add("moe_collect", "moe_collect(f32[4@a,8@b,6], i64[8@b,2])", 0, 3);
  add("moe_combine",
      "moe_combine(f32[4@a,4@b,6], i64[8@b,2], f32[8@b,2]) {group_size=4}", 0,
      3);
  add("moe_combine",
      "moe_combine(bf16[4,4,6], i32[8,2], bf16[8,2]) "
      "{group_size=4}",
      0, 3);
  add("dropout", "dropout(f32[4@a,6@b], i64[2]) {rate=0.5}");
  add("cross_entropy", "cross_entropy(f16[4@a,8], i64[4@a])", 0, 3);
  add("adamw",
      "adamw(f32[4@a,600@b], bf16[4@a,600@b], f32[4@a,600@b], "
      "f32[4@a,600@b], f32[], i64[])",
      1, 3);
  add("adamw",
      "adamw(f32[4@a,6], f32[4@a,6], f32[4@a,6], f32[4@a,6], f32[], i64[], "
      "f32[])",
      1, 3);
  add("multi_adamw",
      "multi_adamw(f32[], i64[], f32[], "
      "f32[4@a,6], f32[4@a,6], f32[4@a,6], f32[4@a,6], "
      "f32[6,4@(b,a)], bf16[6,4@(b,a)], f32[6,4@(b,a)], f32[6,4@(b,a)], "
      "f64[3,2@a], f64[3,2@a], f64[3,2@a], f64[3,2@a], "
      "f16[0], f16[0], f16[0], f16[0]) {beta1=0.0}",
      1, 3);
  // In halves: parts that vectors reach, and parts that they do not.
  add("adamw",
      "adamw(f32[4@a,600], bf16[4@a,600], f32[4@a,600], "
      "f32[4@a,600], f32[], i64[]) {in_halves=true}",
      1, 3, "(a=2)");
  add("adamw",
      "adamw(f32[2@a,4097], f32[2@a,4097], f32[2@a,4097], f32[2@a,4097], "
      "f32[], i64[], f32[]) {in_halves=true}",
      1, 3, "(a=2)");
  add("multi_adamw",
      "multi_adamw(f32[], i64[], f32[], "
      "f32[4@a,4100], f32[4@a,4100], f32[4@a,4100], f32[4@a,4100], "
      "f32[6@a,4], bf16[6@a,4], f32[6@a,4], f32[6@a,4], "
      "f32[9001], f32[9001], f32[9001], f32[9001]) {in_halves=true}",
      1, 3, "(a=2)");
  add("upper_half", "upper_half(f32[4@a,6])", -3, 3, "(a=2)");
  static const std::string* many = new std::string(ManyParams());
  add("multi_adamw", *many, 1, 3);
  add("reduce_sum_square",
      "reduce_sum_square(f32[4@a,2400@b]) {dims=[0, 1], keep=false}");
  add("sum_squares",
      "sum_squares(f32[4@a,2400@b], bf16[4@b,6@a], f16[1200@(a,b)])");
  static const std::string* squares = new std::string(ManySquares());
  add("sum_squares", *squares);
  add("sgd", "sgd(f16[4@a], f16[4@a], f32[], f16[4@a]) {momentum=0.5}");
  add("conv", "conv(f32[2@a,4,8,8], f32[8@b,4,3,3]) {pads=[1, 1, 1, 1]}");
  add("conv", "conv(f32[2,4@a,6], f32[4@a,2,3]) {pads=[1, 1]}");
  add("conv", "conv(bf16[2,4,6,5], bf16[8,2,3,3])");
  add("pad", "pad(bf16[4@a,6]) {before=[0, 2], after=[0, 1], value=1.5}");
  add("cumsum", "cumsum(bf16[4@a,3,6@b]) {dim=1, reverse=true}");
  add("log_sum_exp", "log_sum_exp(f16[4@a,6,2]) {dims=[1]}");
  add("top_k", "top_k(bf16[4@a,6,2]) {k=2, dim=1}");
  add("attention_grad",
      "attention_grad(bf16[2@a,4,4@b,2], bf16[2@a,6,2@b,2], "
      "bf16[2@a,6,2@b,4], bf16[2@a,4,4@b,4], f32[2@a,4@b,4], "
      "bf16[2@a,4,4@b,4]) {scale=0.5, causal=true, of=\"qkv\"}");
  return cases;
}

}  // namespace asyra
