#include "passes/schedule/memory/chunk_loss.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/analysis/reach.h"
#include "passes/schedule/tile/tile.h"
#include "passes/schedule/tile/tile_plan.h"

namespace asyra {
namespace {

constexpr int64_t kMostChunks = 64;
// Values smaller than the logits by this factor may be whole.
constexpr int64_t kSmaller = 4;

bool IsLoss(const Op& op) {
  std::string_view name = op.def->name;
  return name == "cross_entropy" || name == "cross_entropy_parts";
}

bool IsLossGradient(const Op& op) {
  return op.def->name == "cross_entropy_parts_grad";
}

// The ops that run chunk by chunk: from the head's matmul to the matmuls and
// sums that read the gradient of its logits; to the loss, where there is no
// gradient.
struct Head {
  std::vector<bool> ops;
  std::vector<int> last;  // ops that no other of them reads, in their order
};

class HeadFinder {
 public:
  explicit HeadFinder(const Program& program)
      : program_(program), def_use_(program) {}

  std::optional<Head> Find() const {
    std::vector<int> losses, gradients;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (IsLoss(op)) losses.push_back(static_cast<int>(i));
      if (IsLossGradient(op)) gradients.push_back(static_cast<int>(i));
    }
    std::optional<int> first;
    for (int loss : losses) {
      std::optional<int> matmul = MatmulBefore(loss);
      // Losses of several outputs would need chunks of their own.
      if (!matmul.has_value() || first.value_or(*matmul) != *matmul) {
        return std::nullopt;
      }
      first = matmul;
    }
    if (!first.has_value()) return std::nullopt;
    std::vector<int> ends = losses;
    for (int gradient : gradients) AddEndsAfter(gradient, &ends);
    std::vector<bool> after = Descendants(program_, ResultsOf({*first}));
    std::vector<bool> before = Ancestors(program_, ResultsOf(ends));
    Head head;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      bool is_first = static_cast<int>(i) == *first;
      head.ops.push_back((is_first || after[i]) && before[i]);
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (head.ops[i] && IsLast(static_cast<int>(i), head.ops)) {
        head.last.push_back(static_cast<int>(i));
      }
    }
    return head;
  }

 private:
  bool IsMatrix(int op) const {
    return WorkOf(OpUse(program_, program_.ops[op]), program_.mesh).matrix;
  }

  // Returns the op that the logits come from, through what changes their form
  // alone.
  std::optional<int> MatmulBefore(int loss) const {
    int op = loss;
    do {
      op = def_use_.def[program_.ops[op].operands[0]];
      if (op < 0) return std::nullopt;
    } while (!IsMatrix(op));
    return op;
  }

  // Adds the first ops on each way from a gradient of logits that give
  // something much smaller, as the gradients of the hidden states, of weight
  // and bias.
  void AddEndsAfter(int gradient, std::vector<int>* ends) const {
    const int64_t bytes = ResultBytes(gradient);
    std::vector<int> open = {gradient};
    std::vector<bool> is_seen(program_.ops.size(), false);
    while (!open.empty()) {
      int op = open.back();
      open.pop_back();
      if (IsMatrix(op) || kSmaller * ResultBytes(op) <= bytes) {
        ends->push_back(op);
        continue;
      }
      for (ValueId result : program_.ops[op].results) {
        for (int user : def_use_.uses[result]) {
          if (!is_seen[user]) open.push_back(user);
          is_seen[user] = true;
        }
      }
    }
  }

  // Returns the bytes of the op's results on a device.
  int64_t ResultBytes(int op) const {
    int64_t bytes = 0;
    for (ValueId result : program_.ops[op].results) {
      bytes += LocalBytes(program_.type(result), program_.mesh);
    }
    return bytes;
  }

  // Returns, by value, whether one of these ops gives it.
  std::vector<bool> ResultsOf(const std::vector<int>& ops) const {
    std::vector<bool> is_result(program_.values.size(), false);
    for (int op : ops) {
      for (ValueId result : program_.ops[op].results) is_result[result] = true;
    }
    return is_result;
  }

