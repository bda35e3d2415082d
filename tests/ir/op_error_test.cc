// What definitions refuse, and how they say it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

// The error of building a call, from its parts in turn: text, attributes,
// operands.
std::string ErrorOf(std::string_view text, const Mesh& mesh = {}) {
  absl::StatusOr<ParsedCall> call = ParseCall(text, mesh);
  if (!call.ok()) return std::string(MessageOf(call.status()));
  absl::StatusOr<std::vector<Type>> types =
      InferTypes(*call->def, call->attrs, call->operands, mesh);
  if (types.ok()) return "none: " + ToString(*types, mesh);
  return std::string(MessageOf(types.status()));
}

struct Refused {
  std::string_view call;
  std::string_view error;
};

void ExpectAll(std::initializer_list<Refused> cases, const Mesh& mesh = {}) {
  for (const Refused& refused : cases) {
    EXPECT_EQ(ErrorOf(refused.call, mesh), refused.error) << refused.call;
  }
}

TEST(OpErrors, OperandsAndAttributes) {
  ExpectAll({
      {"add(f32[2])", "add: 1 operands given, it takes 2"},
      {"concat() {dim=0}", "concat: 0 operands given, it takes 1 or more"},
      {"layer_norm(f32[2]) {eps=0.1}",
       "layer_norm: 1 operands given, it takes 2 to 3"},
      {"rms_norm(f32[2], f32[2])",
       "line 1, column 25: rms_norm: attribute eps is missing"},
      {"softmax(f32[2]) {axis=1}",
       "line 1, column 18: softmax: unknown attribute axis"},
      {"wait(f32[2])", "wait: the operand is not a future"},
      {"neg(future f32[2])",
       "neg: an operand is a future, it must be waited for"},
  });
}

TEST(OpErrors, Elementwise) {
  ExpectAll({
      {"add(f32[2], f16[2])", "add: operand 0 is f32, operand 1 is f16"},
      {"mul(f32[2,3], f32[2])",
       "mul: operand 1 has shape [2], it does not broadcast with [2,3]"},
      {"exp(i64[2])", "exp: operand 0 is i64, it should be a float type"},
      {"swiglu(i64[2], i64[2])",
       "swiglu: operand 0 is i64, it should be a float type"},
      {"and(f32[2], f32[2])", "and: operand 0 is f32, it should be bool"},
      {"select(f32[2], f32[2], f32[2])",
       "select: the condition is f32, it should be bool"},
      {"select(bool[2], f32[2], f16[2])",
       "select: operand 1 is f32, operand 2 is f16"},
  });
}

TEST(OpErrors, Matmul) {
  ExpectAll({
      {"matmul(f32[2,4096], f32[8192,2])",
       "matmul: contracting sizes differ: lhs dim 1 is 4096, rhs dim 0 is "
       "8192"},
      {"matmul(f32[2,3], f32[2,3]) {transpose_a=true, transpose_b=true}",
       "matmul: contracting sizes differ: lhs dim 0 is 2, rhs dim 1 is 3"},
      {"matmul(f32[3], f32[3,2])",
       "matmul: operand 0 has rank 1, at least 2 is needed"},
      {"matmul(f32[2,2,3], f32[4,3,2])",
       "matmul: operand 1 has shape [4], it does not broadcast with [2]"},
  });
}

TEST(OpErrors, SizesBeyondCounting) {
  ExpectAll({
      {"matmul(f64[1073741824,1], f64[1,1073741824])",
       "matmul: the result f64[1073741824, 1073741824] has more than 2^63 "
       "bytes"},
      {"cast(bool[4611686018427387904]) {to=f16}",
       "cast: the result f16[4611686018427387904] has more than 2^63 bytes"},
      {"concat(bool[4611686018427387904], bool[4611686018427387904]) {dim=0}",
       "concat: dim 0 exceeds 2^63"},
  });
}

