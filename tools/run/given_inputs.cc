#include "tools/run/given_inputs.h"

#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "frontends/onnx/import.h"
#include "ir/support/file.h"
#include "ir/support/path.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "ir/weights/weight_store.h"
#include "passes/train/step_phase.h"
#include "tools/report/number_list.h"
#include "tools/run/convert_tensor.h"
#include "tools/run/npy.h"

namespace asyra {
namespace {

using Form = GivenInput::Form;

bool EndsIn(std::string_view path, std::string_view suffix) {
  return std::filesystem::path(path).extension() == suffix;
}

// FILE.safetensors, or FILE.safetensors:TENSOR.
absl::Status ReadSafetensors(std::string path, std::string wanted,
                             GivenInput* input) {
  ASYRA_ASSIGN_OR_RETURN(auto store, ReadWeights(path));
  bool named = !wanted.empty();
  if (!named) wanted = input->name;
  const Tensor* found = store->Find(wanted);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : *store) {
    names.push_back(name);
    if (!named && found == nullptr && ProgramName(name) == input->name) {
      found = &tensor;
    }
  }
  if (found == nullptr && !named && store->size() == 1) {
    found = &store->begin()->second;
  }
  if (found == nullptr) {
    return NotFound(
        "{}: there is no tensor {}, there {} {}; a tensor is named "
        "by FILE.safetensors:TENSOR",
        path, wanted, names.size() == 1 ? "is" : "are",
        names.empty() ? "none" : ShortList(names));
  }
  input->data = *found;
  return absl::OkStatus();
}

absl::Status ReadOne(GivenInput* input) {
  const std::string& value = input->value;
  if (value.empty()) return Invalid("there is no file and no number");
  if (value[0] == '[') {
    input->form = Form::kNested;
    ASYRA_ASSIGN_OR_RETURN(input->data, ReadNestedNumbers(value));
    return absl::OkStatus();
  }
  if (std::optional<Tensor> numbers = ReadNumberRow(value)) {
    input->form = Form::kNumbers;
    input->data = *std::move(numbers);
    return absl::OkStatus();
  }
  constexpr std::string_view kSafetensors = ".safetensors";
  std::string path = value, tensor;
  size_t colon = value.rfind(std::string(kSafetensors) + ":");
  if (colon != std::string::npos) {
    path = value.substr(0, colon + kSafetensors.size());
    tensor = value.substr(path.size() + 1);
  }
  if (IsFolder(path)) {
    return Invalid(
        "{}: it is a folder; a folder of input_*.pb is given "
        "without a name",
        path);
  }
  if (EndsIn(path, kSafetensors)) return ReadSafetensors(path, tensor, input);
  if (EndsIn(path, ".npy")) {
    ASYRA_ASSIGN_OR_RETURN(input->data, ReadNpy(path));
    return absl::OkStatus();
  }
  if (EndsIn(path, ".pb")) {
    ASYRA_ASSIGN_OR_RETURN(auto named, ReadTensorProto(path));
    input->data = std::move(named.second);
    return absl::OkStatus();
  }
  input->form = Form::kRaw;
  ASYRA_ASSIGN_OR_RETURN(input->bytes, ReadFile(path));
  return absl::OkStatus();
}

// The bytes or numbers in the type and shape of the program.
absl::StatusOr<Tensor> Fitted(const GivenInput& given, DType dtype,
                              const Shape& shape, bool round) {
  if (given.form == Form::kRaw) {
    Tensor tensor(dtype, shape);
    if (given.bytes.size() != static_cast<size_t>(tensor.bytes())) {
      return Invalid(
          "{} bytes are given, {}{} takes {}; a file is raw bytes "
          "unless it ends in .npy, .pb or .safetensors",
          given.bytes.size(), ToString(dtype), ShapeToString(shape),
          tensor.bytes());
    }
    if (!given.bytes.empty()) {
      std::memcpy(tensor.mutable_data(), given.bytes.data(),
                  given.bytes.size());
    }
    return tensor;
  }
  Tensor data = given.data;
  if (given.form == Form::kNumbers) {
    int64_t count = data.num_elements(), takes = NumElements(shape);
    if (count != 1 && count != takes) {
      return Invalid("{} numbers are given, {}{} takes {}, or one for all",
                     count, ToString(dtype), ShapeToString(shape), takes);
    }
    if (count == takes) {
      data = data.Reshaped(shape);
    } else {
      data = data.dtype() == DType::kI64
                 ? Tensor::FromInts(DType::kI64, shape,
                                    std::vector<int64_t>(takes, data.GetInt(0)))
                 : Tensor::FromDoubles(DType::kF64, shape,
                                       std::vector<double>(takes, data.Get(0)));
    }
  }
  if (data.shape() != shape) {
    return Invalid("it is {}{}, the program takes {}{}", ToString(data.dtype()),
                   ShapeToString(data.shape()), ToString(dtype),
                   ShapeToString(shape));
  }
  bool text = given.form == Form::kNumbers || given.form == Form::kNested;
  absl::StatusOr<Tensor> result = ConvertTensor(data, dtype, round || text);
  if (!result.ok() && !round && !text && IsFloat(data.dtype()) &&
      IsFloat(dtype)) {
    return Invalid("{}; --round-inputs rounds", MessageOf(result.status()));
  }
  return result;
}

bool MayBeLeftOut(const Program& program, const Input& input) {
  if (PhasesOf(program).empty()) return false;
  return input.role == InputRole::kState ||
         program.value_name(input.value) == kRate;
}

// "ids i64[4,64]".
std::string TypedName(const Program& program, const Input& input) {
  return fmt::format("{} {}{}", program.value_name(input.value),
                     ToString(program.type(input.value).dtype),
                     ShapeToString(program.GivenShape(input)));
}

// Error for a name that no input has.
absl::Status UnknownName(const Program& program, const std::string& name,
                         const std::set<std::string>& lacking) {
  std::vector<std::string> names;
  for (const Input& input : program.inputs) {
    const std::string& known = program.value_name(input.value);
    if (known == name) {
      return Invalid("--input: {} is a weight, the model has its data", name);
    }
    if (!IsWeight(input)) names.push_back(known);
  }
  std::string weights =
      lacking.empty()
          ? ""
          : fmt::format(", and weights without data: {}",
                        ShortList({lacking.begin(), lacking.end()}));
  return NotFound(
      "--input: no input is called {}, the program takes {}{}", name,
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
      weights);
}

}  // namespace

