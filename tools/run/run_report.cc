#include "tools/run/run_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/copy_engine.h"
#include "ir/support/median.h"
#include "ir/support/units.h"
#include "tools/run/run_gate.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

// "shared memory", of a word of ir/copy_engine.h.
std::string TransportText(std::string_view transport) {
  if (transport == kMpi) return "messages of MPI";
  if (transport == kSockets) return "sockets";
  if (transport == kCopyEngine) return "copy engines";
  if (transport == kSharedMemory) return "shared memory";
  if (transport == kPeerMemory) return "one kernel in the memory of all";
  return "the library";
}

Json CollectivesJson(const std::vector<CollectiveRun>& runs) {
  Json all = Json::array();
  for (const CollectiveRun& one : runs) {
    Json json = {{"op", one.label},
                 {"count", one.count},
                 {"asked", one.asked},
                 {"ran", one.ran}};
    if (!one.obstacle.empty()) json["obstacle"] = one.obstacle;
    all.push_back(std::move(json));
  }
  return all;
}

// Tells what a step takes, and what the copies around it do, in one unit.
std::string TimesText(const RunResult& run) {
  StepTimes times = Summarize(run.step_us);
  double inputs_us = Median(run.inputs_us);
  TimeColumn unit(std::max({times.max_us, inputs_us, run.outputs_us}));
  // The first step initialises caches and does not count.
  std::string text =
      run.step_us.size() == 1
          ? fmt::format("1 step, cold: {}\n", unit.Text(times.median_us))
          : fmt::format("{} steps: median {}, min {}, max {}\n",
                        run.step_us.size(), unit.Text(times.median_us),
                        unit.Text(times.min_us), unit.Text(times.max_us));
  return text +
         fmt::format("copies, not part of a step: inputs {}, outputs {}\n",
                     unit.Text(inputs_us), unit.Text(run.outputs_us));
}

std::string RunText(const RunResult& run) {
  const MemoryUse& memory = run.memory;
  std::string text = TimesText(run);
  text += fmt::format("first step done {} after the start of the ranks\n",
                      TimeText(run.first_step_us));
  text += fmt::format(
      "memory of a rank: {} (arena {}, weights and state {}, workspaces {})\n",
      BytesText(memory.total()), BytesText(memory.arena_bytes),
      BytesText(memory.resident_bytes), BytesText(memory.workspace_bytes));
  text += fmt::format(
      "used of it: {} (arena {}, weights and state {}, workspaces {})\n",
      BytesText(run.used.total()), BytesText(run.used.arena_bytes),
      BytesText(run.used.resident_bytes), BytesText(run.used.workspace_bytes));
  if (run.used.device_bytes > 0) {
    text += fmt::format("in use on the device: {}\n",
                        BytesText(run.used.device_bytes));
  }
  if (!run.fallback_ops.empty()) {
    text += fmt::format("by reference, without a kernel: {}\n",
                        absl::StrJoin(run.fallback_ops, ", "));
  }
  for (const CollectiveRun& one : run.collectives) {
    text += fmt::format("{} {} by {}", one.count, one.label,
                        TransportText(one.ran));
    if (!one.obstacle.empty()) {
      text += fmt::format(", not by copy engines: {}", one.obstacle);
    }
    text += '\n';
  }
  if (!run.split_fusions.empty()) {
    text += fmt::format("op by op, without one kernel for all: {}\n",
                        absl::StrJoin(run.split_fusions, ", "));
  }
  return text;
}

Json MemoryJson(const MemoryUse& memory) {
  return {{"arena", memory.arena_bytes},
          {"resident", memory.resident_bytes},
          {"workspace", memory.workspace_bytes},
          {"total", memory.total()}};
}

