// Files that are no models, and tensors in and beside models.
#include <sys/stat.h>

#include <random>

#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/weights/weight_store.h"
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
      .Input("x", kF32, {4})
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
  onnx::TensorProto* tensor = typed.Initializer("w", kF32, {4});
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
  for (const char* name : {"UINT64", "INT4", "FLOAT8E4M3FN", "STRING"}) {
    onnx::TensorProto::DataType type;
    ASSERT_TRUE(onnx::TensorProto::DataType_Parse(name, &type));
    ModelBuilder model = AddWeight();
    model.Initializer("w", type, {4});
    EXPECT_THAT(model.ImportError(),
                HasSubstr(fmt::format(
                    "tensor 'w': element type {} is not supported", name)));
    model = AddWeight();
    model.graph()
        .mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->set_elem_type(type);
    EXPECT_THAT(model.ImportError(),
                HasSubstr(fmt::format(
                    "input x: element type {} is not supported", name)));
  }
}

TEST(OnnxReader, LeavesAloneWhatNobodyReads) {
  ModelBuilder model = AddWeight().Floats("w", {1, 2, 3, 4}, {4});
  model.Initializer("s", onnx::TensorProto::STRING, {4});
  EXPECT_EQ(model.ImportError(), "");
}

TEST(OnnxReader, ReadsHalfPrecisionAndDoubles) {
  // 1.5 in each.
  for (auto [type, bits] : {std::pair(onnx::TensorProto::FLOAT16, 0x3e00),
                            std::pair(onnx::TensorProto::BFLOAT16, 0x3fc0)}) {
    for (bool raw : {false, true}) {
      ModelBuilder model;
      onnx::TensorProto* tensor = model.Initializer("w", type, {2});
      auto half = static_cast<uint16_t>(bits);
      uint16_t both[] = {half, half};
      if (raw) {
        tensor->set_raw_data(both, sizeof(both));
      } else {
        for (uint16_t value : both) tensor->add_int32_data(value);
      }
      Program program = ASYRA_VALUE(
          model.Node("Identity", {"w"}, {"y"}).Output("y").Import());
      EXPECT_EQ(program.weights->Find("w")->ToDoubles(),
                (std::vector<double>{1.5, 1.5}));
    }
  }
  ModelBuilder model;
  onnx::TensorProto* tensor =
      model.Initializer("w", onnx::TensorProto::DOUBLE, {2});
  for (double value : {0.1, -1e300}) tensor->add_double_data(value);
  Program program =
      ASYRA_VALUE(model.Node("Identity", {"w"}, {"y"}).Output("y").Import());
  EXPECT_EQ(program.weights->Find("w")->ToDoubles(),
            (std::vector<double>{0.1, -1e300}));
}

// y = cast(op(w)), with w of a type that the IR does not have.
std::vector<int64_t> NarrowResult(onnx::TensorProto::DataType type,
                                  const std::string& raw, int64_t size) {
  ModelBuilder model;
  model.Initializer("w", type, {size})->set_raw_data(raw);
  Program program = ASYRA_VALUE(
      model.Node("Cast", {"w"}, {"y"}, {{"to", kI64}}).Output("y").Import());
  return ASYRA_VALUE(Interpret(program, {}))[0].ToInts();
}

TEST(OnnxNarrow, ConstantsAreCarriedByWiderTypes) {
  using List = std::vector<int64_t>;
  std::string bytes("\x00\x7f\x80\xff", 4);
  EXPECT_EQ(NarrowResult(onnx::TensorProto::UINT8, bytes, 4),
            (List{0, 127, 128, 255}));
  EXPECT_EQ(NarrowResult(onnx::TensorProto::INT8, bytes, 4),
            (List{0, 127, -128, -1}));
  EXPECT_EQ(NarrowResult(onnx::TensorProto::UINT16, bytes, 2),
            (List{0x7f00, 0xff80}));
  EXPECT_EQ(NarrowResult(onnx::TensorProto::INT16, bytes, 2),
            (List{0x7f00, -128}));
  EXPECT_EQ(NarrowResult(onnx::TensorProto::UINT32, bytes, 1),
            (List{0xff807f00}));
}

