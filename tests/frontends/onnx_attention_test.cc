// Attention and its relatives in every form: each form gives what the same
// thing written in another way gives. What the ops mean is checked against
// ONNX and ONNX Runtime by onnx_node_cases.py and onnx_contrib_cases.py.
#include <random>

#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kF32 = ModelBuilder::kF32;
constexpr int kI64 = ModelBuilder::kI64;
constexpr int kBool = ModelBuilder::kBool;
using Names = std::vector<std::string>;
using Attrs = std::vector<std::pair<std::string, ModelBuilder::Attr>>;

class Model : public ModelBuilder {
 public:
  explicit Model(int opset = 24) : ModelBuilder(opset) {
    onnx::OperatorSetIdProto* import = model.add_opset_import();
    import->set_domain("com.microsoft");
    import->set_version(1);
  }
  // Random floats that depend on the name alone.
  Model& Random(const std::string& name, const std::vector<int64_t>& dims) {
    std::mt19937 random(std::hash<std::string>()(name));
    std::normal_distribution<float> normal;
    std::vector<float> values(NumElements(dims));
    for (float& value : values) value = normal(random);
    Floats(name, values, dims);
    return *this;
  }
  Model& Op(const std::string& op, const Names& inputs, const Names& outputs,
            const Attrs& attrs = {}) {
    Node(op, inputs, outputs, attrs);
    return *this;
  }
  Model& Contrib(const std::string& op, const Names& inputs,
                 const Names& outputs, const Attrs& attrs = {}) {
    Node(op, inputs, outputs, attrs);
    last().set_domain("com.microsoft");
    return *this;
  }
  Model& I32(const std::string& name, const std::vector<int>& values,
             const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor =
        Initializer(name, onnx::TensorProto::INT32, dims);
    for (int value : values) tensor->add_int32_data(value);
    return *this;
  }

  // Output `name`. `x` is 0, 1, 2, ... if there is such an input.
  Tensor Run(const std::string& name) {
    Output(name);
    Program program = ASYRA_VALUE(Import());
    graph().clear_output();
    std::vector<Tensor> inputs(program.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (program.inputs[i].role == InputRole::kWeight) continue;
      const Type& type = program.type(program.inputs[i].value);
      inputs[i] = Tensor(type.dtype, type.shape());
      for (int64_t k = 0; k < inputs[i].num_elements(); ++k) {
        type.dtype == DType::kF32 ? inputs[i].Set(k, static_cast<double>(k))
                                  : inputs[i].SetInt(k, k);
      }
    }
    return ASYRA_VALUE(Interpret(program, inputs))[0];
  }
};

void ExpectSame(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    ASSERT_NEAR(a.Get(i), b.Get(i), 1e-5) << "element " << i;
  }
}

// One head, queries and keys of zeros: a row is the mean of the v that it
// sees, which is its index.
Model Positions(int queries, int keys) {
  Model model;
  model.Floats("q", std::vector<float>(queries), {1, 1, queries, 1});
  model.Floats("k", std::vector<float>(keys), {1, 1, keys, 1});
  model.Input("x", kF32, {1, 1, keys, 1});
  return model;
}

TEST(OnnxAttention, CausalQueriesComeAfterTheirPast) {
  Model model = Positions(2, 2);
  model.Floats("pk", {0, 0, 0}, {1, 1, 3, 1});
  model.Floats("pv", {-3, -2, -1}, {1, 1, 3, 1});
  model.Op("Attention", {"q", "k", "x", "", "pk", "pv"}, {"y", "nk", "nv"},
           {{"is_causal", 1}});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(-1.5, -1));
  EXPECT_THAT(model.Run("nv").ToDoubles(), ElementsAre(-3, -2, -1, 0, 1));
  EXPECT_EQ(model.Run("nk").shape(), (Shape{1, 1, 5, 1}));
  model.last().set_input(5, "");
  EXPECT_THAT(model.Output("y").ImportError(),
              HasSubstr("one of past_key and past_value is left out"));
}

TEST(OnnxAttention, LengthsSayWhereTheQueriesStand) {
  Model model = Positions(2, 5);
  model.Ints("length", {4});
  model.Op("Attention", {"q", "k", "x", "", "", "", "length"}, {"all"});
  EXPECT_THAT(model.Run("all").ToDoubles(), ElementsAre(1.5, 1.5));
  model.Op("Attention", {"q", "k", "x", "", "", "", "length"}, {"causal"},
           {{"is_causal", 1}});
  EXPECT_THAT(model.Run("causal").ToDoubles(), ElementsAre(1, 1.5));
}