// Tells what the median of another program says of the reported one: "19.2 %
// less time than unscheduled".
std::string AgainstText(double ratio, std::string_view name) {
  // Steps of equal programs differ by as much.
  constexpr double kEqual = 0.005;
  double less = 1 - 1 / ratio;
  if (std::abs(less) < kEqual) {
    return fmt::format("this takes as long as {}\n", name);
  }
  return fmt::format("this takes {:.1f} % {} time than {}\n",
                     100 * std::abs(less), less > 0 ? "less" : "MORE", name);
}

// A line for each program that ran in turn, predicted and real times, and then
// whether the reported one is faster.
std::string InTurnText(const RunReport& report) {
  std::string text = "\nin turn      predicted     median        min  ratio\n";
  double median = Summarize(report.run->step_us).median_us;
  double largest = median;
  for (double us : report.predicted_us) largest = std::max(largest, us);
  for (const AgainstReport& other : report.against) {
    largest = std::max(largest, Summarize(other.run.step_us).median_us);
  }
  TimeColumn unit(largest);
  auto add = [&](size_t i, std::string_view name, const RunResult& run) {
    StepTimes times = Summarize(run.step_us);
    std::string predicted =
        report.predicted_us.empty() ? "-" : unit.Text(report.predicted_us[i]);
    text += fmt::format("{:<11} {:>10} {:>10} {:>10} {:>5.3f}x\n", name,
                        predicted, unit.Text(times.median_us),
                        unit.Text(times.min_us), times.median_us / median);
  };
  add(0, "this", *report.run);
  for (size_t i = 0; i < report.against.size(); ++i) {
    add(i + 1, report.against[i].name, report.against[i].run);
  }
  for (const AgainstReport& other : report.against) {
    text += AgainstText(Summarize(other.run.step_us).median_us / median,
                        other.name);
  }
  return text;
}

Json StepsJson(const RunResult& run) {
  StepTimes times = Summarize(run.step_us);
  return {{"count", run.step_us.size()},
          {"median_us", times.median_us},
          {"min_us", times.min_us},
          {"max_us", times.max_us}};
}

Json InTurnJson(const RunReport& report) {
  Json programs = Json::array();
  double median = Summarize(report.run->step_us).median_us;
  auto add = [&](size_t i, std::string_view name, const RunResult& run) {
    Json json = {{"name", name}, {"steps", StepsJson(run)}};
    if (!report.predicted_us.empty()) {
      json["predicted_us"] = report.predicted_us[i];
    }
    json["ratio"] = Summarize(run.step_us).median_us / median;
    programs.push_back(std::move(json));
  };
  add(0, "this", *report.run);
  for (size_t i = 0; i < report.against.size(); ++i) {
    add(i + 1, report.against[i].name, report.against[i].run);
  }
  return programs;
}

Json RunJson(const RunResult& run) {
  return {{"steps", StepsJson(run)},
          {"copies_us",
           {{"inputs", Median(run.inputs_us)}, {"outputs", run.outputs_us}}},
          {"first_step_us", run.first_step_us},
          {"memory_bytes", MemoryJson(run.memory)},
          {"used_bytes", MemoryJson(run.used)},
          {"device_bytes", run.used.device_bytes},
          {"fallback_ops", run.fallback_ops},
          {"collectives", CollectivesJson(run.collectives)},
          {"fallback_collectives", run.fallback_collectives},
          {"split_fusions", run.split_fusions}};
}

}  // namespace

StepTimes Summarize(const std::vector<double>& step_us) {
  auto [least, most] = std::minmax_element(step_us.begin(), step_us.end());
  return {.median_us = Median(step_us), .min_us = *least, .max_us = *most};
}

