// What every kernel must satisfy, by its op being listed: each sample of each
// op runs through the executor, on one rank or over the sample's mesh, and
// must give what the interpreter gives; memory is guarded, poisoned and
// checked as it is used.
#include "executor/cpu/run_on_cpu.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

// What single precision costs a sum of a few small numbers.
constexpr double kTolerance = 1e-5;

// An input of that type; for a partial one the sum of an input whose parts
// lie on different ranks, since inputs have a value of their own.
ValueId AddOperand(const Type& type, const Mesh& mesh, Builder* builder) {
  if (type.partial.empty()) return builder->Input("x", type);
  Type parts = type;
  parts.partial.clear();
  parts.dims.insert(parts.dims.begin(),
                    Dim{mesh.size(type.partial), type.partial});
  return ASYRA_VALUE(builder->AddOne("reduce_sum", {builder->Input("x", parts)},
                                     {{"dims", Ints{0}}, {"keep", false}}));
}

// The op alone; what is partial after it is summed.
Program ProgramOf(const ParsedCall& call, const Mesh& mesh) {
  Builder builder(mesh,
                  mesh.num_devices() > 1 ? Stage::kLocal : Stage::kGlobal);
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(AddOperand(type, mesh, &builder));
  }
  for (ValueId value :
       ASYRA_VALUE(builder.Add(call.def->name, operands, call.attrs))) {
    AxisList partial = builder.type(value).partial;
    if (!partial.empty()) {
      value = ASYRA_VALUE(
          builder.AddOne("all_reduce", {value}, {{"axes", partial}}));
    }
    builder.Output(value);
  }
  return std::move(builder).Finish();
}

class Kernels : public testing::TestWithParam<OpCase> {};

TEST_P(Kernels, ComputeWhatTheReferenceDoes) {
  ParsedCall call = GetParam().Parse();
  if (call.def->is_wait) return;  // of a `start` only: streams_test.cc
  Program program = ProgramOf(call, GetParam().mesh());
  std::vector<Type> types;
  for (const Input& input : program.inputs) {
    types.push_back(program.type(input.value));
  }
  std::vector<Tensor> inputs = GetParam().Fill(types);
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  auto got = RunOnCpu(program, inputs, {.executor = {.debug_memory = true}});
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(program);
  ASSERT_EQ(got->outputs.size(), want->size());
  for (size_t i = 0; i < want->size(); ++i) {
    EXPECT_TRUE(Near(got->outputs[i], (*want)[i], kTolerance));
  }
}

INSTANTIATE_TEST_SUITE_P(OneRank, Kernels, testing::ValuesIn(Cases(false)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OverMesh, Kernels, testing::ValuesIn(Cases(true)),
                         CaseName);

}  // namespace
}  // namespace asyra
