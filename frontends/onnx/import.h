// ONNX models as programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

struct ImportOptions {
  // Sizes of symbolic dimensions, by name: `--dim batch=4`. A dimension that
  // has neither size nor name is called INPUT.INDEX.
  std::map<std::string, int64_t> dims;
};

// The model as a program of stage global. Every shape is static: what depends
// on shapes alone is computed here, and an S x S mask is not materialised.
//
// Roles: initializers that the graph computes with become weights, with their
// data in Program::weights (views of the file). A graph input of float type,
// static shape and rank >= 1 is a weight without data when the model has
// another input that is an integer or has a symbolic dimension (the way large
// models are exported without their weights); all other graph inputs are data.
//
// Errors name the file and the node, and come all at once for symbolic
// dimensions without a size, and for ops that are not known.
absl::StatusOr<Program> ImportOnnx(const std::string& path,
                                   const ImportOptions& options = {});

// One tensor in a file of its own, with its name.
absl::StatusOr<std::pair<std::string, Tensor>> ReadTensorProto(
    const std::string& path);

// Recorded inputs and outputs of a model, ONNX's own test layout.
struct TestData {
  std::vector<std::pair<std::string, Tensor>> inputs;
  std::vector<std::pair<std::string, Tensor>> outputs;
};
// input_0.pb, input_1.pb, ... and output_0.pb, ... of a folder. Error: there
// is no output_0.pb, or a file is no tensor.
absl::StatusOr<TestData> ReadTestData(const std::string& folder);

}  // namespace asyra
