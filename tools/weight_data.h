// Sources of the data of a program's weights, and messages for weights without
// data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Names of the weights that the program's store has no data for.
std::vector<std::string> WeightsWithoutData(const Program& program);

// Gives tensors of `data` to weights of their names that have none; others are
// left alone. Error: another element type or shape, both named.
absl::Status AddWeightData(const NamedTensors& data, Program* program);

// The tensors of `data` that have none of these names.
NamedTensors Without(const std::vector<std::string>& names,
                     const NamedTensors& data);

// The error for weights of the program file `path` without data: names them and
// the file where the data should be.
absl::Status NoWeightData(const std::vector<std::string>& names,
                          const std::string& path);

// "weights from inputs: a, b, c, ... (291)\n" for weights without data in an
// .onnx file; else empty.
std::string WeightsFromInputsLine(const std::string& model,
                                  const std::vector<std::string>& names);

}  // namespace asyra
