#include "frontends/onnx/input_dims.h"

#include <set>

#include "absl/container/flat_hash_set.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

class Binder {
 public:
  explicit Binder(const std::map<std::string, int64_t>& dims) : dims_(dims) {}

  absl::StatusOr<GraphInput> Bind(const onnx::ValueInfoProto& info) {
    GraphInput input;
    input.name = info.name();
    if (!info.type().has_tensor_type() ||
        !info.type().tensor_type().has_shape()) {
      return Unimplemented("input {} is not a tensor of known rank",
                           info.name());
    }
    const auto& type = info.type().tensor_type();
    ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(type.elem_type()));
    Shape shape;
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const auto& dim = type.shape().dim(i);
      input.symbolic |= !dim.has_dim_value();
      shape.push_back(dim.has_dim_value()
                          ? dim.dim_value()
                          : Size(info.name(), i, dim.dim_param()));
    }
    ASYRA_RETURN_IF_ERROR(CheckShape(shape));
    input.type = Type(dtype, shape);
    return input;
  }

  // What is wrong with the bindings as a whole.
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
  int64_t Size(const std::string& input, int index, std::string name) {
    if (name.empty()) name = fmt::format("{}.{}", input, index);
    known_.insert(name);
    auto found = dims_.find(name);
    if (found != dims_.end()) return std::max<int64_t>(found->second, 0);
    unbound_.emplace(name, input);
    return 1;
  }

  const std::map<std::string, int64_t>& dims_;
  std::set<std::string> known_;
  std::map<std::string, std::string> unbound_;  // to an input that has it
};

}  // namespace

absl::StatusOr<std::vector<GraphInput>> BindInputs(
    const onnx::GraphProto& graph, const std::map<std::string, int64_t>& dims) {
  absl::flat_hash_set<std::string> initialized;
  for (const auto& tensor : graph.initializer()) {
    initialized.insert(tensor.name());
  }
  Binder binder(dims);
  std::vector<GraphInput> inputs;
  for (const auto& info : graph.input()) {
    if (initialized.contains(info.name())) continue;
    absl::StatusOr<GraphInput> input = binder.Bind(info);
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
