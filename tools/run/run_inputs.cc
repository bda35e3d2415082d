#include "tools/run/run_inputs.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "executor/comm/choices.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/weights/random_tensors.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"
#include "passes/train/attach_updates.h"
#include "passes/train/step_phase.h"

namespace asyra {
namespace {

constexpr int64_t kDefaultIndexLimit = 4;
constexpr double kWeightDeviation = 0.02;

int Find(const NamedTensors& tensors, std::string_view name) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].first == name) return static_cast<int>(i);
  }
  return -1;
}

// Positions in program.inputs of those that are given at each run.
std::vector<size_t> GivenInputs(const Program& program) {
  std::vector<size_t> given;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (!IsWeight(program.inputs[i])) given.push_back(i);
  }
  return given;
}

absl::Status CheckType(const Program& program, size_t input,
                       const std::pair<std::string, Tensor>& recorded) {
  ValueId value = program.inputs[input].value;
  const Type& type = program.type(value);
  const Tensor& tensor = recorded.second;
  Shape shape = program.GivenShape(program.inputs[input]);
  if (tensor.dtype() == type.dtype && tensor.shape() == shape) {
    return absl::OkStatus();
  }
  return Invalid("recorded input {} is {}{}, the program's %{} is {}{}",
                 recorded.first, ToString(tensor.dtype()),
                 ShapeToString(tensor.shape()), program.value_name(value),
                 ToString(type.dtype), ShapeToString(shape));
}

// Finds which recorded tensor each of the `given` inputs takes.
absl::StatusOr<std::vector<int>> Match(const Program& program,
                                       const std::vector<size_t>& given,
                                       const NamedTensors& recorded) {
  if (recorded.size() != given.size()) {
    return Invalid("{} {} recorded, the program takes {}", recorded.size(),
                   recorded.size() == 1 ? "input is" : "inputs are",
                   given.size());
  }
  std::vector<int> match(given.size());
  int named = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    ValueId value = program.inputs[given[i]].value;
    match[i] = Find(recorded, program.value_name(value));
    named += match[i] >= 0;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (named == 0) match[i] = static_cast<int>(i);
    if (match[i] < 0) {
      return Invalid("input %{} is not recorded, others are by name",
                     program.value_name(program.inputs[given[i]].value));
    }
  }
  return match;
}

// Names of the inputs whose rows are ones, then zeros.
std::set<std::string> PaddingMasks(const Program& program) {
  std::set<std::string> names;
  for (const Op& op : program.ops) {
    if (op.def->name != "mask_lengths") continue;
    names.insert(op.attrs.Get<std::string>("input"));
  }
  return names;
}

Tensor Ones(DType dtype, const Shape& shape) {
  Tensor ones(dtype, shape);
  for (int64_t i = 0; i < ones.num_elements(); ++i) ones.Set(i, 1);
  return ones;
}

// Random values for all inputs without data: floats are normal, with standard
// deviation kWeightDeviation for weights and 1 for data; integers are valid
// indices; padding masks, of which no row may be random, are ones. Inputs that
// are none of the weights stay empty unless `data`.
std::vector<Tensor> RandomValues(const Program& program, bool data,
                                 uint64_t seed) {
  RandomTensors random(seed);
  int64_t limit = IndexLimit(program);
  bool training = !PhasesOf(program).empty();
  const std::set<std::string> masks = PaddingMasks(program);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    bool weight = IsWeight(input);
    bool has_data = weight && program.weights != nullptr &&
                    program.weights->Find(name) != nullptr;
    bool zeros = training && input.role == InputRole::kState;
    Tensor& tensor = inputs.emplace_back();
    if (has_data || zeros || (!weight && !data)) continue;
    DType dtype = program.type(input.value).dtype;
    Shape shape = program.GivenShape(input);
    if (masks.contains(name)) {
      tensor = Ones(dtype, shape);
      continue;
    }
    tensor = IsFloat(dtype) ? random.Normal(name, dtype, shape,
                                            weight ? kWeightDeviation : 1)
                            : random.Uniform(name, dtype, shape, limit);
  }
  return inputs;
}

// Random moments would mean nothing: those of squares are not negative.
void BeginTraining(const Program& program, std::vector<Tensor>* inputs) {
  if (PhasesOf(program).empty()) return;
  for (size_t i = 0; i < inputs->size(); ++i) {
    const Input& input = program.inputs[i];
    const Type& type = program.type(input.value);
    if (input.role == InputRole::kState) {
      (*inputs)[i] = UnstoredZeros(type.dtype, type.shape());
    } else if (program.value_name(input.value) == kRate) {
      (*inputs)[i] = Tensor::FromDoubles(type.dtype, {}, {kRunRate});
    }
  }
}

}  // namespace

