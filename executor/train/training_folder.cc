#include "executor/train/training_folder.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "executor/train/folder_lock.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/support/file.h"
#include "ir/support/json_object.h"
#include "ir/support/path.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;  // of training.json
constexpr char kNormGuard[] = "norm", kLossGuard[] = "loss";

absl::Status CheckAgree(const Program& step, const Program& other,
                        const std::string& path) {
  if (other.mesh != step.mesh) {
    return Invalid("{}: it is for {}, the step for {}", path,
                   ToString(other.mesh), ToString(step.mesh));
  }
  for (const Input& input : other.inputs) {
    if (input.role == InputRole::kData) continue;
    const std::string& name = other.value_name(input.value);
    ValueId value = step.FindValue(name);
    if (value == kNoValue || step.type(value) == other.type(input.value)) {
      continue;
    }
    return Invalid("{}: %{} is {}, {} in the training step", path, name,
                   ToString(other.type(input.value), other.mesh),
                   ToString(step.type(value), step.mesh));
  }
  return absl::OkStatus();
}

ordered_json ToJson(const TrainingPrograms& training) {
  const TrainingInfo& info = training.info;
  ordered_json json;
  json["format"] = kFormat;
  json["model"] = info.model;
  json["mesh"] = MeshText(training.step.mesh);
  json["optimizer"] = info.optimizer;
  json["program_hash"] = info.program_hash;
  json["params_by_init"] = ParamsWithoutData(training.step);
  json["batches"] = info.batches;
  json["machine"] = info.machine;
  json["predicted_us"] = info.predicted_us;
  json["peak_us"] = info.peak_us;
  json["guard"] = info.guard == StepGuard::kLoss ? kLossGuard : kNormGuard;
  ordered_json names = ordered_json::array();
  for (const OtherStep& one : training.candidates) names.push_back(one.name);
  json["candidates"] = std::move(names);
  json["notes"] = info.notes;
  return json;
}

// Returns the name of a file: candidate1.asyra and so on.
std::string CandidateFile(size_t index) {
  return fmt::format("candidate{}.asyra", index + 1);
}

absl::StatusOr<std::vector<std::string>> CandidateNames(
    const nlohmann::json& json, const std::string& path) {
  std::vector<std::string> names;
  auto found = json.find("candidates");
  if (found == json.end()) return names;
  if (!found->is_array()) return Invalid("{}: candidates is no list", path);
  for (const nlohmann::json& name : *found) {
    if (!name.is_string()) {
      return Invalid("{}: candidate {} is no name", path, name.dump());
    }
    names.push_back(name.get<std::string>());
    if (names.back().find_first_of("\t\n") != std::string::npos) {
      return Invalid("{}: the name of candidate {} has tabs or line ends", path,
                     name.dump());
    }
  }
  return names;
}

std::vector<std::string> Notes(const nlohmann::json& json) {
  std::vector<std::string> notes;
  auto found = json.find("notes");
  if (found == json.end() || !found->is_array()) return notes;
  for (const nlohmann::json& note : *found) {
    if (note.is_string()) notes.push_back(note.get<std::string>());
  }
  return notes;
}

absl::StatusOr<TrainingInfo> ReadInfo(const nlohmann::json& json,
                                      const std::string& path) {
  auto number = [&](const char* key) {
    auto found = json.find(key);
    bool known = found != json.end() && found->is_number();
    return known ? found->get<double>() : 0;
  };
  auto word = [&](const char* key) {
    auto found = json.find(key);
    bool known = found != json.end() && found->is_string();
    return known ? found->get<std::string>() : std::string();
  };
  if (number("format") != kFormat) {
    return Invalid("{}: its format is {}, known is {}", path, number("format"),
                   kFormat);
  }
  return TrainingInfo{
      .model = word("model"),
      .optimizer = word("optimizer"),
      .program_hash = word("program_hash"),
      .machine = word("machine"),
      .predicted_us = number("predicted_us"),
      .batches = static_cast<int64_t>(std::max(1.0, number("batches"))),
      .peak_us = number("peak_us"),
      .guard =
          word("guard") == kLossGuard ? StepGuard::kLoss : StepGuard::kNorm,
      .notes = Notes(json)};
}

}  // namespace

