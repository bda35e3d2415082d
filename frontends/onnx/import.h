// ONNX models as programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dim_names.h"
#include "ir/op_sources.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

struct ImportOptions {
  // Sizes of symbolic dimensions, by name: `--dim batch=4`. A dimension that
  // has neither size nor name is called INPUT.INDEX. One whose name is an
  // expression of others, "past + 1", follows from them.
  std::map<std::string, int64_t> dims;
  // Shapes of inputs, as they are recorded for example: they bind the symbolic
  // dimensions that `dims` leaves open. By name, or in order if no name is that
  // of an input.
  std::vector<std::pair<std::string, Shape>> shapes;
  // By name alone: a name in `shapes` that no input has is an error.
  bool named_shapes = false;
  // Names that inputs must have, with known shapes or without.
  std::vector<std::string> inputs;
  // Inputs whose names match are data, or weights, whatever the file looks
  // like: regular expressions for the whole name in the program; empty: none.
  std::string data, weights;
  // Stored floats of one element that become weights, whatever their names look
  // like: a regular expression for the whole name; empty: only those that have
  // a parameter's name (exported_names.h). The others are constants.
  std::string numbers;
  // Errors speak of flags of the tools, `give --dim batch=N`, instead of these
  // fields, `give dims batch=N`.
  bool says_flags = false;
};

// The model as a program of stage global. Every shape is static: what depends
// on shapes alone is computed here, and an S x S mask is not materialised.
//
// Roles: initializers that the graph computes with become weights, with their
// data in Program::weights (views of the file). A weight is called as the file
// calls it, with '_' for characters that the text form does not take, and
// Input::origin has the file's name; a matrix that an exporter has folded gets
// the name that the model gave it. A graph input is data, unless
// the file is a stripped export, one without weights of its own: inputs that
// take the place of weights are then weights without data (stripped_export.h).
//
// Errors name the file and the node, and come all at once for symbolic
// dimensions without a size, and for ops that are not known; a pattern that
// matches no input, or both match one.
//
// `dim_names`, unless null, gets what the file calls the symbolic dimensions of
// the program's inputs; `op_sources` the nodes of its ops.
absl::StatusOr<Program> ImportOnnx(const std::string& path,
                                   const ImportOptions& options = {},
                                   DimNames* dim_names = nullptr,
                                   OpSources* op_sources = nullptr);

// The name that ImportOnnx gives to a value of the file: characters other than
// letters, digits, '_' and '.' become '_'.
std::string ProgramName(std::string_view name);

// One tensor in a file of its own, with its name.
absl::StatusOr<std::pair<std::string, Tensor>> ReadTensorProto(
    const std::string& path);
// The bytes of such a file. Error: 2 GiB or more, which the format does not
// take.
absl::StatusOr<std::string> TensorProtoBytes(std::string_view name,
                                             const Tensor& tensor);

// Recorded inputs and outputs of a model, ONNX's own test layout. Names are
// spelled as in the program that ImportOnnx makes.
struct TestData {
  std::vector<std::pair<std::string, Tensor>> inputs;
  std::vector<std::pair<std::string, Tensor>> outputs;
};
// input_0.pb, input_1.pb, ... and output_0.pb, ... of a folder. Errors, each
// with its own sentence: no such folder, a file instead of one, a folder whose
// subfolders have the data, no output_0.pb, a file that is no tensor.
absl::StatusOr<TestData> ReadTestData(const std::string& folder);
// The inputs alone. Errors: the same, and no input_0.pb.
absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadTestInputs(
    const std::string& folder);

}  // namespace asyra
