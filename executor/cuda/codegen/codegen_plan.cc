#include "executor/cuda/codegen/codegen_plan.h"

#include <algorithm>

#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

using Kind = Expression::Kind;
using Node = Expression::Node;

constexpr int64_t kVectorBytes = 16;
constexpr int kElementThreads = 256;
constexpr int kMostRowThreads = 1024;
// 32-bit registers of a thread for the elements of a row.
constexpr int64_t kHeldRegisters = 32;
constexpr int64_t kStripe = 32;  // rows side by side

bool HasReductions(const Expression& expression) {
  return std::any_of(
      expression.nodes().begin(), expression.nodes().end(),
      [](const Node& node) { return node.kind == Kind::kReduce; });
}

void MoveRowsToColumns(Loop* loop) {
  loop->columns.insert(loop->columns.begin(), loop->rows.begin(),
                       loop->rows.end());
  loop->rows.clear();
}

// Returns whether the elements of some operand are contiguous along the
// dimension.
bool IsDense(const Loop& loop, size_t dim) {
  return std::any_of(
      loop.operands.begin(), loop.operands.end(),
      [dim](const Access& access) { return access.strides[dim] == 1; });
}

CodegenPlan::Form FormOf(const Expression& expression, const Loop& loop) {
  if (!HasReductions(expression)) return CodegenPlan::kElements;
  size_t rows = loop.rows.size(), dims = rows + loop.columns.size();
  if (loop.columns.empty() || rows == 0 || IsDense(loop, dims - 1)) {
    return CodegenPlan::kRows;
  }
  return IsDense(loop, rows - 1) ? CodegenPlan::kStripes : CodegenPlan::kRows;
}

// Visits each access with its element type.
template <typename Visit>
void ForEachAccess(const CodegenPlan& plan, Visit visit) {
  for (size_t k = 0; k < plan.loop.operands.size(); ++k) {
    visit(plan.loop.operands[k], plan.expression.operands()[k]);
  }
  for (size_t k = 0; k < plan.loop.results.size(); ++k) {
    visit(plan.loop.results[k], plan.expression.results()[k].dtype);
  }
}

// Returns whether vectors of that size begin at multiples of it in every access
// whose rows are dense.
bool Divides(const CodegenPlan& plan, int64_t vector) {
  if (plan.loop.columns.back() % vector != 0) return false;
  bool divides = true;
  ForEachAccess(plan, [&](const Access& access, DType) {
    if (plan.Step(access) != 1) return;
    divides &= access.first % vector == 0;
    for (size_t d = 0; d + 1 < access.strides.size(); ++d) {
      divides &= access.strides[d] % vector == 0;
    }
  });
  return divides;
}

int64_t VectorOf(const CodegenPlan& plan) {
  if (plan.loop.columns.empty() || plan.form == CodegenPlan::kStripes) return 1;
  int64_t vector = 1;
  ForEachAccess(plan, [&](const Access& access, DType dtype) {
    if (plan.Step(access) != 1) return;
    vector =
        std::max(vector, std::min<int64_t>(8, kVectorBytes / SizeOf(dtype)));
  });
  while (!Divides(plan, vector)) vector /= 2;
  return vector;
}

// The largest element of an access.
int64_t LastOf(const Loop& loop, const Access& access) {
  int64_t last = access.first;
  size_t rows = loop.rows.size();
  for (size_t d = 0; d < access.strides.size(); ++d) {
    int64_t size = d < rows ? loop.rows[d] : loop.columns[d - rows];
    last += std::max<int64_t>(0, (size - 1) * access.strides[d]);
  }
  return last;
}

bool NeedsWideIndices(const CodegenPlan& plan) {
  const Loop& loop = plan.loop;
  int64_t most = std::max(loop.num_rows(), loop.num_columns());
  ForEachAccess(plan, [&](const Access& access, DType) {
    most = std::max(most, LastOf(loop, access));
  });
  for (const Access& access : loop.places) {
    most = std::max(most, LastOf(loop, access));
  }
  return most > INT32_MAX;
}

bool AreColumnsRepeated(const Loop& loop, const Access& access) {
  return std::all_of(
      access.strides.begin() + static_cast<ptrdiff_t>(loop.rows.size()),
      access.strides.end(), [](int64_t stride) { return stride == 0; });
}