TEST(OpErrors, Shapes) {
  ExpectAll({
      {"reshape(f32[2,3]) {shape=[4]}",
       "reshape: [2,3] has 6 elements, [4] has 4"},
      {"reshape(f32[2,3]) {shape=[-1]}",
       "reshape: shape [-1] is not that of a tensor"},
      {"iota() {shape=[4611686018427387904], dim=0, dtype=i64}",
       "iota: shape [4611686018427387904] is not that of a tensor"},
      {"iota() {shape=[4], dim=1, dtype=i64}", "iota: dim is 1, the rank is 1"},
      {"transpose(f32[2,3]) {perm=[0, 0]}", "transpose: perm has dim 0 twice"},
      {"transpose(f32[2,3]) {perm=[0]}",
       "transpose: perm has 1 dims, the operand has 2"},
      {"broadcast(f32[2]) {shape=[3]}",
       "broadcast: [2] does not broadcast to [3]"},
      {"broadcast(f32[2]) {shape=[]}",
       "broadcast: [2] does not broadcast to []"},
      {"concat(f32[2,3], f32[3,3]) {dim=1}",
       "concat: operand 1 has shape [3,3], operand 0 has [2,3], dim is 1"},
      {"concat(f32[2], f32[2,1]) {dim=0}",
       "concat: operand 1 has shape [2,1], operand 0 has [2], dim is 0"},
      {"reduce_sum(f32[2,3]) {dims=[2]}",
       "reduce_sum: dims has 2, the rank is 2"},
      {"reduce_mean(i64[2]) {dims=[0]}",
       "reduce_mean: operand 0 is i64, it should be a float type"},
  });
}

TEST(OpErrors, Indices) {
  ExpectAll({
      {"gather(f32[2], f32[2]) {dim=0}",
       "gather: operand 1 is f32, it should be i32 or i64"},
      {"gather_nd(f32[2,3], i64[4,3])",
       "gather_nd: the last dim of indices is 3, x has 2 dims to index"},
      {"gather_nd(f32[2,3], i64[4,1]) {batch_dims=1}",
       "gather_nd: batch dim 0 is 2 in x and 4 in indices"},
      {"gather_nd(f32[2,3], i64[4,1]) {batch_dims=2}",
       "gather_nd: batch_dims is 2, the ranks are 2 and 2"},
      {"gather_nd(f32[2,3], i64[])",
       "gather_nd: operand 1 has rank 0, at least 1 is needed"},
      {"embedding(f32[2], i64[2])",
       "embedding: the table has rank 1, it should be 2"},
  });
}

TEST(OpErrors, Scatters) {
  ExpectAll({
      {"scatter_elements(f32[2,3], i64[3,3], f32[3,3]) {dim=1}",
       "scatter_elements: indices have shape [3,3], x has [2,3], dim is 1"},
      {"scatter_elements(f32[2,3], i64[2,2], f32[2,3]) {dim=1}",
       "scatter_elements: updates are f32[2, 3], they should be f32[2, 2]"},
      {"scatter_elements(f32[2], i64[2], f32[2]) {dim=0, reduction=\"sum\"}",
       "scatter_elements: reduction is 'sum', not none, add, mul, max or min"},
      {"scatter_nd(f32[2,3], i64[4,1], f32[4])",
       "scatter_nd: updates are f32[4], they should be f32[4, 3]"},
      {"segment_sum(f32[2,3], i64[3]) {dim=0, size=4}",
       "segment_sum: dim 0 of x is 2, dim 0 of indices 3"},
      {"segment_sum(f32[2], i64[2]) {dim=-1, size=4}",
       "segment_sum: dim is -1, the ranks are 1 and 1"},
      {"one_hot(f32[2]) {depth=4}",
       "one_hot: operand 0 is f32, it should be i32 or i64"},
      {"one_hot(i64[2]) {depth=-1}", "one_hot: depth is -1"},
      {"top_k(f32[2,3]) {k=4}", "top_k: k is 4, dim 1 has size 3"},
      {"arg_max(f32[2,0]) {dim=1}", "arg_max: dim 1 has no elements"},
      {"mask_lengths(i64[2,1,3]) {input=\"m\"}",
       "mask_lengths: the mask is i64[2, 1, 3], it should have rank 2"},
      {"mask_lengths(i64[2,3]) {input=\"m\", least=-1}",
       "mask_lengths: least is -1, rows have 3 elements"},
      {"mask_lengths(i64[2,3]) {input=\"m\", least=4}",
       "mask_lengths: least is 4, rows have 3 elements"},
      {"mask_lengths(i64[2,3])",
       "line 1, column 23: mask_lengths: attribute input is missing"},
  });
}

