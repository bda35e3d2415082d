#include "passes/raise/split_projections.h"

#include "gmock/gmock.h"
#include "ir/weights/weight_store.h"
#include "tests/passes/transformed.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kFused = R"(
    in x f32[2,3,4]
    weight w f32[4,12]
    weight b f32[12]
    r = reshape(x) {shape=[6,4]}
    m = matmul(r, w)
    a = add(m, b)
    s = reshape(a) {shape=[2,3,12]}
    q = slice(s) {dim=2, start=0, stop=4}
    k = slice(s) {dim=2, start=4, stop=8}
    v = slice(s) {dim=2, start=8, stop=12}
    e = mul(q, k)
    y = add(e, v)
    out y)";

Program WithData(Program program) {
  auto store = std::make_shared<WeightStore>();
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kWeight) continue;
    const Type& type = program.type(input.value);
    Tensor data(type.dtype, type.shape());
    for (int64_t i = 0; i < data.num_elements(); ++i) {
      data.Set(i, 0.25 * static_cast<double>(i % 7) - 0.5);
    }
    store->Set(program.value_name(input.value), data);
  }
  program.weights = store;
  return program;
}

// The text with data for its weights, canonical.
Program Fused(std::string_view text) {
  Program program = WithData(ASYRA_VALUE(ParseUntyped(text)));
  PassContext context;
  EXPECT_TRUE(Canonicalize(program, {}, context).ok());
  return program;
}

// After the pass and canonicalizing; checks that it means the same.
Program Split(std::string_view text) {
  Program before = Fused(text), after = before;
  PassContext context;
  EXPECT_TRUE(SplitProjections(after, {}, context).value());
  EXPECT_TRUE(Canonicalize(after, {}, context).ok());
  EXPECT_TRUE(Verify(after).ok()) << ToString(after);
  absl::Status same = SameMeaning(before, after, 5, 1e-5);
  EXPECT_TRUE(same.ok()) << same << ToString(after);
  return after;
}

TEST(SplitProjections, OfColumns) {
  Program after = Split(kFused);
  EXPECT_EQ(OpCounts(after), "add 4, matmul 3, mul 1");
  EXPECT_NE(after.FindValue("w.2"), kNoValue);
  EXPECT_EQ(after.FindValue("w"), kNoValue);
  EXPECT_EQ(after.weights->size(), 6u);
}

// qkv [.., 3, heads, head], as vision models write it.
TEST(SplitProjections, OfColumnsInFrontOfHeads) {
  EXPECT_EQ(OpCounts(Split(R"(
    in x f32[2,3,4]
    weight w f32[4,24]
    weight b f32[24]
    m = matmul(x, w)
    a = add(m, b)
    s = reshape(a) {shape=[2,3,3,4,2]}
    t = transpose(s) {perm=[2,0,3,1,4]}
    q1 = slice(t) {dim=0, start=0, stop=1}
    k1 = slice(t) {dim=0, start=1, stop=2}
    v1 = slice(t) {dim=0, start=2, stop=3}
    q = reshape(q1) {shape=[2,4,3,2]}
    k = reshape(k1) {shape=[2,4,3,2]}
    v = reshape(v1) {shape=[2,4,3,2]}
    e = mul(q, k)
    y = add(e, v)
    out y)")),
            "add 4, matmul 3, mul 1, reshape 4, transpose 1");
}

// Of each head its query, key and value, as GPT-NeoX and BLOOM write it; then
// of each key two parts.
TEST(SplitProjections, OfColumnsWithinHeads) {
  EXPECT_EQ(OpCounts(Split(R"(
    in x f32[2,3,4]
    weight w f32[24,4]
    m = matmul(x, w) {transpose_b=true}
    s = reshape(m) {shape=[2,3,2,12]}
    q = slice(s) {dim=3, start=0, stop=4}
    k = slice(s) {dim=3, start=4, stop=8}
    v = slice(s) {dim=3, start=8, stop=12}
    k2 = reshape(k) {shape=[2,3,2,2,2]}
    ka = slice(k2) {dim=4, start=0, stop=1}
    kb = slice(k2) {dim=4, start=1, stop=2}
    kc = mul(ka, kb)
    e = mul(q, v)
    out kc
    out e)")),
            "matmul 4, mul 2, reshape 4");
}

TEST(SplitProjections, SaysWhichWeightsWithoutDataItReplaced) {
  Program program = ASYRA_VALUE(ParseUntyped(kFused));
  PassContext context;
  ASSERT_TRUE(Canonicalize(program, {}, context).value());
  ASSERT_TRUE(SplitProjections(program, {}, context).value());
  EXPECT_EQ(CountOps(program, "matmul"), 3);
  ASSERT_EQ(context.remarks.size(), 6u);
  EXPECT_THAT(context.remarks[0],
              HasSubstr("weight w has no data: its part 0:4 of dim 1 is "
                        "input w.0"));
}

TEST(SplitProjections, NotWhereMoreThanDisjointPartsAreRead) {
  EXPECT_EQ(Ops(SplitProjections, R"(
    in x f32[3,4]
    weight w f32[4,12]
    m = matmul(x, w)
    q = slice(m) {dim=1, start=0, stop=4}
    k = slice(m) {dim=1, start=4, stop=8}
    out q
    out k
    out m)"),
            "matmul 1, slice 2");
  EXPECT_EQ(Ops(SplitProjections, R"(
    in x f32[3,4]
    weight w f32[4,12]
    m = matmul(x, w)
    q = slice(m) {dim=1, start=0, stop=5}
    k = slice(m) {dim=1, start=4, stop=8}
    out q
    out k)"),
            "matmul 1, slice 2");
  // Under a reshape, of which another is read as a whole; by rows.
  EXPECT_EQ(Ops(SplitProjections, R"(
    in x f32[3,4]
    weight w f32[4,12]
    m = matmul(x, w)
    s = reshape(m) {shape=[3,3,4]}
    q = slice(s) {dim=1, start=0, stop=1}
    y = exp(m)
    out q
    out y)"),
            "exp 1, matmul 1, reshape 1, slice 1");
  EXPECT_EQ(Ops(SplitProjections, R"(
    in x f32[6,4]
    weight w f32[4,12]
    m = matmul(x, w)
    s = reshape(m) {shape=[2,36]}
    q = slice(s) {dim=1, start=0, stop=12}
    out q)"),
            "matmul 1, reshape 1, slice 1");
  EXPECT_EQ(Ops(SplitProjections, R"(
    in x f32[6,4]
    weight w f32[4,12]
    m = matmul(x, w)
    q = slice(m) {dim=0, start=0, stop=3}
    out q)"),
            "matmul 1, slice 1");
}

}  // namespace
}  // namespace asyra
