#include "tools/report/mesh_advice.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/split_axes.h"
#include "nlohmann/json.hpp"
#include "passes/search/mesh_order.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

constexpr double kWorthTelling = 0.01;
constexpr size_t kMostKinds = 3;  // of ops, in the report

bool IsOver(const Type& type, AxisId axis) {
  return Contains(type.partial, axis) ||
         std::any_of(type.dims.begin(), type.dims.end(),
                     [&](const Dim& dim) { return Contains(dim.axes, axis); });
}

// Returns whether the devices of the axis compute different parts of the op.
bool Divides(const OpCall& call, AxisId axis) {
  auto over = [&](const Type& type) { return IsOver(type, axis); };
  return std::any_of(call.operands.begin(), call.operands.end(), over) ||
         std::any_of(call.results.begin(), call.results.end(), over);
}

struct Kind {
  std::string op;
  int count = 0;
  double flops = 0;
};

std::string KindsText(const std::map<std::string, Kind>& kinds) {
  std::vector<Kind> sorted;
  for (const auto& [name, kind] : kinds) sorted.push_back(kind);
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Kind& a, const Kind& b) { return a.flops > b.flops; });
  std::vector<std::string> texts;
  for (const Kind& kind : sorted) {
    if (texts.size() == kMostKinds) {
      texts.push_back("...");
      break;
    }
    texts.push_back(fmt::format("{} {}", kind.count, kind.op));
  }
  return absl::StrJoin(texts, ", ");
}

Redundancy RedundancyOver(const Program& program, AxisId axis) {
  std::map<std::string, Kind> kinds;
  double redundant = 0, all = 0;
  for (const Op& op : program.ops) {
    if (op.is_collective()) continue;
    OpUse use(program, op);
    Work work = WorkOf(use, program.mesh);
    double flops = work.flops + work.vector_flops;
    all += flops;
    if (flops == 0 || Divides(use, axis)) continue;
    redundant += flops;
    Kind& kind = kinds[std::string(op.def->name)];
    kind.op = op.def->name;
    ++kind.count;
    kind.flops += flops;
  }
  return {program.mesh.name(axis), all > 0 ? redundant / all : 0,
          KindsText(kinds)};
}

using Axes = std::vector<Mesh::Axis>;

// An axis of the name, of `factor` times the size it has.
void Grow(std::string_view name, int64_t factor, Axes* axes) {
  for (Mesh::Axis& axis : *axes) {
    if (axis.name == name) {
      axis.size *= factor;
      return;
    }
  }
  axes->insert(axes->begin(), {std::string(name), factor});
}

// Meshes of as many devices that are one step away.
std::vector<Axes> Neighbours(const Axes& axes) {
  std::vector<Axes> found;
  for (const Mesh::Axis& from : axes) {
    for (std::string_view to : {"dp", "sp", "tp"}) {
      if (from.name == to || from.size % 2 != 0) continue;
      Axes traded = axes;
      Grow(to, 2, &traded);
      for (Mesh::Axis& axis : traded) {
        if (axis.name == from.name) axis.size /= 2;
      }
      std::erase_if(traded, [](const Mesh::Axis& a) { return a.size == 1; });
      found.push_back(std::move(traded));
    }
    Axes freed = axes;
    for (Mesh::Axis& axis : freed) {
      if (axis.name == from.name) axis.name = "a";
    }
    found.push_back(std::move(freed));
  }
  int64_t devices = 1;
  for (const Mesh::Axis& axis : axes) devices *= axis.size;
  found.push_back({{"a", devices}});
  return found;
}

bool HasFlag(const Mesh::Axis& axis) {
  return axis.name == "dp" || axis.name == "sp" || axis.name == "tp";
}

// Returns the axes as the command line takes them.
std::string FlagsOf(const Axes& axes) {
  if (axes.empty()) return "--tp 1";
  bool flags = std::all_of(axes.begin(), axes.end(), HasFlag);
  std::vector<std::string> texts;
  for (const Mesh::Axis& axis : axes) {
    texts.push_back(fmt::format("{}{}{}{}", flags ? "--" : "", axis.name,
                                flags ? " " : "=", axis.size));
  }
  return flags ? absl::StrJoin(texts, " ")
               : "--mesh " + absl::StrJoin(texts, ",");
}

// A mesh that was chosen for its experts, or pinned by name, is left alone.
bool MayChange(const CompileFlags& options, const CompiledModel& result) {
  Mesh mesh = WithoutSplits(result.program.mesh);
  return mesh.num_devices() > 1 && options.ep == 1 && options.shard.empty() &&
         options.passes.empty() && result.partitioned.has_value() &&
         result.simulated.has_value() &&
         result.raised.stage == Stage::kGlobal &&
         std::all_of(mesh.axes().begin(), mesh.axes().end(), HasFlag);
}

