// Masks of right-padded rows and their lengths give the same results and
// gradients, for the spellings of exporters and on every mesh; other rows are
// errors, and other masks stay.
#include "passes/raise/masks_as_lengths.h"

#include <random>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/ops/attention.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/pass_manager.h"
#include "tests/support/fixture.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMaskKeys = 6;

// `body` computes %mask of %m; ATTRS are of the attention. %bool, %real and
// %ahead are what exporters begin with.
struct Spelling {
  const char* what;
  const char* type;  // of %m
  const char* body;  // %mask
  const char* attrs;
  int64_t least = 0;  // ones that each row must have
  const char* extra = "";
};

constexpr char kMaskedAttention[] = R"(asyra 1 global
program @f(%q: f64[4, 6, 4, 3] param, %k: f64[4, 6, 2, 3] param,
    %v: f64[4, 6, 2, 5] param, %sinks: f64[4] param, %m: TYPE) ->
    (f64[], f64[], f64[4, 6, 4, 5]) {
  %zero = constant() {value=f32[](0)} : f32[]
  %one = constant() {value=f32[](1)} : f32[]
  %least = constant() {value=f32[](-3.4028234663852886e38)} : f32[]
  %never = constant() {value=f32[](-inf)} : f32[]
  %i = iota() {shape=[1, 1, 6, 6], dim=2, dtype=i64} : i64[1, 1, 6, 6]
  %j = iota() {shape=[1, 1, 6, 6], dim=3, dtype=i64} : i64[1, 1, 6, 6]
  %behind = less_equal(%j, %i) : bool[1, 1, 6, 6]
  %triangle = select(%behind, %zero, %least) : f32[1, 1, 6, 6]
BODY
  %y = attention(%q, %k, %v, %mask EXTRA) {scale=0.5 ATTRS} : f64[4, 6, 4, 5]
  %weight = iota() {shape=[6, 4, 5], dim=1, dtype=f64} : f64[6, 4, 5]
  %weighed = mul(%y, %weight) : f64[4, 6, 4, 5]
  %squares = mul(%weighed, %y) : f64[4, 6, 4, 5]
  %loss = reduce_sum(%squares) {dims=[0, 1, 2, 3], keep=false} : f64[]
  %count = constant() {value=f64[](1)} : f64[]
  return %loss as "loss_sum", %count as "loss_count", %y
})";

constexpr char kAsBool[] = R"(
  %bool = cast(%m) {to=bool} : bool[4, 6]
  %mask = reshape(%bool) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6])";

// (1 - m) * lowest, as encoders have it.
constexpr char kTimesLowest[] = R"(
  %rows = reshape(%m) {shape=[4, 1, 1, 6]} : i64[4, 1, 1, 6]
  %real = cast(%rows) {to=f32} : f32[4, 1, 1, 6]
  %padding = sub(%one, %real) : f32[4, 1, 1, 6]
  %mask = mul(%padding, %least) : f32[4, 1, 1, 6])";

// A triangle, filled again where the sum with the mask is 0.
constexpr char kFilledTwice[] = R"(
  %rows = reshape(%m) {shape=[4, 1, 1, 6]} : i64[4, 1, 1, 6]
  %real = cast(%rows) {to=f32} : f32[4, 1, 1, 6]
  %all = broadcast(%triangle) {shape=[4, 1, 6, 6]} : f32[4, 1, 6, 6]
  %sum = add(%all, %real) : f32[4, 1, 6, 6]
  %hole = equal(%sum, %zero) : bool[4, 1, 6, 6]
  %mask = select(%hole, %least, %all) : f32[4, 1, 6, 6])";

constexpr char kChosen[] = R"(
  %bool = cast(%m) {to=bool} : bool[4, 6]
  %chosen = select(%bool, %zero, %never) : f32[4, 6]
  %mask = reshape(%chosen) {shape=[4, 1, 1, 6]} : f32[4, 1, 1, 6])";

constexpr char kBothInOne[] = R"(
  %bool = cast(%m) {to=bool} : bool[4, 6]
  %rows = reshape(%bool) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6]
  %mask = and(%rows, %behind) : bool[4, 1, 6, 6])";

constexpr char kOfOneRow[] = R"(
  %bool = cast(%m) {to=bool} : bool[1, 6]
  %mask = reshape(%bool) {shape=[1, 1, 1, 6]} : bool[1, 1, 1, 6])";

constexpr char kTurnedMask[] = R"(
  %t = transpose(%m) {perm=[1, 0]} : bool[6, 4]
  %rows = reshape(%t) {shape=[1, 6, 1, 4]} : bool[1, 6, 1, 4]
  %mask = transpose(%rows) {perm=[3, 0, 2, 1]} : bool[4, 1, 1, 6])";

