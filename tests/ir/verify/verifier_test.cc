#include "ir/verify/verifier.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "tests/ir/plans/planted_bug.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Each test plants one bug into one of these correct programs.
constexpr std::string_view kLocal = R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[4, 8@tp], %w: f32[8@tp, 4] weight, %s: f32[4, 4] state)
    -> (f32[4, 4], f32[4, 4]) {
  %p = matmul(%x, %w) : f32[4, 4] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[4, 4]
  %t = add(%y, %s) : f32[4, 4]
  return %y, %t alias %s
}
)";

constexpr std::string_view kScheduled = R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%a: f32[4, 4@tp], %b: f32[4, 4@tp], %w: f32[4@tp, 4] weight)
    -> (f32[4, 4], f32[4, 4]) {
  %p = matmul(%a, %w) on c : f32[4, 4] partial(tp)
  %f = start all_reduce(%p) {axes=tp} on tp : future f32[4, 4]
  %q = matmul(%b, %w) on c : f32[4, 4] partial(tp)
  %g = start all_reduce(%q) {axes=tp} on tp : future f32[4, 4]
  %y = wait(%f) on c : f32[4, 4]
  %z = wait(%g) on c : f32[4, 4]
  %r = add(%y, %z) on c : f32[4, 4]
  %h = add(%r, %r) on d after(%r) : f32[4, 4]
  return %r, %h
}
)";

TEST(Verifier, AcceptsTheProgramsThatTheOthersSpoil) {
  EXPECT_EQ(ErrorOf(Parse(kLocal)), "no error");
  EXPECT_EQ(ErrorOf(Parse(kScheduled)), "no error");
}

TEST(VerifyStructure, IdsAreInRange) {
  Program program = Parse(kLocal);
  program.ops[0].operands[1] = 99;
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("op 0: matmul: reads value id 99, there are 6"));
  program = Parse(kLocal);
  program.ops[1].results[0] = -1;
  EXPECT_THAT(ErrorOf(program), HasSubstr("op 1: all_reduce: a result has"));
  program = Parse(kLocal);
  program.ops[2].after.push_back(6);
  EXPECT_THAT(ErrorOf(program), HasSubstr("reads value id 6"));
  program = Parse(kLocal);
  program.outputs[0].value = 6;
  EXPECT_THAT(ErrorOf(program), HasSubstr("an output has value id 6"));
  program = Parse(kLocal);
  program.outputs[1].alias = 77;
  EXPECT_THAT(ErrorOf(program), HasSubstr("a value out of range"));
  program = Parse(kLocal);
  program.inputs[0].value = 6;
  EXPECT_THAT(ErrorOf(program), HasSubstr("an input has value id 6"));
  program = Parse(kLocal);
  program.ops[0].stream = 3;
  EXPECT_THAT(ErrorOf(program), HasSubstr("stream id 3, there are 0"));
  program = Parse(kLocal);
  program.ops[0].def = nullptr;
  EXPECT_THAT(ErrorOf(program), HasSubstr("op 0: it has no definition"));
}

TEST(VerifyStructure, OnlyWeightsArePaddedAndOnlyToMore) {
  Program program = Parse(kLocal);
  program.inputs[0].role = InputRole::kWeight;
  Shape shape = program.type(program.inputs[0].value).shape();
  program.inputs[0].stored = shape;
  --program.inputs[0].stored[0];
  EXPECT_EQ(ErrorOf(program), "no error");
  program.inputs[0].stored[0] = shape[0] + 1;
  EXPECT_THAT(ErrorOf(program), HasSubstr("is padded from ["));
  program.inputs[0].stored[0] = -1;
  EXPECT_THAT(ErrorOf(program), HasSubstr("is padded from [-1"));
  program.inputs[0].stored = {1};
  EXPECT_THAT(ErrorOf(program), HasSubstr("is padded from [1]"));
  program.inputs[0].role = InputRole::kData;
  EXPECT_THAT(ErrorOf(program), HasSubstr("is padded, only weights can be"));
}

TEST(VerifyStructure, ValuesAreDefinedOnceAndBeforeUse) {
  Program program = Parse(kLocal);
  std::swap(program.ops[0], program.ops[1]);
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("all_reduce: %p is used before it is defined"));
  program = Parse(kLocal);
  program.ops[1].results[0] = program.ops[0].results[0];
  EXPECT_THAT(ErrorOf(program), HasSubstr("%p is defined twice"));
  program = Parse(kLocal);
  program.inputs.push_back(program.inputs[0]);
  EXPECT_THAT(ErrorOf(program), HasSubstr("input %x is given twice"));
  program = Parse(kLocal);
  program.values.push_back({"loose", Type()});
  EXPECT_THAT(ErrorOf(program), HasSubstr("%loose is neither"));
}