// Returns whether the model fits with `factor` times the weights on a device.
bool Fits(const CompiledModel& result, double factor) {
  const Machine& machine = result.costs->machine();
  MemoryReport memory =
      ReportMemory(result.program, *result.simulated, machine);
  auto bytes = static_cast<double>(memory.device_bytes) +
               static_cast<double>(WeightBytes(result.program)) * (factor - 1);
  return bytes <= machine.gpu.hbm_gib * (int64_t{1} << 30);
}

void FindBetter(const CompileFlags& options, const CompiledModel& result,
                const std::vector<Axes>& meshes, MeshAdvice* advice) {
  absl::StatusOr<CompileOptions> compile = OptionsOf(options);
  if (!compile.ok()) return;
  Program trial = ShortTrial(result.raised);
  auto step_over = [&](const Mesh& mesh) {
    trial.mesh = mesh;
    return SimulateUnscheduled(*compile, trial, result.costs->machine(),
                               result.dim_names);
  };
  absl::StatusOr<Unscheduled> own =
      step_over(WithoutSplits(result.program.mesh));
  if (!own.ok()) return;
  for (const Axes& axes : meshes) {
    absl::StatusOr<Mesh> mesh = Mesh::Create(axes);
    if (!mesh.ok()) continue;
    absl::StatusOr<Unscheduled> step = step_over(*mesh);
    if (!step.ok() || step->us >= advice->ratio * own->us) continue;
    double weights =
        static_cast<double>(step->weight_bytes) /
        std::max<double>(1, static_cast<double>(own->weight_bytes));
    if (weights > 1 && !Fits(result, weights)) continue;
    advice->ratio = step->us / own->us;
    advice->better = FlagsOf(axes);
  }
  if (advice->ratio <= 1 - kWorthAnotherMesh) return;
  advice->better.clear();
  advice->ratio = 1;
}

}  // namespace

std::vector<Redundancy> RedundancyOf(const Program& partitioned) {
  std::vector<Redundancy> found;
  Mesh whole = WithoutSplits(partitioned.mesh);
  for (int a = 0; a < partitioned.mesh.num_axes(); ++a) {
    auto axis = static_cast<AxisId>(a);
    // The outer part of a split axis divides what the inner one does.
    if (partitioned.mesh.size(axis) == 1 ||
        whole.Find(partitioned.mesh.name(axis)) < 0) {
      continue;
    }
    Redundancy redundancy = RedundancyOver(partitioned, axis);
    if (redundancy.share >= kWorthTelling) found.push_back(redundancy);
  }
  return found;
}

MeshAdvice AdviseMesh(const CompileFlags& options,
                      const CompiledModel& result) {
  MeshAdvice advice;
  if (!result.partitioned.has_value()) return advice;
  advice.redundant = RedundancyOf(*result.partitioned);
  bool doubtful = std::any_of(
      advice.redundant.begin(), advice.redundant.end(),
      [](const Redundancy& r) { return r.share >= kWorthAnotherMesh; });
  for (const std::string& remark : result.remarks) {
    doubtful |= remark.starts_with("axis ");
  }
  if (!MayChange(options, result)) return advice;
  std::vector<Axes> meshes;
  if (doubtful) {
    meshes = Neighbours(WithoutSplits(result.program.mesh).axes());
  }
  // A single device beats several of a small model.
  meshes.push_back({});
  FindBetter(options, result, meshes, &advice);
  return advice;
}

std::string AdviceText(const MeshAdvice& advice) {
  std::string text;
  for (const Redundancy& redundancy : advice.redundant) {
    text += fmt::format(
        "  all devices of {} compute the same: {:.3g} % of a device's "
        "operations ({})\n",
        redundancy.axis, 100 * redundancy.share, redundancy.ops);
  }
  if (!advice.better.empty()) {
    text += fmt::format(
        "  {}{} takes {:.0f} % less time unscheduled, as far as a few layers "
        "tell\n",
        advice.better == FlagsOf({}) ? "one device alone, " : "", advice.better,
        100 * (1 - advice.ratio));
  }
  return text;
}

nlohmann::json AdviceJson(const MeshAdvice& advice) {
  nlohmann::json json = {{"redundant", nlohmann::json::array()}};
  for (const Redundancy& redundancy : advice.redundant) {
    json["redundant"].push_back({{"axis", redundancy.axis},
                                 {"share", redundancy.share},
                                 {"ops", redundancy.ops}});
  }
  if (!advice.better.empty()) {
    json["better"] = {{"mesh", advice.better},
                      {"unscheduled_ratio", advice.ratio}};
  }
  return json;
}

}  // namespace asyra
