#include "passes/assign_streams.h"

#include <map>

#include "ir/support/status.h"
#include "passes/second_stream.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

// Thread blocks that are tried besides what the library takes.
constexpr int64_t kBudgets[] = {2, 4, 8, 16, 32};

// Collectives of one kind over the same axes and of one size.
struct CollectiveClass {
  std::string name;  // "all_gather over tp of 8388608 bytes"
  std::vector<int> ops;
  double time_us = 0;  // of all of them
};

// The program as it is, replaced by trials that are better.
class Search {
 public:
  Search(Program& program, const CostModel& costs)
      : program_(program),
        costs_(costs),
        result_(Simulate(program, costs, Options())) {}

  double makespan_us() const { return result_.makespan_us; }

  bool Try(Program trial) {
    SimResult result = Simulate(trial, costs_, Options());
    if (result.makespan_us >= result_.makespan_us * (1 - kLeastGain) ||
        result.peak_bytes > result_.peak_bytes) {
      return false;
    }
    program_ = std::move(trial);
    result_ = std::move(result);
    return true;
  }

  void MoveChains(PassContext& context) {
    std::map<std::string, std::vector<SideChain>> alike;
    for (SideChain& chain : FindSideChains(program_)) {
      alike[chain.signature].push_back(chain);
    }
    size_t moved = 0, tried = alike.size(), ops = 0;
    double before_us = makespan_us();
    for (const auto& [signature, chains] : alike) {
      if (!Try(MoveToStream(program_, chains, "compute2"))) continue;
      ++moved;
      for (const SideChain& chain : chains) ops += chain.ops.size();
    }
    context.Remark(
        "assign_streams: {} of {} kinds of ops between collectives go to a "
        "second compute stream ({} ops), {:.1f} us saved",
        moved, tried, ops, before_us - makespan_us());
  }

  void ChooseBudgets(PassContext& context) {
    for (const CollectiveClass& alike : Classes()) {
      double before_us = makespan_us();
      int64_t chosen = 0;
      for (int64_t ctas : kBudgets) {
        Program trial = program_;
        for (int op : alike.ops) trial.ops[op].attrs.Set("ctas", ctas);
        if (Try(std::move(trial))) chosen = ctas;
      }
      if (chosen == 0) continue;
      context.Remark(
          "assign_streams: {} thread blocks for {} {}, {:.1f} us saved", chosen,
          alike.ops.size(), alike.name, before_us - makespan_us());
    }
  }

 private:
  static ReplayOptions Options() {
    return {.lower_bound = false, .critical_path = false};
  }

  // Those first that take longest. Budgets that are given stay.
  std::vector<CollectiveClass> Classes() const {
    std::map<std::string, CollectiveClass> classes;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!op.is_collective() || op.attrs.Int("ctas") != 0) continue;
      int64_t bytes =
          std::max(LocalBytes(program_.type(op.operands[0]), program_.mesh),
                   LocalBytes(program_.type(op.results[0]), program_.mesh));
      std::string name = fmt::format(
          "{} over {} of {} bytes", op.def->name,
          AxesToString(op.attrs.Get<AxisList>("axes"), program_.mesh), bytes);
      CollectiveClass& alike = classes[name];
      alike.name = name;
      alike.ops.push_back(static_cast<int>(i));
      alike.time_us += result_.prices[i].time_us;
    }
    std::vector<CollectiveClass> list;
    for (auto& [name, alike] : classes) list.push_back(std::move(alike));
    std::stable_sort(
        list.begin(), list.end(),
        [](const auto& a, const auto& b) { return a.time_us > b.time_us; });
    return list;
  }

  Program& program_;
  const CostModel& costs_;
  SimResult result_;
};

}  // namespace

absl::StatusOr<bool> AssignStreams(Program& program, const PassOptions& options,
                                   PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs prices: give --machine");
  Search search(program, *context.costs);
  double before_us = search.makespan_us();
  if (options.Bool("second")) search.MoveChains(context);
  if (options.Bool("ctas")) search.ChooseBudgets(context);
  bool changed = search.makespan_us() < before_us;
  if (!changed) {
    context.Remark("assign_streams: no other streams or budgets pay");
  }
  return changed;
}

}  // namespace asyra