TEST(VerifyStructure, NamesReadBack) {
  Program program = Parse(kLocal);
  program.values[1].name = "x";
  EXPECT_THAT(ErrorOf(program), HasSubstr("two values are named %x"));
  program.values[1].name = "a b";
  EXPECT_THAT(ErrorOf(program), HasSubstr("value name \"a b\""));
  program.values[1].name = "";
  EXPECT_THAT(ErrorOf(program), HasSubstr("value name \"\""));
  program = Parse(kLocal);
  program.name = "0";
  EXPECT_THAT(ErrorOf(program), HasSubstr("\"0\" is not a word"));
  program = Parse(kScheduled);
  program.streams[1] = "c";
  EXPECT_THAT(ErrorOf(program), HasSubstr("two streams are named c"));
  program.streams[1] = "t p";
  EXPECT_THAT(ErrorOf(program), HasSubstr("stream name \"t p\""));
}

TEST(VerifyStructure, EachStateIsReplacedByOneOutput) {
  EXPECT_THAT(ErrorWith(kLocal, "%t alias %s", "%t"),
              HasSubstr("state %s has no output that replaces it"));
  EXPECT_THAT(ErrorWith(kLocal, "%y, %t alias %s", "%y alias %s, %t alias %s"),
              HasSubstr("state %s is replaced twice, by %y and by %t"));
  EXPECT_THAT(ErrorWith(kLocal, "return %y,", "return %y alias %w,"),
              HasSubstr("output %y is an alias of %w, which is no state"));
  Program program = Parse(kLocal);
  program.values[program.FindValue("s")].type.dims[0].size = 1;
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("output %t is f32[4, 4], the state %s it replaces is "
                        "f32[1, 4]"));
}

TEST(VerifyTypes, ResultsAreWhatDefinitionsGive) {
  EXPECT_THAT(ErrorWith(kLocal, "%w) : f32[4, 4]", "%w) : f32[4, 2]"),
              AllOf(HasSubstr("%p = matmul(%x, %w)"), HasSubstr("f32[4, 2]")));
  EXPECT_THAT(ErrorWith(kScheduled, "%p = matmul(%a, %w) on c : f32",
                        "%p = matmul(%a, %w) on c : bf16"),
              AllOf(HasSubstr("%p = matmul(%a, %w)"),
                    HasSubstr("result 0 is bf16[4, 4] partial(tp), the "
                              "definition gives f32[4, 4] partial(tp)")));
  Program program = Parse(kLocal);
  program.ops[0].results.clear();
  program.ops.erase(program.ops.begin() + 1, program.ops.end());
  program.values.resize(3);
  program.outputs = {{2, 2}};
  EXPECT_THAT(ErrorOf(program), HasSubstr("0 results, the definition gives 1"));
}

TEST(VerifyTypes, OperandsSatisfyAxisRules) {
  EXPECT_THAT(ErrorWith(kLocal, "%x: f32[4, 8@tp]", "%x: f32[4, 8]"),
              AllOf(HasSubstr("matmul(%x, %w)"), HasSubstr("disagree")));
  EXPECT_THAT(ErrorWith(kLocal, "%x: f32[4, 8@tp]", "%x: f32[4, 4@tp]"),
              HasSubstr("matmul: "));
}

TEST(VerifyTypes, AttributesAreCompleteAndKnown) {
  Program program = Parse(kLocal);
  program.ops[1].attrs.Erase("axes");
  EXPECT_THAT(ErrorOf(program), HasSubstr("attribute axes is missing"));
  program.ops[1].attrs.Set("axes", int64_t{1});
  EXPECT_THAT(ErrorOf(program), HasSubstr("all_reduce: attribute axes is"));
  program.ops[1].attrs.Set("axes", AxisList{7});
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("all_reduce: axes: mesh axis 7, there are 1"));
  program = Parse(kLocal);
  program.ops[2].attrs.Set("colour", int64_t{1});
  EXPECT_THAT(ErrorOf(program), HasSubstr("add: unknown attribute colour"));
}