TEST(OnnxNarrow, ResultsMustFitAndBeKnown) {
  auto model = [](int value) {
    ModelBuilder result;
    result.Initializer("a", onnx::TensorProto::UINT8, {1})->add_int32_data(200);
    result.Initializer("b", onnx::TensorProto::UINT8, {1})
        ->add_int32_data(value);
    return result.Node("Add", {"a", "b"}, {"c"})
        .Node("Cast", {"c"}, {"y"}, {{"to", kF32}})
        .Output("y");
  };
  EXPECT_EQ(model(55).ImportError(), "");
  EXPECT_THAT(
      model(56).ImportError(),
      HasSubstr("Add node 'node_c': its result 256 does not fit UINT8"));
  EXPECT_THAT(model(1).Output("c").ImportError(),
              HasSubstr("output 'c' is UINT8, which is not supported"));
  auto cast = [](int from) {
    return ModelBuilder()
        .Input("x", from, {2})
        .Node("Cast", {"x"}, {"b"}, {{"to", onnx::TensorProto::UINT8}})
        .Node("Unsqueeze", {"b", "zero"}, {"c"})
        .Node("Cast", {"c"}, {"y"}, {{"to", kF32}})
        .Ints("zero", {0})
        .Output("y")
        .ImportError();
  };
  EXPECT_EQ(cast(kBool), "");
  EXPECT_THAT(cast(kI64), HasSubstr("UINT8 is supported for constants only"));
}

// A sparse initializer of shape [2, 3].
ModelBuilder Sparse(const std::vector<int64_t>& indices,
                    std::vector<int64_t> dims) {
  ModelBuilder model;
  onnx::SparseTensorProto* sparse = model.graph().add_sparse_initializer();
  for (int64_t dim : {2, 3}) sparse->add_dims(dim);
  sparse->mutable_values()->set_name("w");
  sparse->mutable_values()->set_data_type(kF32);
  sparse->mutable_values()->add_dims(dims[0]);
  for (int64_t i = 0; i < dims[0]; ++i) {
    sparse->mutable_values()->add_float_data(static_cast<float>(i + 1));
  }
  sparse->mutable_indices()->set_data_type(kI64);
  for (int64_t dim : dims) sparse->mutable_indices()->add_dims(dim);
  for (int64_t index : indices)
    sparse->mutable_indices()->add_int64_data(index);
  return model.Node("Identity", {"w"}, {"y"}).Output("y");
}

TEST(OnnxSparse, InitializersBecomeDense) {
  for (const ModelBuilder& model :
       {Sparse({1, 5}, {2}), Sparse({0, 1, 1, 2}, {2, 2})}) {
    Program program = ASYRA_VALUE(model.Import());
    EXPECT_EQ(program.weights->Find("w")->ToDoubles(),
              (std::vector<double>{0, 1, 0, 0, 0, 2}));
  }
  EXPECT_THAT(Sparse({1, 6}, {2}).ImportError(),
              HasSubstr("sparse tensor 'w': element 6 of shape [2,3]"));
  EXPECT_THAT(Sparse({5, 1}, {2}).ImportError(),
              HasSubstr("element 1 of shape [2,3] follows element 5"));
  EXPECT_THAT(Sparse({0, 1, 1, 3}, {2, 2}).ImportError(),
              HasSubstr("index 3 of dim 1 of size 3"));
  EXPECT_THAT(Sparse({0, 1, 1}, {3, 1}).ImportError(),
              HasSubstr("the indices are i64[3,1], they should be i64[3,2]"));
}