TEST(OpErrors, RandomLossesAndUpdates) {
  ExpectAll({
      {"random_uniform(i64[3]) {shape=[4]}",
       "random_uniform: the key is i64[3], it should be i64[2]"},
      {"random_normal(i64[2]) {shape=[4], dtype=i32}",
       "random_normal: dtype is i32, it should be a float type"},
      {"random_normal(i64[2]) {shape=[4], cut=[0]}",
       "random_normal: cut has 1 dims, axes has 0"},
      {"dropout(f32[4], i64[2]) {rate=1}",
       "dropout: rate is 1, it should be in [0, 1)"},
      {"cross_entropy(f32[2,8], i64[3])",
       "cross_entropy: logits have shape [2,8], labels [3]"},
      {"cross_entropy(f32[2,8], i64[2]) {label_smoothing=1.5}",
       "cross_entropy: label_smoothing is 1.5, it should be in [0, 1]"},
      {"cross_entropy_parts(f32[2,8], i64[2]) {parts=3}",
       "cross_entropy_parts: 8 columns are not 3 equal parts"},
      {"cross_entropy_parts_grad(bf16[2,8], i64[2], f32[2,2], f32[2,2], "
       "bf16[2,2])",
       "cross_entropy_parts_grad: of_targets is bf16[2, 2], it should be "
       "f32[2, 2]"},
      {"rms_norm_grad(f32[2,8], f32[8], f32[2,4]) {eps=1}",
       "rms_norm_grad: dy has shape [2,4], it should be [2,8]"},
      {"reduce_sum(i64[4]) {dims=[0], wide=true}",
       "reduce_sum: operand 0 is i64, it should be a float type"},
      {"adamw(f32[2], f32[2], f32[2], f32[2], f32[], i64[], f32[1])",
       "adamw: scale has shape [1], it should be []"},
      {"sgd(f32[2], f32[2], f32[]) {momentum=0.5}",
       "sgd: momentum is 0.5, but there is no velocity"},
      {"sgd(f32[2], f32[3], f32[])",
       "sgd: grad has shape [3], it should be [2]"},
      {"adamw(f32[2], bf16[2], bf16[2], f32[2], f32[], i64[])",
       "adamw: m is bf16, param is f32"},
      {"adamw(f32[2], f32[2], f32[2], f32[2], f32[1], i64[])",
       "adamw: rate has shape [1], it should be []"},
      {"adamw(f32[2], f32[2], f32[2], f32[2], f32[], i64[]) {beta1=1}",
       "adamw: beta1 is 1, it should be in [0, 1)"},
  });
  ExpectAll({{"random_normal(i64[2]) {shape=[4], cut=[1], axes=a}",
              "random_normal: cut has dim 1, shape has 1"},
             {"random_normal(i64[2]) {shape=[3], cut=[0], axes=a}",
              "random_normal: dim 0 of size 3 does not divide over a = 2"}},
            ParseMesh("(a=2)"));
}

TEST(OpErrors, AttentionOptions) {
  constexpr std::string_view kQkv =
      "attention(f32[2,4,4,8], f32[2,5,4,8], f32[2,5,4,8]";
  auto call = [&](std::string_view rest) {
    return ErrorOf(std::string(kQkv) + std::string(rest));
  };
  EXPECT_EQ(call(", i64[3]) {scale=1}"),
            "attention: 3 lengths for a batch of 2");
  EXPECT_EQ(call(", f32[3]) {scale=1}"), "attention: 3 sinks for 4 heads");
  EXPECT_EQ(call(", i64[2], i64[2]) {scale=1}"),
            "attention: operand 4, i64[2], is a second mask, lengths, sinks or "
            "starts");
  EXPECT_EQ(call(") {scale=1, at_end=true}"),
            "attention: at_end is set, but there are no lengths");
  EXPECT_EQ(call(") {scale=1, window_after=-2}"),
            "attention: window_after is -2");
}