TEST(VerifyTypes, TypesAreWellFormed) {
  auto with = [](auto change) {
    Program program = Parse(kLocal);
    change(&program.values[0].type);
    return ErrorOf(program);
  };
  EXPECT_THAT(with([](Type* type) { type->dims[0].axes = {5}; }),
              HasSubstr("input %x: mesh axis 5, there are 1"));
  EXPECT_THAT(with([](Type* type) { type->dims[0].axes = {0}; }),
              HasSubstr("input %x: axis tp is used twice"));
  EXPECT_THAT(with([](Type* type) { type->dims[1].size = 7; }),
              HasSubstr("dim 1 of size 7 does not divide over tp = 2"));
  EXPECT_THAT(with([](Type* type) { type->future = true; }),
              HasSubstr("input %x is future f32[4, 8@tp]"));
  EXPECT_THAT(with([](Type* type) {
                type->dims[1].axes.clear();
                type->partial = {0};
              }),
              HasSubstr("input %x is f32[4, 8] partial(tp)"));
  Program program = Parse(kLocal);
  program.values[3].type.partial = {9};
  EXPECT_THAT(ErrorOf(program), HasSubstr("result %p of matmul: mesh axis 9"));
}

TEST(VerifyTypes, OutputsAreWhole) {
  Program program = Parse(kLocal);
  program.outputs[0].value = program.FindValue("p");
  EXPECT_THAT(
      ErrorOf(program),
      HasSubstr("output %p is f32[4, 4] partial(tp), it must be whole"));
  program = Parse(kScheduled);
  program.outputs[0].value = program.FindValue("g");
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("output %g is future f32[4, 4], it must be waited"));
}

TEST(VerifyTypes, StageGlobalSaysNothingOfDistribution) {
  constexpr std::string_view kGlobal = R"(asyra 1 global
mesh (tp=2)
program @f(%x: f32[4, 8]) -> (f32[4, 8]) {
  %y = add(%x, %x) : f32[4, 8]
  return %y
}
)";
  EXPECT_EQ(ErrorOf(Parse(kGlobal)), "no error");
  EXPECT_THAT(ErrorWith(kGlobal, "%x: f32[4, 8]", "%x: f32[4, 8@tp]"),
              HasSubstr("input %x is f32[4, 8@tp] in a program of stage"));
  EXPECT_THAT(ErrorWith(kGlobal, "add(%x, %x)", "add(%x, %x) on c"),
              HasSubstr("a stream in a program of stage global"));
  EXPECT_THAT(ErrorWith(kGlobal, "add(%x, %x)", "add(%x, %x) after(%x)"),
              HasSubstr("an after in a program of stage global"));
  EXPECT_THAT(ErrorWith(kGlobal, "add(%x, %x)", "start add(%x, %x)"),
              HasSubstr("a start in a program of stage global"));
  EXPECT_THAT(
      ErrorWith(kGlobal, "  return",
                "  %z = shard(%x) {dim=1, axes=tp} : f32[4, 8@tp]\n  return"),
      HasSubstr("a distributed result in a program of stage global"));
  Program program = Parse(kLocal);
  program.stage = Stage::kGlobal;
  for (Value& value : program.values) value.type = value.type.Global();
  EXPECT_THAT(ErrorOf(program), HasSubstr("a collective in a program"));
}

TEST(VerifyStructure, OnlyScheduledComputationsHaveAnSmMargin) {
  EXPECT_EQ(ErrorWith(kScheduled, "matmul(%a, %w) on c",
                      "matmul(%a, %w) {sm_margin=8} on c"),
            "no error");
  Program program = Parse(kLocal);
  program.ops[0].attrs.Set("sm_margin", int64_t{8});
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("matmul: sm_margin in a program of stage local"));
  program = Parse(kScheduled);
  program.ops[1].attrs.Set("sm_margin", int64_t{8});
  EXPECT_THAT(
      ErrorOf(program),
      HasSubstr("all_reduce: sm_margin of an op that computes nothing"));
  program.ops[1].attrs.Set("sm_margin", int64_t{-1});
  EXPECT_THAT(ErrorOf(program), HasSubstr("sm_margin is -1, not 1 to"));
}

TEST(VerifyTypes, OffsetsBelongToStageAllocated) {
  EXPECT_THAT(ErrorWith(kLocal, "%s) : f32[4, 4]", "%s) : f32[4, 4] at 64"),
              HasSubstr("%t has offset 64 in a program of stage local"));
}

TEST(VerifyStarts, EveryStartHasOneWait) {
  EXPECT_THAT(ErrorWith(kScheduled, "  %z = wait(%g) on c : f32[4, 4]\n",
                        "  %z = add(%y, %y) on c : f32[4, 4]\n"),
              AllOf(HasSubstr("%g = start all_reduce(%q)"),
                    HasSubstr("%g is never waited for")));
  EXPECT_THAT(ErrorWith(kScheduled, "wait(%g)", "wait(%f)"),
              AllOf(HasSubstr("%f = start"), HasSubstr("%f is waited for 2 "
                                                       "times, again by %z")));
}

