#include "passes/shard/split_heads.h"

#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/builder.h"
#include "ir/ops/attention.h"
#include "ir/support/status.h"
#include "passes/shard/head_parts.h"
#include "passes/shard/live_ops.h"

namespace asyra {
namespace {

constexpr int kHeads = 2;  // a dimension of q, k, v and y

bool Moves(const Op& op, std::string_view name, int from, int to) {
  return op.def->name == name && op.operands.size() == 1 &&
         op.attrs.Int("from") == from && op.attrs.Int("to") == to;
}

// Returns whether a part of the heads of the result comes from that part of the
// operand.
bool KeepsHeads(const Op& op, const Program& program) {
  if (op.operands.size() != 1) return false;
  if (Moves(op, "all_to_all", 1, kHeads)) return true;
  bool along_rows = op.def->collective == CollectiveKind::kAllGather ||
                    op.def->name == "unstripe" || op.def->name == "stripe";
  return along_rows && NormalizeDim(op.attrs.Int("dim"),
                                    program.type(op.operands[0]).rank()) == 1;
}

class HeadSplitter {
 public:
  HeadSplitter(const Program& from, int64_t parts)
      : from_(from),
        parts_(parts),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue),
        definition_(from.values.size(), -1),
        uses_(from.values.size()) {
    for (size_t i = 0; i < from.ops.size(); ++i) {
      for (ValueId value : from.ops[i].results) {
        definition_[value] = static_cast<int>(i);
      }
      for (ValueId value : from.ops[i].operands) ++uses_[value];
    }
    for (const Output& output : from.outputs) ++uses_[output.value];
  }

  // Returns whether the pass applies to an attention, whatever the parts.
  bool Applies(const Op& op) const {
    if (op.def->name != "attention" || op.results.size() > 1) return false;
    bool moved = false;
    for (int k : {0, 1, 2}) moved |= Source(op.operands[k]) != nullptr;
    for (size_t i = ops::kFirstExtra; i < op.operands.size(); ++i) {
      const Type& extra = from_.type(op.operands[i]);
      if (extra.rank() == 4 && extra.size(1) != 1) return false;
    }
    return moved;
  }
  // Returns the heads of keys of each device.
  int64_t KeyHeads(const Op& op) const {
    return from_.type(op.operands[1]).Local(from_.mesh).size(kHeads);
  }

  absl::StatusOr<Program> Run() {
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      auto found =
          parts_of_.find(op.operands.empty() ? kNoValue : op.operands[0]);
      bool splits = Applies(op) && KeyHeads(op) % parts_ == 0;
      ASYRA_RETURN_IF_ERROR(splits ? Split(op)
                            : found != parts_of_.end()
                                ? MoveParts(op, found->second)
                                : builder_.Copy(from_, op, &map_));
    }
    builder_.CopyOutputs(from_, map_);
    return WithoutDeadOps(std::move(builder_).Finish());
  }

  int split() const { return split_; }

 private:
  // Returns the op that defines a value and keeps its heads, or null.
  const Op* Source(ValueId value) const {
    int at = definition_[value];
    if (at < 0 || !KeepsHeads(from_.ops[at], from_)) return nullptr;
    return &from_.ops[at];
  }

  int64_t DevicesOf(const Type& type, int dim) const {
    return from_.mesh.size(type.dims[dim].axes);
  }

  // Returns a part of the heads of an operand: collectives move each by itself.
  absl::StatusOr<ValueId> Part(ValueId value, int dim, const HeadPart& part) {
    auto found = taken_.find({value, part.part});
    if (found != taken_.end()) return found->second;
    std::string name =
        from_.value_name(value) + fmt::format(".heads{}", part.part);
    ValueId taken = kNoValue;
    if (const Op* source = dim == kHeads ? Source(value) : nullptr) {
      ASYRA_ASSIGN_OR_RETURN(ValueId before,
                             Part(source->operands[0], dim, part));
      ASYRA_ASSIGN_OR_RETURN(taken, builder_.AddOne(source->def->name, {before},
                                                    source->attrs, name));
    } else {
      ASYRA_ASSIGN_OR_RETURN(
          taken, TakeHeads(map_[value], dim, part, name, &builder_));
    }
    taken_[{value, part.part}] = taken;
    return taken;
  }

