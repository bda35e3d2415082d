#include "passes/shard/decompose_over_hosts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/copy_engine.h"
#include "ir/split_axes.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

// Devices from one to the next along each axis.
std::vector<int64_t> StridesOf(const Mesh& mesh) {
  std::vector<int64_t> strides(mesh.num_axes(), 1);
  for (int a = mesh.num_axes() - 1; a-- > 0;) {
    strides[a] = strides[a + 1] * mesh.axes()[a + 1].size;
  }
  return strides;
}

// The axes that lead from a host to others and have several devices on each.
std::vector<AxisSplit> SplitsAt(const Mesh& mesh, int64_t host) {
  std::vector<AxisSplit> splits;
  std::vector<int64_t> strides = StridesOf(mesh);
  for (int a = 0; a < mesh.num_axes(); ++a) {
    const Mesh::Axis& axis = mesh.axes()[a];
    int64_t inner = host / strides[a];
    if (inner > 1 && inner < axis.size && host % strides[a] == 0 &&
        axis.size % inner == 0 && !IsPart(mesh, static_cast<AxisId>(a))) {
      splits.push_back({axis.name, inner});
    }
  }
  return splits;
}

// Axes of a collective that follow each other and are all inside a host, or
// all lead to others.
struct AxisRun {
  AxisList axes;
  bool across = false;
};

class Decomposer {
 public:
  // `costs`, over the mesh of `from`, null: of any size.
  Decomposer(const Program& from, int64_t host, const CostModel* costs)
      : from_(from),
        host_(host),
        costs_(costs),
        strides_(StridesOf(from.mesh)),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() {
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      std::vector<AxisRun> runs;
      if (op.is_collective()) runs = RunsOf(op.attrs.Get<AxisList>("axes"));
      spanning_ += runs.size() > 1;
      ASYRA_RETURN_IF_ERROR(runs.size() > 1 && IsOpen(op, runs)
                                ? Decompose(op, runs)
                                : builder_.Copy(from_, op, &map_));
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

  int spanning() const { return spanning_; }
  int decomposed() const { return decomposed_; }

 private:
  // None where an axis is neither inside hosts nor between them.
  std::vector<AxisRun> RunsOf(const AxisList& axes) const {
    std::vector<AxisRun> runs;
    for (AxisId axis : axes) {
      if (from_.mesh.size(axis) == 1) continue;
      bool across = strides_[axis] % host_ == 0;
      bool inside = host_ % (strides_[axis] * from_.mesh.size(axis)) == 0;
      if (!across && !inside) return {};
      if (runs.empty() || runs.back().across != across) {
        runs.push_back({{}, across});
      }
      runs.back().axes.push_back(axis);
    }
    return runs;
  }

  static AxisList Joined(const std::vector<AxisRun>& runs, bool across) {
    AxisList axes;
    for (const AxisRun& run : runs) {
      if (run.across != across) continue;
      axes.insert(axes.end(), run.axes.begin(), run.axes.end());
    }
    return axes;
  }

  bool IsOpen(const Op& op, const std::vector<AxisRun>& runs) const {
    CollectiveKind kind = op.def->collective;
    if (op.operands.size() != 1 || kind == CollectiveKind::kAllToAll ||
        kind == CollectiveKind::kShift || op.attrs.Int("ctas") != 0 ||
        AsksForCopyEngine(op.attrs)) {
      return false;
    }
    if (kind == CollectiveKind::kAllReduce &&
        ScatterDim(from_.type(op.operands[0]), Joined(runs, false)) < 0) {
      return false;
    }
    return costs_ == nullptr || MovesBytes(op);
  }

  // The first dimension, for its parts to be contiguous, that divides.
  int ScatterDim(const Type& type, const AxisList& axes) const {
    for (int d = 0; d < type.rank(); ++d) {
      int64_t parts = from_.mesh.size(type.dims[d].axes);
      if (type.size(d) > 0 &&
          type.size(d) % (parts * from_.mesh.size(axes)) == 0) {
        return d;
      }
    }
    return -1;
  }

  // Returns whether the op takes more than twice as long as for one byte.
  bool MovesBytes(const Op& op) const {
    CollectiveKind kind = op.def->collective;
    const AxisList& axes = op.attrs.Get<AxisList>("axes");
    auto bytes = static_cast<double>(PayloadBytes(from_, op));
    return costs_->CollectiveUs(kind, bytes, axes) >
           2 * costs_->CollectiveUs(kind, 1, axes);
  }

  absl::Status Decompose(const Op& op, const std::vector<AxisRun>& runs) {
    ++decomposed_;
    return op.def->collective == CollectiveKind::kAllReduce
               ? DecomposeReduction(op, runs)
               : DecomposeParts(op, runs);
  }

  absl::Status DecomposeReduction(const Op& op,
                                  const std::vector<AxisRun>& runs) {
    const std::string& name = from_.value_name(op.results[0]);
    AxisList inside = Joined(runs, false);
    int64_t dim = ScatterDim(from_.type(op.operands[0]), inside);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId part,
        builder_.AddOne("reduce_scatter", {map_[op.operands[0]]},
                        {{"dim", dim}, {"axes", inside}}, name + ".inside"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sum,
        builder_.AddOne("all_reduce", {part}, {{"axes", Joined(runs, true)}},
                        name + ".across"));
    ASYRA_ASSIGN_OR_RETURN(
        map_[op.results[0]],
        builder_.AddOne("all_gather", {sum}, {{"dim", dim}, {"axes", inside}},
                        name));
    return absl::OkStatus();
  }

  // An all_gather or a reduce_scatter: of the parts of the dimension as
  // dimensions, behind one for the axes that remain.
  absl::Status DecomposeParts(const Op& op, const std::vector<AxisRun>& runs) {
    const std::string& name = from_.value_name(op.results[0]);
    bool gathers = op.def->collective == CollectiveKind::kAllGather;
    const Type& whole = from_.type(gathers ? op.results[0] : op.operands[0]);
    int dim = NormalizeDim(op.attrs.Int("dim"), whole.rank());
    Ints shape;
    for (int d = 0; d < dim; ++d) shape.push_back(whole.size(d));
    int64_t rest = whole.size(dim),
            outer = from_.mesh.size(whole.dims[dim].axes);
    if (outer > 1) shape.push_back(outer);
    auto first = static_cast<int64_t>(shape.size());
    for (const AxisRun& run : runs) {
      shape.push_back(from_.mesh.size(run.axes));
      rest /= shape.back();
    }
    shape.push_back(rest / outer);
    for (int d = dim + 1; d < whole.rank(); ++d) shape.push_back(whole.size(d));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId value, builder_.AddOne("reshape", {map_[op.operands[0]]},
                                       {{"shape", shape}}, name + ".parts"));
    for (bool across : {gathers, !gathers}) {
      for (size_t r = 0; r < runs.size(); ++r) {
        if (runs[r].across != across) continue;
        ASYRA_ASSIGN_OR_RETURN(
            value, builder_.AddOne(op.def->name, {value},
                                   {{"dim", first + static_cast<int64_t>(r)},
                                    {"axes", runs[r].axes}},
                                   name + (across ? ".across" : ".inside")));
      }
    }
    Shape result = whole.shape();
    ASYRA_ASSIGN_OR_RETURN(
        map_[op.results[0]],
        builder_.AddOne("reshape", {value},
                        {{"shape", Ints(result.begin(), result.end())}}, name));
    return absl::OkStatus();
  }