absl::StatusOr<std::vector<GivenInput>> ReadGivenInputs(
    absl::Span<const std::string> arguments) {
  std::vector<GivenInput> given;
  std::set<std::string> names;
  for (const std::string& argument : arguments) {
    size_t equal = argument.find('=');
    if (equal == std::string::npos || equal == 0) {
      return Invalid("--input {}: expected NAME=FILE or NAME=NUMBERS",
                     argument);
    }
    GivenInput input{.name = ProgramName(argument.substr(0, equal)),
                     .value = argument.substr(equal + 1)};
    if (!names.insert(input.name).second) {
      return Invalid("--input {}: the input is given twice", argument);
    }
    absl::Status status = ReadOne(&input);
    if (!status.ok()) {
      return Annotate(status, fmt::format("--input {}", input.name));
    }
    given.push_back(std::move(input));
  }
  return given;
}

std::vector<std::pair<std::string, Shape>> ShapesOf(
    absl::Span<const GivenInput> given) {
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const GivenInput& input : given) {
    if (input.form == Form::kTensor || input.form == Form::kNested) {
      shapes.emplace_back(input.name, input.data.shape());
    }
  }
  return shapes;
}

absl::Status TakeGivenInputs(const Program& program,
                             absl::Span<const GivenInput> given,
                             absl::Span<const std::string> lacking, bool round,
                             std::vector<Tensor>* inputs) {
  std::set<std::string> without_data(lacking.begin(), lacking.end()), taken;
  std::vector<std::string> missing;
  for (size_t i = 0; i < inputs->size(); ++i) {
    const Input& input = program.inputs[i];
    const std::string& name = program.value_name(input.value);
    if (IsWeight(input) && !without_data.contains(name)) continue;
    auto found = absl::c_find_if(
        given, [&](const GivenInput& one) { return one.name == name; });
    if (found == given.end()) {
      if (!IsWeight(input) && !MayBeLeftOut(program, input)) {
        missing.push_back(TypedName(program, input));
      }
      continue;
    }
    taken.insert(name);
    absl::StatusOr<Tensor> fitted =
        Fitted(*found, program.type(input.value).dtype,
               program.GivenShape(input), round);
    if (!fitted.ok()) {
      return Annotate(fitted.status(),
                      fmt::format("--input {}={}", name, found->value));
    }
    (*inputs)[i] = *std::move(fitted);
  }
  for (const GivenInput& one : given) {
    if (!taken.contains(one.name)) {
      return UnknownName(program, one.name, without_data);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return Invalid("{} not given with --input: {}",
                 missing.size() == 1 ? "an input is" : "inputs are",
                 fmt::join(missing, ", "));
}

}  // namespace asyra
