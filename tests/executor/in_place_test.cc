// Ops that say that they work in place (OpDef::in_place) do so: every sample
// of each, its result on every operand of its type, by kernels and by
// references; and sums over all members of a group.
#include "executor/cpu/run_on_cpu.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

constexpr double kTolerance = 1e-5;  // of single precision
constexpr int64_t kApart = 1 << 16;  // no value is larger

void Place(Program* program, ValueId value, int64_t offset) {
  program->values[value].offset = offset;
}

// On one stream, each value at a place of its own.
Program Allocated(Builder builder) {
  Program program = std::move(builder).Finish();
  program.stage = Stage::kAllocated;
  StreamId stream = program.Stream("compute");
  for (Op& op : program.ops) op.stream = stream;
  for (size_t v = 0; v < program.values.size(); ++v) {
    Place(&program, static_cast<ValueId>(v), static_cast<int64_t>(v) * kApart);
  }
  return program;
}

void ExpectSameAsInterpreted(const Program& program,
                             const std::vector<Tensor>& inputs) {
  SCOPED_TRACE(ToString(program));
  absl::Status verified = Verify(program);
  ASSERT_TRUE(verified.ok()) << verified;
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  for (bool debug : {false, true}) {
    auto got = RunOnCpu(program, inputs, {.executor = {.debug_memory = debug}});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(Near(got->outputs[i], want[i], kTolerance));
    }
  }
}

class InPlace : public testing::TestWithParam<OpCase> {};

TEST_P(InPlace, GivesTheSame) {
  ParsedCall call = GetParam().Parse();
  Builder builder(Mesh{}, Stage::kLocal);
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(builder.Input("x", type));
  }
  std::vector<ValueId> results =
      ASYRA_VALUE(builder.Add(call.def->name, operands, call.attrs));
  for (ValueId value : results) builder.Output(value);
  Program apart = Allocated(std::move(builder));
  std::vector<Tensor> inputs = GetParam().Fill(call.operands);
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t k = 0; k < operands.size(); ++k) {
      if (apart.type(operands[k]) != apart.type(results[r]) ||
          !MayOverwrite(apart, apart.ops[0], k, r)) {
        continue;
      }
      Program program = apart;
      Place(&program, results[r], apart.values[operands[k]].offset);
      ExpectSameAsInterpreted(program, inputs);
    }
  }
}

// Comparisons, casts and what broadcasts all of its operands overwrite none.
bool LiesOnAnOperand(const OpCase& op_case) {
  ParsedCall call = op_case.Parse();
  for (const Type& result :
       ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, Mesh()))) {
    for (const Type& operand : call.operands) {
      if (operand == result) return true;
    }
  }
  return false;
}

std::vector<OpCase> InPlaceCases() {
  std::vector<OpCase> cases;
  for (OpCase& op_case : Cases(false)) {
    if (op_case.def->in_place && LiesOnAnOperand(op_case))
      cases.push_back(op_case);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, InPlace, testing::ValuesIn(InPlaceCases()),
                         CaseName);

// Small sums and those that members share out take different ways.
class InPlaceSum : public testing::TestWithParam<int64_t> {};

TEST_P(InPlaceSum, GivesTheSame) {
  Builder builder(ASYRA_VALUE(Mesh::Create({{"a", 2}, {"b", 2}})),
                  Stage::kLocal);
  const Mesh& mesh = builder.program().mesh;
  Type parts =
      ASYRA_VALUE(ParseType(fmt::format("f32[4@(a,b), {}]", GetParam()), mesh));
  ValueId x = builder.Input("x", parts);
  ValueId partial = ASYRA_VALUE(
      builder.AddOne("reduce_sum", {x}, {{"dims", Ints{0}}, {"keep", false}}));
  ValueId sum = ASYRA_VALUE(
      builder.AddOne("all_reduce", {partial}, {{"axes", AxisList{0, 1}}}));
  builder.Output(sum);
  Program program = Allocated(std::move(builder));
  Place(&program, sum, program.values[partial].offset);
  std::mt19937_64 random(Seed());
  ExpectSameAsInterpreted(program,
                          {SmallIntegers(parts.Global(), -3, 3, &random)});
}

INSTANTIATE_TEST_SUITE_P(Sizes, InPlaceSum,
                         testing::Values(0, 1, 7, 1000, 10000));

}  // namespace
}  // namespace asyra
