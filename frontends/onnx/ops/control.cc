// Control flow that is decided while importing: programs are straight lines.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// Iterations are written out.
constexpr int64_t kMostIterations = 16 * 1024;

// A condition or count as the one element it should have.
absl::StatusOr<int64_t> Decided(const Value& value, std::string_view name,
                                std::string_view what, DType dtype) {
  if (value.is_sequence() || value.dtype() != dtype ||
      value.type().num_elements() != 1) {
    return Invalid("{} '{}' should be one {}", what, name, ToString(dtype));
  }
  if (!value.known()) {
    return Unimplemented(
        "{} '{}' is not constant: control flow cannot depend on the model's "
        "data",
        what, name);
  }
  return value.data().GetInt(0);
}

// Loop-carried values, and the scan outputs of each iteration.
class Iterations {
 public:
  Iterations(Node& node, std::vector<Value> carried)
      : node_(node),
        carried_(std::move(carried)),
        collected_(std::max<size_t>(node.num_outputs(), carried_.size()) -
                   carried_.size()) {}

  const std::vector<Value>& carried() const { return carried_; }
  size_t num_results() const { return carried_.size() + collected_.size(); }

  // `results` are those of the body from `first` on.
  absl::Status Add(const std::vector<Value>& results, size_t first) {
    if (++count_ > kMostIterations) {
      return Unimplemented("it has more than {} iterations", kMostIterations);
    }
    for (Value& value : carried_) value = results[first++];
    for (auto& values : collected_) values.push_back(results[first++]);
    return absl::OkStatus();
  }

  // Sets the node's outputs; those that are collected are stacked along
  // `axes`, reversed where `backwards`.
  absl::Status Finish(const Ints& axes, const Ints& backwards) {
    for (size_t i = 0; i < carried_.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(node_.SetOutput(static_cast<int>(i), carried_[i]));
    }
    for (size_t i = 0; i < collected_.size(); ++i) {
      int output = static_cast<int>(carried_.size() + i);
      if (!node_.WantsOutput(output)) continue;
      if (count_ == 0) {
        return Unimplemented("output {} collects the results of no iteration",
                             output);
      }
      std::vector<Value>& values = collected_[i];
      if (i < backwards.size() && backwards[i] != 0) {
        std::reverse(values.begin(), values.end());
      }
      ASYRA_RETURN_IF_ERROR(node_.SetOutput(
          output, Joined(node_, values, i < axes.size() ? axes[i] : 0, true)));
    }
    return absl::OkStatus();
  }

 private:
  Node& node_;
  std::vector<Value> carried_;
  std::vector<std::vector<Value>> collected_;
  int64_t count_ = 0;
};

}  // namespace

absl::Status If(Node& node) {
  node.Ignore("then_branch");
  node.Ignore("else_branch");
  ASYRA_ASSIGN_OR_RETURN(int64_t taken, Decided(node.In(0), node.InputName(0),
                                                "condition", DType::kBool));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> results,
                         node.Run(taken != 0 ? "then_branch" : "else_branch",
                                  {}, static_cast<size_t>(node.num_outputs())));
  for (size_t i = 0; i < results.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(node.SetOutput(static_cast<int>(i), results[i]));
  }
  return absl::OkStatus();
}

absl::Status Loop(Node& node) {
  int64_t trips = INT64_MAX, go = 1;
  if (node.Has(0)) {
    ASYRA_ASSIGN_OR_RETURN(trips, Decided(node.In(0), node.InputName(0),
                                          "trip count", DType::kI64));
  }
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(
        go, Decided(node.In(1), node.InputName(1), "condition", DType::kBool));
  }
  std::vector<Value> carried;
  for (int i = 2; i < node.num_inputs(); ++i) {
    if (!node.Has(i)) return Invalid("input {} is left out", i);
    carried.push_back(node.In(i));
  }
  node.Ignore("body");
  Iterations iterations(node, std::move(carried));
  Value yes = node.graph().Scalar(1, DType::kBool);
  for (int64_t i = 0; i < trips && go != 0; ++i) {
    std::vector<Value> inputs = {
        Value::Known(Tensor::FromInts(DType::kI64, {}, {i})), yes};
    inputs.insert(inputs.end(), iterations.carried().begin(),
                  iterations.carried().end());
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Value> results,
        node.Run("body", std::move(inputs), 1 + iterations.num_results(),
                 std::to_string(i)));
    ASYRA_RETURN_IF_ERROR(iterations.Add(results, 1));
    // Without an initial condition, that of the body is ignored.
    if (!node.Has(1) || i + 1 == trips) continue;
    ASYRA_ASSIGN_OR_RETURN(
        go, Decided(results[0], fmt::format("after iteration {}", i),
                    "condition", DType::kBool));
  }
  return iterations.Finish({}, {});
}

absl::Status Scan(Node& node) {
  int64_t scanned = node.Int("num_scan_inputs", 0);
  int first = node.num_inputs() - static_cast<int>(scanned);
  if (scanned < 1 || first < 0) {
    return Invalid("num_scan_inputs is {}, the node has {} inputs", scanned,
                   node.num_inputs());
  }
  Ints axes = node.IntList("scan_input_axes");
  Ints backwards = node.IntList("scan_input_directions");
  axes.resize(scanned, 0);
  backwards.resize(scanned, 0);
  std::vector<Value> all = node.Inputs();
  std::vector<Value> rows(all.begin() + first, all.end());
  int64_t length = 0;
  for (int64_t k = 0; k < scanned; ++k) {
    ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axes[k], rows[k].rank()));
    axes[k] = dim;
    int64_t size = rows[k].type().size(dim);
    if (k > 0 && size != length) {
      return Invalid("scan inputs differ in length: {} and {}", length, size);
    }
    length = size;
  }
  node.Ignore("body");
  Iterations iterations(node, {all.begin(), all.begin() + first});
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Value> inputs = iterations.carried();
    for (int64_t k = 0; k < scanned; ++k) {
      int dim = static_cast<int>(axes[k]);
      int64_t at = backwards[k] != 0 ? length - 1 - i : i;
      ASYRA_ASSIGN_OR_RETURN(Value row,
                             node.graph().Slice(rows[k], dim, at, at + 1));
      asyra::Shape shape = row.shape();
      shape.erase(shape.begin() + dim);
      ASYRA_ASSIGN_OR_RETURN(row, node.graph().Reshape(row, shape));
      inputs.push_back(std::move(row));
    }
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Value> results,
        node.Run("body", std::move(inputs), iterations.num_results(),
                 std::to_string(i)));
    ASYRA_RETURN_IF_ERROR(iterations.Add(results, 0));
  }
  return iterations.Finish(node.IntList("scan_output_axes"),
                           node.IntList("scan_output_directions"));
}

}  // namespace asyra::onnx_import::ops
