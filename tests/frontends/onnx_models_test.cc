// Real models, exported by PyTorch: imported and run on the interpreter, they
// give what PyTorch recorded.
#include <cmath>

#include "frontends/onnx/import.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/verify/verifier.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

std::string ModelFolder(const std::string& model) {
  return std::string(ASYRA_SOURCE_DIR) + "/models/" + model;
}

absl::StatusOr<Program> ImportModel(const std::string& model,
                                    std::map<std::string, int64_t> dims = {}) {
  return ImportOnnx(ModelFolder(model) + "/model.onnx", {std::move(dims)});
}

// The program's inputs in order: recorded data by name, weights left to the
// program.
std::vector<Tensor> InputsOf(const Program& program, const TestData& recorded) {
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    inputs.emplace_back();
    for (const auto& [name, tensor] : recorded.inputs) {
      if (name == program.value_name(input.value)) inputs.back() = tensor;
    }
  }
  return inputs;
}

// Of half precision, as far as it goes.
void ExpectClose(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  bool half = actual.dtype() == DType::kF16;
  double absolute = half ? 2e-3 : 1e-5, relative = half ? 2e-3 : 1e-4;
  for (int64_t i = 0; i < actual.num_elements(); ++i) {
    double want = expected.Get(i);
    ASSERT_NEAR(actual.Get(i), want, absolute + relative * std::abs(want))
        << "element " << i;
  }
}

struct Case {
  std::string model;
  std::map<std::string, int64_t> dims;
};

class RecordedModel : public testing::TestWithParam<Case> {};

TEST_P(RecordedModel, GivesTheRecordedOutputs) {
  const Case& param = GetParam();
  auto program = ImportModel(param.model, param.dims);
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status valid = Verify(*program);
  ASSERT_TRUE(valid.ok()) << valid;
  auto recorded = ReadTestData(ModelFolder(param.model) + "/test_data_set_0");
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  auto outputs = Interpret(*program, InputsOf(*program, *recorded));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), recorded->outputs.size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    EXPECT_EQ(program->output_name(program->outputs[i]),
              recorded->outputs[i].first);
    ExpectClose((*outputs)[i], recorded->outputs[i].second);
  }
}

const std::map<std::string, int64_t> kBatch4Seq64 = {{"batch", 4}, {"seq", 64}};
INSTANTIATE_TEST_SUITE_P(
    Tiny, RecordedModel,
    testing::Values(
        Case{"bert-tiny-op18", kBatch4Seq64},
        Case{"bert-tiny-ort-legacy", kBatch4Seq64},
        Case{"gpt2-tiny-external", kBatch4Seq64},
        Case{"gpt2-tiny-op18", kBatch4Seq64}, Case{"gpt2-tiny-op23", {}},
        Case{"llama-tiny-fp16-op18", kBatch4Seq64},
        Case{"llama-tiny-op18", kBatch4Seq64}, Case{"llama-tiny-op23", {}},
        Case{"qwen3moe-tiny-op18", kBatch4Seq64},
        Case{"qwen3moe-tiny-op23", {}},
        Case{"vit-tiny-legacy14", {{"batch", 4}}}, Case{"vit-tiny-op23", {}}),
    [](const auto& info) {
      std::string name = info.param.model;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(OnnxModels, OtherSizesGiveOtherShapes) {
  const std::pair<const char*, int64_t> kModels[] = {
      {"bert-tiny-op18", 64},        {"bert-tiny-ort-legacy", 64},
      {"gpt2-tiny-external", 256},   {"gpt2-tiny-op18", 256},
      {"llama-tiny-fp16-op18", 256}, {"llama-tiny-op18", 256},
      {"qwen3moe-tiny-op18", 256}};
  for (auto [model, width] : kModels) {
    SCOPED_TRACE(model);
    auto program = ImportModel(model, {{"batch", 2}, {"seq", 32}});
    ASSERT_TRUE(program.ok()) << program.status();
    auto outputs = Interpret(*program, RandomInputs(*program, 1, 256));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].shape(), (Shape{2, 32, width}));
    for (double value : (*outputs)[0].ToDoubles()) {
      ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(OnnxModels, OtherBatchOfImages) {
  auto program = ImportModel("vit-tiny-legacy14", {{"batch", 3}});
  ASSERT_TRUE(program.ok()) << program.status();
  auto outputs = Interpret(*program, RandomInputs(*program, 1, 256));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].shape(), (Shape{3, 17, 64}));
  for (double value : (*outputs)[0].ToDoubles()) {
    ASSERT_TRUE(std::isfinite(value));
  }
}

// A causal model must give the same for a prompt as for the beginning of a
// longer one, whatever size it was imported at.
TEST(OnnxModels, ALongerPromptBeginsLikeAShorterOne) {
  auto run = [](int64_t seq) {
    auto program = ImportModel("llama-tiny-op18", {{"batch", 1}, {"seq", seq}});
    EXPECT_TRUE(program.ok()) << program.status();
    std::vector<Tensor> inputs(program->inputs.size());
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < seq; ++i) ids.push_back(i * 37 % 256);
    inputs[0] = Tensor::FromInts(DType::kI64, {1, seq}, ids);
    auto outputs = Interpret(*program, inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return (*outputs)[0];
  };
  ExpectClose(run(48).Slice(1, 0, 24), run(24));
}

TEST(OnnxModels, Llama8BImportsAtLengthWithoutMasksAsData) {
  auto program = ImportModel("llama3-8b-op23", {{"batch", 2}, {"seq", 8192}});
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status valid = Verify(*program);
  EXPECT_TRUE(valid.ok()) << valid;
  EXPECT_EQ(program->type(program->outputs[0].value).shape(),
            (Shape{2, 8192, 128256}));
  // The weights are inputs of the model, without data.
  EXPECT_EQ(program->weights->size(), 0u);
  int attentions = 0, iotas = 0;
  for (const Op& op : program->ops) {
    attentions += op.def->name == "attention";
    iotas += op.def->name == "iota";
    if (op.def->name == "constant") {
      EXPECT_LE(op.attrs.Get<Tensor>("value").num_elements(), 16);
    }
  }
  EXPECT_EQ(attentions, 32);
  EXPECT_EQ(iotas, 3);  // rows, columns, positions
}

}  // namespace
}  // namespace asyra
