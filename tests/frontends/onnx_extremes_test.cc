// Nodes with numbers that nobody means, in each attribute and list of sizes:
// each model is taken or refused, and none ends the process.
#include <limits>

#include "gtest/gtest.h"
#include "tests/frontends/run_model.h"

namespace asyra {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
// Their squares or fourth powers are 0 in 64 bits, or just beyond them.
constexpr int64_t kExtremes[] = {0,
                                 -1,
                                 int64_t{1} << 16,
                                 int64_t{1} << 31,
                                 int64_t{1} << 32,
                                 3037000500,
                                 int64_t{1} << 62,
                                 -(int64_t{1} << 32),
                                 -(int64_t{1} << 62),
                                 kLeast,
                                 kMost};

struct Operator {
  const char* name;
  std::vector<int> x = {1, 8, 4, 4};
  // Weights, in the order of the inputs behind x.
  std::vector<Sizes> weights;
  // Extreme numbers are in an attribute, or "[2]NAME" for one of two, or
  // "input" for the list of integers that is the last input.
  std::vector<std::string> extremes;
  int opset = 18;
  const char* domain = "";
  std::vector<std::pair<std::string, ModelBuilder::Attr>> others;
};

const Operator kOperators[] = {
    {.name = "DepthToSpace", .extremes = {"blocksize"}},
    {.name = "SpaceToDepth", .extremes = {"blocksize"}},
    {.name = "DepthToSpace", .x = {1, 0, 4, 4}, .extremes = {"blocksize"}},
    {.name = "SpaceToDepth", .x = {1, 8, 0, 0}, .extremes = {"blocksize"}},
    {.name = "GroupNormalization",
     .weights = {{8}, {8}},
     .extremes = {"num_groups"},
     .opset = 21},
    {.name = "LRN", .extremes = {"size"}},
    {.name = "AveragePool",
     .extremes = {"[1]kernel_shape", "[2]kernel_shape", "[3]kernel_shape"}},
    {.name = "MaxPool",
     .extremes = {"ceil_mode", "[2]kernel_shape", "[3]kernel_shape"}},
    {.name = "MaxPool",
     .extremes = {"[2]strides", "[2]dilations", "[4]pads"},
     .others = {{"kernel_shape", Sizes{2, 2}}}},
    {.name = "LpPool",
     .extremes = {"p"},
     .others = {{"kernel_shape", Sizes{2, 2}}}},
    {.name = "Conv",
     .weights = {{8, 8, 3, 3}},
     .extremes = {"group", "[2]strides", "[2]dilations", "[4]pads"}},
    {.name = "ConvTranspose",
     .weights = {{8, 8, 3, 3}},
     .extremes = {"group", "[2]strides", "[2]output_padding",
                  "[2]output_shape"}},
    {.name = "Softmax", .extremes = {"axis"}},
    {.name = "ArgMax", .extremes = {"axis"}},
    {.name = "Flatten", .extremes = {"axis"}},
    {.name = "EyeLike", .x = {3, 3}, .extremes = {"k"}},
    {.name = "Transpose", .extremes = {"[4]perm"}},
    {.name = "Split", .extremes = {"num_outputs", "axis"}},
    {.name = "LayerNormalization", .weights = {{4}}, .extremes = {"axis"}},
    {.name = "LpNormalization", .extremes = {"axis", "p"}},
    {.name = "Cast", .extremes = {"to"}},
    {.name = "Attention",
     .x = {2, 3, 8},
     .weights = {{2, 3, 8}, {2, 3, 8}},
     .extremes = {"q_num_heads", "kv_num_heads"},
     .opset = 23},
    {.name = "MultiHeadAttention",
     .x = {2, 3, 8},
     .weights = {{2, 3, 8}, {2, 3, 8}},
     .extremes = {"num_heads"},
     .domain = "com.microsoft"},
    {.name = "Attention",
     .x = {2, 3, 8},
     .weights = {{8, 24}, {24}},
     .extremes = {"num_heads"},
     .domain = "com.microsoft"},
    {.name = "LSTM",
     .x = {2, 3, 8},
     .weights = {{1, 32, 8}, {1, 32, 8}},
     .extremes = {"hidden_size"}},
    {.name = "Gather", .extremes = {"axis", "input"}},
    {.name = "GatherND", .extremes = {"batch_dims", "input"}},
    {.name = "Expand", .extremes = {"input"}},
    {.name = "Reshape", .extremes = {"input"}},
    {.name = "Tile", .extremes = {"input"}},
    {.name = "Pad", .extremes = {"input"}},
    {.name = "Squeeze", .extremes = {"input"}},
    {.name = "Unsqueeze", .extremes = {"input"}},
    {.name = "ReduceSum", .extremes = {"input"}},
    {.name = "CumSum", .extremes = {"input"}},
    {.name = "Trilu", .extremes = {"input"}},
    {.name = "TopK", .extremes = {"axis", "input"}},
};

// Makes a model of a node of `op` in which what `extreme` names is `number`.
ModelBuilder ModelOf(const Operator& op, const std::string& extreme,
                     int64_t number, size_t length) {
  ModelBuilder model = WithX(op.x, op.opset);
  std::vector<std::string> inputs = {"x"};
  for (const Sizes& dims : op.weights) {
    inputs.push_back("w" + std::to_string(inputs.size()));
    std::vector<float> ones(NumElements(dims), 1);
    model.Floats(inputs.back(), ones, dims);
  }
  auto attributes = op.others;
  if (extreme == "input") {
    inputs.push_back("numbers");
    Sizes numbers(std::max<size_t>(length, 1), 1);
    numbers[0] = number;
    model.Ints("numbers", numbers, length == 0 ? Sizes{} : Sizes{-1});
  } else if (extreme[0] == '[') {
    Sizes numbers(extreme[1] - '0', number);
    attributes.emplace_back(extreme.substr(3), numbers);
  } else {
    attributes.emplace_back(extreme, number);
  }
  model.Node(op.name, inputs, {"y"}, attributes);
  model.last().set_domain(op.domain);
  if (*op.domain != 0) {
    onnx::OperatorSetIdProto* import = model.model.add_opset_import();
    import->set_domain(op.domain);
    import->set_version(1);
  }
  return model;
}

TEST(OnnxExtremes, AreTakenOrRefused) {
  int taken = 0, refused = 0;
  for (const Operator& op : kOperators) {
    for (const std::string& extreme : op.extremes) {
      for (int64_t number : kExtremes) {
        for (size_t length : {0, 1, 4, 8}) {
          if (extreme != "input" && length > 0) break;
          SCOPED_TRACE(fmt::format("{} {} {}", op.name, extreme, number));
          ModelBuilder model = ModelOf(op, extreme, number, length);
          bool fine = model.ImportError().empty();
          ++(fine ? taken : refused);
        }
      }
    }
  }
  // Neither is all of them.
  EXPECT_GT(taken, 50);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace asyra