constexpr Spelling kSpellings[] = {
    {"bool, hidden by -inf", "i64[4, 6]", kAsBool, ""},
    {"rows without a key give NaN", "i64[4, 6]", kAsBool,
     ", empty_is_nan=true"},
    {"causal", "i32[4, 6]", kAsBool, ", causal=true"},
    {"hidden by a number", "i64[4, 6]", kAsBool,
     ", causal=true, hidden=-3.4028234663852886e38", 1},
    {"a window, hidden by a number", "i64[4, 6]", kAsBool,
     ", window=2, hidden=-1e9"},
    {"a causal window, hidden by a number", "f32[4, 6]", kAsBool,
     ", causal=true, window=3, hidden=-1e9"},
    {"a window that hides nothing", "i64[4, 6]", kAsBool,
     ", window=6, hidden=-1e9", 1},
    {"beside sinks", "i64[4, 6]", kAsBool, ", window=2, hidden=-1e9", 0,
     ", %sinks"},
    {"a window on both sides", "bool[4, 6]", kTurnedMask,
     ", window=2, window_after=2"},
    {"times the lowest", "i64[4, 6]", kTimesLowest, "", 1},
    {"times the lowest, causal", "i64[4, 6]", kTimesLowest, ", causal=true", 1},
    {"a triangle filled twice", "i64[4, 6]", kFilledTwice, "", 1},
    {"chosen, -inf", "i64[4, 6]", kChosen, ", causal=true"},
    {"both in one", "i64[4, 6]", kBothInOne, ""},
    {"both in one, softcap", "i64[4, 6]", kBothInOne,
     ", softcap=2.0, hidden=-1e9", 1},
    {"a row for all", "i64[1, 6]", kOfOneRow, ", causal=true"},
};

Program MaskedProgram(const Spelling& spelling) {
  return ParseVerified(
      absl::StrReplaceAll(kMaskedAttention, {{"BODY", spelling.body},
                                             {"TYPE", spelling.type},
                                             {"EXTRA", spelling.extra},
                                             {"ATTRS", spelling.attrs}}));
}

struct MaskOutcome {
  Program program;
  std::vector<std::string> remarks;
};

MaskOutcome AfterPasses(Program program, std::string_view passes) {
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(program, passes, context));
  return {std::move(program), std::move(context.remarks)};
}

const Op* FirstOp(const Program& program, std::string_view name) {
  for (const Op& op : program.ops) {
    if (op.def->name == name) return &op;
  }
  return nullptr;
}

ops::AttentionExtras ExtrasOfFirst(const Program& program) {
  const Op* op = FirstOp(program, "attention");
  return {program.OperandTypes(*op), ops::kFirstExtra};
}

Tensor PaddedMask(DType dtype, const std::vector<int64_t>& lengths) {
  std::vector<double> rows;
  for (int64_t length : lengths) {
    for (int64_t t = 0; t < kMaskKeys; ++t) rows.push_back(t < length ? 1 : 0);
  }
  return Tensor::FromDoubles(
      dtype, {static_cast<int64_t>(lengths.size()), kMaskKeys}, rows);
}

// Random numbers, and `mask`; the seed is fixed.
std::vector<Tensor> InputsWithMask(const Program& program, const Tensor& mask) {
  std::mt19937 random(7);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    if (program.value_name(input.value) == "m") {
      inputs.push_back(mask);
      continue;
    }
    std::vector<double> numbers(type.num_elements());
    for (double& number : numbers) {
      number = static_cast<double>(random() % 2000) / 1000 - 1;
    }
    inputs.push_back(Tensor::FromDoubles(type.dtype, type.shape(), numbers));
  }
  return inputs;
}

bool IsOfOneRow(const Spelling& spelling) {
  return std::string_view(spelling.type).find("[1,") != std::string_view::npos;
}

// Lengths that a step may have: `least` or more.
std::vector<std::vector<int64_t>> LengthsFor(const Spelling& spelling) {
  std::vector<std::vector<int64_t>> all;
  for (int64_t shortest : {spelling.least, int64_t{1}, int64_t{3}}) {
    all.push_back({kMaskKeys, shortest, 4, 2});
    all.push_back({shortest, kMaskKeys, kMaskKeys, 5});
  }
  if (IsOfOneRow(spelling)) {
    for (std::vector<int64_t>& lengths : all) lengths.resize(1);
  }
  return all;
}

DType TypeOfMask(const Program& program) {
  return program.type(program.inputs.back().value).dtype;
}

class Spellings : public testing::TestWithParam<Spelling> {
 protected:
  const Program before_ = MaskedProgram(GetParam());

