#include "tools/report/report.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "ir/body.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"
#include "passes/analysis/step_shape.h"
#include "passes/pass_list.h"
#include "tools/report/phase_report.h"
#include "tools/report/plan_report.h"
#include "tools/report/recompute_report.h"
#include "tools/report/verdict.h"

namespace asyra {
namespace {

struct ImportSummary {
  std::map<std::string, int> ops;
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  double activation_bytes = 0;  // of all results but views
  double flops = 0;
  std::string inputs, outputs;  // "input_ids i64[4, 64]"
};

std::string NameAndType(const Program& program, const std::string& name,
                        ValueId value) {
  return fmt::format("{} {}", name,
                     ToString(program.type(value), program.mesh));
}

ImportSummary Summarize(const Program& program) {
  ImportSummary summary;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) {
      summary.inputs +=
          (summary.inputs.empty() ? "" : ", ") +
          NameAndType(program, program.value_name(input.value), input.value);
      continue;
    }
    const Type& type = program.type(input.value);
    summary.parameters += type.num_elements();
    summary.weight_bytes += type.bytes();
  }
  for (const Op& op : program.ops) {
    ++summary.ops[OpLabel(*op.def, op.attrs)];
    // The work is that of all devices together; a global program is that of
    // one.
    bool global = program.stage == Stage::kGlobal;
    Work work = WorkOf(OpUse(program, op), global ? Mesh() : program.mesh);
    summary.flops +=
        work.useful * work.flops *
        static_cast<double>(global ? 1 : program.mesh.num_devices());
    if (op.def->is_view || op.def->name == "constant") continue;
    for (ValueId result : op.results) {
      summary.activation_bytes +=
          static_cast<double>(program.type(result).bytes());
    }
  }
  for (const Output& output : program.outputs) {
    summary.outputs +=
        (summary.outputs.empty() ? "" : ", ") +
        NameAndType(program, program.output_name(output), output.value);
  }
  return summary;
}

// Collectives of a program by op and axes: count and bytes a device brings.
struct CollectiveRow {
  int count = 0;
  double bytes = 0;
};
std::map<std::string, CollectiveRow> Collectives(const Program& program) {
  std::map<std::string, CollectiveRow> rows;
  for (const Op& op : program.ops) {
    if (!op.is_collective()) continue;
    CollectiveRow& row = rows[fmt::format(
        "{} over {}", op.def->name,
        AxesToString(op.attrs.Get<AxisList>("axes"), program.mesh))];
    ++row.count;
    for (const Type& type : program.OperandTypes(op)) {
      row.bytes += static_cast<double>(LocalBytes(type, program.mesh));
    }
  }
  return rows;
}

std::string OpsText(const ImportSummary& summary) {
  std::string text = " ";
  size_t column = 1;
  for (const auto& [name, count] : summary.ops) {
    std::string item = fmt::format(" {} {}", count, name);
    if (column + item.size() > 78) {
      text += "\n ";
      column = 1;
    }
    text += item + ",";
    column += item.size() + 1;
  }
  text.back() = '\n';
  return text;
}

std::string ModelText(const CompiledModel& result, bool trained, bool verbose) {
  const Program& program = result.raised;
  ImportSummary summary = Summarize(program);
  std::string text = fmt::format(
      " model\n"
      "  {} -> {}\n"
      "  {} ops{}, {}parameters ({}), {} of activations, {}flop {}\n",
      summary.inputs, summary.outputs, program.ops.size(),
      program.ops.size() == result.imported.ops.size()
          ? ""
          : fmt::format(" (raised from {})", result.imported.ops.size()),
      CountText(static_cast<double>(summary.parameters)),
      BytesText(static_cast<double>(summary.weight_bytes)),
      BytesText(summary.activation_bytes), CountText(summary.flops),
      trained ? "forward" : "a step");
  if (std::string shape = ToText(StepShapeOf(program, result.dim_names));
      !shape.empty()) {
    text += fmt::format("  {}\n", shape);
  }
  return verbose ? text + OpsText(summary) : text;
}

