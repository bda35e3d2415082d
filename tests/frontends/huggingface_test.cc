// Models of Hugging Face's config.json: run on the interpreter they give what
// transformers recorded, and broken files are refused by name.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "frontends/huggingface/export.h"
#include "frontends/huggingface/families.h"
#include "frontends/huggingface/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "ir/weights/made_tensors.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::HasSubstr;

const std::map<std::string, int64_t> kRecordedSizes = {{"batch", 2},
                                                       {"seq", 16}};

std::string CaseFolder(const std::string& name) {
  return std::string(ASYRA_SOURCE_DIR) + "/models/huggingface/" + name;
}

// The largest difference of the logits from those that were recorded beside
// `recorded`, in parts of their largest.
double ErrorOf(const std::string& folder, const std::string& recorded) {
  Program program =
      ASYRA_VALUE(ImportHuggingFace(folder + "/config.json", kRecordedSizes));
  ASYRA_CHECK_OK(Verify(program));
  auto data = ASYRA_VALUE(ReadWeights(recorded + "/recorded.safetensors"));
  std::vector<Tensor> inputs(program.inputs.size());
  inputs[0] = *data->Find("input_ids");
  Tensor logits = ASYRA_VALUE(Interpret(program, inputs))[0];
  const Tensor& wanted = *data->Find("logits");
  EXPECT_EQ(logits.shape(), wanted.shape());
  double error = 0, largest = 0;
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    error = std::max(error, std::abs(logits.Get(i) - wanted.Get(i)));
    largest = std::max(largest, std::abs(wanted.Get(i)));
  }
  return error / largest;
}

class HuggingFaceModel : public testing::TestWithParam<const char*> {};

