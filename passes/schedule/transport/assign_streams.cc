#include "passes/schedule/transport/assign_streams.h"

#include <map>

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/schedule/order/cost_noise.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/transport/second_stream.h"
#include "passes/schedule/transport/use_copy_engines.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// The carrier of collectives: the library with so many CTAs, or copy engines.
struct Carrier {
  int64_t ctas = 0;
  bool copy_engine = false;
};

// Carriers that are tried, in this order, besides the library's own choice.
constexpr Carrier kCarriers[] = {{2}, {4}, {8}, {16}, {32}, {0, true}};

std::string ToString(const Carrier& carrier) {
  return carrier.copy_engine ? "copy engines"
                             : fmt::format("{} CTAs", carrier.ctas);
}

// Collectives of one kind over the same axes and of one size.
struct CollectiveClass {
  std::string name;  // "all_gather over tp of 8.00 MiB"
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

  enum Outcome : uint8_t { kKept, kNoGain, kMoreMemory };

  Outcome Try(Program trial) {
    ReplayOptions options = Options();
    options.limit_us = Limit();
    SimResult result = Simulate(trial, costs_, options);
    if (result.makespan_us >= options.limit_us) return kNoGain;
    if (result.peak_bytes > result_.peak_bytes) return kMoreMemory;
    if (!IsRobust(trial, result)) return kNoGain;
    program_ = std::move(trial);
    result_ = std::move(result);
    return kKept;
  }

  void MoveChains(PassContext& context) {
    std::map<std::string, std::vector<SideChain>> chains_by_signature;
    for (SideChain& chain :
         FindSideChains(program_, OpsWithoutMatmuls(program_))) {
      chains_by_signature[chain.signature].push_back(chain);
    }
    size_t kinds[] = {0, 0, 0}, ops = 0;  // by outcome
    double before_us = makespan_us();
    for (const auto& [signature, chains] : chains_by_signature) {
      Outcome outcome = Try(MoveToStream(program_, chains, "compute2"));
      ++kinds[outcome];
      if (outcome != kKept) continue;
      for (const SideChain& chain : chains) ops += chain.ops.size();
    }
    if (chains_by_signature.empty()) return;
    context.Remark(
        "assign_streams: of {} kinds of ops between collectives {} go to a "
        "second compute stream ({} ops, {} saved), {} would save "
        "nothing there, {} would need more memory",
        chains_by_signature.size(), kinds[kKept], ops,
        TimeText(before_us - makespan_us()), kinds[kNoGain],
        kinds[kMoreMemory]);
  }

  // Each carrier has to be better than the best before it. Attributes of
  // collectives change their costs alone.
  void ChooseCarriers(PassContext& context) {
    CostedProgram costed(program_, result_.op_costs);
    for (const CollectiveClass& collectives : Classes()) {
      double before_us = makespan_us();
      const Carrier* chosen = nullptr;
      for (const Carrier& carrier : kCarriers) {
        if (!CanCarry(carrier, collectives.ops)) continue;
        if (TryCarrier(collectives.ops, carrier, costed) != kKept) continue;
        chosen = &carrier;
      }
      if (chosen == nullptr) continue;
      context.Remark("assign_streams: {} for {} {}, {} saved",
                     ToString(*chosen), collectives.ops.size(),
                     collectives.name, TimeText(before_us - makespan_us()));
    }
  }

 private:
  bool CanCarry(const Carrier& carrier, const std::vector<int>& ops) const {
    return !carrier.copy_engine || absl::c_all_of(ops, [&](int op) {
      return CanUseCopyEngine(program_, program_.ops[op], costs_);
    });
  }

  // Sets the attributes of `ops`; they stay if that is better. `costed` is of
  // the program with any attributes.
  Outcome TryCarrier(const std::vector<int>& ops, const Carrier& carrier,
                     const CostedProgram& costed) {
    std::vector<OpCost> op_costs = result_.op_costs;
    std::vector<AttrMap> before;
    for (int i : ops) {
      Op& op = program_.ops[i];
      before.push_back(op.attrs);
      op.attrs.Set("ctas", carrier.ctas);
      AskForCopyEngine(carrier.copy_engine, &op.attrs);
      op_costs[i] = costs_.RememberedCost(program_, op);
    }
    Outcome outcome = TryCosts(CostedProgram(costed, std::move(op_costs)));
    for (size_t k = 0; outcome != kKept && k < ops.size(); ++k) {
      program_.ops[ops[k]].attrs = std::move(before[k]);
    }
    return outcome;
  }

  // Tries other costs of the program itself.
  Outcome TryCosts(CostedProgram trial) {
    ReplayOptions options = Options();
    options.limit_us = Limit();
    SimResult result = Replay(trial, options);
    if (result.makespan_us >= options.limit_us) return kNoGain;
    if (result.peak_bytes > result_.peak_bytes) return kMoreMemory;
    CostedProgram before(trial, result_.op_costs);
    if (!IsRobustToNoise(before, trial, SerialOrder(program_))) return kNoGain;
    result.op_costs = trial.TakeCosts();
    result_ = std::move(result);
    return kKept;
  }

  double Limit() const { return result_.makespan_us * (1 - kLeastGain); }

  bool IsRobust(const Program& trial, const SimResult& result) const {
    return IsRobustToNoise(CostedProgram(program_, result_.op_costs),
                           CostedProgram(trial, result.op_costs),
                           SerialOrder(trial));
  }

  static ReplayOptions Options() {
    return {.lower_bound = false, .critical_path = false};
  }

  // Returns the classes of collectives whose carrier is open; the longest
  // first.
  std::vector<CollectiveClass> Classes() const {
    std::map<std::pair<std::string, int64_t>, CollectiveClass> classes;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!IsCarrierOpen(op)) continue;
      int64_t bytes = PayloadBytes(program_, op);
      std::string name = fmt::format(
          "{} over {} of ", op.def->name,
          AxesToString(op.attrs.Get<AxisList>("axes"), program_.mesh));
      CollectiveClass& collectives = classes[{name, bytes}];
      collectives.name = name + BytesText(bytes);
      collectives.ops.push_back(static_cast<int>(i));
      collectives.time_us += result_.op_costs[i].time_us;
    }
    std::vector<CollectiveClass> list;
    for (auto& [key, collectives] : classes)
      list.push_back(std::move(collectives));
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
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  Search search(program, *context.costs);
  double before_us = search.makespan_us();
  if (options.Bool("second")) search.MoveChains(context);
  if (options.Bool("ctas")) search.ChooseCarriers(context);
  bool changed = search.makespan_us() < before_us;
  if (!changed) {
    context.Remark(
        "assign_streams: no other streams, CTAs or copy engines pay");
  }
  return changed;
}

}  // namespace asyra
