// Models of one input that counts, to look at what their nodes compute.
#pragma once

#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/frontends/model_builder.h"

namespace asyra {

using Doubles = std::vector<double>;

// x = 0, 1, 2, ... of the given shape.
inline ModelBuilder WithX(const std::vector<int>& shape, int opset = 18) {
  std::vector<ModelBuilder::Dim> dims(shape.begin(), shape.end());
  return ModelBuilder(opset).Input("x", kF32, dims).Output("y");
}

inline Tensor RunModel(const ModelBuilder& model) {
  Program program = ASYRA_VALUE(model.Import());
  Shape shape = program.type(program.inputs[0].value).shape();
  Doubles count;
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    count.push_back(static_cast<double>(i));
  }
  std::vector<Tensor> inputs(program.inputs.size());
  inputs[0] = Tensor::FromDoubles(DType::kF32, shape, count);
  return ASYRA_VALUE(Interpret(program, inputs))[0];
}

}  // namespace asyra