  bool IsLast(int op, const std::vector<bool>& ops) const {
    for (ValueId result : program_.ops[op].results) {
      for (int user : def_use_.uses[result]) {
        if (ops[user]) return false;
      }
    }
    return true;
  }

  const Program& program_;
  DefUse def_use_;
};

// Orders the ops with all that leads to the head's last results of one chunk
// before what only the next ones need.
void OrderByChunk(const Head& head, TiledProgram* tiled) {
  Program& program = tiled->program;
  DefUse def_use(program);
  std::vector<bool> is_placed(program.ops.size(), false);
  std::vector<Op> order;
  // Ways through a head are short.
  std::function<void(int)> place = [&](int op) {
    if (op < 0 || is_placed[op]) return;
    is_placed[op] = true;
    for (ValueId operand : program.ops[op].operands) {
      place(def_use.def[operand]);
    }
    order.push_back(program.ops[op]);
  };
  int first = -1;  // op of the tiles
  for (const std::vector<ValueId>& parts : tiled->parts) {
    if (parts.empty()) continue;
    first = def_use.def[parts[0]];
    break;
  }
  int count = static_cast<int>(program.ops.size());
  for (int i = 0; i < count; ++i) {
    if (i == first) {
      size_t chunks = tiled->parts[head.last[0]].size();
      for (size_t chunk = 0; chunk < chunks; ++chunk) {
        for (int last : head.last) {
          place(def_use.def[tiled->parts[last][chunk]]);
        }
      }
    }
    place(i);
  }
  program.ops = std::move(order);
}

// Plans tiles along the batch, or else the sequence.
absl::StatusOr<TilePlan> PlanOfHead(const Program& program,
                                    const TilePlanner& planner,
                                    const Head& head) {
  std::string missing;
  for (DimLabel label : {DimLabel::kBatch, DimLabel::kSequence}) {
    absl::StatusOr<TilePlan> plan = planner.Plan(label);
    std::string why;
    if (!plan.ok()) why = MessageOf(plan.status());
    for (size_t i = 0; plan.ok() && why.empty() && i < head.ops.size(); ++i) {
      if (!head.ops[i] || plan->ops[i].has_value()) continue;
      why = fmt::format("{} needs {} whole", ToString(program, program.ops[i]),
                        planner.InputDimText(plan->input, plan->dim));
    }
    if (why.empty()) return plan;
    missing += (missing.empty() ? "" : "; ") + why;
  }
  return Invalid("the loss does not run in chunks: {}", missing);
}

}  // namespace

absl::StatusOr<bool> ChunkLoss(Program& program, const PassOptions& options,
                               PassContext& context) {
  int64_t chunks = options.Int("chunks");
  if (chunks < 1 || chunks > kMostChunks) {
    return Invalid("chunks is {}, it should be between 1 and {}", chunks,
                   kMostChunks);
  }
  if (chunks == 1) return false;
  std::optional<Head> head = HeadFinder(program).Find();
  if (!head.has_value()) {
    context.Remark("chunk_loss: there is no loss of logits from one matmul");
    return false;
  }
  ASYRA_ASSIGN_OR_RETURN(
      TilePlanner planner,
      TilePlanner::Create(program, chunks, context.dim_names));
  planner.Restrict(head->ops);
  ASYRA_ASSIGN_OR_RETURN(TilePlan plan, PlanOfHead(program, planner, *head));
  ASYRA_ASSIGN_OR_RETURN(TiledProgram tiled,
                         TileAsPlanned(program, chunks, planner, plan));
  OrderByChunk(*head, &tiled);
  context.Remark("chunk_loss: {} ops in {} chunks along {}", plan.tiled_ops,
                 chunks, planner.InputDimText(plan.input, plan.dim));
  program = std::move(tiled.program);
  return true;
}

}  // namespace asyra