  absl::Status Split(const Op& op) {
    ++split_;
    ValueId y = op.results[0];
    int64_t devices = DevicesOf(from_.type(y), kHeads);
    std::vector<ValueId> parts;
    for (int64_t i = 0; i < parts_; ++i) {
      HeadPart part = {devices, i, parts_};
      std::vector<ValueId> operands;
      for (size_t k = 0; k < op.operands.size(); ++k) {
        ValueId operand = op.operands[k];
        const Type& type = from_.type(operand);
        bool sinks = type.rank() == 1 && IsFloat(type.dtype);
        bool has_heads = k < ops::kFirstExtra || sinks;
        ASYRA_ASSIGN_OR_RETURN(operands.emplace_back(),
                               has_heads
                                   ? Part(operand, sinks ? 0 : kHeads, part)
                                   : absl::StatusOr<ValueId>(map_[operand]));
      }
      ASYRA_ASSIGN_OR_RETURN(
          parts.emplace_back(),
          builder_.AddOne("attention", operands, op.attrs,
                          from_.value_name(y) + fmt::format(".heads{}", i)));
    }
    if (uses_[y] == 1 && MovesBack(y)) {
      parts_of_[y] = std::move(parts);
      return absl::OkStatus();
    }
    ASYRA_ASSIGN_OR_RETURN(map_[y], JoinHeads(parts, kHeads, devices,
                                              from_.value_name(y), &builder_));
    return absl::OkStatus();
  }

  // Returns whether the one reader of a value exchanges its heads for rows.
  bool MovesBack(ValueId value) const {
    return absl::c_any_of(from_.ops, [&](const Op& op) {
      return Moves(op, "all_to_all", kHeads, 1) && op.operands[0] == value;
    });
  }

  absl::Status MoveParts(const Op& op, const std::vector<ValueId>& parts) {
    const std::string& name = from_.value_name(op.results[0]);
    int64_t devices = DevicesOf(from_.type(op.operands[0]), kHeads);
    std::vector<ValueId> moved;
    for (size_t i = 0; i < parts.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(
          moved.emplace_back(),
          builder_.AddOne(op.def->name, {parts[i]}, op.attrs,
                          name + fmt::format(".heads{}", i)));
    }
    ASYRA_ASSIGN_OR_RETURN(map_[op.results[0]],
                           JoinHeads(moved, kHeads, devices, name, &builder_));
    return absl::OkStatus();
  }

  const Program& from_;
  const int64_t parts_;
  Builder builder_;
  std::vector<ValueId> map_;  // from a value of `from_` to one of the new
  std::vector<int> definition_, uses_;  // of each value: the op, or -1
  std::map<std::pair<ValueId, int64_t>, ValueId> taken_;
  std::map<ValueId, std::vector<ValueId>> parts_of_;  // results that move back
  int split_ = 0;
};

}  // namespace

absl::StatusOr<bool> SplitHeads(Program& program, const PassOptions& options,
                                PassContext& context) {
  int64_t parts = options.Int("parts");
  if (parts < 1) return Invalid("parts is {}, it must be at least 1", parts);
  HeadSplitter splitter(program, parts);
  ASYRA_ASSIGN_OR_RETURN(Program split, splitter.Run());
  if (splitter.split() == 0 || parts == 1) {
    context.Remark(
        "heads stay whole: no attention with exchanged or gathered heads "
        "has {} parts of them on each device",
        parts);
    return false;
  }
  context.Remark("split_heads: heads of {} attentions in {} parts",
                 splitter.split(), parts);
  program = std::move(split);
  return true;
}

int64_t HeadPartsOf(const Program& program, int64_t most) {
  HeadSplitter splitter(program, 1);
  int64_t heads = 0;
  for (const Op& op : program.ops) {
    if (splitter.Applies(op)) heads = std::gcd(heads, splitter.KeyHeads(op));
  }
  for (int64_t parts = most; parts > 1; --parts) {
    if (heads > 0 && heads % parts == 0) return parts;
  }
  return 1;
}

}  // namespace asyra
