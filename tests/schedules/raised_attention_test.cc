// Masks of attention in the spellings of exporters, raised, as lengths and as
// they are: on the interpreter and on the cpu every row gives the same, those
// that see no key included, NaN where it gave NaN.
#include <array>
#include <map>

#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/raise/canonicalize.h"
#include "passes/raise/masks_as_lengths.h"
#include "passes/raise/raise_attention.h"
#include "tests/ir/op_case.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

struct Spelling {
  const char* name;
  // Of scores s, what is seen by position (seen), not padding (real), masks by
  // both (tri, pad), 0 (zero) and the hiding number (f), to scores m.
  const char* text;
  // Which of the two hide.
  bool causal = true, padding = true;
};

constexpr Spelling kSpellings[] = {
    {"selected at once", "b = and(seen, real)\n m = select(b, s, f)"},
    {"selected by their opposites",
     "x = not(seen)\n y = not(real)\n b = or(x, y)\n m = select(b, f, s)"},
    {"added at once",
     "b = and(seen, real)\n c = select(b, zero, f)\n m = add(s, c)"},
    {"padding selected outside",
     "a = select(seen, s, f)\n m = select(real, a, f)"},
    {"triangle selected outside",
     "a = select(real, s, f)\n m = select(seen, a, f)"},
    {"triangle added, padding selected",
     "a = add(s, tri)\n m = select(real, a, f)"},
    {"padding added, triangle selected",
     "a = add(s, pad)\n m = select(seen, a, f)"},
    {"triangle selected, padding added",
     "a = select(seen, s, f)\n m = add(a, pad)"},
    {"padding selected, triangle added",
     "a = select(real, s, f)\n m = add(a, tri)"},
    {"added one by one", "a = add(s, pad)\n m = add(a, tri)"},
    {"added together", "a = add(tri, pad)\n m = add(s, a)"},
    {"added and clamped",
     "a = add(tri, pad)\n b = add(s, a)\n low = -3.4028234663852886e38\n"
     "m = max(b, low)"},
    {"padding alone, added", "m = add(s, pad)", false},
    {"padding alone, selected", "m = select(real, s, f)", false},
    {"triangle alone, added", "m = add(s, tri)", true, false},
    {"triangle alone, selected", "m = select(seen, s, f)", true, false},
    {"with a bias inside",
     "a = add(s, bias)\n b = and(seen, real)\n m = select(b, a, f)"},
    {"with a bias between",
     "a = add(s, tri)\n b = add(a, bias)\n m = add(b, pad)"},
};

struct Padding {
  const char* name;
  const char* input;
  const char* text;  // gives `real` and `pad`
};

constexpr Padding kPaddings[] = {
    {"bool", "in given bool[3,1,1,T]",
     "real = reshape(given) {shape=[3,1,1,T]}\n pad = select(real, zero, f)"},
    {"integers, reshaped after the choice", "in given i64[3,T]",
     "flat = cast(given) {to=bool}\n chosen = select(flat, zero, f)\n"
     "real = reshape(flat) {shape=[3,1,1,T]}\n"
     "pad = reshape(chosen) {shape=[3,1,1,T]}"},
    {"floats, scaled", "in given f32[3,T]",
     "four = reshape(given) {shape=[3,1,1,T]}\n real = cast(four) {to=bool}\n"
     "one = 1.0\n left = sub(one, four)\n pad = mul(left, scale)"},
};

struct Sizes {
  int64_t queries, keys, offset;
};
constexpr Sizes kSizes[] = {{4, 4, 0}, {3, 5, 0}, {3, 5, 2}};
constexpr const char* kNumbers[] = {"-inf", "-3.4028234663852886e38", "-1e9",
                                    "-1e4"};

std::string TextOf(const Spelling& spelling, const Padding& padding,
                   const Sizes& sizes, const std::string& number, bool guard) {
  // 0 times infinity is NaN: a scaled mask has a finite number.
  std::string scale = number == "-inf" ? "-1e9" : number;
  std::string text = fmt::format(
      R"(
    in q f32[3,2,{0},4]
    in k f32[3,2,{1},4]
    in v f32[3,2,{1},4]
    {2}
    weight bias f32[2,{0},{1}]
    zero = 0.0
    f = {3}
    scale = {4}
    i0 = iota() {{shape=[1,1,{0},1], dim=2, dtype=i64}}
    offset = {5} i64
    i = add(i0, offset)
    j = iota() {{shape=[1,1,1,{1}], dim=3, dtype=i64}}
    seen = less_equal(j, i)
    tri = select(seen, zero, f)
    {6}
    s = matmul(q, k) {{transpose_b=true}}
    {7}
    w = softmax(m)
    {8}
    o = matmul(p, v)
    out o)",
      sizes.queries, sizes.keys, padding.input, number, scale, sizes.offset,
      padding.text, spelling.text,
      guard ? "n = is_nan(w)\n p = select(n, zero, w)"
            : "one0 = 1.0\n p = mul(w, one0)");
  for (size_t at; (at = text.find("T]")) != std::string::npos;) {
    text.replace(at, 1, std::to_string(sizes.keys));
  }
  return text;
}

