// Names of parameters in files, and models written with other weights.
#include "frontends/onnx/export.h"
#include "frontends/onnx/exported_names.h"
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using onnx_import::MayBeParameter;
using testing::AllOf;
using testing::HasSubstr;

Tensor Number(double number) {
  return Tensor::FromDoubles(DType::kF32, {}, {number});
}

TEST(MayBeParameter, GoesByNameAndNumber) {
  for (const char* name :
       {"alpha", "logit_scale", "m.gate", "pool.p", "a.bias"}) {
    EXPECT_TRUE(MayBeParameter(name, Number(0.4))) << name;
  }
  EXPECT_FALSE(MayBeParameter("p", Number(3)));
  EXPECT_TRUE(MayBeParameter("p", Number(3).Reshaped({1})));
  for (const char* name : {"val_12", "c3", "k24", "17", "one", "half",
                           "onnx::Pow_12", "/m/Constant_3_output_0",
                           "const_fold_opt__7", "scalar_tensor_default"}) {
    EXPECT_FALSE(MayBeParameter(name, Number(0.4))) << name;
  }
  for (const char* name : {"eps", "layer.eps", "norm_eps", "m.epsilon"}) {
    EXPECT_FALSE(MayBeParameter(name, Number(1e-5))) << name;
    // The learned one of GIN.
    EXPECT_TRUE(MayBeParameter(name, Number(0))) << name;
    EXPECT_TRUE(MayBeParameter(name, Number(0.2))) << name;
  }
  EXPECT_FALSE(MayBeParameter("alpha", Number(-1e9)));
  // One over the root of 64, and no root.
  EXPECT_FALSE(MayBeParameter("scale", Number(0.125)));
  EXPECT_TRUE(MayBeParameter("scale", Number(0.37)));
}

// A linear layer as PyTorch exports it: its weight transposed, under a number.
ModelBuilder Linear(const std::string& weight, const std::string& node) {
  ModelBuilder model = ModelBuilder()
                           .Input("x", kF32, {2, 3})
                           .Floats(weight, {1, 2, 3, 4, 5, 6}, {3, 2})
                           .Node("MatMul", {"x", weight}, {"y"})
                           .Output("y");
  model.graph().mutable_node(0)->set_name(node);
  return model;
}

const Input& WeightOf(const Program& program) { return program.inputs[1]; }

TEST(ExportedNames, OfTheModuleInMetadata) {
  ModelBuilder model = Linear("val_93", "node_linear");
  auto* entry = model.graph().mutable_node(0)->add_metadata_props();
  entry->set_key("pkg.torch.onnx.name_scopes");
  entry->set_value("['', 'm', 'm.layers.0.q_proj', 'linear_1']");
  Program program = ASYRA_VALUE(model.Import());
  const Input& weight = WeightOf(program);
  EXPECT_EQ(program.value_name(weight.value), "m.layers.0.q_proj.weight");
  ASSERT_NE(weight.origin, nullptr);
  EXPECT_EQ(weight.origin->stored_as, "val_93");
  EXPECT_TRUE(weight.origin->transposed);
}

TEST(ExportedNames, OfTheNodesName) {
  Program program =
      ASYRA_VALUE(Linear("onnx::MatMul_7", "/m/layers.0/q/MatMul").Import());
  EXPECT_EQ(UserName(program, WeightOf(program)), "m.layers.0.q.weight");
  // Nothing tells whose it is.
  program = ASYRA_VALUE(Linear("val_93", "node_linear").Import());
  EXPECT_EQ(UserName(program, WeightOf(program)), "val_93");
  EXPECT_EQ(WeightOf(program).origin, nullptr);
}

// As exporters leave layers that share a module.
TEST(ExportedNames, CopiesOfAModulesWeightAreOne) {
  ModelBuilder model = Linear("onnx::MatMul_7", "/m/layers.0/q/MatMul");
  model.Floats("onnx::MatMul_8", {1, 2, 3, 4, 5, 6}, {3, 2})
      .Node("MatMul", {"x", "onnx::MatMul_8"}, {"z"})
      .Output("z");
  model.last().set_name("/m/layers.0/q/MatMul_1");
  Program program = ASYRA_VALUE(model.Import());
  ASSERT_EQ(program.inputs.size(), 2u);
  const WeightOrigin& origin = *WeightOf(program).origin;
  EXPECT_EQ(origin.stored_as, "onnx::MatMul_7");
  ASSERT_EQ(origin.tied.size(), 1u);
  EXPECT_EQ(origin.tied[0].stored_as, "onnx::MatMul_8");
  // Of other data the later one is another weight.
  float other = 7;
  model.graph().mutable_initializer(1)->mutable_raw_data()->replace(
      0, sizeof(other), reinterpret_cast<const char*>(&other), sizeof(other));
  program = ASYRA_VALUE(model.Import());
  ASSERT_EQ(program.inputs.size(), 3u);
  EXPECT_EQ(UserName(program, program.inputs[2]), "onnx::MatMul_8");
}