TEST(OpErrors, AttentionGradients) {
  auto error = [](std::string_view y, std::string_view log_sums,
                  std::string_view dy, std::string_view of) {
    return ErrorOf(fmt::format(
        "attention_grad(f32[2,4,4,8], f32[2,5,4,8], f32[2,5,4,8], {}, {}, {}) "
        "{{scale=1, of=\"{}\"}}",
        y, log_sums, dy, of));
  };
  std::string_view y = "f32[2,4,4,8]", log_sums = "f32[2,4,4]";
  EXPECT_EQ(error(y, log_sums, y, "mask"),
            "attention_grad: there is no gradient of 'mask' here");
  EXPECT_EQ(error(y, log_sums, y, "q"),
            "attention_grad: there is no gradient of 'q' here");
  EXPECT_EQ(error(y, log_sums, "f32[2,4,4,6]", "qkv"),
            "attention_grad: dy is f32[2, 4, 4, 6], it should be f32[2, 4, 4, "
            "8]");
  EXPECT_EQ(error("f16[2,4,4,8]", log_sums, y, "qkv"),
            "attention_grad: y is f16[2, 4, 4, 8], it should be f32[2, 4, 4, "
            "8]");
  EXPECT_EQ(error(y, "f32[2,4,5]", y, "qkv"),
            "attention_grad: log_sums is f32[2, 4, 5], it should be f32[2, 4, "
            "4]");
}

TEST(OpErrors, Windows) {
  ExpectAll({
      {"conv(f32[2,4,8], f32[6,3,2])",
       "conv: x has 4 channels, w takes 3 of each group"},
      {"conv(f32[2,4,8], f32[3,2,2])",
       "conv: 2 groups do not divide the 3 channels that w gives"},
      {"conv(f32[2,4,8], f32[4,4,2,2])", "conv: x has rank 3, w has 4"},
      {"conv(f32[2,4], f32[4,4])",
       "conv: operand 0 has rank 2, at least 3 is needed"},
      {"conv(f32[1,1,4], f32[1,1,3]) {dilations=[2]}",
       "conv: dim 2: w reaches over 5, x with its pads has 4"},
      {"conv(f32[1,1,4], f32[1,1,3]) {strides=[1, 1]}",
       "conv: strides has 2 entries, 1 spatial dims need 1"},
      {"conv(f32[1,1,4], f32[1,1,3]) {strides=[0]}",
       "conv: strides has 0, it should be in [1, 2147483648]"},
      {"pad(f32[3]) {before=[3], after=[0], mode=\"reflect\"}",
       "pad: before adds 3 to dim 0 of size 3 by reflect"},
      {"pad(f32[3]) {before=[0], after=[-1]}",
       "pad: after adds -1 to dim 0 of size 3 by constant"},
      {"pad(f32[3]) {before=[0, 0], after=[0]}",
       "pad: before has 2 entries, the rank is 1"},
      {"pad(f32[3]) {before=[0], after=[1], mode=\"mirror\"}",
       "pad: mode is 'mirror', not constant, edge, reflect or wrap"},
      {"pad(i64[3]) {before=[0], after=[1], value=0.5}",
       "pad: value 0.5 is no i64"},
  });
}

TEST(OpErrors, Attention) {
  ExpectAll({
      {"attention(f32[2,4,6,8], f32[2,5,4,8], f32[2,5,4,8]) {scale=1}",
       "attention: 6 query heads are not a multiple of 4 key heads"},
      {"attention(f32[2,4,4,8], f32[2,5,4,6], f32[2,5,4,8]) {scale=1}",
       "attention: head sizes differ: k has 6, q has 8"},
      {"attention(f32[2,4,4,8], f32[2,5,4,8], f32[2,6,4,8]) {scale=1}",
       "attention: key sizes differ: k has 5, v has 6"},
      {"attention(f32[2,4,4,8], f32[2,5,4,8], f16[2,5,4,8]) {scale=1}",
       "attention: v is f16[2, 5, 4, 8], it should be f32 of rank 4"},
      {"attention(f32[1,4,1,8], f32[1,4,1,8], f32[1,4,1,8], i64[1,1,4,4]) "
       "{scale=1}",
       "attention: the mask is i64, it should be bool or a float type"},
      {"attention(f32[1,4,1,8], f32[1,5,1,8], f32[1,5,1,8], bool[4,5]) "
       "{scale=1}",
       "attention: the mask has shape [4,5], it does not broadcast to "
       "[1,1,4,5]"},
      {"attention(f32[1,4,1,8], f32[1,5,1,8], f32[1,5,1,8]) {scale=1, "
       "window=-1}",
       "attention: window is -1"},
      {"rotary(f32[1,4,1,8], f32[4,5], f32[4,5])",
       "rotary: cos has shape [4,5], x has [1,4,1,8]"},
      {"rotary(f32[1,4,1,8], f32[4,4], f32[4,2])",
       "rotary: cos has shape [4,4], sin has [4,2]"},
      {"rms_norm(f32[2,8], f32[4]) {eps=0.1}",
       "rms_norm: scale has shape [4], x dim 1 is 8"},
      {"layer_norm(f32[2,8], f32[8], f32[1,8]) {eps=0.1}",
       "layer_norm: bias has shape [1,8], x dim 1 is 8"},
  });
}