// Tokens [first, end) of each of the three sequences; the others are padding.
using Tokens = std::array<std::pair<int64_t, int64_t>, 3>;
constexpr int64_t kAll = 99;
constexpr Tokens kAnywhere = {{{2, kAll}, {0, 2}, {0, 0}}};
constexpr Tokens kOnTheRight = {{{0, kAll}, {0, 2}, {0, 1}}};
constexpr Tokens kOneEmpty = {{{0, kAll}, {0, 0}, {0, 3}}};

// Scores are exact in f32, so that what a mask rounds them to does not depend
// on how they were summed.
std::vector<Tensor> Inputs(const Program& program, double amplitude,
                           const Tokens& tokens = kAnywhere) {
  std::uniform_int_distribution<int> small(-3, 3);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    const std::string& name = program.value_name(input.value);
    std::mt19937_64 random(Seed() + name[0]);  // raising drops what is unused
    Tensor tensor(type.dtype, type.shape());
    int64_t keys = type.size(type.rank() - 1);
    for (int64_t n = 0; n < tensor.num_elements(); ++n) {
      const auto [first, end] = tokens[n / keys % 3];
      bool real = n % keys >= first && n % keys < end;
      double x = small(random) * (name == "q" ? amplitude : 1);
      tensor.Set(n, name == "given" ? static_cast<double>(real) : x);
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

// With masks as lengths, `raised` gives what `before` gives where padding is on
// the right, and is an error elsewhere; true if there are lengths.
bool ExpectSameAsLengths(const Program& before, Program raised) {
  PassContext context;
  EXPECT_TRUE(MasksAsLengths(raised, {{"only_says", false}}, context).ok());
  if (CountOps(raised, "mask_lengths") == 0) return false;
  EXPECT_EQ(CountOps(raised, "attention"), 1);
  const std::string text = ToString(raised);
  auto run = [&](const Tokens& tokens) {
    return Interpret(raised, Inputs(raised, 0.25, tokens));
  };
  for (const Tokens& tokens : {kOnTheRight, kOneEmpty}) {
    auto got = run(tokens);
    bool needs_a_key = text.find("least=1") != std::string::npos;
    EXPECT_EQ(got.ok(), tokens == kOnTheRight || !needs_a_key) << got.status();
    if (!got.ok()) continue;
    Tensor want =
        ASYRA_VALUE(Interpret(before, Inputs(before, 0.25, tokens)))[0];
    EXPECT_TRUE(Near((*got)[0], want, 1e-5)) << text;
  }
  std::string error(MessageOf(run(kAnywhere).status()));
  EXPECT_NE(error.find("row 0 of input given has a 1 at place 2, behind a 0"),
            std::string::npos)
      << error;
  return true;
}

class RaisedAttention
    : public testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(RaisedAttention, GivesWhatItsPartsGive) {
  auto [spelled, number] = GetParam();
  const Spelling& spelling = kSpellings[spelled];
  int raised = 0, programs = 0, with_lengths = 0;
  for (const Padding& padding : kPaddings) {
    for (const Sizes& sizes : kSizes) {
      for (bool guard : {false, true}) {
        Program before = ASYRA_VALUE(
            ParseUntyped(TextOf(spelling, padding, sizes, number, guard)));
        Program after = before;
        PassContext context;
        for (PassFn pass : {Canonicalize, RaiseAttention, Canonicalize}) {
          ASSERT_TRUE(pass(after, {}, context).ok());
        }
        SCOPED_TRACE(fmt::format("{} of {}, {} queries, {} keys, offset {}\n{}",
                                 spelling.name, padding.name, sizes.queries,
                                 sizes.keys, sizes.offset, ToString(after)));
        ++programs;
        bool is_raised = CountOps(after, "attention") == 1;
        raised += is_raised ? 1 : 0;
        // What stays says why.
        EXPECT_EQ(is_raised,
                  context.remarks.empty() ||
                      context.remarks[0].find("stays") == std::string::npos);
        if (is_raised) with_lengths += ExpectSameAsLengths(before, after);
        for (double amplitude : {0.25, 16.0}) {
          std::vector<Tensor> inputs = Inputs(after, amplitude);
          Tensor want =
              ASYRA_VALUE(Interpret(before, Inputs(before, amplitude)))[0];
          EXPECT_TRUE(
              Near(ASYRA_VALUE(Interpret(after, inputs))[0], want, 1e-5));
          EXPECT_TRUE(Near(ASYRA_VALUE(RunOnCpu(after, inputs)).outputs[0],
                           want, 1e-5));
        }
      }
    }
  }
  RecordProperty("raised", raised);
  RecordProperty("with_lengths", with_lengths);
  // Padding that is all that hides has lengths, but where -1e4 hides it.
  if (!spelling.causal) {
    EXPECT_EQ(with_lengths, std::string_view(number) == "-1e4" ? 0 : programs);
  }
  // One mask, by whatever number, is always the op's.
  if (!spelling.causal || !spelling.padding) {
    EXPECT_EQ(raised, programs);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, RaisedAttention,
    testing::Combine(testing::Range(0, static_cast<int>(std::size(kSpellings))),
                     testing::ValuesIn(kNumbers)));

}  // namespace
}  // namespace asyra
