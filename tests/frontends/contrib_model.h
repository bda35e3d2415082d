// Models with ops of ONNX and of ONNX Runtime, to compare what their outputs
// are.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/frontends/model_builder.h"

namespace asyra {

class ContribModel : public ModelBuilder {
 public:
  using Names = std::vector<std::string>;
  using Attrs = std::vector<std::pair<std::string, ModelBuilder::Attr>>;

  explicit ContribModel(int opset = 24) : ModelBuilder(opset) {
    onnx::OperatorSetIdProto* import = model.add_opset_import();
    import->set_domain("com.microsoft");
    import->set_version(1);
  }
  // Random floats that depend on the name alone.
  ContribModel& Random(const std::string& name,
                       const std::vector<int64_t>& dims) {
    std::mt19937 random(std::hash<std::string>()(name));
    std::normal_distribution<float> normal;
    std::vector<float> values(NumElements(dims));
    for (float& value : values) value = normal(random);
    Floats(name, values, dims);
    return *this;
  }
  ContribModel& Op(const std::string& op, const Names& inputs,
                   const Names& outputs, const Attrs& attrs = {}) {
    Node(op, inputs, outputs, attrs);
    return *this;
  }
  ContribModel& Contrib(const std::string& op, const Names& inputs,
                        const Names& outputs, const Attrs& attrs = {}) {
    Node(op, inputs, outputs, attrs);
    last().set_domain("com.microsoft");
    return *this;
  }
  ContribModel& I32(const std::string& name, const std::vector<int>& values,
                    const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor =
        Initializer(name, onnx::TensorProto::INT32, dims);
    for (int value : values) tensor->add_int32_data(value);
    return *this;
  }

  // Output `name`. `x` is 0, 1, 2, ... if there is such an input.
  Tensor Run(const std::string& name) {
    Output(name);
    Program program = ASYRA_VALUE(Import());
    graph().clear_output();
    std::vector<Tensor> inputs(program.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (program.inputs[i].role == InputRole::kWeight) continue;
      const Type& type = program.type(program.inputs[i].value);
      inputs[i] = Tensor(type.dtype, type.shape());
      for (int64_t k = 0; k < inputs[i].num_elements(); ++k) {
        type.dtype == DType::kF32 ? inputs[i].Set(k, static_cast<double>(k))
                                  : inputs[i].SetInt(k, k);
      }
    }
    return ASYRA_VALUE(Interpret(program, inputs))[0];
  }
};

inline void ExpectSame(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    ASSERT_NEAR(a.Get(i), b.Get(i), 1e-5) << "element " << i;
  }
}

}  // namespace asyra
