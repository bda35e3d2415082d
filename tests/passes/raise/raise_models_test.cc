// Exported models, as their files are: what is left of a transformer block
// after raising, and that the program still computes what was recorded.
#include <filesystem>

#include "frontends/onnx/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/support/fixture.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

const char* const kModels = ASYRA_SOURCE_DIR "/models/";

Program Raised(const std::string& path, const ImportOptions& options) {
  Program program = ASYRA_VALUE(ImportOnnx(path, options));
  PassContext context;
  absl::Status raised = RunPasses(program, RaisePasses(), context);
  EXPECT_TRUE(raised.ok()) << raised;
  EXPECT_TRUE(Verify(program).ok()) << Verify(program);
  return program;
}

Program RaisedModel(const std::string& name, const ImportOptions& options) {
  return Raised(kModels + name + "/model.onnx", options);
}

void ExpectRecordedOutputs(const std::string& name, const Program& program) {
  TestData data =
      ASYRA_VALUE(ReadTestData(kModels + name + "/test_data_set_0"));
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    Tensor tensor;
    for (const auto& [input_name, value] : data.inputs) {
      if (input_name == program.value_name(input.value)) tensor = value;
    }
    inputs.push_back(tensor);
  }
  auto outputs = Interpret(program, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  Tensor actual = (*outputs)[0];
  double tolerance = 1e-4;
  if (actual.dtype() == DType::kF16) {  // recorded in f32
    actual =
        Tensor::FromDoubles(DType::kF32, actual.shape(), actual.ToDoubles());
    tolerance = 2e-3;
  }
  absl::Status same =
      SameOutputs({data.outputs[0].second}, {actual}, tolerance);
  EXPECT_TRUE(same.ok()) << same;
}

void ExpectCausal(const Program& program) {
  for (const Op& op : program.ops) {
    if (op.def->name != "attention") continue;
    EXPECT_TRUE(op.attrs.Bool("causal"));
    EXPECT_EQ(op.operands.size(), 3u);
  }
}

ImportOptions Dims(int64_t batch, int64_t seq) {
  return {.dims = {{"batch", batch}, {"seq", seq}}};
}

constexpr std::string_view kTwoLlamaBlocks =
    "add 4, attention 2, embedding 1, matmul 15, reshape 8, rms_norm 5, "
    "rotary 4, swiglu 2";

TEST(RaiseModels, LlamaOpset18) {
  Program program = RaisedModel("llama-tiny-op18", Dims(4, 64));
  EXPECT_EQ(OpCounts(program), kTwoLlamaBlocks);
  ExpectCausal(program);
  ExpectRecordedOutputs("llama-tiny-op18", program);
}

TEST(RaiseModels, LlamaOpset23) {
  Program program = RaisedModel("llama-tiny-op23", {});
  EXPECT_EQ(OpCounts(program), kTwoLlamaBlocks);
  ExpectCausal(program);
  ExpectRecordedOutputs("llama-tiny-op23", program);
}

TEST(RaiseModels, Gpt2Opset18) {
  Program program = RaisedModel("gpt2-tiny-op18", Dims(4, 64));
  EXPECT_EQ(OpCounts(program),
            "add 17, attention 2, embedding 2, gelu_tanh 2, iota 1, "
            "layer_norm 5, matmul 13, reshape 8");
  ExpectCausal(program);
  ExpectRecordedOutputs("gpt2-tiny-op18", program);
}

TEST(RaiseModels, Gpt2Opset23) {
  Program program = RaisedModel("gpt2-tiny-op23", {});
  EXPECT_EQ(OpCounts(program),
            "add 17, attention 2, embedding 1, gelu_tanh 2, "
            "layer_norm 5, matmul 13, reshape 8");
  ExpectCausal(program);
  ExpectRecordedOutputs("gpt2-tiny-op23", program);
}

TEST(RaiseModels, Gpt2WithExternalWeights) {
  Program program = RaisedModel("gpt2-tiny-external", Dims(4, 64));
  EXPECT_EQ(CountOps(program, "attention"), 2);
  ExpectCausal(program);
  ExpectRecordedOutputs("gpt2-tiny-external", program);
}

TEST(RaiseModels, LlamaInHalfPrecision) {
  Program program = RaisedModel("llama-tiny-fp16-op18", Dims(4, 64));
  EXPECT_EQ(OpCounts(program), kTwoLlamaBlocks);
  ExpectCausal(program);
  ExpectRecordedOutputs("llama-tiny-fp16-op18", program);
}

// One from PyTorch's new exporter, the other from the old one and then ONNX
// Runtime's optimizer.
TEST(RaiseModels, Bert) {
  constexpr std::string_view kTwoBertBlocks =
      "add 18, attention 2, broadcast 1, constant 1, embedding 3, gelu 2, "
      "iota 1, layer_norm 5, matmul 12, reshape 8";
  for (const char* name : {"bert-tiny-op18", "bert-tiny-ort-legacy"}) {
    SCOPED_TRACE(name);
    Program program = RaisedModel(name, Dims(4, 64));
    EXPECT_EQ(OpCounts(program), kTwoBertBlocks);
    ExpectRecordedOutputs(name, program);
  }
}

TEST(RaiseModels, VisionTransformer) {
  Program program = RaisedModel("vit-tiny-op23", {});
  EXPECT_EQ(OpCounts(program),
            "add 18, attention 2, concat 1, conv 1, gelu 2, layer_norm 5, "
            "matmul 12, reshape 10, transpose 1");
  ExpectRecordedOutputs("vit-tiny-op23", program);
  program = RaisedModel("vit-tiny-legacy14", {.dims = {{"batch", 4}}});
  EXPECT_EQ(CountOps(program, "attention"), 2);
  EXPECT_EQ(CountOps(program, "layer_norm"), 5);
  ExpectRecordedOutputs("vit-tiny-legacy14", program);
}

// What qwen3-moe-tiny is built of.
TEST(RaiseModels, Qwen3Moe) {
  for (const char* name : {"qwen3moe-tiny-op18", "qwen3moe-tiny-op23"}) {
    SCOPED_TRACE(name);
    Program program = RaisedModel(name, std::string_view(name).ends_with("18")
                                            ? Dims(4, 64)
                                            : ImportOptions());
    EXPECT_EQ(OpCounts(program),
              OpCounts(ASYRA_VALUE(BuiltinModel("qwen3-moe-tiny", {}))));
    ExpectCausal(program);
    ExpectRecordedOutputs(name, program);
  }
}

TEST(RaiseModels, Llama8B) {
  Program program = ASYRA_VALUE(ImportOnnx(
      std::string(kModels) + "llama3-8b-op23/model.onnx", Dims(2, 8192)));
  PassContext context;
  ASSERT_TRUE(RunPasses(program, RaisePasses(), context).ok());
  ASSERT_TRUE(Verify(program).ok()) << Verify(program);
  EXPECT_EQ(CountOps(program, "attention"), 32);
  EXPECT_EQ(CountOps(program, "rms_norm"), 65);
  EXPECT_EQ(CountOps(program, "swiglu"), 32);
  EXPECT_EQ(CountOps(program, "rotary"), 64);
  EXPECT_EQ(CountOps(program, "matmul"), 32 * 7 + 2);
  // 19 a block, and what computes positions once.
  EXPECT_LT(program.ops.size(), 32 * 19 + 20u) << OpCounts(program);
  ExpectCausal(program);
}

}  // namespace
}  // namespace asyra
