#include "tools/idle_flags.h"

#include <filesystem>
#include <fstream>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "passes/schedule/order/reorder.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/zero.h"

namespace asyra {
namespace {

// A compilation as far as it decides what flags do.
struct Case {
  const CompileFlags& flags;
  Stage stage;
  // Empty for a mesh that is refused: then its error counts.
  std::vector<Mesh::Axis> axes;  // of more than one device
  bool has_mesh = true;
};

Case CaseOf(const CompileFlags& flags) {
  Case one{.flags = flags, .stage = StageOf(flags.model)};
  absl::StatusOr<Mesh> mesh = MeshOf(flags);
  one.has_mesh = mesh.ok() && one.stage == Stage::kGlobal;
  if (!one.has_mesh) return one;
  absl::c_copy_if(mesh->axes(), std::back_inserter(one.axes),
                  [](const Mesh::Axis& axis) { return axis.size > 1; });
  return one;
}

bool HasAxis(const Case& one, bool (*is)(const Mesh::Axis&)) {
  return !one.has_mesh || absl::c_any_of(one.axes, is);
}

std::string Partitioned(const Case& one) {
  if (one.stage < Stage::kLocal) return "";
  return fmt::format("on {}, which is partitioned", one.flags.model);
}
std::string Scheduled(const Case& one) {
  if (one.stage < Stage::kScheduled) return "";
  return fmt::format("on {}, which is scheduled", one.flags.model);
}
std::string WithPasses(const Case& one) {
  return one.flags.passes.empty() ? "" : "with --passes";
}
std::string WithEstimate(const Case& one) {
  return one.flags.estimate ? "with --estimate" : "";
}
std::string WithPassesOfFile(const Case& one) {
  bool is_file = absl::EndsWith(one.flags.model, ".onnx");
  return is_file ? WithPasses(one) : "";
}
std::string WithPropagate(const Case& one) {
  return one.flags.propagate ? "with --propagate" : "";
}
std::string OnOneDevice(const Case& one) {
  bool one_device = one.has_mesh && one.axes.empty();
  return one_device ? "on one device: without --dp, --tp, --sp, --ep or --mesh"
                    : "";
}
std::string WithoutTp(const Case& one) {
  bool tp =
      HasAxis(one, [](const Mesh::Axis& axis) { return axis.name == "tp"; });
  return tp ? "" : "without --tp";
}
std::string WithoutSp(const Case& one) {
  bool sp = HasAxis(one, [](const Mesh::Axis& axis) {
    return RoleOf(axis.name) == AxisRole::kSequence;
  });
  return sp ? "" : "without --sp";
}
std::string WithoutEp(const Case& one) {
  bool ep = !ExpertAxes(one.flags).empty() ||
            HasAxis(one, [](const Mesh::Axis& axis) {
              return RoleOf(axis.name) == AxisRole::kExpert;
            });
  return ep ? "" : "without --ep";
}
std::string WithoutReplicas(const Case& one) {
  bool replicas = HasAxis(one, [](const Mesh::Axis& axis) {
    return HasReplicas(RoleOf(axis.name));
  });
  return replicas ? "" : "without --dp, --sp or --ep";
}
std::string WithoutTrain(const Case& one) {
  bool is_program = absl::EndsWith(one.flags.model, ".asyra");
  return is_program || one.flags.train.has_value() ? "" : "without --train";
}
std::string WithOneTile(const Case& one) {
  return one.flags.tiles == 1 ? "with --tiles 1" : "";
}
std::string WithoutBucket(const Case& one) {
  return one.flags.bucket ? "" : "with --no-bucket";
}
std::string WithoutFuse(const Case& one) {
  return one.flags.fuse ? "" : "with --no-fuse";
}
std::string WithoutSearch(const Case& one) {
  if (one.flags.scheduler == "auto") return "";
  return "with --scheduler " + one.flags.scheduler;
}
std::string WithoutSteps(const Case& one) {
  return one.flags.scheduler == "search" ? "" : WithoutSearch(one);
}
// Halves are of params that are read as bf16.
std::string WithOtherType(const Case& one) {
  const std::string& dtype = one.flags.dtype;
  return dtype.empty() || dtype == "bf16" ? "" : "with --dtype " + dtype;
}

// An edit of the machine that a later one replaces.
std::string ReplacedEdit(const Case& one) {
  const std::vector<std::string>& edits = one.flags.set;
  for (size_t i = 0; i < edits.size(); ++i) {
    std::string key = edits[i].substr(0, edits[i].find_first_of("*="));
    if (key == "nodes" && one.flags.nodes != 0) {
      return fmt::format("for {} with --nodes", edits[i]);
    }
    for (size_t k = i + 1; k < edits.size(); ++k) {
      if (!absl::StartsWith(edits[k], key + "=")) continue;
      return fmt::format("for {} with --set {}", edits[i], edits[k]);
    }
  }
  return "";
}

// Flags, and why they do nothing, or "".
struct Rule {
  std::string_view flags;
  std::string (*why)(const Case&);
};
constexpr std::string_view kOfTraining =
    "--train --train-also --optimizer --beta1 --beta2 --eps --momentum --decay "
    "--decay-of --clip --accumulate --zero --whole-params --recompute "
    "--loss-chunks --freeze --tie --untie --loss --balance-loss "
    "--router-z-loss";
constexpr std::string_view kOfSharding =
    "--shard --propagate --tp-strategy --ep-strategy --stripes --dtype "
    "--padding --documents";
constexpr std::string_view kOfScheduling =
    "--tiles --tile-dim --scheduler --bucket --overlap --no-overlap --join "
    "--phases --fuse --epilogues --reduce-scatter --over-hosts --key-walk "
    "--head-parts "
    "--search-steps";
constexpr std::string_view kOfGlobal = "--expert-capacity";
constexpr Rule kRules[] = {
    {kOfTraining, Partitioned},
    {kOfSharding, Partitioned},
    {kOfGlobal, Partitioned},
    {kOfScheduling, Scheduled},
    {kOfTraining, WithPasses},
    {kOfSharding, WithPasses},
    {kOfScheduling, WithPasses},
    {kOfGlobal, WithPassesOfFile},
    {"--estimate", Scheduled},
    {"--estimate", WithPasses},
    {"--tiles --tile-dim --scheduler --bucket --overlap --no-overlap --join "
     "--phases --reduce-scatter --over-hosts --key-walk --head-parts "
     "--search-steps",
     WithEstimate},
    {"--tp-strategy --ep-strategy --stripes --zero --whole-params",
     WithPropagate},
    {"--shard --propagate --reduce-scatter --over-hosts --key-walk "
     "--head-parts --overlap --no-overlap "
     "--join "
     "--ranks-as --nodes",
     OnOneDevice},
    {"--tp-strategy", WithoutTp},
    {"--ep-strategy", WithoutEp},
    {"--stripes", WithoutSp},
    {"--zero", WithoutReplicas},
    {"--phases", WithoutTrain},
    {"--tile-dim", WithOneTile},
    {"--join", WithoutBucket},
    {"--epilogues", WithoutFuse},
    {"--bucket --join --overlap --no-overlap", WithoutSearch},
    {"--search-steps", WithoutSteps},
    {"--whole-params", WithOtherType},
    {"--set", ReplacedEdit},
};

std::string WhyIdle(const std::string& given, const Case& one) {
  std::string flag = FlagOfGrid(given);
  for (const Rule& rule : kRules) {
    std::vector<std::string> flags =
        absl::StrSplit(std::string(rule.flags), ' ');
    if (!absl::c_linear_search(flags, flag)) continue;
    std::string why = rule.why(one);
    if (!why.empty()) return why;
  }
  return "";
}

// "--bucket" was "--no-bucket" in the command, where only that does something.
std::string Spelled(const std::string& flag) {
  for (std::string_view both : {"bucket", "join", "fuse"}) {
    if (flag == fmt::format("--{}", both)) {
      return fmt::format("--{0} or --no-{0}", both);
    }
  }
  return flag;
}

}  // namespace

Stage StageOf(const std::string& model) {
  std::error_code error;  // a pipe would be waited for
  if (std::filesystem::path(model).extension() != ".asyra" ||
      !std::filesystem::is_regular_file(model, error)) {
    return Stage::kGlobal;
  }
  std::ifstream file(model);
  std::string line;  // the first that is no comment
  while (std::getline(file, line) && !absl::StartsWith(line, "asyra ")) {
  }
  for (Stage stage : {Stage::kLocal, Stage::kScheduled, Stage::kAllocated}) {
    if (absl::EndsWith(line, fmt::format(" {}", ToString(stage)))) return stage;
  }
  return Stage::kGlobal;
}

std::string FlagOfGrid(const std::string& flag) {
  if (!absl::StartsWith(flag, kGridFlag)) return flag;
  std::string key = flag.substr(std::string_view(kGridFlag).size());
  return "--" + key.substr(0, key.find('.'));
}

absl::Status CheckNoneIdle(const std::vector<std::string>& given,
                           absl::Span<const CompileFlags> compilations,
                           std::string_view unless) {
  std::vector<Case> cases;
  for (const CompileFlags& flags : compilations) {
    cases.push_back(CaseOf(flags));
  }
  for (const std::string& flag : given) {
    std::string why(unless);
    bool is_read = absl::c_any_of(cases, [&](const Case& one) {
      why = WhyIdle(flag, one);
      return why.empty();
    });
    if (is_read) continue;
    return Invalid("{} has no effect {}", Spelled(flag), why);
  }
  return absl::OkStatus();
}

}  // namespace asyra
