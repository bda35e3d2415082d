#include "passes/raise/raise_moe.h"

#include "gmock/gmock.h"
#include "passes/raise/split_projections.h"
#include "tests/passes/transformed.h"

namespace asyra {
namespace {

// 2 sequences of 3 tokens, 4 experts of which each takes 2.
constexpr std::string_view kInputs = R"(
    in x f32[2,3,8]
    weight gate f32[4,8]
    weight up f32[4,12,8]
    weight down f32[4,8,6]
    weight bias f32[4,12]
    flat = reshape(x) {shape=[6,8]}
    logits = matmul(flat, gate) {transpose_b=true}
)";

constexpr std::string_view kSoftmax = R"(
    scores = softmax(logits) {dim=1}
    best,experts = top_k(scores) {k=2}
)";

constexpr std::string_view kNormalized = R"(
    total = reduce_sum(best) {dims=[1]}
    weights = div(best, total)
)";

// Gated projections of every row's copy of its expert's weights.
constexpr std::string_view kExperts = R"(
    one = reshape(flat) {shape=[6,1,8]}
    twice = broadcast(one) {shape=[6,2,8]}
    rows = reshape(twice) {shape=[12,8,1]}
    ids = reshape(experts) {shape=[12]}
    wu = gather(up, ids) {dim=0}
    h2 = matmul(wu, rows)
    h1 = reshape(h2) {shape=[12,12]}
    g = slice(h1) {dim=1, start=0, stop=6}
    u = slice(h1) {dim=1, start=6, stop=12}
    a = swiglu(g, u)
    a1 = reshape(a) {shape=[12,6,1]}
    wd = gather(down, ids) {dim=0}
    y2 = matmul(wd, a1)
    y1 = reshape(y2) {shape=[12,8]}
)";

constexpr std::string_view kWeighted = R"(
    scale = reshape(weights) {shape=[12,1]}
    w = mul(y1, scale)
    w3 = reshape(w) {shape=[6,2,8]}
    s = reduce_sum(w3) {dims=[1], keep=false}
    out s
)";

std::string Text(std::initializer_list<std::string_view> parts) {
  std::string text(kInputs);
  for (std::string_view part : parts) text += part;
  return text;
}

absl::StatusOr<bool> Raise(Program& program, const PassOptions&,
                           PassContext& context) {
  return RaiseMoe(program, {{"capacity_percent", int64_t{0}}}, context);
}

std::string Raised(std::initializer_list<std::string_view> parts) {
  return Ops(Raise, Text(parts));
}

constexpr std::string_view kAll =
    "grouped_matmul 2, matmul 1, moe_combine 1, moe_dispatch 1, moe_router 1, "
    "reshape 1, slice 2, swiglu 1";

TEST(RaiseMoe, NormalizedSoftmax) {
  std::string text = Text({kSoftmax, kNormalized, kExperts, kWeighted});
  Program program = Transformed(Raise, text);
  EXPECT_EQ(OpCounts(program), kAll);
  const Op& router = OnlyOp(program, "moe_router");
  EXPECT_TRUE(router.attrs.Bool("normalize"));
  EXPECT_EQ(router.attrs.Int("k"), 2);
  const Op& dispatch = OnlyOp(program, "moe_dispatch");
  EXPECT_EQ(program.type(dispatch.results[0]).shape(), (Shape{2, 4, 3, 8}));
  for (const Op& op : program.ops) {
    if (op.def->name != "grouped_matmul") continue;
    EXPECT_EQ(op.attrs.Float("occupancy"), 0.5);
  }
}

TEST(RaiseMoe, OtherScores) {
  // The scores as they are.
  EXPECT_EQ(Raised({kSoftmax, "weights = reshape(best) {shape=[6,2]}\n",
                    kExperts, kWeighted}),
            kAll);
  // Softmax over the chosen logits.
  EXPECT_EQ(Raised({"best,experts = top_k(logits) {k=2}\n"
                    "weights = softmax(best) {dim=1}\n",
                    kExperts, kWeighted}),
            kAll);
  // Sigmoid.
  EXPECT_EQ(Raised({"scores = sigmoid(logits)\n"
                    "best,experts = top_k(scores) {k=2}\n",
                    kNormalized, kExperts, kWeighted}),
            kAll);
}

