#include "passes/shard/walk_keys.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/builder.h"
#include "ir/ops/attention.h"
#include "ir/split_axes.h"
#include "ir/support/status.h"
#include "passes/shard/live_ops.h"
#include "passes/shard/split_heads.h"
#include "passes/shard/walk_sites.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

// Results of parts that are merged at once: they are all kept until then, while
// each merge before the last writes f32.
constexpr size_t kMergedAtOnce = 4;

// Parts of heads that are tried over hosts, where they divide. Inside a host
// they lose: of two H200 two parts take 1.04 to 1.08 times as long as all
// heads, four 1.11 to 1.22 times, where 0.98 was predicted.
constexpr int64_t kHeadParts = 8;

// The axes over which keys walk, and those over which each part is gathered.
struct WalkAxes {
  AxisList outer, inner;
};

class Walker {
 public:
  Walker(const Program& from, int64_t parts, size_t merged_at_once)
      : from_(from),
        parts_(parts),
        merged_at_once_(merged_at_once),
        sites_(from),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue),
        changed_(from.ops.size()) {}

  absl::StatusOr<Program> Run() {
    FindChanged();
    builder_.CopyInputs(from_, &map_);
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      int at = static_cast<int>(i);
      absl::Status done = !changed_[i] ? builder_.Copy(from_, op, &map_)
                          : sites_.sums().contains(at)      ? SumGradients(at)
                          : sites_.ReductionBehind(at) >= 0 ? absl::OkStatus()
                          : op.def->name == "attention"     ? Attend(at)
                                                            : Differentiate(at);
      ASYRA_RETURN_IF_ERROR(done);
    }
    builder_.CopyOutputs(from_, map_);
    return WithoutDeadOps(std::move(builder_).Finish());
  }

  int walked() const { return walked_; }

 private:
  // The outermost axes of so many devices; none where there are no such.
  std::optional<WalkAxes> AxesOf(const GatheredKeys& keys) const {
    int64_t devices = from_.mesh.size(keys.axes);
    int64_t parts = parts_ == 0 ? devices : parts_, outer = 1;
    WalkAxes axes;
    for (AxisId axis : keys.axes) {
      bool walks = outer < parts;
      if (walks) outer *= from_.mesh.size(axis);
      (walks ? axes.outer : axes.inner).push_back(axis);
    }
    if (outer != parts || parts < 2) return std::nullopt;
    return axes;
  }

  // Marks the ops that are replaced, and those between them.
  void FindChanged() {
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      int at = static_cast<int>(i), behind = sites_.ReductionBehind(at);
      auto sum = sites_.sums().find(behind < 0 ? at : behind);
      if (sum != sites_.sums().end()) {
        changed_[i] = AxesOf(sum->second.keys).has_value();
      } else if (sites_.Has(at)) {
        changed_[i] = AxesOf(sites_.KeysOf(at, false)).has_value();
      }
    }
  }

  const std::string& NameOf(ValueId value) const {
    return from_.value_name(value);
  }
  absl::StatusOr<ValueId> One(std::string_view op,
                              absl::Span<const ValueId> operands, AttrMap attrs,
                              std::string_view name) {
    return builder_.AddOne(op, operands, std::move(attrs), name);
  }

  // Returns the value with stripes of the devices of `inner` in order, or back:
  // each part of the outer axes by itself.
  absl::StatusOr<ValueId> Reorder(ValueId value, std::string_view op,
                                  int64_t parts, int64_t pairs,
                                  const std::string& name) {
    Shape whole = builder_.type(value).shape();
    Ints shape(whole.begin(), whole.end());
    Ints apart = shape;
    apart[1] = parts;
    apart.insert(apart.begin() + 2, shape[1] / parts);
    ASYRA_ASSIGN_OR_RETURN(
        value, One("reshape", {value}, {{"shape", apart}}, name + ".parts"));
    ASYRA_ASSIGN_OR_RETURN(
        value, One(op, {value}, {{"dim", int64_t{2}}, {"pairs", pairs}},
                   name + ".order"));
    return One("reshape", {value}, {{"shape", shape}}, name);
  }

  // Returns the keys that a device has when they have walked by `shift` parts.
  absl::StatusOr<ValueId> Fetch(const GatheredKeys& keys, const WalkAxes& axes,
                                int64_t shift) {
    auto found = fetched_.find({keys.shard, shift});
    if (found != fetched_.end()) return found->second;
    ValueId value = map_[keys.shard];
    std::string name = NameOf(keys.shard) + fmt::format(".walk{}", shift);
    if (shift > 0) {
      ASYRA_ASSIGN_OR_RETURN(
          value, One("shift", {value},
                     {{"dim", int64_t{1}}, {"by", shift}, {"axes", axes.outer}},
                     name));
    }
    if (!axes.inner.empty()) {
      ASYRA_ASSIGN_OR_RETURN(
          value,
          One("all_gather", {value},
              {{"dim", int64_t{1}}, {"axes", axes.inner}}, name + ".inside"));
      if (keys.pairs > 0) {
        ASYRA_ASSIGN_OR_RETURN(
            value, Reorder(value, "unstripe", from_.mesh.size(axes.outer),
                           from_.mesh.size(axes.inner), name + ".natural"));
      }
    }
    fetched_[{keys.shard, shift}] = value;
    return value;
  }

  // Attributes and operands of the part of an op that sees one shard.
  struct PartOfOp {
    AttrMap attrs;
    std::vector<ValueId> operands;
  };
  absl::StatusOr<PartOfOp> PartAt(int at, const WalkAxes& axes, int64_t shift) {
    const Op& op = from_.ops[at];
    PartOfOp part{op.attrs, {}};
    part.attrs.Set("shards", from_.mesh.size(axes.outer));
    part.attrs.Set("shift", shift);
    for (ValueId operand : op.operands) part.operands.push_back(map_[operand]);
    for (bool values : {false, true}) {
      ASYRA_ASSIGN_OR_RETURN(part.operands[values ? 2 : 1],
                             Fetch(sites_.KeysOf(at, values), axes, shift));
    }
    return part;
  }

  // Returns whether some row on some device sees a key of such a part. It is
  // asked before the keys are fetched.
  bool SeesAny(int at, const WalkAxes& axes, int64_t shift) const {
    const Op& op = from_.ops[at];
    AttrMap attrs = op.attrs;
    int64_t parts = from_.mesh.size(axes.outer);
    attrs.Set("shards", parts);
    std::vector<Type> types;
    for (ValueId operand : op.operands) {
      types.push_back(from_.type(operand).Local(from_.mesh));
    }
    for (int k : {1, 2}) types[k].dims[1].size /= parts;
    return ops::SeesShard(OpCall{*op.def, attrs, types, {}}, shift);
  }

  absl::Status Attend(int at) {
    const Op& op = from_.ops[at];
    WalkAxes axes = *AxesOf(sites_.KeysOf(at, false));
    const std::string& name = NameOf(op.results[0]);
    std::vector<ValueId> results;  // y and log sums of each part
    for (int64_t shift = 0; shift < from_.mesh.size(axes.outer); ++shift) {
      if (!SeesAny(at, axes, shift)) continue;
      if (results.size() == 2 * merged_at_once_) {
        ASYRA_ASSIGN_OR_RETURN(
            results, builder_.Add("attention_merge", results, {{"wide", true}},
                                  name + ".merged"));
      }
      ASYRA_ASSIGN_OR_RETURN(PartOfOp part, PartAt(at, axes, shift));
      part.attrs.Set("log_sums", true);
      // A sink counts once.
      if (shift > 0) part.operands.resize(ops::kFirstExtra);
      ASYRA_ASSIGN_OR_RETURN(
          std::vector<ValueId> seen,
          builder_.Add("attention", part.operands, part.attrs,
                       name + fmt::format(".part{}", shift)));
      results.insert(results.end(), seen.begin(), seen.end());
    }
    if (results.size() > 2) {
      ASYRA_ASSIGN_OR_RETURN(
          results, builder_.Add("attention_merge", results, {}, name));
    }
    for (size_t k = 0; k < op.results.size(); ++k) {
      map_[op.results[k]] = results[k];
    }
    ++walked_;
    return absl::OkStatus();
  }

  absl::Status Differentiate(int at) {
    const Op& op = from_.ops[at];
    WalkAxes axes = *AxesOf(sites_.KeysOf(at, false));
    ValueId sum = kNoValue;
    for (int64_t shift = 0; shift < from_.mesh.size(axes.outer); ++shift) {
      if (!SeesAny(at, axes, shift)) continue;
      ASYRA_ASSIGN_OR_RETURN(PartOfOp part, PartAt(at, axes, shift));
      ASYRA_ASSIGN_OR_RETURN(
          std::vector<ValueId> parts,
          builder_.Add("attention_grad", part.operands, part.attrs,
                       NameOf(op.results[0]) + fmt::format(".part{}", shift)));
      ASYRA_RETURN_IF_ERROR(AddTo(&sum, parts[0], NameOf(op.results[0])));
      for (int k : {1, 2}) gradients_[{op.results[k], shift}] = parts[k];
    }
    map_[op.results[0]] = sum;
    return absl::OkStatus();
  }

  absl::Status AddTo(ValueId* sum, ValueId value, const std::string& name) {
    if (*sum == kNoValue) {
      *sum = value;
      return absl::OkStatus();
    }
    ASYRA_ASSIGN_OR_RETURN(*sum, One("add", {*sum, value}, {}, name));
    return absl::OkStatus();
  }

  // The gradients of each part go back to the device that has its keys.
  absl::Status SumGradients(int at) {
    const WalkSites::Sum& sum = sites_.sums().at(at);
    ValueId result = from_.ops[at].results[0];
    WalkAxes axes = *AxesOf(sum.keys);
    const std::string& name = NameOf(result);
    int64_t parts = from_.mesh.size(axes.outer);
    ValueId all = kNoValue;
    for (int64_t shift = 0; shift < parts; ++shift) {
      ValueId part = kNoValue;
      std::string part_name = name + fmt::format(".walk{}", shift);
      for (ValueId gradient : sum.gradients) {
        auto found = gradients_.find({gradient, shift});
        if (found == gradients_.end()) continue;
        ASYRA_RETURN_IF_ERROR(AddTo(&part, found->second, part_name));
      }
      if (part == kNoValue) continue;
      ASYRA_ASSIGN_OR_RETURN(part,
                             Return(part, sum.keys, axes, shift, part_name));
      ASYRA_RETURN_IF_ERROR(AddTo(&all, part, name));
    }
    Shape shape = from_.type(result).shape();
    if (builder_.type(all).shape() != shape) {
      ASYRA_ASSIGN_OR_RETURN(
          all, One("reshape", {all},
                   {{"shape", Ints(shape.begin(), shape.end())}}, name));
    }
    map_[result] = all;
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Return(ValueId part, const GatheredKeys& keys,
                                 const WalkAxes& axes, int64_t shift,
                                 const std::string& name) {
    int64_t parts = from_.mesh.size(axes.outer);
    if (!axes.inner.empty()) {
      if (keys.pairs > 0) {
        ASYRA_ASSIGN_OR_RETURN(
            part, Reorder(part, "stripe", parts, from_.mesh.size(axes.inner),
                          name + ".striped"));
      }
      ASYRA_ASSIGN_OR_RETURN(
          part,
          One("reduce_scatter", {part},
              {{"dim", int64_t{1}}, {"axes", axes.inner}}, name + ".inside"));
    }
    if (shift == 0) return part;
    return One(
        "shift", {part},
        {{"dim", int64_t{1}}, {"by", parts - shift}, {"axes", axes.outer}},
        name);
  }

  const Program& from_;
  const int64_t parts_;
  const size_t merged_at_once_;
  const WalkSites sites_;
  Builder builder_;
  std::vector<ValueId> map_;   // from a value of `from_` to one of the new
  std::vector<bool> changed_;  // by op
  std::map<std::pair<ValueId, int64_t>, ValueId> fetched_, gradients_;
  int walked_ = 0;
};