int64_t IndexLimit(const Program& program) {
  int64_t limit = INT64_MAX;
  // Rows of padding do not count.
  std::vector<Shape> shapes;
  for (const Value& value : program.values)
    shapes.push_back(value.type.shape());
  for (const Input& input : program.inputs) {
    shapes[input.value] = program.GivenShape(input);
  }
  for (const Op& op : program.ops) {
    if (op.def->axes == nullptr) continue;
    absl::StatusOr<AxisRule> rule = AxisRuleOf(OpUse(program, op));
    if (!rule.ok()) continue;
    // A positional reduction factor is that of a table's rows, except in a
    // mean, where it is that of the elements.
    if (rule->linearity == Linearity::kJoint) continue;
    if (FindAttr(*op.def, "rows") != nullptr && op.attrs.Int("rows") >= 0) {
      limit = std::min(limit, op.attrs.Int("rows"));
    }
    for (size_t k = 0; k < rule->operands.size(); ++k) {
      for (size_t d = 0; d < rule->operands[k].size(); ++d) {
        for (FactorId factor : rule->operands[k][d]) {
          const Factor& f = rule->factors[factor];
          if (!f.positional || f.kind != FactorKind::kSum) continue;
          limit = std::min(limit, shapes[op.operands[k]][d]);
        }
      }
    }
  }
  return limit == INT64_MAX ? kDefaultIndexLimit : std::max<int64_t>(limit, 1);
}

absl::StatusOr<std::vector<Tensor>> RunInputs(const Program& program,
                                              const NamedTensors& recorded,
                                              uint64_t seed) {
  std::vector<Tensor> inputs = RandomValues(program, recorded.empty(), seed);
  BeginTraining(program, &inputs);
  if (recorded.empty()) return inputs;
  std::vector<size_t> given = GivenInputs(program);
  ASYRA_ASSIGN_OR_RETURN(std::vector<int> match,
                         Match(program, given, recorded));
  for (size_t i = 0; i < given.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(CheckType(program, given[i], recorded[match[i]]));
    inputs[given[i]] = recorded[match[i]].second;
  }
  return inputs;
}

namespace {

// True where a process holds the whole of an input. The interpreter holds all
// but what is in files that are mapped.
bool IsWhole(const Program& program, const Input& input, const HostUse& use) {
  bool interpreted = use.runs_on == "interpreter";
  if (!IsWeight(input)) {
    bool given = input.role == InputRole::kData && use.data_is_given;
    return interpreted || given;
  }
  const Tensor* data =
      program.weights == nullptr
          ? nullptr
          : program.weights->Find(program.value_name(input.value));
  if (data == nullptr) {
    bool made = input.role == InputRole::kParam && use.params_are_whole;
    return interpreted || made;
  }
  return data->source() == nullptr;
}

}  // namespace

absl::Status CheckHostMemory(const Program& program, const HostUse& use) {
  bool on_gpus = use.runs_on == "cuda";
  bool interpreted = use.runs_on == "interpreter";
  int64_t ranks = use.ranks > 0 ? use.ranks : program.mesh.num_devices();
  double bytes = 0;
  int64_t largest_shard = 0;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    auto whole = static_cast<double>(type.bytes());
    if (IsWhole(program, input, use)) {
      bytes += whole * static_cast<double>(use.processes);
    }
    if (interpreted) {
      bytes += whole;  // its devices share equal parts
      continue;
    }
    int64_t shard = LocalBytes(type, program.mesh);
    largest_shard = std::max(largest_shard, shard);
    // Data is kept on the host for the next step.
    if (!on_gpus || input.role == InputRole::kData) {
      bytes += static_cast<double>(shard * ranks);
    }
  }
  // A shard on its way to where it stays.
  bytes += static_cast<double>(largest_shard * ranks);
  double have = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= have) return absl::OkStatus();
  return Invalid(
      "the inputs and weights of {} {} take {} on the host, this machine has "
      "{}",
      ranks, ranks == 1 ? "device" : "devices", BytesText(bytes),
      BytesText(have));
}

absl::Status CheckSameInputs(const Program& program,
                             absl::Span<const Tensor> inputs,
                             Communicator& world) {
  std::vector<NamedChoice> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    const Tensor& tensor = inputs[i];
    if (input.role != InputRole::kData || tensor.data() == nullptr) continue;
    std::string_view bytes(reinterpret_cast<const char*>(tensor.data()),
                           static_cast<size_t>(tensor.bytes()));
    given.push_back(
        {"the input " + program.value_name(input.value),
         fmt::format("{}{} of hash {:016x}", ToString(tensor.dtype()),
                     ShapeToString(tensor.shape()), Fnv1a(bytes))});
  }
  return CheckSameChoices(world, given);
}

}  // namespace asyra