// The plan of the weights: how many of each type and sharding, those with most
// bytes first.
std::string WeightText(const Program& program, bool verbose) {
  struct Row {
    int count = 0;
    std::string first;
    double bytes = 0;
  };
  std::map<std::string, Row> rows;
  double total = 0;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    const Type& type = program.type(input.value);
    Row& row = rows[ToString(type, program.mesh)];
    if (row.count++ == 0) row.first = program.value_name(input.value);
    double bytes = static_cast<double>(LocalBytes(type, program.mesh));
    row.bytes += bytes;
    total += bytes;
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.bytes > b.second.bytes;
                   });
  const size_t most_rows = verbose ? 10 : 0;
  std::string text = fmt::format("  weights, {} a device\n", BytesText(total));
  for (size_t i = 0; i < sorted.size() && i < most_rows; ++i) {
    text += fmt::format("  {:>5} x {:<28} {}{}\n", sorted[i].second.count,
                        sorted[i].first, sorted[i].second.first,
                        sorted[i].second.count > 1 ? ", ..." : "");
  }
  if (verbose && sorted.size() > most_rows) {
    text += fmt::format("        and {} smaller kinds\n",
                        sorted.size() - most_rows);
  }
  return text;
}

// The partitioned program before scheduling; the program itself if it was
// already scheduled.
const Program& Partitioned(const CompiledModel& result) {
  return result.partitioned.has_value() ? *result.partitioned : result.program;
}

// "raise_moe: no sum over gathered experts": a remark of a pass that changed
// nothing each time.
bool IsIdle(const CompiledModel& result, const std::string& remark) {
  bool idle = false;
  for (const PassTiming& timing : result.timings) {
    bool said = std::find(timing.remarks.begin(), timing.remarks.end(),
                          remark) != timing.remarks.end();
    if (said && timing.changed) return false;
    idle |= said && remark.starts_with(fmt::format("{}: ", timing.pass));
  }
  return idle;
}

// At most so many rows, unless verbose.
std::string CollectivesText(const Program& program, bool verbose,
                            size_t few_rows) {
  std::map<std::string, CollectiveRow> rows = Collectives(program);
  size_t shown =
      verbose || rows.size() <= few_rows ? rows.size() : few_rows - 1;
  std::string text;
  size_t i = 0;
  for (const auto& [name, row] : rows) {
    if (i++ == shown) break;
    text += fmt::format("  {:>5} x {:<28} {} a device each\n", row.count, name,
                        BytesText(row.bytes / row.count));
  }
  if (shown < rows.size()) {
    text += fmt::format("        and {} kinds of collectives more\n",
                        rows.size() - shown);
  }
  return text;
}

// Returns whether it is of a pass after sharding, whose remarks are details.
bool IsOfScheduling(std::string_view remark) {
  const PassRecord* pass = FindPass(remark.substr(0, remark.find(':')));
  return pass != nullptr && pass->from_stage != Stage::kGlobal;
}

// Returns how many lines of notes a report has after so many others.
size_t NotesAfter(size_t lines) {
  constexpr size_t kMostLines = 25, kMostNotes = 5;
  return std::min(kMostLines - std::min(lines, kMostLines), kMostNotes);
}

// At most so many lines.
std::string NotesText(const std::vector<std::string>& notes, size_t most) {
  if (most == 0) return "";
  size_t shown = notes.size() <= most ? notes.size() : most - 1;
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    text += fmt::format(" note: {}\n", notes[i]);
  }
  if (shown < notes.size()) {
    size_t others = notes.size() - shown;
    text += fmt::format(" {}{} note{}: --verbose\n", others,
                        shown > 0 ? " more" : "", others == 1 ? "" : "s");
  }
  return text;
}

}  // namespace