TEST(OnnxAttention, WindowsReachToBothSides) {
  Model model = Positions(4, 4);
  model.model.mutable_opset_import(0)->set_version(25);
  model.Op("Attention", {"q", "k", "x"}, {"left"},
           {{"left_window_size", 1}, {"is_causal", 1}});
  EXPECT_THAT(model.Run("left").ToDoubles(), ElementsAre(0, 0.5, 1.5, 2.5));
  model.Op("Attention", {"q", "k", "x"}, {"both"},
           {{"left_window_size", 0}, {"right_window_size", 1}});
  EXPECT_THAT(model.Run("both").ToDoubles(), ElementsAre(0.5, 1.5, 2.5, 3));
  model.Op("Attention", {"q", "k", "x"}, {"bad"}, {{"left_window_size", -2}});
  EXPECT_THAT(model.Output("bad").ImportError(),
              HasSubstr("left_window_size is -2"));
}

TEST(OnnxAttention, CausalAndAWindowAreAttributes) {
  Model model = Positions(4, 4);
  model.model.mutable_opset_import(0)->set_version(25);
  model.Op("Attention", {"q", "k", "x"}, {"y"},
           {{"left_window_size", 1}, {"is_causal", 1}});
  Program program = ASYRA_VALUE(model.Output("y").Import());
  for (const Op& op : program.ops) {
    if (op.def->name != "attention") continue;
    EXPECT_EQ(op.operands.size(), 3u);
    EXPECT_TRUE(op.attrs.Bool("causal"));
    EXPECT_EQ(op.attrs.Int("window"), 2);
    return;
  }
  FAIL() << "there is no attention";
}

TEST(OnnxAttention, AMaskMayEndBeforeTheKeys) {
  Model model = Positions(2, 4);
  onnx::TensorProto* mask = model.Initializer("mask", kBool, {3});
  for (int value : {0, 1, 1}) mask->add_int32_data(value);
  model.Op("Attention", {"q", "k", "x", "mask"}, {"y"});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(1.5, 1.5));
  model.Floats("added", {-100, 0, 0}, {1, 3});
  model.last().set_input(3, "added");
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(1.5, 1.5));
}

TEST(OnnxAttention, CachesAreWrittenOutsideOfIt) {
  Model model;
  model.Floats("cache", std::vector<float>(10, -1), {2, 5, 1});
  model.Input("x", kF32, {2, 2, 1}).Ints("at", {0, 4});
  model.Op("TensorScatter", {"cache", "x", "at"}, {"line"});
  model.Op("TensorScatter", {"cache", "x", "at"}, {"ring"},
           {{"mode", "circular"}});
  EXPECT_THAT(model.Run("line").ToDoubles(),
              ElementsAre(0, 1, -1, -1, -1, -1, -1, -1, -1, 2));
  EXPECT_THAT(model.Run("ring").ToDoubles(),
              ElementsAre(0, 1, -1, -1, -1, 3, -1, -1, -1, 2));
  model.Op("TensorScatter", {"x", "cache"}, {"y"});
  EXPECT_THAT(model.Output("y").ImportError(),
              HasSubstr("the update has shape [2,5,1], the cache [2,2,1]"));
}

constexpr int kHeads = 2, kSize = 4, kWidth = 8;

TEST(ContribAttention, IsProjectionsAndAnAttention) {
  Model model;
  model.Input("x", kF32, {2, 3, 5}).Ints("sizes", {kWidth, kWidth, kWidth});
  model.Random("w", {5, 3 * kWidth}).Random("b", {3 * kWidth});
  model.Contrib("Attention", {"x", "w", "b"}, {"fused"},
                {{"num_heads", kHeads}, {"unidirectional", 1}});
  model.Op("MatMul", {"x", "w"}, {"product"})
      .Op("Add", {"product", "b"}, {"qkv"})
      .Op("Split", {"qkv", "sizes"}, {"q", "k", "v"}, {{"axis", -1}})
      .Op("Attention", {"q", "k", "v"}, {"plain"},
          {{"q_num_heads", kHeads},
           {"kv_num_heads", kHeads},
           {"is_causal", 1}});
  ExpectSame(model.Run("fused"), model.Run("plain"));
}

