// Which weights of a model are its parameters: those that training changes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// How the model reads a parameter, which says what it begins with.
enum class ParameterUse {
  kMatrix,  // of a matmul, a convolution, or a table of rows
  kScale,   // multiplies, as a norm's does
  kBias,    // is added
};

struct Parameter {
  ValueId value = kNoValue;
  ParameterUse use = ParameterUse::kMatrix;
};

// In the order of the inputs. A parameter is a float weight of more than one
// element that a matmul or convolution multiplies by something computed from
// weights or float data, or that is a table, a norm's scale or bias, or is
// added to or multiplied with such a value. So frequencies that positions are
// multiplied with are none, nor are tables of rotary, masks and numbers.
std::vector<Parameter> FindParameters(const Program& program);

// Without those whose whole name `freeze` (a regular expression, empty: none)
// matches. Errors: no regular expression; one that matches no parameter.
absl::StatusOr<std::vector<Parameter>> WithoutFrozen(
    const Program& program, std::vector<Parameter> parameters,
    const std::string& freeze);

}  // namespace asyra