std::string ToText(const RunReport& report) {
  const Program& program = *report.program;
  int64_t ranks = program.mesh.num_devices();
  std::string text = fmt::format(
      "{}: {} {} of stage {} on {} {} {}\n", report.model, program.ops.size(),
      program.ops.size() == 1 ? "op" : "ops", ToString(program.stage), ranks,
      report.device, ranks == 1 ? "rank" : "ranks");
  text += WeightsFromInputsLine(report.model, report.lacking_weights);
  if (report.random_weights > 0) {
    text +=
        fmt::format("{} {} no data: random values\n", report.random_weights,
                    report.random_weights == 1 ? "weight has" : "weights have");
  }
  if (report.gate.has_value()) {
    text += fmt::format("gate: {}\n", ToString(*report.gate));
  }
  if (report.run.has_value()) {
    text += StepText(report.step, Summarize(report.run->step_us).median_us) +
            RunText(*report.run);
  }
  if (!report.against.empty()) text += InTurnText(report) + "\n";
  for (const OffSingle& off : report.off_single) {
    text += fmt::format(
        "output %{}: off one device by {:.3g} of its largest {:.6g}\n",
        off.name, off.error, off.largest);
  }
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const Tensor& output = report.outputs[i];
    text += fmt::format(
        "output %{} {}{}: ", program.output_name(program.outputs[i]),
        ToString(output.dtype()), ShapeToString(output.shape()));
    if (report.checked.has_value()) {
      const CheckedOutput& checked = report.checked->outputs[i];
      // Elements near zero are held to the absolute tolerance.
      bool small =
          checked.comparison.wrong == 0 &&
          checked.comparison.max_rel_error > checked.tolerance.relative;
      text += fmt::format("max abs error {:.3g}, max rel error {:.3g}{}\n",
                          checked.comparison.max_abs_error,
                          checked.comparison.max_rel_error,
                          small ? " (near zero, where atol counts)" : "");
      if (!checked.first_difference.empty()) {
        text += "  " + checked.first_difference + "\n";
      }
    } else {
      text += Summary(output) + "\n";
    }
    if (!report.written.empty()) {
      text += fmt::format("  written to {}\n", report.written[i]);
    }
  }
  if (report.checked.has_value()) text += VerdictText(*report.checked);
  return text;
}

std::string ToJson(const RunReport& report) {
  const Program& program = *report.program;
  Json json = {{"model", report.model},
               {"device", report.device},
               {"ranks", program.mesh.num_devices()},
               {"stage", ToString(program.stage)},
               {"ops", program.ops.size()},
               {"lacking_weights", report.lacking_weights},
               {"random_weights", report.random_weights}};
  if (report.step.known()) json["step"] = ToJson(report.step);
  if (report.gate.has_value()) json["gate"] = ToJson(*report.gate);
  if (report.run.has_value()) {
    json.update(RunJson(*report.run));
    if (report.step.known()) {
      json["tokens_per_s"] = TokensPerSecond(
          report.step, Summarize(report.run->step_us).median_us);
    }
  }
  if (!report.against.empty()) json["in_turn"] = InTurnJson(report);
  Json outputs = Json::array();
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const Tensor& output = report.outputs[i];
    Json entry = {{"name", program.output_name(program.outputs[i])},
                  {"dtype", ToString(output.dtype())},
                  {"shape", std::vector<int64_t>(output.shape().begin(),
                                                 output.shape().end())}};
    if (report.checked.has_value()) {
      const CheckedOutput& checked = report.checked->outputs[i];
      const Comparison& comparison = checked.comparison;
      entry["max_abs_error"] = comparison.max_abs_error;
      entry["max_rel_error"] = comparison.max_rel_error;
      entry["wrong"] = comparison.wrong;
      entry["rtol"] = checked.tolerance.relative;
      entry["atol"] = checked.tolerance.absolute;
    } else {
      entry["summary"] = Summary(output);
    }
    if (!report.written.empty()) entry["file"] = report.written[i];
    outputs.push_back(std::move(entry));
  }
  json["outputs"] = std::move(outputs);
  if (report.checked.has_value()) json["passed"] = report.checked->passed();
  for (const OffSingle& off : report.off_single) {
    json["off_single"].push_back(
        {{"name", off.name}, {"error", off.error}, {"largest", off.largest}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace asyra
