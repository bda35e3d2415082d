#include "passes/spare_processors.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/happens_before.h"

namespace asyra {
namespace {

// Thread blocks of the library move its bytes.
bool TakesProcessors(const Op& op, const OpCost& price) {
  return op.is_collective() && price.sms > 0;
}

// Copy engines bring the blocks, but a kernel adds them up.
bool SumsBehindCopies(const Op& op) {
  return Sums(op.def->collective) && op.attrs.Bool("copies");
}

}  // namespace

int SpareProcessors(Program& program, const CostModel& costs, int processors) {
  if (!costs.machine().gpu.gemm_stays) return 0;
  Program sparing = program;
  for (Op& op : sparing.ops) {
    if (SumsBehindCopies(op)) op.attrs.Set("copies", false);
  }
  std::vector<OpCost> prices = PriceOps(sparing, costs);
  bool needed = false;
  for (size_t i = 0; i < sparing.ops.size(); ++i) {
    needed |= TakesProcessors(sparing.ops[i], prices[i]);
  }
  if (!needed) return 0;
  int products = 0;
  for (size_t i = 0; i < sparing.ops.size(); ++i) {
    Op& op = sparing.ops[i];
    if (prices[i].stays) {
      op.spares = processors;
      ++products;
    } else if (TakesProcessors(op, prices[i]) && op.attrs.Int("ctas") == 0) {
      // Said even where the library takes as many: it then places them so that
      // they fit.
      op.attrs.Set("ctas", int64_t{std::min(processors, prices[i].sms)});
    }
  }
  if (products > 0) program = std::move(sparing);
  return products;
}

void SpareOnlyBesideCollectives(Program& program) {
  bool any =
      absl::c_any_of(program.ops, [](const Op& op) { return op.spares > 0; });
  if (!any) return;
  std::vector<int> collectives;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.is_collective() && !op.attrs.Bool("copies")) {
      collectives.push_back(static_cast<int>(i));
    }
  }
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    Op& op = program.ops[i];
    if (op.spares == 0) continue;
    int at = static_cast<int>(i);
    bool beside = absl::c_any_of(collectives, [&](int collective) {
      return !order.Finished(collective, at) && !order.Finished(at, collective);
    });
    if (!beside) op.spares = 0;
  }
}

}  // namespace asyra
