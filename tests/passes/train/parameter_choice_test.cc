#include "passes/train/parameter_choice.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "passes/train/mark_params.h"
#include "passes/train/parameters.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

struct Chosen {
  std::string parameters;
  std::vector<std::string> notes;
};

absl::StatusOr<Chosen> ChosenOf(const Program& program,
                                const ParameterChoice& choice) {
  Chosen chosen;
  ASYRA_ASSIGN_OR_RETURN(
      WeightRoles roles,
      Choose(program, FindParameters(program), choice, &chosen.notes));
  std::vector<std::string> names;
  for (const Parameter& one : roles.parameters) {
    names.push_back(program.value_name(one.value));
  }
  chosen.parameters = absl::StrJoin(names, " ");
  return chosen;
}

std::string ErrorOf(const Program& program, const ParameterChoice& choice) {
  return std::string(MessageOf(ChosenOf(program, choice).status()));
}

Program TwoMatrices() {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,4]
    weight a.w f32[4,4]
    weight a.w.1 f32[4,4]
    weight b.w f32[4,4]
    weight running_mean f32[4]
    weight unread f32[4]
    h = matmul(x, a.w)
    g = matmul(h, a.w.1)
    i = sub(g, running_mean)
    y = matmul(i, b.w)
    out y)"));
  // Two parts of one tensor of the file.
  for (int i : {0, 1}) {
    auto origin = std::make_shared<WeightOrigin>();
    origin->tensor = "model/a.w";
    origin->shape = {4, 8};
    origin->cuts.push_back({{4, 8}, 1, 4 * i, 4});
    program.inputs[1 + i].origin = origin;
  }
  return program;
}

TEST(Choose, NamesAreThoseOfTheFile) {
  Program program = TwoMatrices();
  EXPECT_EQ(ASYRA_VALUE(ChosenOf(program, {})).parameters, "a.w a.w.1 b.w");
  EXPECT_EQ(ASYRA_VALUE(ChosenOf(program, {.freeze = "model/a.*"})).parameters,
            "b.w");
  // The program's names are known too.
  EXPECT_EQ(ASYRA_VALUE(ChosenOf(program, {.freeze = "a\\.w"})).parameters,
            "a.w.1 b.w");
}

TEST(Choose, AnAlternativeThatMatchesNothingIsSaid) {
  Chosen chosen =
      ASYRA_VALUE(ChosenOf(TwoMatrices(), {.freeze = "b\\.w|c|(d|e)"}));
  EXPECT_EQ(chosen.parameters, "a.w a.w.1");
  EXPECT_THAT(chosen.notes,
              testing::ElementsAre("freeze: no weight is called c",
                                   "freeze: no weight is called (d|e)"));
}

TEST(Choose, AnAlternativeThatChangesNothingIsSaid) {
  auto notes = [](const ParameterChoice& choice) {
    return ASYRA_VALUE(ChosenOf(TwoMatrices(), choice)).notes;
  };
  EXPECT_THAT(notes({.train = "b\\.w|running_.*"}),
              testing::ElementsAre("train: b\\.w changes nothing: what it "
                                   "matches is trained anyway"));
  EXPECT_THAT(notes({.freeze = "running_.*|a.*"}),
              testing::ElementsAre("freeze: running_.* changes nothing: what "
                                   "it matches is not trained anyway"));
}

TEST(Choose, ConstantsAreTrainedOnRequest) {
  EXPECT_EQ(
      ASYRA_VALUE(ChosenOf(TwoMatrices(), {.train = "running_.*"})).parameters,
      "a.w a.w.1 b.w running_mean");
}

TEST(Choose, RefusesWhatCannotBe) {
  Program program = TwoMatrices();
  EXPECT_EQ(ErrorOf(program, {.freeze = "a"}),
            "freeze: none of the 5 float weights is called a");
  EXPECT_EQ(ErrorOf(program, {.train = "a"}),
            "train: none of the 5 float weights is called a");
  EXPECT_EQ(ErrorOf(program, {.freeze = ".*"}),
            "freeze: .* matches all 3 parameters, nothing is trained");
  EXPECT_EQ(ErrorOf(program, {.train = "unread"}),
            "train: unread: nothing with a slope leads from them to a float "
            "output");
  EXPECT_EQ(ErrorOf(program, {.train = "b.w", .freeze = "b.*"}),
            "b.w: both train (b.w) and freeze (b.*) match it");
  EXPECT_NE(ErrorOf(program, {.freeze = "(a"}), "");
}

// Two halves of cos and sin that a pass has computed: of the file's
// frequencies, or of none of its tensors.
Program Rotation(std::string_view tensor) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,6,3,4]
    weight w f32[4,4]
    weight c.table f32[6,2]
    weight s.table f32[6,2]
    h = matmul(x, w)
    y = rotary(h, c.table, s.table)
    out y)"));
  for (int i : {2, 3}) {
    Input& input = program.inputs[i];
    input.origin = std::make_shared<WeightOrigin>(
        WeightOrigin{.tensor = tensor.empty() ? program.value_name(input.value)
                                              : std::string(tensor),
                     .shape = {6, 2},
                     .made = true});
  }
  return program;
}

TEST(MarkParams, NamesTheTensorThatTablesAreComputedFrom) {
  for (std::string_view tensor : {"inv_freq", ""}) {
    Program program = Rotation(tensor);
    PassContext context;
    PassOptions options;
    options.Set("train", std::string());
    options.Set("freeze", std::string());
    ASSERT_TRUE(MarkParams(program, options, context).value());
    EXPECT_EQ(absl::StrJoin(context.remarks, "\n"),
              tensor.empty()
                  ? ""
                  : "not trained: inv_freq (tables of rotary embedding)");
  }
  EXPECT_EQ(ErrorOf(Rotation("inv_freq"), {.train = "inv_freq"}),
            "train: inv_freq: tables of rotary embedding, which are computed "
            "before the step");
}

}  // namespace
}  // namespace asyra
