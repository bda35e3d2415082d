#include "passes/shard/merge_expert_rows.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {
namespace {

constexpr int kNone = -1;

bool Ends(const Op& op) {
  return op.def->name == "moe_combine" || op.def->name == "moe_collect";
}

// Returns whether tokens merged with their batch can be sharded as they were:
// dp and ep cut batches, tp cuts no tokens, and all others may cut inside of a
// batch.
bool CanShardMerged(const Mesh& mesh, int64_t batch) {
  if (batch == 1) return true;
  int64_t parts = 1;
  for (const Mesh::Axis& axis : mesh.axes()) {
    if (axis.size == 1 || axis.name == "tp") continue;
    if (axis.name != "dp" && axis.name != "ep") return false;
    parts *= axis.size;
  }
  return batch % parts == 0;
}

// The values that are rows of experts, [batch..., expert, slot, ...], each with
// its dispatch.
class ExpertRows {
 public:
  explicit ExpertRows(const Program& program)
      : program_(program), dispatch_of_(program.values.size(), kNone) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      Visit(static_cast<int>(i));
    }
    for (const Output& output : program.outputs) Spoil(output.value);
  }

  bool Has(ValueId value) const {
    int dispatch = dispatch_of_[value];
    return dispatch != kNone && !spoilt_.contains(dispatch);
  }

 private:
  void Visit(int index) {
    const Op& op = program_.ops[index];
    if (op.def->name == "moe_dispatch") {
      for (ValueId operand : op.operands) Spoil(operand);
      const Type& x = program_.type(op.operands[0]);
      int64_t batch = 1;
      for (int d = 0; d + 2 < x.rank(); ++d) batch *= x.size(d);
      if (x.rank() > 2 && CanShardMerged(program_.mesh, batch)) {
        dispatch_of_[op.results[0]] = index;
      }
      return;
    }
    int dispatch = kNone;
    for (ValueId operand : op.operands) {
      dispatch = std::max(dispatch, dispatch_of_[operand]);
    }
    if (dispatch == kNone) return;
    if (!Takes(op, dispatch)) {
      for (ValueId operand : op.operands) Spoil(operand);
    } else if (!Ends(op)) {
      dispatch_of_[op.results[0]] = dispatch;
    }
  }

  bool Takes(const Op& op, int dispatch) const {
    if (op.results.size() != 1) return false;
    if (Ends(op) || op.def->name == "grouped_matmul") {
      return dispatch_of_[op.operands[0]] == dispatch &&
             std::all_of(op.operands.begin() + 1, op.operands.end(),
                         [&](ValueId v) { return dispatch_of_[v] == kNone; });
    }
    return op.def->fusable == Fusable::kElement &&
           absl::c_all_of(op.operands, [&](ValueId value) {
             return dispatch_of_[value] == dispatch ||
                    (dispatch_of_[value] == kNone && IsForAllSlots(value));
           });
  }

  // Broadcasts over batches and slots, whatever there is of these.
  bool IsForAllSlots(ValueId value) const {
    const Type& type = program_.type(value);
    return type.rank() < 2 ||
           (type.rank() <= 3 && type.dims.end()[-2].size == 1);
  }

  void Spoil(ValueId value) {
    if (dispatch_of_[value] != kNone) spoilt_.insert(dispatch_of_[value]);
  }

  const Program& program_;
  std::vector<int> dispatch_of_;     // by value, an op
  absl::flat_hash_set<int> spoilt_;  // dispatches
};

class Merger {
 public:
  explicit Merger(const Program& program)
      : program_(program),
        rows_(program),
        to_(program, {}),
        merged_(program.values.size(), kNoValue) {}

  absl::StatusOr<bool> Run(Program& program, PassContext& context) && {
    int64_t dispatches = 0;
    for (const Op& op : program_.ops) {
      if (op.results.empty()) {
        ASYRA_RETURN_IF_ERROR(to_.Copy(op));
        continue;
      }
      to_.SetHint(program_.value_name(op.results[0]));
      if (rows_.Has(op.results[0])) {
        dispatches += op.def->name == "moe_dispatch" ? 1 : 0;
        ASYRA_RETURN_IF_ERROR(Merge(op));
      } else if (Ends(op) && rows_.Has(op.operands[0])) {
        ASYRA_RETURN_IF_ERROR(End(op));
      } else {
        ASYRA_RETURN_IF_ERROR(to_.Copy(op));
      }
    }
    if (dispatches == 0) {
      context.Remark("merge_expert_rows: no batches of rows to merge");
      return false;
    }
    context.Remark("merge_expert_rows: rows of all batches in {} mixtures",
                   dispatches);
    return to_.Finish(program);
  }

 private:
  // [batch..., tokens, n] as [all tokens, n].
  absl::StatusOr<ValueId> Tokens(ValueId value) {
    const Type& type = program_.type(value);
    int64_t tokens = 1;
    for (int d = 0; d + 1 < type.rank(); ++d) tokens *= type.size(d);
    return to_.Reshape(to_.Mapped(value), {tokens, type.dims.back().size});
  }

  absl::Status Merge(const Op& op) {
    bool first = op.def->name == "moe_dispatch";
    std::vector<ValueId> operands;
    for (ValueId value : op.operands) {
      ValueId operand = rows_.Has(value) ? merged_[value] : to_.Mapped(value);
      if (first) {
        ASYRA_ASSIGN_OR_RETURN(operand, Tokens(value));
      }
      operands.push_back(operand);
    }
    ASYRA_ASSIGN_OR_RETURN(merged_[op.results[0]],
                           to_.Add(op.def->name, operands, op.attrs));
    return absl::OkStatus();
  }

  absl::Status End(const Op& op) {
    std::vector<ValueId> operands = {merged_[op.operands[0]]};
    for (size_t k = 1; k < op.operands.size(); ++k) {
      ASYRA_ASSIGN_OR_RETURN(operands.emplace_back(), Tokens(op.operands[k]));
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId y,
                           to_.Add(op.def->name, operands, op.attrs));
    ASYRA_ASSIGN_OR_RETURN(
        y, to_.Reshape(y, program_.type(op.results[0]).shape()));
    to_.Map(op.results[0], y);
    return absl::OkStatus();
  }

  const Program& program_;
  ExpertRows rows_;
  Rewriter to_;
  std::vector<ValueId> merged_;  // by value, its rows in the new program
};

}  // namespace

absl::StatusOr<bool> MergeExpertRows(Program& program, const PassOptions&,
                                     PassContext& context) {
  return Merger(program).Run(program, context);
}

}  // namespace asyra
