// Inputs that users give to a run: files and numbers on the command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "ir/tensor.h"
#include "tools/weight_data.h"

namespace asyra {

// One `NAME=VALUE` of --input.
struct GivenInput {
  enum class Form {
    kTensor,   // with a type and a shape, from a file
    kNested,   // numbers in brackets: a shape, and no type
    kNumbers,  // numbers in a row: neither
    kRaw,      // bytes of a file: neither
  };
  std::string name;   // as the program has it
  std::string value;  // as it was given, for messages
  Form form = Form::kTensor;
  Tensor data;        // numbers are i64 or f64; empty for kRaw
  std::string bytes;  // of kRaw
};

// Reads the values, which are, by their form:
// - "[[1, 2], [3, 4]]": numbers, true or false, in the shape of the brackets;
// - "1,2,3": numbers by rows in the shape of the program, or one for all;
// - FILE.npy, FILE.pb (an ONNX TensorProto), FILE.safetensors:TENSOR, where the
//   tensor may be left out if it has the input's name or is alone;
// - any other FILE: raw little-endian bytes in type and shape of the program.
// Errors name the argument: no NAME=, a name given twice, those of the files.
absl::StatusOr<std::vector<GivenInput>> ReadGivenInputs(
    absl::Span<const std::string> arguments);

// The shapes of those that have one: they bind symbolic dimensions.
std::vector<std::pair<std::string, Shape>> ShapesOf(
    absl::Span<const GivenInput> given);

// Replaces those of `inputs`, one for each input of the program, that are
// given, in its element types (ConvertTensor; numbers on the command line are
// rounded to a float type). `lacking` are weights without data, which may be
// given too. Errors: a name that no such input has, which lists those there
// are; another shape, both named; values that the type does not hold; data
// inputs that are not given, all in one message. States of a training step and
// its rate may be left out.
absl::Status TakeGivenInputs(const Program& program,
                             absl::Span<const GivenInput> given,
                             absl::Span<const std::string> lacking, bool round,
                             std::vector<Tensor>* inputs);

}  // namespace asyra
