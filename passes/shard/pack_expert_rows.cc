#include "passes/shard/pack_expert_rows.h"

#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/support/status.h"
#include "passes/shard/slot_rows.h"

namespace asyra {
namespace {

constexpr int64_t kMostGroups = 8;
// Rows of an expert in a group in the mean: two tiles of the kernels.
constexpr int64_t kLeastRows = 256;

// The values by which the rows of a family are found.
struct Sorted {
  ValueId places, sources, ends;
  int64_t group_tokens;
};

class Packer {
 public:
  // `rows` of `from`; `groups` of a device's tokens, 0: as many as pay.
  Packer(const Program& from, const SlotRows& rows, int64_t groups)
      : from_(from),
        rows_(rows),
        groups_(groups),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() && {
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      ASYRA_RETURN_IF_ERROR(Enter(op));
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

 private:
  absl::Status Enter(const Op& op) {
    ValueId root = rows_.FamilyOfRouting(op);
    if (root != kNoValue) return Route(op, root);
    for (ValueId operand : op.operands) {
      root = std::max(root, rows_.FamilyOf(operand));
    }
    return root == kNoValue ? builder_.Copy(from_, op, &map_)
                            : Compute(op, root);
  }

  // Adds an op for `old`, with the name of its result.
  absl::Status Add(std::string_view name, absl::Span<const ValueId> operands,
                   AttrMap attrs, const Op& old) {
    ASYRA_ASSIGN_OR_RETURN(
        map_[old.results[0]],
        builder_.AddOne(name, operands, std::move(attrs), NameOf(old)));
    return absl::OkStatus();
  }

  const std::string& NameOf(const Op& op) const {
    return from_.value_name(op.results[0]);
  }

  absl::StatusOr<ValueId> Reshape(ValueId value, Shape shape,
                                  std::string_view name) {
    if (builder_.type(value).shape() == shape) return value;
    return builder_.AddOne("reshape", {value},
                           {{"shape", Ints(shape.begin(), shape.end())}}, name);
  }

  // Tokens that are sorted together. Error: groups that do not divide them.
  absl::StatusOr<int64_t> GroupTokens(ValueId experts,
                                      const SlotFamily& family) const {
    const Type& type = builder_.type(experts);
    int64_t tokens = type.Local(from_.mesh).dims.end()[-2].size;
    int64_t groups = groups_;
    if (groups == 0) {
      groups = from_.mesh.num_devices() > 1 ? kMostGroups : 1;
      while (
          groups > 1 &&
          (tokens % groups != 0 ||
           tokens * family.chosen / groups / family.num_experts < kLeastRows)) {
        groups /= 2;
      }
    }
    if (tokens % groups == 0) return tokens / groups;
    return Invalid("groups is {}, it does not divide the {} tokens of a device",
                   groups, tokens);
  }

  absl::StatusOr<const Sorted*> Sort(const Op& op, ValueId root) {
    auto [at, is_new] = sorted_.try_emplace(root);
    Sorted& sorted = at->second;
    if (!is_new) return &sorted;
    const SlotFamily& family = rows_.family(root);
    Shape shape = family.lead;
    shape.insert(shape.end(), {family.tokens, family.chosen});
    std::string name = from_.value_name(root) + ".sorted";
    ASYRA_ASSIGN_OR_RETURN(ValueId experts,
                           Reshape(map_[op.operands[1]], shape, name));
    ASYRA_ASSIGN_OR_RETURN(sorted.group_tokens, GroupTokens(experts, family));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> values,
                           builder_.Add("moe_sort", {experts},
                                        {{"num_experts", family.num_experts},
                                         {"group_size", sorted.group_tokens}},
                                        name));
    sorted.places = values[0];
    sorted.sources = values[1];
    sorted.ends = values[2];
    return &sorted;
  }

  // A dispatch, combine or collect.
  absl::Status Route(const Op& op, ValueId root) {
    ASYRA_ASSIGN_OR_RETURN(const Sorted* sorted, Sort(op, root));
    // Gradients of choices are routed as tokens of one choice each.
    const Type& choices = from_.type(op.operands[1]);
    int64_t chosen = rows_.family(root).chosen;
    AttrMap attrs = {{"group_size", sorted->group_tokens * chosen /
                                        choices.dims.back().size}};
    if (op.def->name == "moe_dispatch") {
      return Add("packed_dispatch", {map_[op.operands[0]], sorted->sources},
                 attrs, op);
    }
    ASYRA_ASSIGN_OR_RETURN(
        ValueId places,
        Reshape(sorted->places, choices.shape(), NameOf(op) + ".places"));
    std::vector<ValueId> operands = {map_[op.operands[0]], places};
    for (size_t i = 2; i < op.operands.size(); ++i) {
      operands.push_back(map_[op.operands[i]]);
    }
    return Add(
        op.def->name == "moe_combine" ? "packed_combine" : "packed_collect",
        operands, attrs, op);
  }

