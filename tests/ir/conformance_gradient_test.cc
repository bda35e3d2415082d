// The gradient of every op against differences of its reference.
#include "tests/ir/one_op.h"

namespace asyra {
namespace {

class Gradient : public OneDevice {};

// Sum of results[0] weighted by `weights`.
double Loss(const ParsedCall& call, const std::vector<Tensor>& operands,
            const Tensor& weights) {
  Tensor y = ASYRA_VALUE(Evaluate(*call.def, call.attrs, operands))[0];
  double loss = 0;
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    loss += y.Get(i) * weights.Get(i);
  }
  return loss;
}

Tensor Uniform(const Type& type, double low, double high,
               std::mt19937_64* random) {
  Tensor tensor(type.dtype, type.shape());
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, uniform(*random));
  }
  return tensor;
}

// The vjp of the case as a program from operands and result gradient to the
// gradients of the float operands.
Program GradientProgram(const ParsedCall& call, const Type& result) {
  Builder builder;
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(builder.Input("x", type));
  }
  ValueId dy = builder.Input("dy", result);
  std::vector<ValueId> results =
      ASYRA_VALUE(builder.Add(call.def->name, operands, call.attrs));
  std::vector<ValueId> dys(results.size(), kNoValue);
  dys[0] = dy;  // the loss is of the first result
  std::vector<ValueId> gradients =
      ASYRA_VALUE(call.def->vjp(builder, {call.attrs, operands, results, dys}));
  EXPECT_EQ(gradients.size(), operands.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i] != kNoValue, IsFloat(call.operands[i].dtype))
        << "operand " << i;
    if (gradients[i] == kNoValue) continue;
    EXPECT_EQ(builder.type(gradients[i]), call.operands[i]);
    builder.Output(gradients[i]);
  }
  return std::move(builder).Finish();
}

TEST_P(Gradient, GradientIsTheSlopeOfTheReference) {
  if (call_.def->vjp == nullptr) GTEST_SKIP() << "has no gradient";
  for (Type& type : call_.operands) {
    if (IsFloat(type.dtype)) type.dtype = DType::kF64;
  }
  Type result = ASYRA_VALUE(
      InferTypes(*call_.def, call_.attrs, call_.operands, Mesh{}))[0];
  if (result.dtype != DType::kF64) {
    GTEST_SKIP() << ToString(result.dtype) << " is too coarse for differences";
  }
  const auto& [text, low, high, mesh] = GetParam().sample;
  std::mt19937_64 random(Seed());
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!IsFloat(call_.operands[i].dtype)) continue;
    operands_[i] = Uniform(call_.operands[i], low, high, &random);
  }
  Tensor dy = Uniform(result, -1, 1, &random);
  std::vector<Tensor> inputs = operands_;
  inputs.push_back(dy);
  Program program = GradientProgram(call_, result);
  SCOPED_TRACE(ToString(program));
  std::vector<Tensor> gradients = ASYRA_VALUE(Interpret(program, inputs));
  size_t next = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!IsFloat(call_.operands[i].dtype)) continue;
    const Tensor& gradient = gradients[next++];
    Tensor slope(DType::kF64, gradient.shape());
    for (int64_t k = 0; k < slope.num_elements(); ++k) {
      constexpr double kStep = 1e-4;
      std::vector<Tensor> moved = operands_;
      double loss[2];
      for (int side : {0, 1}) {
        std::vector<double> values = operands_[i].ToDoubles();
        values[k] += side == 0 ? -kStep : kStep;
        moved[i] =
            Tensor::FromDoubles(DType::kF64, operands_[i].shape(), values);
        loss[side] = Loss(call_, moved, dy);
      }
      slope.Set(k, (loss[1] - loss[0]) / (2 * kStep));
    }
    EXPECT_TRUE(Near(gradient, slope, 1e-6)) << "operand " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Gradient, testing::ValuesIn(Cases(false)),
                         CaseName);

}  // namespace
}  // namespace asyra
