// Runs a training step again and again by the interpreter.
#pragma once

#include <map>
#include <string>

#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"

namespace asyra {

class Steps {
 public:
  // States begin as zeros; `values` are those of the params.
  Steps(Program program, std::map<std::string, Tensor> values)
      : program_(std::move(program)), values_(std::move(values)) {
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kState) continue;
      const Type& type = program_.type(input.value);
      values_.emplace(program_.value_name(input.value),
                      Tensor(type.dtype, type.shape()));
    }
  }

  // Outputs by name; those that replace an input are values then.
  std::map<std::string, Tensor> Step(std::map<std::string, Tensor> data) {
    std::vector<Tensor> inputs;
    for (const Input& input : program_.inputs) {
      const std::string& name = program_.value_name(input.value);
      ASYRA_CHECK(values_.contains(name) || data.contains(name));
      inputs.push_back(values_.contains(name) ? values_[name] : data[name]);
    }
    std::vector<Tensor> results = ASYRA_VALUE(Interpret(program_, inputs));
    std::map<std::string, Tensor> outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      const Output& output = program_.outputs[i];
      if (output.alias != kNoValue) {
        values_[program_.value_name(output.alias)] = results[i];
      }
      outputs[program_.output_name(output)] = results[i];
    }
    return outputs;
  }

  std::vector<double> Value(const std::string& name) const {
    return values_.at(name).ToDoubles();
  }
  void Set(const std::string& name, const Tensor& value) {
    values_[name] = value;
  }

 private:
  Program program_;
  std::map<std::string, Tensor> values_;
};

}  // namespace asyra