  // An op between them.
  absl::Status Compute(const Op& op, ValueId root) {
    const Sorted& sorted = sorted_.at(root);
    std::string_view name = op.def->name;
    ValueId first = map_[op.operands[0]];
    if (name == "grouped_matmul") {
      return Add("packed_matmul", {first, map_[op.operands[1]], sorted.ends},
                 {{"transpose_b", op.attrs.Bool("transpose_b")}}, op);
    }
    if (name == "matmul_wgrad") {
      return Add("packed_wgrad", {first, map_[op.operands[1]], sorted.ends}, {},
                 op);
    }
    if (name == "reduce_sum") {
      ASYRA_ASSIGN_OR_RETURN(
          ValueId sum,
          builder_.AddOne("packed_sum", {first, sorted.ends}, {}, NameOf(op)));
      ASYRA_ASSIGN_OR_RETURN(
          map_[op.results[0]],
          Reshape(sum, from_.type(op.results[0]).shape(), NameOf(op)));
      return absl::OkStatus();
    }
    if (name == "reshape") {
      ASYRA_ASSIGN_OR_RETURN(
          map_[op.results[0]],
          Reshape(first, PackedShape(from_.type(op.results[0]).shape(), root),
                  NameOf(op)));
      return absl::OkStatus();
    }
    AttrMap attrs = op.attrs;
    if (name == "slice") {
      int rank = from_.type(op.operands[0]).rank();
      attrs.Set("dim", int64_t{NormalizeDim(op.attrs.Int("dim"), rank) - 1});
      return Add(name, {first}, attrs, op);
    }
    std::vector<ValueId> operands;
    for (ValueId value : op.operands) {
      ASYRA_ASSIGN_OR_RETURN(operands.emplace_back(), Operand(op, value, root));
    }
    return Add(name, operands, attrs, op);
  }

  // [..., experts, slots, row...] to [..., rows, row...].
  Shape PackedShape(Shape shape, ValueId root) const {
    const SlotFamily& family = rows_.family(root);
    int slots = SlotDim(family);
    shape[slots] = family.tokens * family.chosen;
    shape.erase(shape.begin() + slots - 1);
    return shape;
  }

  // An operand of an elementwise op.
  absl::StatusOr<ValueId> Operand(const Op& op, ValueId value, ValueId root) {
    if (rows_.FamilyOf(value) != kNoValue) return map_[value];
    int rank = from_.type(op.results[0]).rank();
    const Type& type = from_.type(value);
    int at = SlotDim(rows_.family(root)) - (rank - type.rank());
    if (at < 0) return map_[value];
    Shape row = type.shape();
    row.erase(row.begin(), row.begin() + at + 1);
    std::string name = from_.value_name(value) + ".packed";
    if (at == 0 || type.size(at - 1) == 1) {
      return Reshape(map_[value], row, name);
    }
    const SlotFamily& family = rows_.family(root);
    const Sorted& sorted = sorted_.at(root);
    int64_t columns = row.empty() ? 1 : row.back();
    ASYRA_ASSIGN_OR_RETURN(
        ValueId flat,
        Reshape(map_[value], {family.num_experts, columns}, name));
    return builder_.AddOne(
        "packed_expand", {flat, sorted.ends},
        {{"group_rows", sorted.group_tokens * family.chosen}}, name);
  }

  const Program& from_;
  const SlotRows& rows_;
  int64_t groups_;
  Builder builder_;
  std::vector<ValueId> map_;  // from a value of `from_` to one of the new
  absl::flat_hash_map<ValueId, Sorted> sorted_;  // by root
};

}  // namespace

absl::StatusOr<bool> PackExpertRows(Program& program,
                                    const PassOptions& options,
                                    PassContext& context) {
  int64_t groups = options.Int("groups");
  if (groups < 0) return Invalid("groups is {}", groups);
  SlotRows rows(program);
  if (rows.families() == 0) return false;
  ASYRA_ASSIGN_OR_RETURN(Program packed, Packer(program, rows, groups).Run());
  context.Remark("pack_expert_rows: {} mixtures compute no free slots",
                 rows.families());
  program = std::move(packed);
  return true;
}

}  // namespace asyra