// The splits without which keys cannot walk in so many parts: of single axes
// that are not parts themselves.
std::vector<AxisSplit> SplitsFor(const Program& program, int64_t parts) {
  std::vector<AxisSplit> splits;
  for (const AxisList& axes : WalkSites(program).AxesOfSites()) {
    int64_t devices = program.mesh.size(axes);
    if (axes.size() != 1 || parts < 2 || parts >= devices ||
        devices % parts != 0 || IsPart(program.mesh, axes[0])) {
      continue;
    }
    splits.push_back({program.mesh.name(axes[0]), devices / parts, "parts"});
  }
  return splits;
}

}  // namespace

absl::StatusOr<bool> WalkKeys(Program& program, const PassOptions& options,
                              PassContext& context) {
  int64_t parts = options.Int("parts");
  if (parts < 0) return Invalid("parts is {}, it must not be negative", parts);
  std::vector<AxisSplit> splits = SplitsFor(program, parts);
  ASYRA_ASSIGN_OR_RETURN(Program split, SplitAxes(program, splits));
  bool each = options.Bool("merge_each");
  Walker walker(split, parts, each ? 2 : kMergedAtOnce);
  ASYRA_ASSIGN_OR_RETURN(Program walked, walker.Run());
  if (walker.walked() == 0) {
    context.Remark(
        "keys are gathered whole: no attention without mask or lengths gathers "
        "its "
        "keys along its rows{}",
        parts == 0 ? "" : fmt::format(" so that {} parts walk", parts));
    return false;
  }
  context.Remark(
      "walk_keys: keys of {} attentions come in parts, while those "
      "before are computed with",
      walker.walked());
  program = std::move(walked);
  if (context.costs != nullptr && !splits.empty()) {
    context.own_costs =
        std::make_shared<const CostModel>(context.costs->Over(program.mesh));
    context.costs = context.own_costs.get();
  }
  return true;
}

