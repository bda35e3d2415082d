// Attention as ONNX Runtime's own ops have it: each form gives what the same
// thing written in another way gives. What the ops mean is checked against ONNX
// Runtime by onnx_contrib_cases.py.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/frontends/contrib_model.h"

namespace asyra {
namespace {

using testing::HasSubstr;

using Names = ContribModel::Names;
using Attrs = ContribModel::Attrs;

constexpr int kHeads = 2, kSize = 4, kWidth = 8;

TEST(ContribAttention, IsProjectionsAndAnAttention) {
  ContribModel model;
  model.Input("x", kF32, {2, 3, 5}).Ints("sizes", {kWidth, kWidth, kWidth});
  model.Random("w", {5, 3 * kWidth}).Random("b", {3 * kWidth});
  model.Contrib("Attention", {"x", "w", "b"}, {"fused"},
                {{"num_heads", kHeads}, {"unidirectional", 1}});
  model.Op("MatMul", {"x", "w"}, {"matmul"})
      .Op("Add", {"matmul", "b"}, {"qkv"})
      .Op("Split", {"qkv", "sizes"}, {"q", "k", "v"}, {{"axis", -1}})
      .Op("Attention", {"q", "k", "v"}, {"plain"},
          {{"q_num_heads", kHeads},
           {"kv_num_heads", kHeads},
           {"is_causal", 1}});
  ExpectSame(model.Run("fused"), model.Run("plain"));
}

ContribModel Qkv() {
  ContribModel model;
  for (const char* name : {"q", "k", "v"}) {
    model.Random(name, {2, 3, kWidth});
  }
  // [B, S, N, 3, H] from three [B, S, N H].
  model.Ints("split", {2, 3, kHeads, 1, kSize});
  for (const char* name : {"q", "k", "v"}) {
    model.Op("Reshape", {name, "split"}, {std::string(name) + "5"});
  }
  model.Op("Concat", {"q5", "k5", "v5"}, {"qkv"}, {{"axis", 3}});
  model.Op("Concat", {"k5", "v5"}, {"kv"}, {{"axis", 3}});
  return model;
}

TEST(MultiHeadAttention, InputsMayBePacked) {
  ContribModel model = Qkv();
  Attrs heads = {{"num_heads", kHeads}};
  model.Contrib("MultiHeadAttention", {"q", "k", "v"}, {"three"}, heads)
      .Contrib("MultiHeadAttention", {"q", "kv"}, {"two"}, heads)
      .Contrib("MultiHeadAttention", {"qkv"}, {"one"}, heads);
  Tensor three = model.Run("three");
  ExpectSame(model.Run("two"), three);
  ExpectSame(model.Run("one"), three);
}

TEST(MultiHeadAttention, PaddingIsAFiniteScore) {
  // With a filter of 0 nothing is masked.
  ContribModel model = Qkv();
  model.I32("none", {0, 0}, {2}).I32("all", {3, 3}, {2});
  Attrs attrs = {{"num_heads", kHeads}};
  model.Contrib("MultiHeadAttention", {"q", "k", "v"}, {"plain"}, attrs)
      .Contrib("MultiHeadAttention", {"q", "k", "v", "", "all"}, {"all3"},
               attrs)
      // Of keys that are all masked, all are seen.
      .Contrib("MultiHeadAttention", {"q", "k", "v", "", "none"}, {"none3"},
               attrs);
  ExpectSame(model.Run("all3"), model.Run("plain"));
  Tensor none = model.Run("none3"), plain = model.Run("plain");
  for (int64_t i = 0; i < plain.num_elements(); ++i) {
    EXPECT_NEAR(none.Get(i), plain.Get(i), 2e-3);  // scores near 10000
  }
}

TEST(MultiHeadAttention, RefusesWhatItCannotDo) {
  auto error = [](const Names& inputs, const Names& outputs = {"y"}) {
    ContribModel model = Qkv();
    model.I32("mask", {1, 1, 1, 1}, {4, 1});
    model.Contrib("MultiHeadAttention", inputs, outputs,
                  {{"num_heads", kHeads}});
    return model.Output(outputs.back()).ImportError();
  };
  EXPECT_THAT(error({"q"}), HasSubstr("key is left out"));
  EXPECT_THAT(error({"q", "k"}), HasSubstr("value is left out"));
  EXPECT_THAT(error({"q", "k", "v", "", "mask"}),
              HasSubstr("the mask, has shape [4,1], which is not supported"));
  EXPECT_THAT(error({"q", "k", "v", "", "", "", "q5"}),
              HasSubstr("one of past_key and past_value is left out"));
  EXPECT_THAT(error({"q", "k", "v"}, {"y", "", "", "qk"}),
              HasSubstr("output qk is not supported"));
}

// Queries for two heads, keys and values for one, and what else the op needs.
ContribModel Grouped() {
  ContribModel model;
  model.Random("q", {2, 3, kWidth});
  model.Random("k", {2, 3, kSize}).Random("v", {2, 3, kSize});
  model.Random("cos", {8, 2}).Random("sin", {8, 2});
  model.I32("lengths", {2, 2}, {2}).I32("total", {3}, {});
  return model;
}
const Attrs kGrouped = {{"num_heads", kHeads}, {"kv_num_heads", 1}};

TEST(GroupQueryAttention, IsRotationsAndACausalAttention) {
  ContribModel model = Grouped();
  Attrs attrs = kGrouped;
  attrs.emplace_back("do_rotary", 1);
  model.Contrib("GroupQueryAttention",
                {"q", "k", "v", "", "", "lengths", "total", "cos", "sin"},
                {"fused"}, attrs);
  model.Ints("at", {0, 1, 2, 0, 1, 2}, {2, 3});
  model
      .Op("RotaryEmbedding", {"q", "cos", "sin", "at"}, {"rq"},
          {{"num_heads", kHeads}})
      .Op("RotaryEmbedding", {"k", "cos", "sin", "at"}, {"rk"},
          {{"num_heads", 1}})
      .Op("Attention", {"rq", "rk", "v"}, {"plain"},
          {{"q_num_heads", kHeads}, {"kv_num_heads", 1}, {"is_causal", 1}});
  ExpectSame(model.Run("fused"), model.Run("plain"));
  model.Op("Concat", {"q", "k", "v"}, {"qkv"}, {{"axis", 2}});
  model.Contrib("GroupQueryAttention",
                {"qkv", "", "", "", "", "lengths", "total", "cos", "sin"},
                {"packed"}, attrs);
  ExpectSame(model.Run("packed"), model.Run("plain"));
}

TEST(GroupQueryAttention, LengthsThatAreDataGiveWhatKnownOnesGive) {
  ContribModel model = Grouped();
  model.Random("pk", {2, 1, 5, kSize}).Random("pv", {2, 1, 5, kSize});
  model.I32("total8", {8}, {});
  // Behind three and four of the five keys that there is room for.
  model.I32("known", {5, 6}, {2});
  model.Input("x", kF32, {2}).Ints("five", {5});
  model.Op("Cast", {"x"}, {"index"}, {{"to", kI64}})
      .Op("Add", {"index", "five"}, {"data"});
  for (const char* lengths : {"known", "data"}) {
    model.Contrib(
        "GroupQueryAttention", {"q", "k", "v", "pk", "pv", lengths, "total8"},
        {std::string("y_") + lengths, std::string("k_") + lengths}, kGrouped);
  }
  ExpectSame(model.Run("y_known"), model.Run("y_data"));
  ExpectSame(model.Run("k_known"), model.Run("k_data"));
  // Each sequence by itself, where the start is one number.
  model.I32("first", {5, 5}, {2})
      .Contrib("GroupQueryAttention",
               {"q", "k", "v", "pk", "pv", "first", "total8"}, {"y_first"},
               kGrouped);
  Tensor both = model.Run("y_data"), first = model.Run("y_first");
  ExpectSame(both.Slice(0, 0, 1), first.Slice(0, 0, 1));
}

TEST(GroupQueryAttention, ASinkIsAKeyWithoutValue) {
  // Queries of zeros: each key has weight 1, the sink e^0 = 1 or e^log(3).
  ContribModel model;
  model.Floats("q", std::vector<float>(4), {1, 2, 2});
  model.Floats("k", std::vector<float>(2), {1, 2, 1});
  model.Input("x", kF32, {1, 2, 1});
  model.I32("lengths", {1}, {1}).I32("total", {2}, {});
  model.Floats("sinks", {0, std::log(3.f)}, {2});
  model.Contrib(
      "GroupQueryAttention",
      {"q", "k", "x", "", "", "lengths", "total", "", "", "", "", "sinks"},
      {"y"}, kGrouped);
  Tensor y = model.Run("y");
  EXPECT_NEAR(y.Get(2), 1. / 3, 1e-6);
  EXPECT_NEAR(y.Get(3), 1. / 5, 1e-6);
}

TEST(GroupQueryAttention, RefusesWhatItCannotDo) {
  auto error = [](Names inputs, const Attrs& more) {
    ContribModel model = Grouped();
    model.I32("total9", {9}, {}).I32("far", {9, 9}, {2});
    model.Input("total_in", onnx::TensorProto::INT32, {});
    model.Random("pk", {2, 1, 5, kSize});
    inputs.insert(inputs.begin(), {"q", "k", "v"});
    Attrs attrs = kGrouped;
    attrs.insert(attrs.end(), more.begin(), more.end());
    model.Contrib("GroupQueryAttention", inputs, {"y"}, attrs);
    return model.Output("y").ImportError();
  };
  EXPECT_EQ(error({"", "", "lengths", "total"}, {}), "");
  EXPECT_THAT(error({"", "", "lengths"}, {}), HasSubstr("input 6 is left out"));
  EXPECT_THAT(error({"", "", "lengths", "total_in"}, {}),
              HasSubstr("(total_sequence_length) depends on the model's data"));
  EXPECT_THAT(error({"", "", "lengths", "total9"}, {}),
              HasSubstr("there are 3 queries and no past"));
  EXPECT_THAT(error({"pk", "pk", "far", "total9"}, {}),
              HasSubstr("seqlens_k is 9 for 3 queries and buffers of 5 keys"));
  EXPECT_THAT(error({"", "", "lengths", "total"}, {{"do_rotary", 1}}),
              HasSubstr("do_rotary without cos_cache and sin_cache"));
  EXPECT_THAT(error({"", "", "lengths", "total"}, {{"k_quant_type", "INT8"}}),
              HasSubstr("k_quant_type is INT8"));
}

// The sum of all heads is 2^64.
TEST(GroupQueryAttention, RefusesHeadsWithoutNumber) {
  ContribModel model = Grouped();
  model.Contrib(
      "GroupQueryAttention", {"q", "", "", "", "", "lengths", "total"}, {"y"},
      {{"num_heads", int64_t{1} << 62}, {"kv_num_heads", int64_t{3} << 61}});
  EXPECT_THAT(model.Output("y").ImportError(),
              HasSubstr("num_heads is 4611686018427387904"));
}

TEST(ContribRotary, TakesOnePositionOrAll) {
  ContribModel model = Grouped();
  model.Ints("two", {2}).Ints("all", {2, 3, 4, 2, 3, 4}, {2, 3});
  Attrs attrs = {{"num_heads", kHeads}, {"interleaved", 1}};
  model.Contrib("RotaryEmbedding", {"q", "two", "cos", "sin"}, {"a"}, attrs)
      .Contrib("RotaryEmbedding", {"q", "all", "cos", "sin"}, {"b"}, attrs)
      .Op("RotaryEmbedding", {"q", "cos", "sin", "all"}, {"c"}, attrs);
  ExpectSame(model.Run("a"), model.Run("c"));
  ExpectSame(model.Run("b"), model.Run("c"));
}

}  // namespace
}  // namespace asyra