ModelBuilder External(const std::string& location, const std::string& offset,
                      const std::string& length = "16") {
  ModelBuilder model = AddWeight();
  onnx::TensorProto* tensor = model.Initializer("w", kF32, {4});
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

// Names of files end where they end, and a pipe is not waited for.
TEST(OnnxReader, RefusesExternalDataThatIsNoFile) {
  WriteFile("w.bin", std::string(16, 'x'));
  EXPECT_THAT(External(std::string("w.bin\0x", 7), "0").ImportError(),
              HasSubstr("w.bin\\0x': a path has no NUL byte"));
  std::filesystem::path fifo = ModelBuilder::TestFolder() / "fifo";
  std::filesystem::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(External("fifo", "0").ImportError(),
              HasSubstr("fifo: not a regular file"));
  std::filesystem::remove(fifo);
}

TEST(OnnxReader, RefusesLinksOutOfTheFolder) {
  namespace fs = std::filesystem;
  WriteFile("w.bin", std::string(16, 'x'));
  fs::path folder = ModelBuilder::TestFolder();
  fs::path outside = folder.parent_path() / (folder.filename().string() + ".d");
  fs::create_directories(outside);
  fs::rename(folder / "w.bin", outside / "w.bin");
  fs::remove(folder / "w.bin");
  fs::create_symlink(outside / "w.bin", folder / "w.bin");
  EXPECT_THAT(External("w.bin", "0").ImportError(),
              HasSubstr("w.bin is a link to"));
  // Within the folder a link is as good as a file.
  WriteFile("data.bin", std::string(16, 'x'));
  fs::remove(folder / "w.bin");
  fs::create_symlink("data.bin", folder / "w.bin");
  EXPECT_EQ(External("w.bin", "0").ImportError(), "");
  fs::remove(folder / "w.bin");
}

// As the Hugging Face Hub's cache has them.
TEST(OnnxReader, LinksMayLeadBesideTheFileThatTheModelIsALinkTo) {
  namespace fs = std::filesystem;
  fs::path folder = ModelBuilder::TestFolder(), blobs = folder / "blobs",
           snapshot = folder / "snapshots" / "abc";
  fs::create_directories(blobs / "deeper");
  fs::create_directories(snapshot);
  WriteFile("blobs/11", External("model.data", "4").model.SerializeAsString());
  for (const char* name : {"blobs/22", "blobs/deeper/33", "44"}) {
    WriteFile(name, std::string(20, 'x'));
  }
  fs::path model = snapshot / "model.onnx", data = snapshot / "model.data";
  auto error = [&](const fs::path& data_is) {
    fs::remove(data);
    fs::create_symlink(data_is, data);
    return std::string(MessageOf(ImportOnnx(model.string()).status()));
  };
  fs::remove(model);
  fs::create_symlink("../../blobs/11", model);
  EXPECT_EQ(error("../../blobs/22"), "");
  for (const char* elsewhere : {"../../blobs/deeper/33", "../../44"}) {
    EXPECT_THAT(error(elsewhere), HasSubstr("model.data is a link to"));
  }
  // A model that is no link.
  fs::remove(model);
  fs::copy_file(blobs / "11", model);
  EXPECT_THAT(error("../../blobs/22"), HasSubstr("model.data is a link to"));
  fs::remove_all(folder / "snapshots");
  fs::remove_all(blobs);
}

TEST(OnnxReader, RefusesExternalDataThatIsNotThere) {
  WriteFile("w.bin", std::string(20, 'x'));
  EXPECT_THAT(External("w.bin", "8").ImportError(),
              HasSubstr("w.bin has 20 bytes, the tensor is at [8, 8 + 16)"));
  EXPECT_THAT(External("w.bin", "9223372036854775807").ImportError(),
              HasSubstr("w.bin has 20 bytes"));
  EXPECT_THAT(External("w.bin", "0", "12").ImportError(),
              HasSubstr("12 bytes, but f32[4] takes 16"));
  EXPECT_THAT(External("w.bin", "-4").ImportError(),
              HasSubstr("offset is '-4'"));
  EXPECT_THAT(External("none.bin", "0").ImportError(), HasSubstr("none.bin"));
}

TEST(OnnxTestData, SaysWhyThereIsNothing) {
  auto error = [](const std::string& folder) {
    return std::string(MessageOf(ReadTestData(folder).status()));
  };
  std::string folder = ModelBuilder::TestFolder().string();
  EXPECT_THAT(error(folder + "/none"), HasSubstr("there is no such folder"));
  EXPECT_THAT(error(folder),
              HasSubstr("there is no input_0.pb and no output_0.pb"));
  WriteFile("model.onnx", "");
  EXPECT_THAT(error(folder + "/model.onnx"), HasSubstr("it is a file"));
  for (const char* inside : {"test_data_set_1", "test_data_set_0"}) {
    std::filesystem::create_directory(folder + "/" + inside);
    WriteFile(std::string(inside) + "/input_0.pb", "");
  }
  EXPECT_THAT(error(folder),
              HasSubstr("in it itself, but in " + folder + "/test_data_set_0"));
  EXPECT_THAT(MessageOf(ReadTestInputs(folder).status()),
              HasSubstr("there is no input_0.pb in it itself"));
}

TEST(OnnxTestData, TensorsAreReadAsWritten) {
  for (DType dtype : kAllDTypes) {
    Tensor tensor = Tensor::FromInts(dtype, {2, 1}, {1, 0});
    auto bytes = TensorProtoBytes("x:0", tensor);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    WriteFile("x.pb", *bytes);
    auto read = ReadTensorProto((ModelBuilder::TestFolder() / "x.pb").string());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->first, "x:0");
    EXPECT_TRUE(SameBytes(read->second, tensor)) << ToString(dtype);
  }
}

TEST(OnnxTestData, ReadsInOrder) {
  onnx::TensorProto tensor;
  tensor.set_data_type(kI64);
  tensor.add_dims(1);
  for (int i : {0, 1}) {
    tensor.set_name(fmt::format("x{}", i));
    tensor.clear_int64_data();
    tensor.add_int64_data(i + 5);
    WriteFile(fmt::format("input_{}.pb", i), tensor.SerializeAsString());
  }
  std::string folder = ModelBuilder::TestFolder().string();
  EXPECT_THAT(MessageOf(ReadTestData(folder).status()),
              HasSubstr("there is input_0.pb, but no output_0.pb"));
  auto inputs = ReadTestInputs(folder);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(inputs->size(), 2u);
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
