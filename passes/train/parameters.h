// Which weights of a model are its parameters: those that training changes.
#pragma once

#include <string>
#include <string_view>
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
// multiplied with are none, nor are tables of rotary and numbers, nor constant
// structure, as its data tells (docs/training.md has the rules): a triangle of
// one number beside zeros that a matmul contracts, zeros and ones that
// multiply, zeros and numbers below -1000 that are added.
std::vector<Parameter> FindParameters(const Program& program);

// The other float weights, and why they are none.
struct UntrainedWeight {
  ValueId value = kNoValue;
  std::string_view reason;  // "it is a triangle of one number"
};
std::vector<UntrainedWeight> FindUntrained(const Program& program);

// Without those whose whole name `freeze` (a regular expression, empty: none)
// matches. Errors: no regular expression; one that matches no parameter, or
// all of them.
absl::StatusOr<std::vector<Parameter>> WithoutFrozen(
    const Program& program, std::vector<Parameter> parameters,
    const std::string& freeze);

}  // namespace asyra