  // Expects outputs of `after` to be those of `before`, for all lengths.
  void ExpectSame(const Program& before, const Program& after) {
    for (const std::vector<int64_t>& lengths : LengthsFor(GetParam())) {
      Tensor mask = PaddedMask(TypeOfMask(before), lengths);
      auto want = Interpret(before, InputsWithMask(before, mask));
      auto got = Interpret(after, InputsWithMask(after, mask));
      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(after);
      absl::Status same = SameOutputs(*want, *got, 1e-11);
      EXPECT_TRUE(same.ok()) << same << "\n" << ToString(after);
    }
  }
};

TEST_P(Spellings, GiveTheSameAsLengths) {
  Program after = AfterPasses(before_, "masks_as_lengths").program;
  EXPECT_GE(ExtrasOfFirst(after).lengths, 0) << ToString(after);
  EXPECT_LT(ExtrasOfFirst(after).mask, 0);
  const Op* lengths = FirstOp(after, "mask_lengths");
  ASSERT_NE(lengths, nullptr);
  EXPECT_EQ(lengths->attrs.Int("least"), GetParam().least);
  ExpectSame(before_, after);
}

// Rows, keys and heads over devices: rows of the mask are gathered along keys.
TEST_P(Spellings, GiveTheSameOverAMesh) {
  Program after = AfterPasses(before_, "masks_as_lengths").program;
  after.mesh = ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"sp", 2}, {"tp", 2}}));
  bool one_row = IsOfOneRow(GetParam());
  std::string seeds = "q=0@dp,1@sp,2@tp;k=0@dp,1@sp,2@tp;v=0@dp,1@sp,2@tp;";
  seeds += one_row ? "m=1@sp" : "m=0@dp,1@sp";
  after = AfterPasses(after,
                      "propagate_sharding{seeds=\"" + seeds + "\"}, partition")
              .program;
  EXPECT_NE(FirstOp(after, "all_gather"), nullptr);
  ExpectSame(before_, after);
}

// The log sums of rows whose scores are all -1e9 have lost their number of
// keys, so that masks are compared with such rows apart.
TEST_P(Spellings, GiveTheSameGradients) {
  ExpectSame(AfterPasses(before_, "average_blind_rows, differentiate").program,
             AfterPasses(before_, "masks_as_lengths, differentiate").program);
}

TEST_P(Spellings, RefuseOtherRows) {
  Program after = AfterPasses(before_, "masks_as_lengths").program;
  const bool is_bool = TypeOfMask(after) == DType::kBool;
  const int64_t rows = after.type(after.inputs.back().value).size(0);
  auto error = [&](int64_t at, double value) {
    Tensor mask = PaddedMask(TypeOfMask(after),
                             std::vector<int64_t>(rows, kMaskKeys - 2));
    mask.Set(at, value);
    auto outputs = Interpret(after, InputsWithMask(after, mask));
    return std::string(MessageOf(outputs.status()));
  };
  const int64_t row = rows - 1, first = row * kMaskKeys;
  std::string of = fmt::format("row {} of input m ", row);
  EXPECT_THAT(error(first, 0),
              HasSubstr(of + "has a 1 at place 1, behind a 0"));
  EXPECT_THAT(error(first + 5, 1),
              HasSubstr(of + "has a 1 at place 5, behind a 0: with --padding "
                             "right each row is ones, then zeros"));
  if (is_bool) return;
  EXPECT_THAT(error(first + 2, 2), HasSubstr(of + "has 2 at place 2"));
  EXPECT_THAT(error(first + 5, -1), HasSubstr(of + "has -1 at place 5"));
}

TEST_P(Spellings, NeedAKeyWhereOthersWouldShareTheRow) {
  Program after = AfterPasses(before_, "masks_as_lengths").program;
  const int64_t rows = after.type(after.inputs.back().value).size(0);
  Tensor mask = PaddedMask(TypeOfMask(after), std::vector<int64_t>(rows, 0));
  auto outputs = Interpret(after, InputsWithMask(after, mask));
  EXPECT_EQ(outputs.ok(), GetParam().least == 0) << outputs.status();
  if (outputs.ok()) return;
  EXPECT_THAT(std::string(MessageOf(outputs.status())),
              HasSubstr("row 0 of input m has a 0 at place 0, where it must "
                        "have a 1"));
}

INSTANTIATE_TEST_SUITE_P(Masks, Spellings, testing::ValuesIn(kSpellings),
                         [](const testing::TestParamInfo<Spelling>& info) {
                           return absl::StrReplaceAll(
                               info.param.what,
                               {{" ", "_"}, {",", ""}, {"-", "minus_"}});
                         });

struct Kept {
  const char* type;
  const char* body;
  const char* attrs;
  const char* why;
};

