#include "frontends/onnx/input_dims.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "frontends/onnx/body_importer.h"
#include "frontends/onnx/dim_expression.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

// The word as a shell takes it.
std::string ShellWord(const std::string& word) {
  bool plain = !word.empty();
  for (char c : word) {
    plain &= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             (c >= '0' && c <= '9') ||
             std::string_view("_.=:/-").find(c) != std::string_view::npos;
  }
  if (plain) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// A dimension of an input that has a name, or is called INPUT.INDEX.
std::string NameOfDim(const onnx::ValueInfoProto& info, int index) {
  const auto& dim = info.type().tensor_type().shape().dim(index);
  return dim.dim_param().empty() ? fmt::format("{}.{}", info.name(), index)
                                 : dim.dim_param();
}

// Sizes of the symbolic dimensions of all inputs.
class Binder {
 public:
  explicit Binder(const ImportOptions& options)
      : dims_(options.dims),
        known_as_(options.named_shapes ? "given" : "recorded"),
        says_flags_(options.says_flags),
        sizes_(options.dims) {}

  // Notes the dimensions of an input. `known` is its shape where that is known,
  // else null.
  void Note(const onnx::ValueInfoProto& info, const Shape* known) {
    const auto& shape = info.type().tensor_type().shape();
    for (int i = 0; i < shape.dim_size(); ++i) {
      if (shape.dim(i).has_dim_value()) continue;
      std::string name = NameOfDim(info, i);
      input_of_.emplace(name, info.name());
      if (known == nullptr || static_cast<size_t>(i) >= known->size()) continue;
      // The first input that has it decides; the others are compared with
      // their recordings when these are taken.
      sizes_.emplace(name, (*known)[i]);
    }
  }

  // Computes the dimensions that follow from others, once all are noted.
  // Errors are those of the dimensions as a whole.
  absl::Status Bind() {
    ASYRA_RETURN_IF_ERROR(CheckGiven());
    std::map<std::string, std::string> missing;  // to an input
    for (const auto& [name, input] : input_of_) {
      std::optional<std::vector<std::string>> terms = TermsOf(name);
      if (!terms.has_value()) {
        if (!sizes_.contains(name)) missing.emplace(name, input);
        continue;
      }
      bool known = true;
      for (const std::string& term : *terms) {
        if (sizes_.contains(term)) continue;
        known = false;
        // It is listed by itself if it is a separate dimension.
        auto own = input_of_.find(term);
        if (!sizes_.contains(name)) {
          missing.emplace(term, own == input_of_.end() ? input : own->second);
        }
      }
      if (known) ASYRA_RETURN_IF_ERROR(Compute(name, *terms));
    }
    if (!missing.empty()) return NotBound(missing);
    sizes_.merge(computed_);
    return absl::OkStatus();
  }

  absl::StatusOr<GraphInput> TypeOf(const onnx::ValueInfoProto& info) const {
    GraphInput input;
    input.name = info.name();
    const auto& type = info.type().tensor_type();
    ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(type.elem_type()));
    Shape shape;
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const auto& dim = type.shape().dim(i);
      input.symbolic |= !dim.has_dim_value();
      input.dim_names.push_back(dim.dim_param());
      shape.push_back(dim.has_dim_value() ? dim.dim_value()
                                          : sizes_.at(NameOfDim(info, i)));
    }
    ASYRA_RETURN_IF_ERROR(CheckShape(shape));
    input.type = Type(dtype, shape);
    return input;
  }

 private:
  // The names in an expression of which one at least has a size or is a
  // dimension itself: a name with a hyphen is not to be taken for a difference.
  std::optional<std::vector<std::string>> TermsOf(
      const std::string& name) const {
    std::optional<std::vector<std::string>> terms = NamesInDim(name);
    if (!terms.has_value()) return std::nullopt;
    for (const std::string& term : *terms) {
      if (sizes_.contains(term) || input_of_.contains(term)) return terms;
    }
    return std::nullopt;
  }

  absl::Status CheckGiven() const {
    std::set<std::string> known;
    for (const auto& [name, input] : input_of_) {
      known.insert(name);
      for (const std::string& term :
           NamesInDim(name).value_or(std::vector<std::string>())) {
        known.insert(term);
      }
    }
    for (const auto& [name, size] : dims_) {
      if (!known.contains(name)) {
        std::vector<std::string> names;
        for (const auto& [dim, input] : input_of_) names.push_back(dim);
        return Invalid("no input has a dim {}; {}", name,
                       names.empty() ? "all dims of this model are static"
                                     : fmt::format("there are {}",
                                                   fmt::join(names, ", ")));
      }
      if (size < 0) {
        return Invalid("dim {} is {}, it should be at least 0", name, size);
      }
    }
    return absl::OkStatus();
  }

  // `name`, all of whose `terms` have sizes. Error: another size is known.
  absl::Status Compute(const std::string& name,
                       const std::vector<std::string>& terms) {
    std::string values;  // "past=64"
    for (const std::string& term : terms) {
      values += fmt::format("{}{}={}", values.empty() ? "" : ", ", term,
                            sizes_.at(term));
    }
    std::string place =
        fmt::format("dim {} of input {}", name, input_of_.at(name));
    absl::StatusOr<int64_t> value = ValueOfDim(
        name, [&](const std::string& term) { return sizes_.at(term); });
    if (!value.ok()) return Annotate(value.status(), place);
    if (*value < 0) return Invalid("{} is {} with {}", place, *value, values);
    auto found = sizes_.find(name);
    if (found != sizes_.end() && found->second != *value) {
      return Invalid("{} is {} with {}, it is {} as {}", place, *value, values,
                     dims_.contains(name) ? "given" : known_as_, found->second);
    }
    computed_.emplace(name, *value);
    return absl::OkStatus();
  }

  absl::Status NotBound(
      const std::map<std::string, std::string>& missing) const {
    std::vector<std::string> places, sizes;
    for (const auto& [name, input] : missing) {
      places.push_back(fmt::format("{} of input {}", name, input));
      sizes.push_back(name + "=N");
      if (says_flags_) sizes.back() = "--dim " + ShellWord(sizes.back());
    }
    std::string give = fmt::format("{}{}", says_flags_ ? "" : "dims ",
                                   fmt::join(sizes, says_flags_ ? " " : ","));
    if (missing.size() == 1) {
      return Invalid("dim {} is not bound: give {}", places[0], give);
    }
    return Invalid("dims are not bound: {}: give {}", fmt::join(places, ", "),
                   give);
  }

  const std::map<std::string, int64_t>& dims_;
  const std::string_view known_as_;  // "given" or "recorded" shapes
  const bool says_flags_;
  std::map<std::string, int64_t> sizes_;  // given, recorded, then computed
  std::map<std::string, int64_t> computed_;
  std::map<std::string, std::string> input_of_;  // an input that has the dim
};

