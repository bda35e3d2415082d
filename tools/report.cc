#include "tools/report.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "fmt/format.h"
#include "ir/body.h"
#include "nlohmann/json.hpp"
#include "tools/plan_report.h"
#include "tools/units.h"

namespace asyra {
namespace {

struct ImportSummary {
  std::map<std::string, int> ops;
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  double activation_bytes = 0;  // of all results, views aside
  double flops = 0;
  std::string inputs, outputs;  // "input_ids i64[4, 64]"
};

std::string NameAndType(const Program& program, ValueId value) {
  return fmt::format("{} {}", program.value_name(value),
                     ToString(program.type(value), program.mesh));
}

ImportSummary Summarize(const Program& program) {
  ImportSummary summary;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kWeight) {
      summary.inputs += (summary.inputs.empty() ? "" : ", ") +
                        NameAndType(program, input.value);
      continue;
    }
    const Type& type = program.type(input.value);
    summary.parameters += type.num_elements();
    summary.weight_bytes += type.bytes();
  }
  for (const Op& op : program.ops) {
    ++summary.ops[OpLabel(*op.def, op.attrs)];
    // Of all devices together; a global program is that of one.
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
    summary.outputs += (summary.outputs.empty() ? "" : ", ") +
                       NameAndType(program, output.value);
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
      row.bytes += static_cast<double>(type.Local(program.mesh).bytes());
    }
  }
  return rows;
}

std::string ImportText(const Program& program) {
  ImportSummary summary = Summarize(program);
  std::string text = fmt::format(
      "  {} -> {}\n"
      "  {} ops, {}parameters ({}), {} of activations, {}flop a step\n ",
      summary.inputs, summary.outputs, program.ops.size(),
      Scaled(static_cast<double>(summary.parameters)),
      Bytes(static_cast<double>(summary.weight_bytes)),
      Bytes(summary.activation_bytes), Scaled(summary.flops));
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

// The plan as it shows in the weights: how many of each type and sharding,
// those with most bytes first.
std::string WeightText(const Program& program) {
  struct Row {
    int count = 0;
    std::string first;
    double bytes = 0;
  };
  std::map<std::string, Row> rows;
  double total = 0;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kWeight) continue;
    const Type& type = program.type(input.value);
    Row& row = rows[ToString(type, program.mesh)];
    if (row.count++ == 0) row.first = program.value_name(input.value);
    double bytes = static_cast<double>(type.Local(program.mesh).bytes());
    row.bytes += bytes;
    total += bytes;
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.bytes > b.second.bytes;
                   });
  constexpr size_t kMostRows = 10;
  std::string text = fmt::format("  weights, {} a device\n", Bytes(total));
  for (size_t i = 0; i < sorted.size() && i < kMostRows; ++i) {
    text += fmt::format("  {:>5} x {:<28} {}{}\n", sorted[i].second.count,
                        sorted[i].first, sorted[i].second.first,
                        sorted[i].second.count > 1 ? ", ..." : "");
  }
  if (sorted.size() > kMostRows) {
    text += fmt::format("        and {} smaller kinds\n",
                        sorted.size() - kMostRows);
  }
  return text;
}

}  // namespace

std::string TextReport(const CompileOptions& options,
                       const CompileResult& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report) {
  std::string text =
      fmt::format("{}\n imported\n", options.model) + ImportText(result.raised);
  if (result.raised.ops.size() != result.imported.ops.size()) {
    text += fmt::format("  raised from {} ops\n", result.imported.ops.size());
  }
  const Program& program = result.program;
  text += fmt::format(
      " partitioned over {} devices {}\n", program.mesh.num_devices(),
      program.mesh.num_axes() > 0 ? ToString(program.mesh) : "");
  text += WeightText(program);
  std::map<std::string, CollectiveRow> collectives = Collectives(program);
  if (!collectives.empty()) text += "  collectives\n";
  for (const auto& [name, row] : collectives) {
    text += fmt::format("  {:>5} x {:<28} {} a device each\n", row.count, name,
                        Bytes(row.bytes / row.count));
  }
  if (report.plan) text += PlanText(*result.partitioned);
  if (steps.has_value()) {
    text += fmt::format(" simulated on {}\n", options.machine) +
            ScheduleText(result, *steps);
  }
  for (const std::string& remark : result.remarks) {
    text += fmt::format(" note: {}\n", remark);
  }
  return text;
}

std::string JsonReport(const CompileOptions& options,
                       const CompileResult& result,
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
        {"flops", summary.flops}}},
      {"remarks", result.remarks},
  };
  for (const auto& [name, row] : Collectives(result.program)) {
    json["collectives"].push_back(
        {{"what", name}, {"count", row.count}, {"bytes", row.bytes}});
  }
  if (report.plan) json["plan"] = PlanJson(*result.partitioned);
  for (const PassTiming& timing : result.timings) {
    json["passes"].push_back({{"name", timing.pass},
                              {"changed", timing.changed},
                              {"ms", timing.ms}});
  }
  if (steps.has_value()) AddScheduleJson(result, *steps, &json);
  return json.dump(2) + "\n";
}

}  // namespace asyra
