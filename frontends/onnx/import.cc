#include "frontends/onnx/import.h"

#include <filesystem>

#include "frontends/onnx/bodies.h"
#include "frontends/onnx/body_importer.h"
#include "frontends/onnx/graph.h"
#include "frontends/onnx/input_dims.h"
#include "frontends/onnx/narrow_type.h"
#include "frontends/onnx/op_check.h"
#include "frontends/onnx/reader.h"
#include "frontends/onnx/role_override.h"
#include "frontends/onnx/stripped_export.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/lexer.h"
#include "ir/support/name_pattern.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

class Importer {
 public:
  Importer(const OnnxFile& file, const ImportOptions& options,
           DimNames* dim_names, OpSources* op_sources)
      : file_(file),
        model_(file.model->graph()),
        options_(options),
        dim_names_(*dim_names),
        op_sources_(*op_sources),
        external_(file.path) {
    read_tensor_ = [this](const onnx::TensorProto& proto) {
      return TensorFromProto(proto, file_.model, &external_);
    };
  }

  absl::StatusOr<Program> Run() {
    ASYRA_ASSIGN_OR_RETURN(Opsets opsets,
                           ReadOpsets(file_.model->opset_import()));
    ASYRA_ASSIGN_OR_RETURN(Bodies bodies, Bodies::Create(*file_.model, opsets));
    ASYRA_ASSIGN_OR_RETURN(std::vector<GraphInput> inputs,
                           BindInputs(model_, options_));
    ASYRA_ASSIGN_OR_RETURN(Body body, BodyOf(model_, GraphKind::kMain));
    ASYRA_RETURN_IF_ERROR(CheckOps(body, opsets, bodies));
    scope_.opsets = &opsets;
    ASYRA_RETURN_IF_ERROR(AddInputs(inputs, body, bodies));
    BodyImporter importer(bodies, read_tensor_, graph_);
    if (!options_.numbers.empty()) {
      absl::StatusOr<NamePattern> pattern =
          NamePattern::Parse(options_.numbers);
      if (!pattern.ok()) return Annotate(pattern.status(), "train");
      importer.set_numbers(*std::move(pattern));
    }
    ASYRA_RETURN_IF_ERROR(importer.AddInitializers(model_, body, &scope_));
    ASYRA_RETURN_IF_ERROR(importer.Import(body, &scope_));
    return Finish();
  }

 private:
  absl::Status AddInputs(const std::vector<GraphInput>& inputs,
                         const Body& body, Bodies& bodies) {
    absl::flat_hash_set<std::string_view> stripped =
        StrippedWeights(model_, body, bodies, inputs);
    ASYRA_ASSIGN_OR_RETURN(RoleOverride roles,
                           RoleOverride::Create(options_.data, options_.weights,
                                                options_.says_flags));
    for (const GraphInput& input : inputs) {
      std::string name = IrName(input.name);
      ASYRA_ASSIGN_OR_RETURN(
          InputRole role,
          roles.RoleOf(name, stripped.contains(input.name) ? InputRole::kWeight
                                                           : InputRole::kData));
      Value value = graph_.Input(name, input.type, role);
      if (input.symbolic) dim_names_[graph_.NameOf(value)] = input.dim_names;
      scope_.values[input.name] = std::move(value);
    }
    return roles.CheckMatched();
  }

  absl::StatusOr<Program> Finish() {
    std::vector<std::pair<std::string, ValueId>> outputs;
    for (const auto& output : model_.output()) {
      const std::optional<Value>* found = scope_.Find(output.name());
      if (found == nullptr) {
        return Invalid("output '{}' is one that its op does not give",
                       output.name());
      }
      const Value& value = **found;
      if (value.is_sequence()) {
        return Unimplemented("output '{}' is a sequence", output.name());
      }
      if (value.narrow() != nullptr) {
        return Unimplemented("output '{}' is {}, which is not supported",
                             output.name(), value.narrow()->name);
      }
      ASYRA_RETURN_IF_ERROR(CheckOutput(output, options_.dims, value.type()));
      graph_.set_name(IrName(output.name()));
      graph_.set_source("");
      ASYRA_ASSIGN_OR_RETURN(ValueId id, graph_.Materialize(value));
      outputs.emplace_back(IrName(output.name()), id);
    }
    std::string name = IrName(model_.name());
    if (name.empty()) name = "main";
    if (!IsName(name)) name = "_" + name;  // it begins with a digit
    return std::move(graph_).Finish(name, outputs, &op_sources_);
  }

  const OnnxFile& file_;
  const onnx::GraphProto& model_;
  const ImportOptions& options_;
  DimNames& dim_names_;
  OpSources& op_sources_;
  ExternalFiles external_;
  Node::ReadTensor read_tensor_;
  Scope scope_;
  Graph graph_;
};

// The message with names from the file as they can be printed: on one line.
std::string OneLine(const absl::Status& status) {
  std::string line;
  for (char c : MessageOf(status)) {
    bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    line += control ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  }
  return line;
}

}  // namespace
}  // namespace asyra::onnx_import

namespace asyra {

absl::StatusOr<Program> ImportOnnx(const std::string& path,
                                   const ImportOptions& options,
                                   DimNames* dim_names, OpSources* op_sources) {
  ASYRA_ASSIGN_OR_RETURN(onnx_import::OnnxFile file,
                         onnx_import::ReadOnnxFile(path));
  DimNames names;
  OpSources sources;
  absl::StatusOr<Program> program =
      onnx_import::Importer(file, options, &names, &sources).Run();
  if (!program.ok()) {
    return absl::Status(
        program.status().code(),
        fmt::format("{}: {}", path, onnx_import::OneLine(program.status())));
  }
  if (dim_names != nullptr) *dim_names = std::move(names);
  if (op_sources != nullptr) *op_sources = std::move(sources);
  return program;
}

}  // namespace asyra
