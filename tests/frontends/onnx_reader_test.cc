// Files that are no models, and tensors in and beside models.
#include <random>

#include "gmock/gmock.h"
#include "ir/weight_store.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& bytes) {
  std::string path = (ModelBuilder::TestFolder() / name).string();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string ErrorOf(const std::string& path) {
  auto program = ImportOnnx(path);
  EXPECT_FALSE(program.ok());
  return program.ok() ? "" : std::string(MessageOf(program.status()));
}

// y = w + x, with the weight's bytes where a test wants them.
ModelBuilder AddWeight() {
  return ModelBuilder()
      .Input("x", ModelBuilder::kF32, {4})
      .Node("Add", {"w", "x"}, {"y"})
      .Output("y");
}

TEST(OnnxReader, NamesTheFileThatIsMissing) {
  EXPECT_THAT(ErrorOf("/nonexistent/model.onnx"),
              HasSubstr("/nonexistent/model.onnx: No such file"));
}

TEST(OnnxReader, RefusesFilesThatAreNoModels) {
  EXPECT_THAT(ErrorOf(WriteFile("a.onnx", "")),
              HasSubstr("a.onnx: not an ONNX model: the file is empty"));
  EXPECT_THAT(ErrorOf(WriteFile("b.onnx", "asyra 1 global\nmesh (dp=2)\n")),
              HasSubstr("not an ONNX model: it is a text file"));
  // A message of an unknown field only.
  EXPECT_THAT(ErrorOf(WriteFile("c.onnx", std::string("\xf8\x07\x01", 3))),
              HasSubstr("not an ONNX model: it has no graph"));
}

TEST(OnnxReader, RefusesEveryTruncation) {
  std::string whole =
      AddWeight().Floats("w", {1, 2, 3, 4}, {4}).model.SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    auto program = ImportOnnx(WriteFile("cut.onnx", whole.substr(0, size)));
    EXPECT_FALSE(program.ok()) << size << " of " << whole.size() << " bytes";
  }
}

TEST(OnnxReader, SurvivesDamage) {
  std::string whole =
      AddWeight().Floats("w", {1, 2, 3, 4}, {4}).model.SerializeAsString();
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string damaged = whole;
    for (uint64_t i = 0; i <= random() % 4; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    refused += !ImportOnnx(WriteFile("damaged.onnx", damaged)).ok();
  }
  EXPECT_GT(refused, 100);
}

TEST(OnnxReader, ReadsRawAndTypedValues) {
  auto raw = AddWeight().Floats("w", {1, 2, 3, 4}, {4}).Import();
  ASSERT_TRUE(raw.ok()) << raw.status();
  ModelBuilder typed = AddWeight();
  onnx::TensorProto* tensor = typed.Initializer("w", ModelBuilder::kF32, {4});
  for (float value : {1.f, 2.f, 3.f, 4.f}) tensor->add_float_data(value);
  auto program = typed.Import();
  ASSERT_TRUE(program.ok()) << program.status();
  for (const Program* p : {&*raw, &*program}) {
    const Tensor* w = p->weights->Find("w");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->ToDoubles(), (std::vector<double>{1, 2, 3, 4}));
  }
}

TEST(OnnxReader, RefusesTensorsOfTheWrongSize) {
  EXPECT_THAT(AddWeight().Floats("w", {1, 2, 3}, {4}).ImportError(),
              HasSubstr("tensor 'w': 12 bytes of data, but f32[4] takes 16"));
  EXPECT_THAT(AddWeight().Ints("w", {1, 2, 3}, {4}).ImportError(),
              HasSubstr("tensor 'w': 3 values, but shape [4] takes 4"));
  EXPECT_THAT(AddWeight().Floats("w", {}, {-4}).ImportError(),
              HasSubstr("shape [-4] has a negative size"));
  EXPECT_THAT(
      AddWeight().Floats("w", {}, {int64_t{1} << 40, 1 << 30}).ImportError(),
      HasSubstr("more than 2^48 elements"));
}

TEST(OnnxReader, NamesElementTypesItDoesNotHave) {
  ModelBuilder model = AddWeight();
  model.Initializer("w", onnx::TensorProto::UINT8, {4});
  EXPECT_THAT(model.ImportError(),
              HasSubstr("tensor 'w': element type UINT8 is not supported"));
}

ModelBuilder External(const std::string& location, const std::string& offset,
                      const std::string& length = "16") {
  ModelBuilder model = AddWeight();
  onnx::TensorProto* tensor = model.Initializer("w", ModelBuilder::kF32, {4});
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair("location", location), std::pair("offset", offset),
        std::pair("length", length)}) {
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return model;
}

TEST(OnnxReader, MapsExternalData) {
  float values[] = {0, 1, 2, 3, 4};
  WriteFile("w.bin",
            std::string(reinterpret_cast<char*>(values), sizeof(values)));
  auto program = External("w.bin", "4").Import();
  ASSERT_TRUE(program.ok()) << program.status();
  const Tensor* w = program->weights->Find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->ToDoubles(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(OnnxReader, RefusesExternalDataOutsideTheFolder) {
  for (const char* location :
       {"../w.bin", "/etc/passwd", "a/../../w.bin", ""}) {
    EXPECT_THAT(External(location, "0").ImportError(),
                HasSubstr("is not inside the model's folder"))
        << location;
  }
}

TEST(OnnxReader, RefusesExternalDataThatIsNotThere) {
  WriteFile("w.bin", std::string(20, 'x'));
  EXPECT_THAT(External("w.bin", "8").ImportError(),
              HasSubstr("w.bin has 20 bytes, the tensor lies at [8, 8 + 16)"));
  EXPECT_THAT(External("w.bin", "9223372036854775807").ImportError(),
              HasSubstr("w.bin has 20 bytes"));
  EXPECT_THAT(External("w.bin", "0", "12").ImportError(),
              HasSubstr("12 bytes, but f32[4] takes 16"));
  EXPECT_THAT(External("w.bin", "-4").ImportError(),
              HasSubstr("offset is '-4'"));
  EXPECT_THAT(External("none.bin", "0").ImportError(), HasSubstr("none.bin"));
}

TEST(OnnxTestData, ReadsInOrderAndRefusesAnEmptyFolder) {
  onnx::TensorProto tensor;
  tensor.set_data_type(ModelBuilder::kI64);
  tensor.add_dims(1);
  for (int i : {0, 1}) {
    tensor.set_name(fmt::format("x{}", i));
    tensor.clear_int64_data();
    tensor.add_int64_data(i + 5);
    WriteFile(fmt::format("input_{}.pb", i), tensor.SerializeAsString());
  }
  std::string folder = ModelBuilder::TestFolder().string();
  EXPECT_THAT(MessageOf(ReadTestData(folder).status()),
              HasSubstr("there is no output_0.pb"));
  WriteFile("output_0.pb", tensor.SerializeAsString());
  auto data = ReadTestData(folder);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->inputs.size(), 2u);
  EXPECT_EQ(data->inputs[1].first, "x1");
  EXPECT_EQ(data->inputs[1].second.GetInt(0), 6);
  EXPECT_EQ(data->outputs.size(), 1u);
}

}  // namespace
}  // namespace asyra