TEST_P(HuggingFaceModel, GivesTheLogitsOfTransformers) {
  std::string folder = CaseFolder(GetParam());
  EXPECT_LT(ErrorOf(folder, folder), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceModel,
                         testing::Values("gemma", "gemma2", "gemma3", "gpt2",
                                         "gpt_neox", "llama", "mistral",
                                         "mixtral", "phi3", "qwen2", "qwen3",
                                         "qwen3_moe"),
                         [](const auto& info) { return info.param; });

// A folder of its own, with the case's files.
class HuggingFaceFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        fmt::format(
            "asyra_hf_{}_{}", getpid(),
            testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  void Copy(const std::string& name) {
    fs::copy(
        CaseFolder(name), folder_,
        fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }

  Json Config() const {
    return Json::parse(ASYRA_VALUE(ReadFile(Path("config.json"))));
  }
  void SetConfig(const Json& config) {
    ASYRA_CHECK_OK(WriteTextFile(Path("config.json"), config.dump()));
  }

  std::string Error(const std::map<std::string, int64_t>& sizes = {}) const {
    auto program = ImportHuggingFace(Path("config.json"), sizes);
    return program.ok() ? "" : std::string(MessageOf(program.status()));
  }

  // The error of the case's config.json with these fields.
  std::string ErrorWith(const std::string& name, const Json& fields) {
    fs::copy(CaseFolder(name) + "/config.json", folder_,
             fs::copy_options::overwrite_existing);
    Json config = Config();
    for (const auto& [key, value] : fields.items()) config[key] = value;
    SetConfig(config);
    return Error();
  }

  fs::path folder_;
};

TEST_F(HuggingFaceFiles, FieldsThatAreNotRightAreNamed) {
  EXPECT_THAT(ErrorWith("llama", {{"model_type", "deepseek_v3"}}),
              HasSubstr("config.json: model_type: is 'deepseek_v3', known are "
                        "gemma, gemma2, "));
  EXPECT_THAT(ErrorWith("llama", {{"hidden_size", nullptr}}),
              HasSubstr("config.json: hidden_size: is missing"));
  EXPECT_THAT(ErrorWith("llama", {{"num_hidden_layers", 2.5}}),
              HasSubstr("num_hidden_layers: is 2.5, it should be an integer "
                        "from 1 to 2^31"));
  EXPECT_THAT(ErrorWith("llama", {{"vocab_size", 0}}),
              HasSubstr("vocab_size: is 0, it should be an integer from 1"));
  EXPECT_THAT(
      ErrorWith("llama", {{"num_attention_heads", 5}, {"head_dim", nullptr}}),
      HasSubstr("num_attention_heads: is 5, hidden_size is 32"));
  EXPECT_THAT(ErrorWith("llama", {{"hidden_act", "snake"}}),
              HasSubstr("hidden_act: is 'snake', known are silu, "));
  EXPECT_THAT(ErrorWith("llama", {{"tie_word_embeddings", 1}}),
              HasSubstr("tie_word_embeddings: is 1, it should be true or"));
  EXPECT_THAT(ErrorWith("llama", {{"dtype", "int8"}}),
              HasSubstr("dtype: is 'int8', known are float64, "));
  EXPECT_THAT(ErrorWith("llama", {{"quantization_config", {{"bits", 4}}}}),
              HasSubstr("quantization_config: quantized weights are not"));
  EXPECT_THAT(
      ErrorWith("llama", {{"architectures", {"LlamaForTokenClassification"}}}),
      HasSubstr("architectures: is 'LlamaForTokenClassification'"));
  EXPECT_THAT(ErrorWith("gemma2", {{"layer_types", {"full_attention"}}}),
              HasSubstr("layer_types: are 1, num_hidden_layers is 3"));
  EXPECT_THAT(
      ErrorWith("gemma2",
                {{"layer_types",
                  {"full_attention", "full_attention", "linear_attention"}}}),
      HasSubstr("layer_types: 'linear_attention' is not known"));
  EXPECT_THAT(ErrorWith("gpt2", {{"add_cross_attention", true}}),
              HasSubstr("add_cross_attention: is true"));
}

TEST_F(HuggingFaceFiles, RopesThatAreNotRightAreNamed) {
  auto error = [&](const Json& rope) {
    return ErrorWith("llama", {{"rope_parameters", rope}});
  };
  EXPECT_THAT(error({{"rope_type", "spiral"}}),
              HasSubstr("rope_parameters.rope_type: is 'spiral', known are"));
  EXPECT_THAT(error({{"rope_type", "linear"}}),
              HasSubstr("rope_parameters.factor: is missing"));
  EXPECT_THAT(error({{"rope_type", "linear"}, {"factor", -1}}),
              HasSubstr("rope_parameters.factor: is -1, it should be a number "
                        "above 0"));
  EXPECT_THAT(error({{"rope_type", "longrope"},
                     {"long_factor", {1, 2}},
                     {"short_factor", {1}}}),
              HasSubstr("rope_parameters.short_factor: is [1], it should be a "
                        "list of 4 numbers above 0"));
  EXPECT_THAT(error({{"partial_rotary_factor", 3}}),
              HasSubstr("partial_rotary_factor: is 3, it rotates 24 of 8"));
  EXPECT_THAT(error("yarn"), HasSubstr("rope_parameters: is not an object"));
}

TEST_F(HuggingFaceFiles, SizesThatAreNotRightAreNamed) {
  Copy("gpt2");
  EXPECT_THAT(Error({{"hidden", 3}}),
              HasSubstr("no size hidden, it has batch, seq, layers, logits; "
                        "others are in config.json"));
  EXPECT_THAT(Error({{"batch", 0}}), HasSubstr("batch is 0"));
  EXPECT_THAT(Error({{"layers", 5000}}), HasSubstr("layers is 5000, it"));
  EXPECT_THAT(Error({{"seq", 65}}),
              HasSubstr("seq is 65, the model has 64 positions"));
  EXPECT_THAT(Error({{"layers", 3}}),
              HasSubstr("there is no tensor transformer.h.2.ln_1.weight"));
  EXPECT_EQ(Error({{"layers", 1}, {"logits", 1}}), "");
}

TEST_F(HuggingFaceFiles, TensorsThatAreNotRightAreNamed) {
  Copy("mixtral");
  std::string path = Path("model.safetensors");
  auto all = ASYRA_VALUE(ReadWeights(path));
  std::string expert = "model.layers.1.block_sparse_moe.experts.2.w3.weight";
  auto write = [&](const Tensor* changed) {
    WeightStore some;
    for (const auto& [name, tensor] : *all) {
      if (name != expert) some.Set(name, tensor);
    }
    if (changed != nullptr) some.Set(expert, *changed);
    ASYRA_CHECK_OK(WriteWeights(some, path));
    return Error();
  };
  EXPECT_THAT(write(nullptr), HasSubstr("there is no tensor " + expert));
  Tensor small(DType::kF32, {3, 2});
  EXPECT_THAT(write(&small), HasSubstr(expert + " is f32[3,2], the model takes "
                                                "floats of [48,32]"));
  Tensor integers(DType::kI64, {48, 32});
  EXPECT_THAT(write(&integers), HasSubstr(expert + " is i64[48,32]"));
  EXPECT_EQ(write(all->Find(expert)), "");
}

TEST_F(HuggingFaceFiles, AnIndexSaysWhichFileHasATensor) {
  Copy("qwen3");
  auto all = ASYRA_VALUE(ReadWeights(Path("model.safetensors")));
  WeightStore parts[2];
  Json map;
  int i = 0;
  for (const auto& [name, tensor] : *all) {
    map[name] = fmt::format("part{}.safetensors", i % 2);
    parts[i++ % 2].Set(name, tensor);
  }
  for (int part : {0, 1}) {
    ASYRA_CHECK_OK(WriteWeights(parts[part],
                                Path(fmt::format("part{}.safetensors", part))));
  }
  fs::remove(Path("model.safetensors"));
  auto index = [&](const Json& text) {
    ASYRA_CHECK_OK(
        WriteTextFile(Path("model.safetensors.index.json"), text.dump()));
    return Error();
  };
  EXPECT_EQ(index({{"weight_map", map}}), "");
  EXPECT_LT(ErrorOf(folder_, folder_), 1e-5);
  EXPECT_THAT(index({{"map", map}}), HasSubstr("it has no weight_map"));
  map["lm_head.weight"] = "../config.json";
  EXPECT_THAT(index({{"weight_map", map}}),
              HasSubstr("lm_head.weight is in '../config.json', it should be"));
  map["lm_head.weight"] = "part7.safetensors";
  EXPECT_THAT(index({{"weight_map", map}}), HasSubstr("part7.safetensors"));
  map["lm_head.weight"] = map["model.norm.weight"];
  std::string other = "part0.safetensors";
  if (map["model.norm.weight"] == other) other = "part1.safetensors";
  map["model.norm.weight"] = other;
  EXPECT_THAT(index({{"weight_map", map}}),
              HasSubstr("should be in " + other + ", which has no such"));
}

TEST_F(HuggingFaceFiles, NamesMayLackThePrefixOrHaveAnother) {
  for (std::string prefix : {"", "language_model.model."}) {
    Copy("gemma3");
    auto all = ASYRA_VALUE(ReadWeights(Path("model.safetensors")));
    WeightStore renamed;
    for (const auto& [name, tensor] : *all) {
      renamed.Set(prefix + name.substr(std::string("model.").size()), tensor);
    }
    ASYRA_CHECK_OK(WriteWeights(renamed, Path("model.safetensors")));
    Json text = Config();
    if (!prefix.empty()) {
      SetConfig({{"model_type", "gemma3"}, {"text_config", text}});
    }
    EXPECT_LT(ErrorOf(folder_, folder_), 1e-5) << prefix;
  }
}

TEST_F(HuggingFaceFiles, WithoutWeightsItIsAShapeAlone) {
  SetConfig({{"model_type", "llama"},
             {"hidden_size", 16384},
             {"intermediate_size", 53248},
             {"num_hidden_layers", 126},
             {"num_attention_heads", 128},
             {"num_key_value_heads", 8},
             {"vocab_size", 128256}});
  Program program =
      ASYRA_VALUE(ImportHuggingFace(Path("config.json"), {{"seq", 64}}));
  int64_t params = 0;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    if (IsWeight(input) && !name.starts_with("rotary.")) {
      params += program.type(input.value).num_elements();
    }
  }
  EXPECT_EQ(params, 405'853'388'800);  // as published
  EXPECT_EQ(program.type(program.outputs[0].value).dtype, DType::kBF16);
}

// Files as they were written before rope_parameters and dtype.
TEST_F(HuggingFaceFiles, OldSpellingsMeanTheSame) {
  auto logits_of = [&](const std::string& name, const Json& fields) {
    Copy(name);
    Json config = Config();
    for (const char* key : {"rope_parameters", "layer_types"}) {
      config.erase(key);
    }
    config.erase("dtype");
    config["torch_dtype"] = "float32";
    for (const auto& [key, value] : fields.items()) config[key] = value;
    SetConfig(config);
    return ErrorOf(folder_, folder_);
  };
  EXPECT_LT(logits_of("llama", {{"rope_theta", 10000},
                                {"rope_scaling",
                                 {{"type", "llama3"},
                                  {"factor", 8},
                                  {"low_freq_factor", 1},
                                  {"high_freq_factor", 4},
                                  {"original_max_position_embeddings", 16}}}}),
            1e-5);
  EXPECT_LT(logits_of("qwen2", {{"rope_scaling",
                                 {{"type", "yarn"},
                                  {"factor", 4},
                                  {"original_max_position_embeddings", 16}}}}),
            1e-5);
  EXPECT_LT(logits_of("gemma2", {}), 1e-5);
  EXPECT_LT(logits_of("gemma3", {{"sliding_window_pattern", 3},
                                 {"rope_theta", 10000},
                                 {"rope_local_base_freq", 1000},
                                 {"rope_scaling",
                                  {{"rope_type", "linear"}, {"factor", 8}}}}),
            1e-5);
  EXPECT_LT(
      logits_of("gpt_neox", {{"rotary_pct", 0.25}, {"rotary_emb_base", 10000}}),
      1e-5);
}

TEST_F(HuggingFaceFiles, ExportsAreReadBack) {
  for (const char* name : {"qwen3_moe", "gpt2", "phi3"}) {
    Copy(name);
    Program program =
        ASYRA_VALUE(ImportHuggingFace(Path("config.json"), kRecordedSizes));
    WeightStore doubled;
    for (const auto& [weight, tensor] : *program.weights) {
      if (weight.starts_with("rotary.")) continue;
      std::vector<double> values = ASYRA_VALUE(ReadWhole(tensor)).ToDoubles();
      for (double& value : values) value *= 2;
      doubled.Set(weight,
                  Tensor::FromDoubles(DType::kF32, tensor.shape(), values));
    }
    std::string to = Path("export");
    ASYRA_CHECK_OK(ExportHuggingFace(Path("config.json"), doubled, to));
    auto was = ASYRA_VALUE(ReadWeights(Path("model.safetensors")));
    auto is = ASYRA_VALUE(ReadWeights(to + "/model.safetensors"));
    ASSERT_EQ(is->size(), was->size()) << name;
    for (const auto& [tensor_name, tensor] : *was) {
      const Tensor* twice = is->Find(tensor_name);
      ASSERT_NE(twice, nullptr) << tensor_name;
      EXPECT_EQ(twice->dtype(), tensor.dtype()) << tensor_name;
      ASSERT_EQ(twice->shape(), tensor.shape()) << tensor_name;
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        ASSERT_EQ(twice->Get(i), 2 * tensor.Get(i)) << tensor_name;
      }
    }
    EXPECT_EQ(ASYRA_VALUE(ReadFile(to + "/config.json")),
              ASYRA_VALUE(ReadFile(Path("config.json"))));
  }
}

TEST_F(HuggingFaceFiles, ExportsWithoutOwnFilesHaveTheFamilysNames) {
  SetConfig(Json::parse(
      ASYRA_VALUE(ReadFile(CaseFolder("mixtral") + "/config.json"))));
  Program program =
      ASYRA_VALUE(ImportHuggingFace(Path("config.json"), kRecordedSizes));
  auto all =
      ASYRA_VALUE(ReadWeights(CaseFolder("mixtral") + "/model.safetensors"));
  WeightStore given;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    if (!IsWeight(input)) continue;
    given.Set(program.value_name(input.value),
              Tensor(type.dtype, type.shape()));
  }
  ASYRA_CHECK_OK(ExportHuggingFace(Path("config.json"), given, Path("export")));
  auto is = ASYRA_VALUE(ReadWeights(Path("export") + "/model.safetensors"));
  EXPECT_EQ(is->size(), all->size());
  for (const auto& [name, tensor] : *all) {
    ASSERT_NE(is->Find(name), nullptr) << name;
    EXPECT_EQ(is->Find(name)->shape(), tensor.shape()) << name;
  }
  WeightStore none;
  absl::Status status =
      ExportHuggingFace(Path("config.json"), none, Path("other"));
  EXPECT_THAT(MessageOf(status),
              HasSubstr("there is no value for model.embed_tokens.weight"));
  EXPECT_FALSE(fs::exists(Path("other")));
}