TEST(RaiseMoe, OtherWeightsKeepTheChoice) {
  EXPECT_EQ(Raised({"scores = exp(logits)\n"
                    "best,experts = top_k(scores) {k=2}\n"
                    "weights = neg(best)\n",
                    kExperts, kWeighted}),
            "exp 1, grouped_matmul 2, matmul 1, moe_combine 1, moe_dispatch 1, "
            "neg 1, reshape 4, slice 2, swiglu 1, top_k 1");
  // No weights at all.
  EXPECT_EQ(CountOps(Transformed(Raise, Text({kSoftmax, kExperts, R"(
    w3 = reshape(y1) {shape=[6,2,8]}
    s = reduce_sum(w3) {dims=[1]}
    out s)"})),
                     "moe_combine"),
            1);
}

// As GPT-OSS: rows on the left, a bias, interleaved halves, bounds.
TEST(RaiseMoe, BiasesAndBounds) {
  EXPECT_EQ(Raised({kSoftmax, kNormalized, R"(
    one = reshape(flat) {shape=[6,1,8]}
    twice = broadcast(one) {shape=[6,2,8]}
    rows = reshape(twice) {shape=[12,1,8]}
    zero = 0 i64
    three = 3 i64
    low = max(experts, zero)
    high = min(low, three)
    ids = reshape(high) {shape=[12,1]}
    wu = gather_nd(up, ids)
    h2 = matmul(rows, wu) {transpose_b=true}
    h1 = reshape(h2) {shape=[12,12]}
    b = gather_nd(bias, ids)
    h = add(h1, b)
    g = slice(h) {dim=1, start=0, stop=12, step=2}
    u = slice(h) {dim=1, start=1, stop=12, step=2}
    seven = 7
    c = min(g, seven)
    a = swiglu(c, u)
    a1 = reshape(a) {shape=[12,6,1]}
    wd = gather_nd(down, ids)
    y2 = matmul(wd, a1)
    y1 = reshape(y2) {shape=[12,8]})",
                    kWeighted}),
            "add 1, constant 1, grouped_matmul 2, matmul 1, min 1, "
            "moe_combine 1, moe_dispatch 1, moe_router 1, reshape 2, slice 2, "
            "swiglu 1");
}

TEST(RaiseMoe, SplitsFusedProjectionsOfExperts) {
  Program program =
      Transformed(Raise, Text({kSoftmax, kNormalized, kExperts, kWeighted}));
  PassContext context;
  EXPECT_TRUE(*SplitProjections(program, {}, context));
  EXPECT_EQ(CountOps(program, "grouped_matmul"), 3);
  EXPECT_EQ(CountOps(program, "slice"), 0);
}

TEST(RaiseMoe, CapacityDropsChoices) {
  Program program = ASYRA_VALUE(
      ParseUntyped(Text({kSoftmax, kNormalized, kExperts, kWeighted})));
  PassContext context;
  for (PassFn step :
       {PassFn(Canonicalize),
        PassFn([](Program&p, const PassOptions&, PassContext&c) {
          return RaiseMoe(p, {{"capacity_percent", int64_t{100}}}, c);
        })}) {
    ASYRA_CHECK_OK(step(program, {}, context).status());
  }
  // One token a group (3 has no power of 2 in it): a slot for every choice
  // is the least there is.
  const Op& dispatch = OnlyOp(program, "moe_dispatch");
  EXPECT_EQ(dispatch.attrs.Int("group_size"), 1);
  EXPECT_EQ(dispatch.attrs.Int("capacity"), 1);
}

void ExpectNotRaised(std::initializer_list<std::string_view> parts) {
  EXPECT_THAT(Raised(parts), testing::Not(testing::HasSubstr("moe_")));
}

TEST(RaiseMoe, LeavesWhatIsNoMixture) {
  // Experts that may be anything.
  ExpectNotRaised(
      {"in experts i64[6,2]\n"
       "scores = softmax(logits) {dim=1}\n"
       "weights = slice(scores) {dim=1, start=0, stop=2}\n",
       kExperts, kWeighted});
  // Rows that depend on one another.
  ExpectNotRaised({kSoftmax, kNormalized, kExperts, R"(
    scale = reshape(weights) {shape=[12,1]}
    mixed = cumsum(y1) {dim=0}
    w = mul(mixed, scale)
    w3 = reshape(w) {shape=[6,2,8]}
    s = reduce_sum(w3) {dims=[1], keep=false}
    out s)"});
  // A sum over tokens.
  ExpectNotRaised({kSoftmax, kNormalized, kExperts, R"(
    scale = reshape(weights) {shape=[12,1]}
    w = mul(y1, scale)
    w3 = reshape(w) {shape=[6,2,8]}
    s = reduce_sum(w3) {dims=[0], keep=false}
    out s)"});
}

}  // namespace
}  // namespace asyra