TEST(OpErrors, Distribution) {
  ExpectAll(
      {
          {"softmax(f32[2,4@a])",
           "softmax: operand 0 must be whole along factor d1, not over a"},
          {"all_reduce(f32[4,6]) {axes=a}",
           "all_reduce: the operand is not partial over a"},
          {"all_reduce(f32[4] partial(a), f32[4,2]) {axes=a}",
           "all_reduce: operand 1: the operand is not partial over a"},
          {"all_reduce(f32[4] partial(a)) {axes=a, transport=wires}",
           "line 1, column 31: all_reduce: transport is wires, it must be "
           "library or copy_engine"},
          {"all_reduce(f32[4] partial(a)) {axes=a, transport=\"library\"}",
           "line 1, column 50: expected a word, found 'library'"},
          {"all_reduce(f32[4] partial(a)) {axes=a, ctas=4, "
           "transport=copy_engine}",
           "all_reduce: ctas is 4, copy engines take none"},
          {"all_gather() {dim=0, axes=a}",
           "all_gather: 0 operands given, it takes 1 or more"},
          {"all_gather(f32[4@a], f32[4@b]) {dim=0, axes=a}",
           "all_gather: operand 1: dim 0 is sharded over b, it should end in "
           "a"},
          {"all_to_all(f32[4@a,2,6], f32[4@a,2]) {from=0, to=2, axes=a}",
           "all_to_all: operand 1: to is 2, the rank is 2"},
          {"all_gather(f32[4@(a,b),6]) {dim=0, axes=a}",
           "all_gather: dim 0 is sharded over (a,b), it should end in a"},
          {"reduce_scatter(f32[4,6] partial(a)) {dim=2, axes=a}",
           "reduce_scatter: dim is 2, the rank is 2"},
          {"shard(f32[4@a,6]) {dim=1, axes=a}",
           "shard: axis a is in use already"},
          {"shard(f32[4,5]) {dim=1, axes=a}",
           "shard: dim 1 of size 5 does not divide over a = 2"},
          {"stack_partial(f32[4,6]) {axes=a}",
           "stack_partial: the operand is not partial over a"},
          {"stack_partial(f32[4@a,6] partial(b)) {axes=(b,a)}",
           "stack_partial: the operand is not partial over a"},
          {"stack_partial(f32[4] partial(a), f32[4] partial(a)) {axes=a}",
           "stack_partial: 2 operands given, it takes 1"},
          {"stack_partial(f32[1073741824,1073741824] partial(a)) {axes=a}",
           "stack_partial: [1073741824,1073741824] stacked over a = 2 has "
           "more than 2^63 bytes"},
          {"tile(f32[6@a]) {dim=0, part=0, of=2}",
           "tile: dim 0 holds 3 on a device, which does not cut into 2"},
          {"tile(f32[6]) {dim=0, part=2, of=2}", "tile: part 2 of 2"},
          {"tile(f32[8@a]) {dim=0, part=0, of=2, blocks=4}",
           "tile: dim 0 holds 4 on a device, which does not cut into 2 in 4 "
           "blocks"},
          {"tile(f32[8]) {dim=0, part=0, of=2, blocks=0}", "tile: 0 blocks"},
          {"untile(f32[6@a], f32[6@a]) {dim=0, blocks=2}",
           "untile: dim 0 holds 3 on a device, which does not cut into 1 in 2 "
           "blocks"},
          {"untile(f32[6], f32[4]) {dim=0}",
           "untile: tile 1 is f32[4], tile 0 is f32[6]"},
      },
      ParseMesh("(a=2, b=2)"));
}

}  // namespace
}  // namespace asyra