TEST(VerifyStarts, OnlyCollectivesAreStarted) {
  EXPECT_THAT(
      ErrorWith(kScheduled, "  %h = add(%r, %r) on d after(%r) : f32[4, 4]",
                "  %i = start add(%r, %r) on d : future f32[4, 4]\n"
                "  %h = wait(%i) on d : f32[4, 4]"),
      HasSubstr("add is started but is no collective"));
}

TEST(VerifyStarts, FuturesAreReadByWaitsOnly) {
  EXPECT_THAT(ErrorWith(kScheduled, "add(%y, %z)", "add(%f, %z)"),
              HasSubstr("an operand is a future"));
  EXPECT_THAT(ErrorWith(kScheduled, "wait(%g)", "wait(%y)"),
              HasSubstr("wait: the operand is not a future"));
}

TEST(VerifyStreams, EveryOpHasOne) {
  EXPECT_THAT(ErrorWith(kScheduled, "add(%y, %z) on c", "add(%y, %z)"),
              AllOf(HasSubstr("%r = add(%y, %z)"), HasSubstr("no stream")));
}

TEST(VerifyStreams, ReadsAcrossThemAreOrdered) {
  EXPECT_THAT(ErrorWith(kScheduled, " after(%r)", ""),
              AllOf(HasSubstr("%h = add(%r, %r) on d : f32[4, 4]: reads %r "
                              "across streams"),
                    HasSubstr("defined by %r = add(%y, %z) on c")));
  EXPECT_THAT(ErrorWith(kScheduled, "after(%r)", "after(%z)"),
              HasSubstr("reads %r across streams"));
  // An order by way of a third value is one as well.
  EXPECT_EQ(ErrorWith(kScheduled, "%h = add(%r, %r) on d after(%r) : f32[4, 4]",
                      "%i = add(%r, %r) on c : f32[4, 4]\n"
                      "  %h = add(%r, %r) on d after(%i) : f32[4, 4]"),
            "no error");
  // A wait orders its own stream only.
  EXPECT_THAT(ErrorWith(kScheduled, "%z = wait(%g) on c", "%z = wait(%g) on d"),
              HasSubstr("reads %z across streams"));
}

TEST(VerifyStreams, OneCommunicatorHasOneOrder) {
  EXPECT_THAT(
      ErrorWith(kScheduled, "all_reduce(%q) {axes=tp} on tp",
                "all_reduce(%q) {axes=tp} on tp2"),
      AllOf(HasSubstr("%g = start all_reduce(%q)"),
            HasSubstr("collectives over tp must share one stream, an earlier "
                      "one is on tp: %f = start all_reduce(%p)")));
}

// A chain of layers over two streams that reuses the same three buffers.
Program LongProgram(int layers) {
  Builder builder(ASYRA_VALUE(Mesh::Create({{"tp", 2}})));
  Type type = ASYRA_VALUE(ParseType("f32[8, 8@tp]", builder.program().mesh));
  ValueId x = builder.Input("x", type);
  ValueId w = builder.Input(
      "w", ASYRA_VALUE(ParseType("f32[8@tp, 8]", builder.program().mesh)),
      InputRole::kWeight);
  for (int i = 0; i < layers; ++i) {
    ValueId p = ASYRA_VALUE(builder.AddOne("matmul", {x, w}));
    Op op = builder.program().ops.back();
    op.def = FindOp("reduce_scatter");
    op.operands = {p};
    op.start = true;
    op.attrs = {{"axes", AxisList{0}}, {"dim", int64_t{1}}};
    ASYRA_CHECK_OK(CompleteAttrs(*op.def, &op.attrs));
    type.future = true;
    ValueId f = builder.Append(op, {type}, {"f"})[0];
    x = ASYRA_VALUE(builder.AddOne("wait", {f}));
  }
  builder.Output(x);
  Program program = std::move(builder).Finish();
  program.stage = Stage::kAllocated;
  StreamId compute = program.Stream("compute"), tp = program.Stream("tp");
  int64_t parity = 0;
  for (Op& op : program.ops) {
    op.stream = op.start ? tp : compute;
    parity ^= op.start;
    int64_t offset = op.start || op.def->is_wait ? 256 + 128 * parity : 0;
    program.values[op.results[0]].offset = offset;
  }
  return program;
}

// How long it takes is a benchmark's (BM_VerifyLlama70B).
TEST(Verifier, TwentyThousandOpsHaveNoError) {
  EXPECT_EQ(ErrorOf(LongProgram(7000)), "no error");
}

}  // namespace
}  // namespace asyra