std::string MeshText(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const Mesh::Axis& axis : mesh.axes()) {
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  }
  return absl::StrJoin(axes, ",");
}

std::vector<std::string> ParamsWithoutData(const Program& step) {
  std::vector<std::string> names;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kParam) continue;
    const std::string& name = step.value_name(input.value);
    bool has = step.weights != nullptr && step.weights->Find(name) != nullptr;
    if (!has) names.push_back(name);
  }
  return names;
}

absl::StatusOr<TrainingPrograms> ReadTrainingFolder(const std::string& folder) {
  std::filesystem::path from(folder);
  auto path = [&](const std::string& name) { return (from / name).string(); };
  TrainingPrograms training;
  std::string about = path("training.json");
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(about));
  absl::StatusOr<nlohmann::json> json = ParseJsonObject(text);
  if (!json.ok()) return Annotate(json.status(), about);
  ASYRA_ASSIGN_OR_RETURN(training.info, ReadInfo(*json, about));
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> candidates,
                         CandidateNames(*json, about));
  ASYRA_ASSIGN_OR_RETURN(training.step, ReadProgramFile(path("step.asyra")));
  auto read = [&](const std::string& name) -> absl::StatusOr<Program> {
    ASYRA_ASSIGN_OR_RETURN(Program program, ReadProgramText(path(name)));
    ASYRA_RETURN_IF_ERROR(CheckAgree(training.step, program, path(name)));
    program.weights = training.step.weights;
    return program;
  };
  ASYRA_ASSIGN_OR_RETURN(training.evaluate, read("evaluate.asyra"));
  ASYRA_ASSIGN_OR_RETURN(training.init, read("init.asyra"));
  if (training.info.batches > 1 || IsThere(path("accumulate.asyra"))) {
    ASYRA_ASSIGN_OR_RETURN(training.accumulate, read("accumulate.asyra"));
  }
  if (IsThere(path("unscheduled.asyra"))) {
    ASYRA_ASSIGN_OR_RETURN(training.unscheduled, read("unscheduled.asyra"));
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(Program program, read(CandidateFile(i)));
    training.candidates.push_back({candidates[i], std::move(program)});
  }
  return training;
}

absl::Status WriteTrainingFolder(const TrainingPrograms& training,
                                 const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Invalid("{}: {}", folder, error.message());
  // Files of two runs do not mix: the last one's stay.
  constexpr std::chrono::seconds kLongest(60);
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<FolderLock> lock,
                         FolderLock::Take(folder, kLongest));
  std::filesystem::path to(folder);
  auto write = [&](const std::string& name, const Program& program) {
    return WriteFileAtomically((to / name).string(), {ToString(program)});
  };
  std::string step = (to / "step.asyra").string();
  // The others read the weights of the step.
  if (training.step.weights != nullptr) {
    ASYRA_RETURN_IF_ERROR(
        WriteWeights(*training.step.weights, WeightPathFor(step)));
  }
  ASYRA_RETURN_IF_ERROR(write("step.asyra", training.step));
  ASYRA_RETURN_IF_ERROR(write("evaluate.asyra", training.evaluate));
  ASYRA_RETURN_IF_ERROR(write("init.asyra", training.init));
  // One that an earlier training has left would be read as this one's.
  auto write_or_remove = [&](const char* name,
                             const std::optional<Program>& program) {
    if (program.has_value()) return write(name, *program);
    std::filesystem::remove(to / name, error);
    if (!error) return absl::OkStatus();
    return Invalid("{}: {}", (to / name).string(), error.message());
  };
  ASYRA_RETURN_IF_ERROR(
      write_or_remove("accumulate.asyra", training.accumulate));
  ASYRA_RETURN_IF_ERROR(
      write_or_remove("unscheduled.asyra", training.unscheduled));
  for (size_t i = 0; i < training.candidates.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(
        write(CandidateFile(i), training.candidates[i].program));
  }
  return WriteFileAtomically((to / "training.json").string(),
                             {ToJson(training).dump(2) + "\n"});
}

}  // namespace asyra
