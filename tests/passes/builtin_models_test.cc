// A built-in model is what the same architecture, exported and raised, comes
// to: op by op.
#include <map>
#include <set>

#include "absl/strings/str_split.h"
#include "frontends/onnx/import.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "models/decoder.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"

namespace asyra {
namespace {

// Exporters round scales and epsilons to the model's element type.
std::string Rounded(const AttrMap& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs) {
    const double* number = std::get_if<double>(&value);
    text += fmt::format(" {}={}", name,
                        number != nullptr ? fmt::format("{:.1e}", *number)
                                          : ToString(value, Mesh{}));
  }
  return text;
}

// Every op of a program as "name attributes (operands) : types", operands by
// the number of the op that defines them, or the type of the input; equal ops
// have equal numbers. Addends in any order. The tables of rotary, which an
// export computes and a built-in model is given, count by type.
class Description {
 public:
  explicit Description(const Program& program) : program_(program) {
    for (const Op& op : program.ops) {
      for (ValueId result : op.results) def_[result] = &op;
    }
    for (const Output& output : program.outputs) Describe(output.value);
  }

  const std::multiset<std::string>& ops() const { return ops_; }

 private:
  std::string TypeOf(ValueId value) const {
    return ToString(program_.type(value), program_.mesh);
  }

  size_t Describe(ValueId value) {
    auto def = def_.find(value);
    if (def == def_.end()) return std::hash<std::string>()(TypeOf(value));
    auto [known, inserted] = known_.emplace(value, 0);
    if (!inserted) return known->second;
    const Op& op = *def->second;
    std::vector<std::string> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      bool table = op.def->name == "rotary" && i > 0;
      operands.push_back(
          fmt::format("{} {:x}", TypeOf(op.operands[i]),
                      table ? 0 : Describe(op.operands[i]) & 0xffffffff));
    }
    if (op.def->name == "add") std::sort(operands.begin(), operands.end());
    std::string text =
        fmt::format("{}{} ({}) : {}", op.def->name, Rounded(op.attrs),
                    fmt::join(operands, ", "), TypeOf(op.results[0]));
    ops_.insert(text);
    size_t number = std::hash<std::string>()(text);
    for (size_t i = 0; i < op.results.size(); ++i) {
      known_[op.results[i]] = number + i;
    }
    return known_[value];
  }

  const Program& program_;
  std::map<ValueId, const Op*> def_;
  std::map<ValueId, size_t> known_;
  std::multiset<std::string> ops_;
};

// An export and the built-in model of its sizes.
struct Pair {
  std::string name;
  std::string onnx;
  std::map<std::string, int64_t> dims;
  absl::StatusOr<Program> (*build)();
  friend std::ostream& operator<<(std::ostream& out, const Pair& pair) {
    return out << pair.name;
  }
};

class SameModel : public testing::TestWithParam<Pair> {};

// The first few that `a` has and `b` has not.
std::string OnlyIn(const std::multiset<std::string>& a,
                   const std::multiset<std::string>& b) {
  std::vector<std::string> only;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(only));
  if (only.size() > 5) only.resize(5);
  return fmt::format("{}", fmt::join(only, "\n"));
}

TEST_P(SameModel, OpByOp) {
  const Pair& pair = GetParam();
  Program imported = ASYRA_VALUE(ImportOnnx(
      ASYRA_SOURCE_DIR "/models/" + pair.onnx + "/model.onnx", {pair.dims}));
  Program built = ASYRA_VALUE(pair.build());
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(imported, RaisePasses(), context));
  Description of_imported(imported), of_built(built);
  EXPECT_EQ(of_built.ops().size(), built.ops.size());
  EXPECT_EQ(OnlyIn(of_imported.ops(), of_built.ops()),
            OnlyIn(of_built.ops(), of_imported.ops()));
}

// transformers' default epsilon, which the exports have.
absl::StatusOr<Program> WithEps(std::string_view name) {
  DecoderConfig config = ASYRA_VALUE(BuiltinDecoder(name, {}));
  config.eps = 1e-6;
  return BuildDecoder(config);
}

