// A sample of an op as tests of every op use it: evaluated on one device, and
// as a program of its own.
#pragma once

#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "tests/ir/op_case.h"

namespace asyra {

class OneDevice : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    call_ = GetParam().Parse();
    operands_ = GetParam().Fill(call_.operands);
    results_ = ASYRA_VALUE(
        InferTypes(*call_.def, call_.attrs, call_.operands, Mesh{}));
  }

  AxisRule Rule() const {
    return ASYRA_VALUE(
        AxisRuleOf({*call_.def, call_.attrs, call_.operands, results_}));
  }

  std::vector<Tensor> Evaluated() const {
    return ASYRA_VALUE(Evaluate(*call_.def, call_.attrs, operands_));
  }

  ParsedCall call_;
  std::vector<Tensor> operands_;
  std::vector<Type> results_;
};

// The case as a program: its operands, the op, and an all_reduce where the
// result is partial.
inline Program OneOp(const ParsedCall& call, const Mesh& mesh, Stage stage) {
  Builder builder(mesh, stage);
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(builder.Input("x", type));
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

// Parsed again, a program is the same.
inline void ExpectTextRoundTrip(const Program& program) {
  std::string text = ToString(program);
  absl::StatusOr<Program> parsed = ParseProgram(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
  EXPECT_EQ(ToString(*parsed), text);
  EXPECT_EQ(parsed->ops[0].attrs, program.ops[0].attrs);
}

}  // namespace asyra