TEST(ExportedNames, FileNamesThatTheTextDoesNotTakeAreKept) {
  Program program = ASYRA_VALUE(Linear("m/w:0", "n").Import());
  EXPECT_EQ(program.value_name(WeightOf(program).value), "m_w_0");
  EXPECT_EQ(UserName(program, WeightOf(program)), "m/w:0");
}

TEST(ExportOnnx, ReplacesTensorsAndKeepsTheRest) {
  ModelBuilder model = Linear("w", "n");
  model.model.set_producer_name("somebody");
  std::string from = (ModelBuilder::TestFolder() / "from.onnx").string();
  std::string to = (ModelBuilder::TestFolder() / "to.onnx").string();
  std::ofstream(from, std::ios::binary) << model.model.SerializeAsString();
  WeightStore tensors;
  tensors.Set(
      "w", Tensor::FromDoubles(DType::kF64, {3, 2}, {9, 8, 7, 6, 5, 1.0 / 3}));
  ASYRA_CHECK_OK(ExportOnnx(from, tensors, to));
  Program program = ASYRA_VALUE(ImportOnnx(to));
  const Tensor* w = program.weights->Find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype(), DType::kF32);
  EXPECT_EQ(w->ToDoubles(),
            (std::vector<double>{9, 8, 7, 6, 5, static_cast<float>(1.0 / 3)}));
  onnx::ModelProto written;
  std::ifstream file(to, std::ios::binary);
  ASSERT_TRUE(written.ParseFromIstream(&file));
  EXPECT_EQ(written.producer_name(), "somebody");
}

void StoreOutside(onnx::TensorProto* tensor, const std::string& location,
                  int64_t offset, int64_t length) {
  tensor->clear_raw_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair("location", location),
        std::pair("offset", std::to_string(offset)),
        std::pair("length", std::to_string(length))}) {
    if (value == "-1") continue;
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

// One model whose data is in a file beside it, written into another folder.
TEST(ExportOnnx, CopiesDataFromTheModelsFolder) {
  ModelBuilder model = Linear("w", "n");
  model.Floats("b", {0, 0}, {2}).Node("Add", {"y", "b"}, {"z"}).Output("z");
  std::filesystem::path folder = ModelBuilder::TestFolder() / "from";
  std::filesystem::create_directories(folder);
  float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::ofstream(folder / "data.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(values), sizeof(values));
  StoreOutside(model.graph().mutable_initializer(0), "data.bin", 0, 24);
  // Without a length: all that is behind the offset.
  StoreOutside(model.graph().mutable_initializer(1), "data.bin", 24, -1);
  std::string from = (folder / "from.onnx").string();
  std::string to = (ModelBuilder::TestFolder() / "copied.onnx").string();
  std::ofstream(from, std::ios::binary) << model.model.SerializeAsString();
  WeightStore tensors;
  tensors.Set("w",
              Tensor::FromDoubles(DType::kF32, {3, 2}, {9, 8, 7, 6, 5, 4}));
  ASYRA_CHECK_OK(ExportOnnx(from, tensors, to));
  Program program = ASYRA_VALUE(ImportOnnx(to));
  EXPECT_EQ(program.weights->Find("w")->ToDoubles(),
            (std::vector<double>{9, 8, 7, 6, 5, 4}));
  EXPECT_EQ(program.weights->Find("b")->ToDoubles(),
            (std::vector<double>{7, 8}));

  StoreOutside(model.graph().mutable_initializer(1), "gone.bin", 24, 8);
  std::ofstream(from, std::ios::binary) << model.model.SerializeAsString();
  std::string refused = (ModelBuilder::TestFolder() / "refused.onnx").string();
  EXPECT_THAT(ExportOnnx(from, tensors, refused).message(),
              AllOf(HasSubstr("tensor 'b'"), HasSubstr("gone.bin")));
  EXPECT_FALSE(std::filesystem::exists(refused));
  EXPECT_FALSE(std::filesystem::exists(refused + "_data"));
}

TEST(ExportOnnx, RefusesTensorsThatTheModelDoesNotHave) {
  std::string from = (ModelBuilder::TestFolder() / "refuse.onnx").string();
  std::string to = (ModelBuilder::TestFolder() / "refused.onnx").string();
  std::ofstream(from, std::ios::binary)
      << Linear("w", "n").model.SerializeAsString();
  auto error = [&](const char* name, const Shape& shape) {
    WeightStore tensors;
    tensors.Set(name, Tensor(DType::kF32, shape));
    absl::Status status = ExportOnnx(from, tensors, to);
    EXPECT_FALSE(std::filesystem::exists(to));
    return std::string(status.message());
  };
  EXPECT_THAT(error("v", {3, 2}), HasSubstr("the model stores no tensor 'v'"));
  EXPECT_THAT(error("w", {2, 3}),
              HasSubstr("tensor 'w' is [2,3], in the model it is [3,2]"));
}

}  // namespace
}  // namespace asyra
