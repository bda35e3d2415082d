// Overlaps in programs of several streams and groups compute what their ops
// mean one after the other.
#include "executor/cpu/run_on_cpu.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

constexpr std::string_view kProgram = R"(
asyra 1 scheduled
mesh (dp=2, tp=2)

program @f(%x: f32[8@(dp,tp), 6], %w: f32[6, 8@tp], %v: f32[8@tp, 6]) ->
    (f32[8@(dp,tp), 6], f32[8@dp, 6]) {
  %x.future = start all_gather(%x) {dim=0, axes=tp} on tp : future f32[8@dp, 6]
  %h = overlap(%x, %w) {
    %2 = all_gather(%0) {dim=0, axes=tp} : f32[8@dp, 6]
    %3 = matmul(%2, %1) : f32[8@dp, 8@tp]
    return %3
  } {parts=2, groups=[1, 1, 2]} on compute : f32[8@dp, 8@tp]
  %y = overlap(%h, %v) {
    %2 = matmul(%0, %1) : f32[8@dp, 6] partial(tp)
    %3 = reduce_scatter(%2) {dim=0, axes=tp} : f32[8@(dp,tp), 6]
    return %3
  } {order=own_last} on compute : f32[8@(dp,tp), 6]
  %all = wait(%x.future) on compute : f32[8@dp, 6]
  return %y, %all
}
)";

void ExpectEqualsTheInterpreter(const Program& program) {
  std::mt19937_64 random(Seed());
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    inputs.push_back(SmallIntegers(program.type(input.value), -3, 3, &random));
  }
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  for (bool debug : {false, true}) {
    auto got = ASYRA_VALUE(
        RunOnCpu(program, inputs, {.executor = {.debug_memory = debug}}));
    ASSERT_EQ(got.outputs.size(), want.size());
    EXPECT_TRUE(got.split_fusions.empty());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(Near(got.outputs[i], want[i], 0));
    }
  }
}

TEST(OverlapRun, EqualsTheInterpreter) {
  ExpectEqualsTheInterpreter(ASYRA_VALUE(ParseProgram(kProgram)));
}

TEST(OverlapRun, AllocatedProgramsRunToo) {
  Program program = ASYRA_VALUE(ParseProgram(kProgram));
  int64_t offset = 0;
  for (Value& value : program.values) {
    value.offset = offset;
    offset += 4096;
  }
  for (const Op& op : program.ops) {
    if (!op.def->is_view) continue;
    program.values[op.results[0]].offset =
        program.values[op.operands[0]].offset;
  }
  program.stage = Stage::kAllocated;
  ExpectEqualsTheInterpreter(program);
}

}  // namespace
}  // namespace asyra