void Classify(CodegenPlan* plan) {
  for (const Access& access : plan->loop.operands) {
    plan->is_packed.push_back(!AreColumnsRepeated(plan->loop, access));
  }
  for (const Node& node : plan->expression.nodes()) {
    bool uniform = true;
    if (node.kind == Kind::kOperand) uniform = !plan->is_packed[node.operand];
    if (node.kind == Kind::kPlace) {
      uniform = AreColumnsRepeated(plan->loop, plan->loop.places[node.operand]);
    }
    int level = 0;
    for (int input : node.inputs) {
      uniform &= plan->is_uniform[input];
      level = std::max(level, plan->level[input]);
    }
    if (node.kind == Kind::kReduce) ++level;
    plan->is_uniform.push_back(uniform || node.kind == Kind::kReduce);
    plan->level.push_back(level);
    plan->levels = std::max(plan->levels, level);
  }
  for (size_t k = 0; k < plan->loop.results.size(); ++k) {
    int node = plan->expression.results()[k].node;
    plan->is_row_result.push_back(
        plan->form != CodegenPlan::kElements && plan->is_uniform[node] &&
        AreColumnsRepeated(plan->loop, plan->loop.results[k]));
  }
}

int NextPower(int64_t number) {
  int power = 1;
  while (power < number) power *= 2;
  return power;
}

// Elements of a row that a thread keeps, when this many threads share the row.
int64_t HeldBytes(const CodegenPlan& plan, int row_threads) {
  int64_t held = DivideUp(plan.vectors, row_threads), bytes = 0;
  for (size_t k = 0; k < plan.loop.operands.size(); ++k) {
    if (!plan.is_packed[k]) continue;
    bytes += held * plan.Width(plan.loop.operands[k]) *
             SizeOf(plan.expression.operands()[k]);
  }
  return bytes;
}

// Plans up to one warp for a row of as many vectors, then four vectors a
// thread; fewer if the operands would not fit into registers otherwise.
void PlanRows(CodegenPlan* plan) {
  constexpr int64_t kMostBytes = 4 * kHeldRegisters;
  int64_t vectors = plan->vectors;
  plan->row_threads =
      vectors <= 128
          ? NextPower(std::clamp<int64_t>(vectors, 1, 32))
          : NextPower(std::min<int64_t>(DivideUp(vectors, 4), kMostRowThreads));
  int threads = plan->row_threads;
  while (threads < kMostRowThreads && threads < vectors &&
         HeldBytes(*plan, threads) > kMostBytes) {
    threads *= 2;
  }
  if (HeldBytes(*plan, threads) <= kMostBytes) {
    plan->row_threads = threads;
    plan->held = static_cast<int>(DivideUp(vectors, threads));
  }
  plan->threads = std::max(128, plan->row_threads);
  plan->blocks =
      DivideUp(plan->loop.num_rows(), plan->threads / plan->row_threads);
}

void PlanStripes(CodegenPlan* plan) {
  plan->row_threads = NextPower(std::clamp<int64_t>(plan->vectors, 1, 32));
  plan->threads = static_cast<int>(kStripe) * plan->row_threads;
  plan->blocks = DivideUp(plan->loop.num_rows(), kStripe);
}

void PlanThreads(CodegenPlan* plan) {
  switch (plan->form) {
    case CodegenPlan::kElements:
      plan->threads = kElementThreads;
      plan->blocks = DivideUp(plan->vectors, kElementThreads);
      break;
    case CodegenPlan::kRows:
      PlanRows(plan);
      break;
    case CodegenPlan::kStripes:
      PlanStripes(plan);
      break;
  }
}

}  // namespace

std::vector<bool> CodegenPlan::NeededFor(
    const std::vector<int>& targets) const {
  std::vector<bool> needed(expression.nodes().size(), false);
  for (int target : targets) needed[target] = !is_uniform[target];
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (int input : expression.nodes()[i].inputs) {
      if (!is_uniform[input]) needed[input] = true;
    }
  }
  return needed;
}

CodegenPlan PlanCode(const Expression& expression, const Loop& loop) {
  CodegenPlan plan{.expression = expression, .loop = loop};
  if (!HasReductions(expression)) MoveRowsToColumns(&plan.loop);
  plan.loop = Collapsed(plan.loop);
  plan.form = FormOf(expression, plan.loop);
  plan.vector = VectorOf(plan);
  plan.vectors = plan.loop.num_columns() / plan.vector;
  plan.wide = NeedsWideIndices(plan);
  Classify(&plan);
  plan.is_half = !expression.has_wide_values();
  ForEachAccess(plan, [&](const Access&, DType dtype) {
    plan.is_half &= dtype != DType::kF32 && dtype != DType::kF64;
  });
  PlanThreads(&plan);
  return plan;
}

}  // namespace asyra::cuda