constexpr Kept kKept[] = {
    {"i64[4, 6]", R"(
  %bool = cast(%m) {to=bool} : bool[4, 6]
  %mask = reshape(%bool) {shape=[4, 1, 6, 1]} : bool[4, 1, 6, 1])",
     "", "hides queries, not keys"},
    // A row sees no key if its query is padding.
    {"i64[4, 6]", R"(
  %bool = cast(%m) {to=bool} : bool[4, 6]
  %a = reshape(%bool) {shape=[4, 1, 6, 1]} : bool[4, 1, 6, 1]
  %b = reshape(%bool) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6]
  %mask = and(%a, %b) : bool[4, 1, 6, 6])",
     "", "has no one element of %m for a key (%mask)"},
    {"f32[4, 1, 6, 6]", R"(
  %mask = cast(%m) {to=bool} : bool[4, 1, 6, 6])",
     "", "has rows of its own for each query in %m [4,1,6,6]"},
    // Inverted: a 1 hides.
    {"i64[4, 6]", R"(
  %bool = cast(%m) {to=bool} : bool[4, 6]
  %not = not(%bool) : bool[4, 6]
  %mask = reshape(%not) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6])",
     "", "hides no keys where %m is 0, or others where it is 1"},
    // -10000 is not beyond every score.
    {"f32[4, 6]", R"(
  %ten = constant() {value=f32[](-1e4)} : f32[]
  %padding = sub(%one, %m) : f32[4, 6]
  %low = mul(%padding, %ten) : f32[4, 6]
  %mask = reshape(%low) {shape=[4, 1, 1, 6]} : f32[4, 1, 1, 6])",
     "", "hides no keys where %m is 0, or others where it is 1"},
    // An added mask: rows behind the window keep their scores.
    {"i64[4, 6]", kTimesLowest, ", window=2",
     "hides keys by a finite number beside a window: rows may see no key"},
    {"i64[4, 6]", kFilledTwice, ", causal=true, offset=1",
     "hides no keys where %m is 0, or others where it is 1"},
    {"i64[4, 6]", kAsBool, ", hidden=-4.0",
     "hides no keys where %m is 0, or others where it is 1"},
    {"i64[6, 4]", R"(
  %bool = cast(%m) {to=bool} : bool[6, 4]
  %mask = reshape(%bool) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6])",
     "", "has no one element of %m for a key (%mask)"},
    {"i64[4, 6]", R"(
  %sums = cumsum(%m) {dim=1} : i64[4, 6]
  %bool = cast(%sums) {to=bool} : bool[4, 6]
  %mask = reshape(%bool) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6])",
     "", "is computed by cumsum (%sums)"},
    // Keys in another order than the input's.
    {"i64[4, 8]", R"(
  %part = slice(%m) {dim=1, start=2, stop=8} : i64[4, 6]
  %bool = cast(%part) {to=bool} : bool[4, 6]
  %mask = reshape(%bool) {shape=[4, 1, 1, 6]} : bool[4, 1, 1, 6])",
     "", "has no one element of %m for a key (%part)"},
};

TEST(MasksAsLengths, OthersStay) {
  for (const Kept& kept : kKept) {
    Spelling spelling = {"", kept.type, kept.body, kept.attrs};
    Program before = MaskedProgram(spelling);
    MaskOutcome outcome = AfterPasses(before, "masks_as_lengths");
    EXPECT_EQ(FirstOp(outcome.program, "mask_lengths"), nullptr);
    EXPECT_GE(ExtrasOfFirst(outcome.program).mask, 0);
    EXPECT_THAT(
        outcome.remarks,
        ElementsAre(fmt::format("%y keeps its mask, which {}", kept.why),
                    "padding right: no attention has a mask of one input of "
                    "zeros and ones"));
  }
}

TEST(MasksAsLengths, SaysWhatItDid) {
  MaskOutcome outcome =
      AfterPasses(MaskedProgram(kSpellings[0]), "masks_as_lengths");
  EXPECT_THAT(outcome.remarks,
              ElementsAre("padding right: attention takes lengths of the rows "
                          "of %m, which each step checks"));
  // Asked to say what it could do, it does nothing.
  MaskOutcome said = AfterPasses(MaskedProgram(kSpellings[0]),
                                 "masks_as_lengths{only_says=true}");
  EXPECT_EQ(ToString(said.program), ToString(MaskedProgram(kSpellings[0])));
  EXPECT_THAT(said.remarks,
              ElementsAre("attention has a mask from %m: if each row there is "
                          "ones, then zeros, --padding right makes it lengths, "
                          "which are faster"));
  // Nothing is left to do, and nothing is changed.
  outcome = AfterPasses(outcome.program, "masks_as_lengths");
  EXPECT_THAT(ToString(outcome.program), HasSubstr("mask_lengths"));
}

}  // namespace
}  // namespace asyra