Model Qkv() {
  Model model;
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
  Model model = Qkv();
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
  Model model = Qkv();
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
    Model model = Qkv();
    model.I32("mask", {1, 1, 1, 1}, {4, 1});
    model.Contrib("MultiHeadAttention", inputs, outputs,
                  {{"num_heads", kHeads}});
    return model.Output("y").ImportError();
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
Model Grouped() {
  Model model;
  model.Random("q", {2, 3, kWidth});
  model.Random("k", {2, 3, kSize}).Random("v", {2, 3, kSize});
  model.Random("cos", {8, 2}).Random("sin", {8, 2});
  model.I32("lengths", {2, 2}, {2}).I32("total", {3}, {});
  return model;
}
const Attrs kGrouped = {{"num_heads", kHeads}, {"kv_num_heads", 1}};

TEST(GroupQueryAttention, IsRotationsAndACausalAttention) {
  Model model = Grouped();
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
  Model model = Grouped();
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
  Model model;
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
    Model model = Grouped();
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

TEST(ContribRotary, TakesOnePositionOrAll) {
  Model model = Grouped();
  model.Ints("two", {2}).Ints("all", {2, 3, 4, 2, 3, 4}, {2, 3});
  Attrs attrs = {{"num_heads", kHeads}, {"interleaved", 1}};
  model.Contrib("RotaryEmbedding", {"q", "two", "cos", "sin"}, {"a"}, attrs)
      .Contrib("RotaryEmbedding", {"q", "all", "cos", "sin"}, {"b"}, attrs)
      .Op("RotaryEmbedding", {"q", "cos", "sin", "all"}, {"c"}, attrs);
  ExpectSame(model.Run("a"), model.Run("c"));
  ExpectSame(model.Run("b"), model.Run("c"));
}

TEST(Norms, StatisticsAreOutputs) {
  Model model;
  model.Input("x", kF32, {2, 2, 2}).Floats("scale", {1, 1, 1, 1}, {2, 2});
  model.Op("LayerNormalization", {"x", "scale"}, {"y", "mean", "inverse"},
           {{"axis", 1}, {"epsilon", 0.75f}});
  Tensor mean = model.Run("mean");
  EXPECT_EQ(mean.shape(), (Shape{2, 1, 1}));
  EXPECT_THAT(mean.ToDoubles(), ElementsAre(1.5, 5.5));
  EXPECT_NEAR(model.Run("inverse").Get(0), 1 / std::sqrt(2), 1e-6);
}

TEST(Norms, ScaleMayBroadcastInOtherWays) {
  // One number for each row of the last dimension.
  Model model;
  model.Input("x", kF32, {2, 2}).Floats("rows", {1, 10}, {2, 1});
  model.Floats("bias", {5, 7, 5, 7}, {2, 2});
  model.Op("LayerNormalization", {"x", "rows", "bias"}, {"y"},
           {{"epsilon", 0.f}});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(4, 8, -5, 17));
  model.Floats("cube", {1, 2}, {2, 1, 1});
  model.last().set_input(1, "cube");
  EXPECT_THAT(model.Output("y").ImportError(), HasSubstr("[2,1,1]"));
}

TEST(Norms, SkipGivesTheSumToo) {
  Model model;
  model.Input("x", kF32, {1, 2}).Floats("skip", {10, 20}, {1, 2});
  model.Floats("bias", {1, 2}, {2}).Floats("ones", {1, 1}, {2});
  model.Contrib("SkipSimplifiedLayerNormalization",
                {"x", "skip", "ones", "bias"}, {"y", "", "", "sum"});
  EXPECT_THAT(model.Run("sum").ToDoubles(), ElementsAre(11, 23));
}

// With all of two experts chosen, both are computed for each token.
Model TwoExperts(int width) {
  Model model;
  model.Input("x", kF32, {1, 3, 2});
  model.Random("router", {2, 2}).Random("up", {2, width, 2});
  model.Random("up_bias", {2, width}).Random("down", {2, 2, 4});
  model.Ints("rows", {3, 2}).Ints("e0", {0}, {}).Ints("e1", {1}, {});
  model.Op("MatMul", {"x", "router"}, {"logits3"})
      .Op("Reshape", {"logits3", "rows"}, {"logits"})
      .Op("Softmax", {"logits3"}, {"p"}, {{"axis", -1}});
  return model;
}

TEST(ContribMoe, SumsItsExperts) {
  Model model = TwoExperts(4);
  model.Contrib("MoE", {"x", "logits", "up", "up_bias", "down"}, {"fused"},
                {{"k", 2}, {"activation_type", "silu"}});
  for (const char* e : {"0", "1"}) {
    auto name = [&](const char* stem) { return std::string(stem) + e; };
    for (const char* w : {"up", "up_bias", "down"}) {
      model.Op("Gather", {w, name("e")}, {name(w)});
    }
    model.Op("Gather", {"p", name("e")}, {name("p")}, {{"axis", 2}})
        .Op("Unsqueeze", {name("p"), "last"}, {name("q")})
        .Op("Transpose", {name("up")}, {name("ut")})
        .Op("Transpose", {name("down")}, {name("dt")})
        .Op("MatMul", {"x", name("ut")}, {name("a")})
        .Op("Add", {name("a"), name("up_bias")}, {name("b")})
        .Op("Swish", {name("b")}, {name("c")})
        .Op("MatMul", {name("c"), name("dt")}, {name("d")})
        .Op("Mul", {name("d"), name("q")}, {name("y")});
  }
  model.Ints("last", {-1});
  model.Op("Add", {"y0", "y1"}, {"plain"});
  ExpectSame(model.Run("fused"), model.Run("plain"));
}

TEST(ContribMoe, SwigluPartsMayLieInAnyWay) {
  // The same weights by turns, one after the other, and in two inputs.
  Model model = TwoExperts(8);
  Attrs attrs = {{"k", 2}, {"activation_type", "swiglu"}};
  auto moe = [&](const Names& more, int fusion, const std::string& up) {
    Attrs all = attrs;
    all.emplace_back("swiglu_fusion", fusion);
    Names inputs = {"x", "logits", up, "", "down", ""};
    inputs.insert(inputs.end(), more.begin(), more.end());
    model.Contrib("MoE", inputs, {"y" + std::to_string(fusion)}, all);
  };
  model.Ints("four", {4, 4}).Ints("turns", {0, 4, 1, 5, 2, 6, 3, 7});
  model.Op("Split", {"up", "four"}, {"g", "l"}, {{"axis", 1}})
      .Op("Gather", {"up", "turns"}, {"mixed"}, {{"axis", 1}});
  moe({"l"}, 0, "g");
  moe({}, 1, "mixed");
  moe({}, 2, "up");
  Tensor two = model.Run("y0");
  ExpectSame(model.Run("y1"), two);
  ExpectSame(model.Run("y2"), two);
}

TEST(ContribMoe, RefusesWhatItDoesNotKnow) {
  auto error = [](const Attrs& attrs) {
    Model model = TwoExperts(4);
    model.Contrib("MoE", {"x", "logits", "up", "", "down"}, {"y"}, attrs);
    return model.Output("y").ImportError();
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({{"activation_type", "elu"}}),
              HasSubstr("activation_type elu is not supported"));
  EXPECT_THAT(error({{"use_sparse_mixer", 1}}), HasSubstr("use_sparse_mixer"));
  EXPECT_THAT(error({{"k", 3}}), HasSubstr("k is 3, it should be in [1, 2]"));
  EXPECT_THAT(error({{"activation_type", "swiglu"}}),
              HasSubstr("swiglu without input 6"));
}

TEST(ContribOps, FusedMatMulMovesBatchesAndScales) {
  Model model;
  model.Input("x", kF32, {3, 2, 4});
  model.Random("b", {4, 2, 5});
  model.Contrib("FusedMatMul", {"x", "b"}, {"fused"},
                {{"transBatchA", 1}, {"transBatchB", 1}, {"alpha", 0.5f}});
  model.Floats("half", {0.5}, {});
  model
      .Op("Transpose", {"x"}, {"xt"}, {{"perm", std::vector<int64_t>{1, 0, 2}}})
      .Op("Transpose", {"b"}, {"bt"}, {{"perm", std::vector<int64_t>{1, 0, 2}}})
      .Op("MatMul", {"xt", "bt"}, {"product"})
      .Op("Mul", {"product", "half"}, {"plain"});
  ExpectSame(model.Run("fused"), model.Run("plain"));
}

TEST(ContribOps, EmbedLayerNormalizationLooksUpAndNormalizes) {
  Model model;
  model.I32("ids", {1, 0}, {1, 2}).I32("mask", {1, 0}, {1, 2});
  model.Floats("words", {1, 2, 3, 4}, {2, 2});
  model.Floats("places", {10, 20, 30, 40}, {2, 2});
  model.Floats("ones", {1, 1}, {2}).Floats("zeros", {0, 0}, {2});
  model.Contrib("EmbedLayerNormalization",
                {"ids", "", "words", "places", "", "ones", "zeros", "mask"},
                {"y", "count", "sum"}, {{"epsilon", 0.f}});
  EXPECT_THAT(model.Run("sum").ToDoubles(), ElementsAre(13, 24, 31, 42));
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(-1, 1, -1, 1));
  EXPECT_THAT(model.Run("count").ToInts(), ElementsAre(1));
}

TEST(ContribOps, FusedGemmKnowsItsActivations) {
  Model model;
  model.Input("x", kF32, {1, 2}).Floats("w", {1, -1, 1, -1}, {2, 2});
  model.Contrib("FusedGemm", {"x", "w"}, {"y"}, {{"activation", "Relu"}});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(1, 0));
  model.Contrib("FusedGemm", {"x", "w"}, {"z"}, {{"activation", "Elu"}});
  EXPECT_THAT(model.Output("z").ImportError(),
              HasSubstr("activation Elu is not supported"));
}

}  // namespace
}  // namespace asyra