absl::Status CheckKind(const onnx::TypeProto& type) {
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

using InputInfos = std::vector<const onnx::ValueInfoProto*>;

// Returns the inputs without an initializer.
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

// Returns the shape that ImportOptions::shapes gives; null if it gives none.
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

// Error: a name, in `inputs` or of a shape, that no input has.
absl::Status CheckNames(const InputInfos& inputs,
                        const ImportOptions& options) {
  std::vector<std::string> names, given = options.inputs;
  for (const auto* info : inputs) names.push_back(IrName(info->name()));
  for (const auto& [name, shape] : options.shapes) {
    if (options.named_shapes) given.push_back(name);
  }
  for (const std::string& name : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return NotFound(
        "no input is called {}, there {} {}", name,
        names.size() == 1 ? "is" : "are",
        names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<GraphInput>> BindInputs(
    const onnx::GraphProto& graph, const ImportOptions& options) {
  std::vector<const onnx::ValueInfoProto*> infos = GivenInputs(graph);
  ASYRA_RETURN_IF_ERROR(CheckNames(infos, options));
  auto at = [](const onnx::ValueInfoProto* info, const absl::Status& status) {
    return Annotate(status, fmt::format("input {}", info->name()));
  };
  Binder binder(options);
  for (size_t i = 0; i < infos.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(at(infos[i], CheckKind(infos[i]->type())));
    binder.Note(*infos[i], ShapeOf(i, infos, options));
  }
  ASYRA_RETURN_IF_ERROR(binder.Bind());
  std::vector<GraphInput> inputs;
  for (const onnx::ValueInfoProto* info : infos) {
    absl::StatusOr<GraphInput> input = binder.TypeOf(*info);
    if (!input.ok()) return at(info, input.status());
    inputs.push_back(*std::move(input));
  }
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