// Fields of any value give a program that verifies, or an error.
TEST_F(HuggingFaceFiles, AnyFieldsAreTakenOrRefused) {
  constexpr unsigned kSeed = 20261130;
  constexpr int kRounds = 3000;
  std::mt19937 random(kSeed);
  auto below = [&](size_t limit) { return random() % limit; };
  const Json values[] = {0,
                         1,
                         2,
                         3,
                         -1,
                         1.5,
                         1e300,
                         "silu",
                         "",
                         true,
                         false,
                         nullptr,
                         128,
                         1 << 30,
                         Json::array(),
                         Json::object(),
                         {1, "x"},
                         {{"rope_type", "yarn"}}};
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(CaseFolder(""))) {
    folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());  // the same cases by one seed
  std::vector<Json> configs;
  for (const fs::path& folder : folders) {
    configs.push_back(
        Json::parse(ASYRA_VALUE(ReadFile(folder / "config.json"))));
  }
  int taken = 0;
  for (int round = 0; round < kRounds; ++round) {
    Json config = configs[below(configs.size())];
    for (size_t change = 0; change <= below(2); ++change) {
      auto field = config.begin();
      std::advance(field, below(config.size()));
      *field = values[below(std::size(values))];
    }
    absl::StatusOr<FamilyModel> model = ReadFamily(config, {{"seq", 8}});
    if (!model.ok()) continue;
    absl::StatusOr<Program> program = BuildDecoder(model->decoder);
    if (!program.ok()) continue;
    EXPECT_TRUE(Verify(*program).ok()) << config << Verify(*program);
    ++taken;
  }
  EXPECT_GT(taken, kRounds / 10);
  EXPECT_LT(taken, kRounds);
  std::printf("seed %u: %d of %d files taken\n", kSeed, taken, kRounds);
}