std::vector<std::string> NotesOf(const CompileFlags& options,
                                 const CompiledModel& result,
                                 const ReportOptions& report) {
  std::vector<std::string> notes;
  if (std::string line =
          WeightsFromInputsLine(options.model, result.lacking_weights);
      !line.empty()) {
    notes.push_back(line.substr(0, line.find('\n')));
  }
  for (absl::string_view line :
       absl::StrSplit(AdviceText(report.advice), '\n', absl::SkipEmpty())) {
    notes.emplace_back(absl::StripLeadingAsciiWhitespace(line));
  }
  for (const std::string& remark : result.remarks) {
    if (report.verbose ||
        (!IsIdle(result, remark) && !IsOfScheduling(remark))) {
      notes.push_back(remark);
    }
  }
  return notes;
}

std::string TextReport(const CompileFlags& options, const CompiledModel& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report) {
  bool verbose = report.verbose;
  std::string text =
      steps.has_value()
          ? VerdictText(*steps) + TargetText(steps->after)
          : fmt::format("{}: stage {}, which is not simulated\n", options.model,
                        ToString(result.program.stage));
  text += ModelText(result, options.train.has_value(), verbose);
  const Program& program = Partitioned(result);
  text += fmt::format(
      " partitioned over {} device{} {}\n", program.mesh.num_devices(),
      program.mesh.num_devices() == 1 ? "" : "s",
      program.mesh.num_axes() > 0 ? ToString(program.mesh) : "");
  // A training step has more to say of the rest.
  size_t few_rows = !options.train.has_value()   ? 4
                    : report.batches.has_value() ? 1
                                                 : 2;
  text += WeightText(program, verbose) +
          CollectivesText(program, verbose, std::max<size_t>(2, few_rows));
  if (report.plan) text += PlanText(*result.partitioned);
  if (steps.has_value()) {
    text += PhasesText(result.program, steps->after);
    text +=
        LossChunksText(result.loss_chunks) + RecomputeText(result.recompute);
    if (report.batches.has_value()) text += BatchesText(*report.batches);
    text += ScheduleText(result, *steps, verbose, few_rows);
  }
  std::vector<std::string> notes = NotesOf(options, result, report);
  // A plan, which was asked for, does not count.
  auto lines = static_cast<size_t>(report.plan ? 0 : absl::c_count(text, '\n'));
  text += NotesText(notes, verbose ? notes.size() : NotesAfter(lines));
  return report.ablation.empty() ? text : text + AblationText(report.ablation);
}

std::string JsonReport(const CompileFlags& options, const CompiledModel& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report) {
  ImportSummary summary = Summarize(result.raised);
  nlohmann::json json = {
      {"model", options.model},
      {"machine", options.machine},
      {"devices", result.program.mesh.num_devices()},
      {"stage", ToString(result.program.stage)},
      {"imported",
       {{"ops", summary.ops},
        {"parameters", summary.parameters},
        {"weight_bytes", summary.weight_bytes},
        {"activation_bytes", summary.activation_bytes},
        {"inputs", summary.inputs},
        {"outputs", summary.outputs},
        {"lacking_weights", result.lacking_weights},
        {"flops", summary.flops}}},
      {"step", ToJson(StepShapeOf(result.raised, result.dim_names))},
      {"remarks", result.remarks},
  };
  for (const auto& [name, row] : Collectives(Partitioned(result))) {
    json["collectives"].push_back(
        {{"what", name}, {"count", row.count}, {"bytes", row.bytes}});
  }
  json["mesh"] = AdviceJson(report.advice);
  if (report.plan) json["plan"] = PlanJson(*result.partitioned);
  for (const PassTiming& timing : result.timings) {
    json["passes"].push_back({{"name", timing.pass},
                              {"changed", timing.changed},
                              {"ms", timing.ms}});
  }
  if (steps.has_value()) {
    if (options.train.has_value()) {
      json["phases"] = PhasesJson(result.program, steps->after);
      json["loss_chunks"] = result.loss_chunks;
      json["recompute"] = RecomputeJson(result.recompute);
      if (report.batches.has_value()) {
        json["accumulate"] = BatchesJson(*report.batches);
      }
    }
    AddScheduleJson(result, *steps, &json);
  }
  if (!report.ablation.empty()) {
    json["ablation"] = AblationJson(report.ablation);
  }
  return json.dump(2) + "\n";
}

}  // namespace asyra