INSTANTIATE_TEST_SUITE_P(
    BuiltinModels, SameModel,
    testing::Values(Pair{"llama3_8b",
                         "llama3-8b-op23",
                         {{"batch", 2}, {"seq", 8192}},
                         [] { return WithEps("llama3-8b"); }},
                    Pair{"llama3_70b",
                         "llama3-70b-op23",
                         {{"batch", 2}, {"seq", 8192}},
                         [] { return WithEps("llama3-70b"); }},
                    Pair{"gpt3_6_7b",
                         "gpt3-6.7b-op18",
                         {{"batch", 2}, {"seq", 2048}},
                         [] { return BuiltinModel("gpt3-6.7b", {}); }}),
    [](const auto& info) { return info.param.name; });

TEST(BuiltinModels, AllAreValid) {
  std::vector<std::string> names = absl::StrSplit(BuiltinModelNames(), ", ");
  for (const std::string& name : names) {
    absl::StatusOr<Program> program = BuiltinModel(name, {{"layers", 2}});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(Verify(*program).ok()) << name << ": " << Verify(*program);
  }
}

int64_t Parameters(std::string_view name) {
  Program program = ASYRA_VALUE(BuiltinModel(name, {}));
  int64_t count = 0;
  for (const Input& input : program.inputs) {
    // Tables of angles are computed, not learnt.
    if (input.role != InputRole::kWeight ||
        program.value_name(input.value).starts_with("rotary.")) {
      continue;
    }
    count += program.type(input.value).num_elements();
  }
  return count;
}

// As their papers and model cards say.
TEST(BuiltinModels, HaveAsManyParametersAsTheOnesTheyAreNamedAfter) {
  EXPECT_EQ(Parameters("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(Parameters("llama3-70b"), 70'553'706'496);
  EXPECT_EQ(Parameters("qwen3-30b-a3b"), 30'532'122'624);
  // 47 more rows of vocabulary, and other positions than OpenAI's: GPT-2
  // small has 124,439,808 with 50257 words and 1024 positions.
  EXPECT_EQ(Parameters("gpt2-124m"), 124'439'808 + 47 * int64_t{768});
  EXPECT_EQ(Parameters("gpt3-125m"), 124'439'808 + (47 + 1024) * int64_t{768});
  EXPECT_NEAR(static_cast<double>(Parameters("gpt3-175b")), 175e9, 1e9);
}

TEST(BuiltinModels, GiveTheLogitsOfTheLastTokens) {
  for (const char* name : {"gpt3-tiny", "llama3-tiny", "qwen3-moe-tiny"}) {
    SCOPED_TRACE(name);
    absl::StatusOr<Program> program =
        BuiltinModel(name, {{"batch", 2}, {"seq", 16}, {"logits", 1}});
    ASSERT_TRUE(program.ok()) << program.status();
    Type logits = program->type(program->outputs[0].value);
    EXPECT_EQ(logits.size(0), 2);
    EXPECT_EQ(logits.size(1), 1);
    EXPECT_FALSE(BuiltinModel(name, {{"seq", 16}, {"logits", 17}}).ok());
  }
}

TEST(BuiltinModels, SayWhichSizesTheyHave) {
  EXPECT_EQ(
      MessageOf(BuiltinModel("gpt3-tiny", {{"experts", 4}}).status()),
      "gpt3-tiny: no size experts, it has batch, seq, layers, hidden, heads, "
      "vocabulary, logits, positions");
  EXPECT_EQ(MessageOf(BuiltinModel("gpt3-tiny", {{"seq", 65}}).status()),
            "gpt3-tiny: seq is 65, the model has 64 positions");
  EXPECT_EQ(MessageOf(BuiltinModel("llama3-tiny", {{"heads", 7}}).status()),
            "llama3-tiny: hidden is 64, not a multiple of 7 heads");
  EXPECT_EQ(MessageOf(BuiltinModel("llama3-tiny", {{"kv_heads", 3}}).status()),
            "llama3-tiny: attention: 8 query heads are not a multiple of 3 key "
            "heads");
}

}  // namespace
}  // namespace asyra