TEST(MadeTensors, AreReadInParts) {
  std::vector<double> numbers;
  for (int i = 0; i < 6; ++i) numbers.push_back(i + 1.0 / 3);
  Tensor a = Tensor::FromDoubles(DType::kF32, {2, 3}, numbers);
  Tensor b = a.Slice(0, 1, 1), c = a.Slice(0, 0, 1);
  Tensor stacked = StackedTensor({b, c});
  EXPECT_EQ(stacked.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(stacked.data(), nullptr);
  Tensor rounded = RoundedTensor(stacked, DType::kBF16);
  Tensor whole = ASYRA_VALUE(ReadWhole(rounded));
  for (int i = 0; i < 6; ++i) {
    Tensor one = Tensor::FromDoubles(DType::kBF16, {1}, {a.Get((i + 3) % 6)});
    EXPECT_EQ(whole.Get(i), one.Get(0));
  }
  // Any bytes, as those that take samples read.
  for (int64_t at = 0; at < whole.bytes(); ++at) {
    for (int64_t size = 1; at + size <= whole.bytes(); ++size) {
      std::vector<std::byte> bytes(size);
      ASYRA_CHECK_OK(rounded.source()->Read(at, absl::MakeSpan(bytes)));
      EXPECT_EQ(std::memcmp(bytes.data(), whole.data() + at, size), 0);
    }
  }
}

}  // namespace
}  // namespace asyra