std::string WalkOf(const Program& program) {
  for (const Op& op : program.ops) {
    if (op.def->name != "attention" || op.attrs.Int("shards") == 0) continue;
    return std::to_string(op.attrs.Int("shards"));
  }
  return "never";
}

std::vector<AttentionForm> AttentionFormsOf(const Program& program,
                                            int64_t gpus_per_host,
                                            bool least_memory) {
  std::set<AttentionForm> forms;
  bool one_host = program.mesh.num_devices() <= gpus_per_host;
  int64_t heads = one_host ? 1 : HeadPartsOf(program, kHeadParts);
  if (heads > 1) forms.insert({1, heads});
  for (const AxisList& axes : WalkSites(program).AxesOfSites()) {
    int64_t devices = program.mesh.size(axes);
    GroupSpan span =
        SpanOf(program.mesh, axes, static_cast<int>(gpus_per_host));
    if (least_memory) forms.insert({devices, 1, /*merge_each=*/true});
    for (int64_t parts : {span.hosts, int64_t{2}}) {
      if (parts < 2 || devices % parts != 0) continue;
      forms.insert({parts, 1});
      // Shards that cross slow links take longer than they are computed with.
      if (parts == span.hosts) forms.insert({parts, heads});
    }
  }
  return {forms.begin(), forms.end()};
}

}  // namespace asyra
