#include "ir/interpreter.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "fmt/format.h"
#include "ir/overlap.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

bool IsMissing(const Tensor& tensor) {
  return tensor.rank() == 1 && tensor.size(0) == 0;
}

class Machine {
 public:
  explicit Machine(const Program& program)
      : program_(program),
        devices_(program.mesh.num_devices()),
        shards_(program.values.size()),
        uses_left_(program.values.size(), 0) {
    for (const Op& op : program.ops) {
      for (ValueId value : op.operands) ++uses_left_[value];
    }
    for (const Output& output : program.outputs) ++uses_left_[output.value];
  }

  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> inputs) {
    ASYRA_RETURN_IF_ERROR(Load(inputs));
    for (const Op& op : program_.ops) {
      absl::Status status =
          op.is_collective() ? RunCollective(op) : RunLocal(op);
      if (!status.ok()) return Annotate(status, ToString(program_, op));
      for (ValueId value : op.operands) {
        if (--uses_left_[value] == 0) shards_[value].clear();
      }
    }
    std::vector<Tensor> outputs;
    for (const Output& output : program_.outputs) {
      ASYRA_ASSIGN_OR_RETURN(Tensor whole, Collect(output));
      outputs.push_back(std::move(whole));
    }
    return outputs;
  }

 private:
  absl::Status Load(absl::Span<const Tensor> inputs) {
    if (inputs.size() != program_.inputs.size()) {
      return Invalid("{} inputs given, the program has {}", inputs.size(),
                     program_.inputs.size());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Input& input = program_.inputs[i];
      const std::string& name = program_.value_name(input.value);
      const Tensor* whole = &inputs[i];
      bool missing =
          IsMissing(*whole) && program_.GivenShape(input) != whole->shape();
      if (missing && program_.weights != nullptr) {
        whole = program_.weights->Find(name);
      }
      if (whole == nullptr || (missing && whole == &inputs[i])) {
        return Invalid("{} %{} has no data",
                       IsWeight(input) ? "weight" : "input", name);
      }
      ASYRA_RETURN_IF_ERROR(CheckStored(program_, input, *whole));
      absl::StatusOr<Tensor> read = ReadWhole(*whole);
      absl::Status status = read.status();
      if (status.ok()) status = LoadShards(input, *read);
      ASYRA_RETURN_IF_ERROR(Annotate(status, fmt::format("input %{}", name)));
    }
    return absl::OkStatus();
  }

  // Devices that hold the same part share it; replicated values are views of
  // the mapped file.
  absl::Status LoadShards(const Input& input, const Tensor& whole) {
    const Type& type = program_.type(input.value);
    std::vector<Tensor>& shards = shards_[input.value];
    if (!type.partial.empty()) {
      for (int64_t device = 0; device < devices_; ++device) {
        shards.push_back(Shard(whole, type, program_.mesh, device));
      }
      return absl::OkStatus();
    }
    if (type.shape() == whole.shape() &&
        type.Local(program_.mesh).shape() == whole.shape()) {
      shards.assign(devices_, whole);
      return absl::OkStatus();
    }
    std::map<Shape, int64_t> first_with;  // by where the part begins
    for (int64_t device = 0; device < devices_; ++device) {
      Shape start;
      for (const Dim& dim : type.dims) {
        start.push_back(ShardStart(dim, program_.mesh, device));
      }
      auto [same, added] = first_with.emplace(std::move(start), device);
      if (!added) {
        shards.push_back(shards[same->second]);
        continue;
      }
      ASYRA_ASSIGN_OR_RETURN(Tensor shard,
                             ReadShard(whole, type, program_.mesh, device));
      shards.push_back(std::move(shard));
    }
    return absl::OkStatus();
  }

  std::vector<Tensor> OperandsOn(const Op& op, int64_t device) const {
    std::vector<Tensor> operands;
    for (ValueId value : op.operands) {
      operands.push_back(shards_[value][device]);
    }
    return operands;
  }

  absl::Status RunLocal(const Op& op) {
    if (op.def->reference == nullptr) {
      return Unimplemented("{} has no reference", op.def->name);
    }
    std::vector<Type> operand_types = program_.OperandTypes(op);
    std::vector<Type> result_types = program_.ResultTypes(op);
    for (int64_t device = 0; device < devices_; ++device) {
      std::vector<Tensor> operands = OperandsOn(op, device);
      std::vector<Tensor> results;
      for (const Type& type : result_types) {
        results.emplace_back(type.dtype, type.Local(program_.mesh).shape());
      }
      ASYRA_RETURN_IF_ERROR(op.def->reference(
          {*op.def, op.attrs, operand_types, result_types, operands,
           absl::MakeSpan(results), program_.mesh, device}));
      ASYRA_RETURN_IF_ERROR(Keep(op, device, std::move(results)));
    }
    return absl::OkStatus();
  }

  absl::Status RunCollective(const Op& op) {
    const AxisList& axes = op.attrs.Get<AxisList>("axes");
    for (int64_t device = 0; device < devices_; ++device) {
      if (program_.mesh.GroupIndex(device, axes) != 0) continue;
      std::vector<int64_t> group = program_.mesh.Group(device, axes);
      std::vector<std::vector<Tensor>> results(group.size());  // by member
      for (ValueId value : op.operands) {
        std::vector<Tensor> operands, parts(group.size());
        for (int64_t member : group) {
          operands.push_back(shards_[value][member]);
        }
        ASYRA_RETURN_IF_ERROR(op.def->group_reference(
            {op.attrs, operands, absl::MakeSpan(parts)}));
        for (size_t i = 0; i < group.size(); ++i) {
          results[i].push_back(std::move(parts[i]));
        }
      }
      for (size_t i = 0; i < group.size(); ++i) {
        ASYRA_RETURN_IF_ERROR(Keep(op, group[i], std::move(results[i])));
      }
    }
    return absl::OkStatus();
  }

  // Enters one device's results, which must have the types' local shapes.
  absl::Status Keep(const Op& op, int64_t device, std::vector<Tensor> results) {
    for (size_t i = 0; i < results.size(); ++i) {
      Type local = program_.type(op.results[i]).Local(program_.mesh);
      if (results[i].shape() != local.shape() ||
          results[i].dtype() != local.dtype) {
        return absl::InternalError(fmt::format(
            "device {} computed {}{}, the type says {}{}", device,
            ToString(results[i].dtype()), ShapeToString(results[i].shape()),
            ToString(local.dtype), ShapeToString(local.shape())));
      }
      std::vector<Tensor>& shards = shards_[op.results[i]];
      shards.resize(devices_);
      shards[device] = std::move(results[i]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Collect(const Output& output) {
    ValueId value = output.value;
    const Type& type = program_.type(value);
    bool partial = !type.partial.empty();
    if ((partial && output.alias == kNoValue) || type.future) {
      return Invalid("output %{} is {}", program_.value_name(value),
                     ToString(type, program_.mesh));
    }
    Tensor whole = Unshard(shards_[value], type, program_.mesh);
    if (partial) return whole;
    for (int64_t device = 0; device < devices_; ++device) {
      if (!SameBytes(Shard(whole, type, program_.mesh, device),
                     shards_[value][device])) {
        return Invalid("output %{} differs between devices, on device {}",
                       program_.value_name(value), device);
      }
    }
    return whole;
  }

  const Program& program_;
  int64_t devices_;
  std::vector<std::vector<Tensor>> shards_;  // by value, then device
  std::vector<int> uses_left_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> Interpret(const Program& program,
                                              absl::Span<const Tensor> inputs) {
  ASYRA_ASSIGN_OR_RETURN(Program inlined, InlineOverlaps(program));
  return Machine(inlined).Run(inputs);
}

absl::StatusOr<std::vector<Tensor>> Evaluate(
    const OpDef& def, const AttrMap& attrs, absl::Span<const Tensor> operands) {
  std::vector<Type> types;
  for (const Tensor& operand : operands) {
    types.emplace_back(operand.dtype(), operand.shape());
  }
  Mesh mesh;
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> result_types,
                         InferTypes(def, attrs, types, mesh));
  if (def.reference == nullptr) {
    return Unimplemented("{} has no reference", def.name);
  }
  std::vector<Tensor> results;
  for (const Type& type : result_types) {
    results.emplace_back(type.dtype, type.shape());
  }
  ASYRA_RETURN_IF_ERROR(
      def.reference({def, attrs, types, result_types, operands,
                     absl::MakeSpan(results), mesh, 0}));
  return results;
}

namespace {

// Elements drawn of a larger tensor. A prime, so that no two rows of a matrix
// begin with the same bytes.
constexpr int64_t kDrawnElements = 4'194'301;

// Fills the tensor with copies of its first bytes.
void RepeatBytes(int64_t first, Tensor* tensor) {
  if (first == tensor->bytes()) return;
  auto* data = static_cast<std::byte*>(tensor->mutable_data());
  for (int64_t at = first; at < tensor->bytes(); at += first) {
    std::memcpy(data + at, data, std::min(first, tensor->bytes() - at));
  }
}

}  // namespace

std::vector<Tensor> RandomInputs(const Program& program, uint64_t seed,
                                 int64_t int_limit) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    bool weight = IsWeight(input);
    if (weight && program.weights != nullptr &&
        program.weights->Find(program.value_name(input.value)) != nullptr) {
      inputs.emplace_back();
      continue;
    }
    Tensor tensor(type.dtype, program.GivenShape(input));
    std::normal_distribution<double> normal(0, weight ? 0.02 : 1);
    std::uniform_int_distribution<int64_t> uniform(0, int_limit - 1);
    int64_t drawn = std::min(tensor.num_elements(), kDrawnElements);
    for (int64_t i = 0; i < drawn; ++i) {
      if (IsFloat(type.dtype)) {
        tensor.Set(i, normal(random));
      } else {
        tensor.SetInt(i, type.dtype == DType::kBool ? uniform(random) & 1
                                                    : uniform(random));
      }
    }
    RepeatBytes(drawn * SizeOf(type.dtype), &tensor);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace asyra
