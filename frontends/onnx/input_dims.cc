#include "frontends/onnx/input_dims.h"

#include <set>

#include "absl/container/flat_hash_set.h"
#include "frontends/onnx/body_importer.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

class Binder {
 public:
  explicit Binder(const std::map<std::string, int64_t>& dims) : dims_(dims) {}

  // `known` is the input's shape where it is known, else null.
  absl::StatusOr<GraphInput> Bind(const onnx::ValueInfoProto& info,
                                  const Shape* known) {
    GraphInput input;
    input.name = info.name();
    ASYRA_RETURN_IF_ERROR(CheckKind(info.type()));
    const auto& type = info.type().tensor_type();
    ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(type.elem_type()));
    Shape shape;
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const auto& dim = type.shape().dim(i);
      input.symbolic |= !dim.has_dim_value();
      input.dim_names.push_back(dim.dim_param());
      shape.push_back(dim.has_dim_value()
                          ? dim.dim_value()
                          : Size(info.name(), i, dim.dim_param(), known));
    }
    ASYRA_RETURN_IF_ERROR(CheckShape(shape));
    input.type = Type(dtype, shape);
    return input;
  }

  // Errors of the bindings as a whole.
  absl::Status Check() const {
    if (unbound_.size() == 1) {
      const auto& [name, input] = *unbound_.begin();
      return Invalid("dim {} of input {} is not bound: give --dim {}=N", name,
                     input, name);
    }
    if (!unbound_.empty()) {
      std::string list, flags;
      for (const auto& [name, input] : unbound_) {
        list += fmt::format("{}{} of input {}", list.empty() ? "" : ", ", name,
                            input);
        flags += fmt::format(" --dim {}=N", name);
      }
      return Invalid("dims are not bound: {}: give{}", list, flags);
    }
    for (const auto& [name, size] : dims_) {
      if (known_.count(name) == 0) {
        return Invalid("no input has a dim {}; {}", name,
                       known_.empty() ? "all dims of this model are static"
                                      : fmt::format("there are {}",
                                                    fmt::join(known_, ", ")));
      }
      if (size < 1)
        return Invalid("dim {} is {}, it should be at least 1", name, size);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckKind(const onnx::TypeProto& type) {
    if (type.has_tensor_type() && type.tensor_type().has_shape()) {
      return absl::OkStatus();
    }
    return Unimplemented("it is {}, it should be a tensor of known rank",
                         type.has_tensor_type()     ? "a tensor of unknown rank"
                         : type.has_sequence_type() ? "a sequence"
                         : type.has_optional_type() ? "an optional value"
                         : type.has_map_type()      ? "a map"
                         : type.has_sparse_tensor_type() ? "a sparse tensor"
                                                         : "of no type");
  }

  int64_t Size(const std::string& input, int index, std::string name,
               const Shape* known) {
    if (name.empty()) name = fmt::format("{}.{}", input, index);
    known_.insert(name);
    auto found = dims_.find(name);
    if (found != dims_.end()) return std::max<int64_t>(found->second, 0);
    if (known != nullptr && static_cast<size_t>(index) < known->size()) {
      // The first input that has it decides; the others are compared with
      // their recordings when these are taken.
      return recorded_.emplace(name, (*known)[index]).first->second;
    }
    auto recorded = recorded_.find(name);
    if (recorded != recorded_.end()) return recorded->second;
    unbound_.emplace(name, input);
    return 1;
  }

  const std::map<std::string, int64_t>& dims_;
  std::map<std::string, int64_t> recorded_;
  std::set<std::string> known_;
  std::map<std::string, std::string> unbound_;  // to an input that has it
};

using InputInfos = std::vector<const onnx::ValueInfoProto*>;

// Those without an initializer.
InputInfos GivenInputs(const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string> initialized;
  for (const auto& tensor : graph.initializer()) {
    initialized.insert(tensor.name());
  }
  InputInfos inputs;
  for (const auto& info : graph.input()) {
    if (!initialized.contains(info.name())) inputs.push_back(&info);
  }
  return inputs;
}

// As ImportOptions::shapes says; null where it does not.
const Shape* ShapeOf(size_t input, const InputInfos& inputs,
                     const ImportOptions& options) {
  bool named = false;
  for (const auto& [name, shape] : options.shapes) {
    if (name == IrName(inputs[input]->name())) return &shape;
    for (const auto* info : inputs) named |= name == IrName(info->name());
  }
  if (named || input >= options.shapes.size()) return nullptr;
  return &options.shapes[input].second;
}

}  // namespace

absl::StatusOr<std::vector<GraphInput>> BindInputs(
    const onnx::GraphProto& graph, const ImportOptions& options) {
  std::vector<const onnx::ValueInfoProto*> infos = GivenInputs(graph);
  Binder binder(options.dims);
  std::vector<GraphInput> inputs;
  for (size_t i = 0; i < infos.size(); ++i) {
    const onnx::ValueInfoProto& info = *infos[i];
    absl::StatusOr<GraphInput> input =
        binder.Bind(info, ShapeOf(i, infos, options));
    if (!input.ok()) {
      return Annotate(input.status(), fmt::format("input {}", info.name()));
    }
    inputs.push_back(*std::move(input));
  }
  ASYRA_RETURN_IF_ERROR(binder.Check());
  return inputs;
}

absl::Status CheckOutput(const onnx::ValueInfoProto& declared,
                         const std::map<std::string, int64_t>& dims,
                         const Type& computed) {
  const auto& type = declared.type().tensor_type();
  if (type.has_elem_type()) {
    ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(type.elem_type()));
    if (dtype != computed.dtype) {
      return Invalid("output {} is declared {}, the graph computes {}",
                     declared.name(), ToString(dtype),
                     ToString(computed.dtype));
    }
  }
  if (!type.has_shape()) return absl::OkStatus();
  if (type.shape().dim_size() != computed.rank()) {
    return Invalid("output {} is declared with {} dims, the graph computes {}",
                   declared.name(), type.shape().dim_size(), computed.rank());
  }
  for (int i = 0; i < computed.rank(); ++i) {
    const auto& dim = type.shape().dim(i);
    auto bound = dims.find(dim.dim_param());
    int64_t size = dim.has_dim_value()   ? dim.dim_value()
                   : bound != dims.end() ? bound->second
                                         : computed.size(i);
    if (size != computed.size(i)) {
      return Invalid("output {}: dim {} is declared {}, the graph computes {}",
                     declared.name(), i, size, computed.size(i));
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra::onnx_import
