// Rows found by index: ir/ops/{embed,gather}.cc.
#include <cstring>

#include "executor/cpu/convert.h"
#include "executor/cpu/kernel_list.h"
#include "ir/ops/indexing.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

// Rows [outer][size][row] of operand 0 picked along the middle by the integers
// of operand 1.
struct LookupPlan {
  DType index_dtype = DType::kI64;
  int64_t indices = 0;
  int64_t outer = 1;
  int64_t size = 0;  // rows that this rank holds
  int64_t row_bytes = 0;
  // Rows are numbered over all ranks, negative ones from the end: those from
  // `start` on are here, `total` is all of them.
  int64_t start = 0, total = 0;
};

class LookupKernel : public CpuKernel {
 public:
  explicit LookupKernel(const LookupPlan& plan) : plan_(plan) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* table = static_cast<const std::byte*>(args.operands[0]);
    const auto* indices = static_cast<const std::byte*>(args.operands[1]);
    auto* to = static_cast<std::byte*>(args.results[0]);
    for (int64_t o = 0; o < plan_.outer; ++o) {
      for (int64_t i = 0; i < plan_.indices; ++i, to += plan_.row_bytes) {
        int64_t index = 0;
        Load(plan_.index_dtype, indices + i * SizeOf(plan_.index_dtype), 1,
             &index);
        ASYRA_ASSIGN_OR_RETURN(int64_t row, ops::Position(index, plan_.total));
        row -= plan_.start;
        if (row < 0 || row >= plan_.size) {
          std::memset(to, 0, plan_.row_bytes);  // another rank has it
        } else {
          std::memcpy(to, table + (o * plan_.size + row) * plan_.row_bytes,
                      plan_.row_bytes);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  LookupPlan plan_;
};

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

LookupPlan PlanAlong(const KernelUse& use, int dim) {
  const Type& table = use.operand(0);
  LookupPlan plan;
  plan.index_dtype = use.operand(1).dtype;
  plan.indices = use.operand(1).num_elements();
  plan.size = plan.total = table.size(dim);
  plan.row_bytes = SizeOf(table.dtype);
  for (int d = 0; d < dim; ++d) plan.outer *= table.size(d);
  for (int d = dim + 1; d < table.rank(); ++d) plan.row_bytes *= table.size(d);
  return plan;
}

Prepared PrepareEmbedding(const KernelUse& use) {
  LookupPlan plan = PlanAlong(use, 0);
  const Type& table = use.global_operands()[0];
  plan.total = ops::IdsOf(use.attrs().Int("rows"), table.size(0));
  plan.start = use.Start(table, 0);
  return std::make_unique<LookupKernel>(plan);
}

Prepared PrepareGather(const KernelUse& use) {
  return std::make_unique<LookupKernel>(PlanAlong(
      use, NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank())));
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> LookupKernels() {
  return {{"embedding", Always, PrepareEmbedding},
          {"gather", Always, PrepareGather}};
}

}  // namespace asyra::cpu
