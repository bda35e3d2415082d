#include "passes/schedule/transport/sm_margin.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/gpu/copy_engine_reach.h"
#include "ir/happens_before.h"
#include "ir/plans/overlap_shape.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// CTAs of the library move its bytes.
bool TakesSms(const Op& op, const OpCost& cost) {
  return op.is_collective() && cost.sms > 0;
}

// Copy engines bring the chunks, but a kernel reduces them.
bool ReducesBehindCopies(const Op& op) {
  return Reduces(op.def->collective) && AsksForCopyEngine(op.attrs);
}

// Whatever the machine, copy engines do not carry it.
bool IsOfTheLibrary(const Program& program, const Op& op) {
  return op.is_collective() &&
         !(AsksForCopyEngine(op.attrs) &&
           CopyEnginesCanCarry(OpUse(program, op), program.mesh));
}

}  // namespace

int SetSmMargin(Program& program, const CostModel& costs, int margin) {
  if (!costs.machine().gpu.gemm_persistent) return 0;
  Program with_margin = program;
  for (Op& op : with_margin.ops) {
    if (ReducesBehindCopies(op)) AskForCopyEngine(false, &op.attrs);
  }
  std::vector<OpCost> op_costs = EstimateCosts(with_margin, costs);
  bool needed = false;
  for (size_t i = 0; i < with_margin.ops.size(); ++i) {
    needed |= TakesSms(with_margin.ops[i], op_costs[i]);
  }
  if (!needed) return 0;
  int matmuls = 0;
  for (size_t i = 0; i < with_margin.ops.size(); ++i) {
    Op& op = with_margin.ops[i];
    if (op_costs[i].persistent) {
      op.attrs.Set("sm_margin", int64_t{margin});
      ++matmuls;
    } else if (TakesSms(op, op_costs[i]) && op.attrs.Int("ctas") == 0) {
      // Set even if the library takes as many: it then places them so that they
      // fit.
      op.attrs.Set("ctas", int64_t{std::min(margin, op_costs[i].sms)});
    }
  }
  if (matmuls > 0) program = std::move(with_margin);
  return matmuls;
}

bool KeepSmMarginBesideCollectives(Program& program) {
  bool any = absl::c_any_of(
      program.ops, [](const Op& op) { return SmMargin(op.attrs) > 0; });
  if (!any) return false;
  bool trimmed = false;
  std::vector<int> collectives;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (IsOfTheLibrary(program, op)) {
      collectives.push_back(static_cast<int>(i));
    }
  }
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    Op& op = program.ops[i];
    // Exchanges of the op itself hold the margin of its pieces.
    if (SmMargin(op.attrs) == 0 || ExchangesMessages(*op.def, op.attrs)) {
      continue;
    }
    int at = static_cast<int>(i);
    bool beside = absl::c_any_of(collectives, [&](int collective) {
      return !order.Finished(collective, at) && !order.Finished(at, collective);
    });
    if (beside) continue;
    op.attrs.Erase("sm_margin");
    trimmed = true;
  }
  return trimmed;
}

absl::StatusOr<bool> LeaveSmMarginPass(Program& program,
                                       const PassOptions& options,
                                       PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  int64_t sms = options.Int("sms");
  int64_t most = context.costs->machine().gpu.sms - 1;
  if (sms < 1 || sms > most) {
    return Invalid("sms is {}, not 1 to {}", sms, most);
  }
  if (SetSmMargin(program, *context.costs, static_cast<int>(sms)) > 0) {
    return true;
  }
  context.Remark("leave_sm_margin: {}",
                 context.costs->machine().gpu.gemm_persistent
                     ? "no matmul is beside collectives that need SMs"
                     : "the machine's GEMMs are not persistent");
  return false;
}

absl::StatusOr<bool> TrimSmMarginPass(Program& program, const PassOptions&,
                                      PassContext&) {
  return KeepSmMarginBesideCollectives(program);
}

}  // namespace asyra