  const Program& from_;
  const int64_t host_;
  const CostModel* const costs_;
  const std::vector<int64_t> strides_;  // by axis
  Builder builder_;
  std::vector<ValueId> map_;  // from a value of `from_` to one of the new
  int spanning_ = 0, decomposed_ = 0;
};

// Returns the costs of the machine with `host` devices on each of its hosts.
CostModel WithHosts(const CostModel& costs, int64_t host, const Mesh& mesh) {
  Machine machine = costs.machine();
  machine.gpus_per_host = static_cast<int>(host);
  return CostModel(std::move(machine), mesh);
}

}  // namespace

absl::StatusOr<bool> DecomposeOverHosts(Program& program,
                                        const PassOptions& options,
                                        PassContext& context) {
  int64_t host = options.Int("host");
  bool always = options.Bool("always");
  if (host < 0) return Invalid("host is {}, it must not be negative", host);
  if (context.costs == nullptr && (host == 0 || !always)) {
    return Invalid(
        "needs costs of a machine: there are none in PassContext::costs");
  }
  if (host == 0) host = context.costs->machine().gpus_per_host;
  std::vector<AxisSplit> splits = SplitsAt(program.mesh, host);
  ASYRA_ASSIGN_OR_RETURN(Program split, SplitAxes(program, splits));
  std::optional<CostModel> costs;
  if (!always) costs.emplace(WithHosts(*context.costs, host, split.mesh));
  Decomposer decomposer(split, host, costs.has_value() ? &*costs : nullptr);
  ASYRA_ASSIGN_OR_RETURN(Program decomposed, decomposer.Run());
  if (decomposer.decomposed() == 0) {
    context.Remark(
        "decompose_over_hosts: none of {} over several devices of several "
        "hosts{}",
        decomposer.spanning(),
        always || decomposer.spanning() == 0 ? "" : " takes more than latency");
    return false;
  }
  context.Remark(
      "decompose_over_hosts: {} of {} made collectives inside hosts "
      "of {} and across them",
      decomposer.decomposed(), decomposer.spanning(), host);
  program = std::move(decomposed);
  if (context.costs != nullptr && !splits.empty()) {
    context.own_costs =
        std::make_shared<const CostModel>(context.costs->Over(program.mesh));
    context.costs = context.own_costs.get();
  }
  return true;
}

}  // namespace asyra
