#include "tests/support/differences.h"

#include <cmath>

#include "ir/interpreter.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr double kStep = 1e-4;

absl::StatusOr<double> LossAt(const Program& program,
                              std::vector<Tensor> inputs, size_t input,
                              int64_t element, double change) {
  Tensor& tensor = inputs[input];
  tensor = Tensor::FromDoubles(tensor.dtype(), tensor.shape(),
                               tensor.ToDoubles());  // its own memory
  tensor.Set(element, tensor.Get(element) + change);
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                         Interpret(program, inputs));
  return outputs[0].Get(0);
}

absl::Status CheckGradient(const Program& program,
                           const std::vector<Tensor>& inputs, size_t input,
                           const Tensor& gradient, double tolerance) {
  for (int64_t i = 0; i < gradient.num_elements(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(double above,
                           LossAt(program, inputs, input, i, kStep));
    ASYRA_ASSIGN_OR_RETURN(double below,
                           LossAt(program, inputs, input, i, -kStep));
    double slope = (above - below) / (2 * kStep);
    if (std::abs(gradient.Get(i) - slope) <=
        tolerance * (1 + std::abs(slope))) {
      continue;
    }
    return Invalid(
        "the gradient of %{} is {} at element {}, differences "
        "say {}",
        program.value_name(program.inputs[input].value), gradient.Get(i), i,
        slope);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GradientsAreDifferences(const Program& program,
                                     const std::vector<Tensor>& inputs,
                                     double tolerance) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                         Interpret(program, inputs));
  int checked = 0;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.output_name(program.outputs[o]) !=
          program.value_name(program.inputs[i].value) + ".grad") {
        continue;
      }
      ASYRA_RETURN_IF_ERROR(
          CheckGradient(program, inputs, i, outputs[o], tolerance));
      ++checked;
    }
  }
  if (checked > 0) return absl::OkStatus();
  return Invalid("no output is the gradient of an input");
}

}  // namespace asyra
