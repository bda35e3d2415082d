#include "passes/schedule/form_overlaps.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/happens_before.h"
#include "ir/overlap.h"
#include "ir/overlap_shape.h"
#include "ir/support/status.h"
#include "simulator/collective_cost.h"
#include "simulator/plan_cost.h"
#include "simulator/plan_tuner.h"

namespace asyra {
namespace {

// An overlap must be faster alone by this share, and no less than some signals
// cost, or nothing is left of it beside other ops.
constexpr double kLeastGain = 0.03;
// Next to less computation nothing gained on two H200, whatever the plan.
constexpr double kLeastWorkUs = 50;

// Ops that become one.
struct Site {
  std::set<int> ops;  // that go
  int at = -1;        // one of them: where the overlap comes
  Body body;
  std::vector<ValueId> operands, results;
  PlanOrder order = PlanOrder::kOwnFirst;
};

class Finder {
 public:
  Finder(const Program& program, const OverlapOptions& options)
      : program_(program), options_(options), def_use_(program) {
    for (const Op& op : program.ops) {
      awaited_.insert(op.after.begin(), op.after.end());
    }
  }

  std::vector<Site> Find() {
    std::vector<Site> sites;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      std::optional<Site> site;
      if (op.start && IsBehind(op) && options_.sums) {
        site = Behind(static_cast<int>(i));
      } else if (op.start && options_.gathers &&
                 op.def->collective == CollectiveKind::kAllGather) {
        site = Before(static_cast<int>(i));
      }
      if (!site.has_value() || !IsEarly(*site)) continue;
      taken_.insert(site->ops.begin(), site->ops.end());
      sites.push_back(*std::move(site));
    }
    return sites;
  }

 private:
  // All that it reads is there where it comes.
  bool IsEarly(const Site& site) const {
    return absl::c_all_of(
        site.operands, [&](ValueId value) { return DefOf(value) < site.at; });
  }
  static bool IsBehind(const Op& op) {
    return Sums(op.def->collective) ||
           op.def->collective == CollectiveKind::kAllToAll;
  }
  int DefOf(ValueId value) const { return def_use_.def[value]; }
  // Read by one op alone, and nothing else knows it.
  bool IsPrivate(ValueId value) const {
    return def_use_.uses[value].size() == 1 &&
           def_use_.output_uses[value] == 0 && !awaited_.contains(value);
  }
  bool IsFree(int op) const { return op >= 0 && !taken_.contains(op); }

  // The wait of a collective of one value; -1.
  int WaitOf(const Op& start) const {
    if (start.operands.size() != 1 || awaited_.contains(start.results[0])) {
      return -1;
    }
    const auto& uses = def_use_.uses[start.results[0]];
    return uses.size() == 1 ? uses[0] : -1;
  }

  // Ops that take long enough to hide something.
  bool Computes(int op) const {
    const Op& o = program_.ops[op];
    return IsFree(op) && !o.is_collective() && !o.def->is_wait &&
           !o.def->is_view && !o.def->body_communicates && !o.def->is_barrier &&
           o.results.size() == 1 && BodyOf(o.attrs) == nullptr &&
           WorkOf(OpUse(program_, o), program_.mesh).matrix;
  }

  static BodyOp PartOf(const Op& op) {
    BodyOp part{op.def, {}, op.attrs};
    if (op.is_collective()) {
      part.attrs.Set("ctas", int64_t{0});
      AskForCopyEngine(false, &part.attrs);
    }
    for (const AttrDef& attr : ScheduleAttrs()) part.attrs.Erase(attr.name);
    return part;
  }

  // Adds ops to a body, whose operands are collected first.
  class BodyMaker {
   public:
    explicit BodyMaker(const Program& program) : program_(program) {}

    void Add(int op) { ops_.push_back(op); }
    void Finish(const DefUse& def_use, absl::Span<const ValueId> results,
                Site* site) const {
      std::vector<std::pair<ValueId, int>> numbers;
      auto find = [&](ValueId value) {
        return absl::c_find_if(
            numbers, [&](const auto& known) { return known.first == value; });
      };
      std::set<ValueId> made;
      for (int op : ops_) made.insert(ResultOf(def_use, op));
      for (int op : ops_) {
        for (ValueId value : program_.ops[op].operands) {
          if (made.contains(value) || find(value) != numbers.end()) continue;
          numbers.emplace_back(value, static_cast<int>(numbers.size()));
          site->operands.push_back(value);
        }
      }
      site->body.num_operands = static_cast<int>(numbers.size());
      for (int op : ops_) {
        BodyOp part = PartOf(program_.ops[op]);
        for (ValueId value : program_.ops[op].operands) {
          part.operands.push_back(find(value)->second);
        }
        numbers.emplace_back(ResultOf(def_use, op), site->body.num_values());
        site->body.ops.push_back(std::move(part));
      }
      for (ValueId value : results) {
        site->results.push_back(value);
        site->body.results.push_back(find(value)->second);
      }
    }

   private:
    // The value of the wait, of a collective.
    ValueId ResultOf(const DefUse& def_use, int op) const {
      const Op& o = program_.ops[op];
      if (!o.start) return o.results[0];
      return program_.ops[def_use.FirstWait(o)].results[0];
    }

    const Program& program_;
    std::vector<int> ops_;
  };

  bool IsLegal(const Site& site) const {
    std::vector<Type> operands;
    for (ValueId value : site.operands)
      operands.push_back(program_.type(value));
    auto group = GroupBodyOf(site.body, operands, program_.mesh);
    return group.ok() && CheckPlanShape(*group, {.order = site.order}).ok();
  }

  // A gather and what reads it.
  std::optional<Site> Before(int start) {
    int wait = WaitOf(program_.ops[start]);
    if (wait < 0) return std::nullopt;
    ValueId gathered = program_.ops[wait].results[0];
    if (awaited_.contains(gathered) || def_use_.uses[gathered].empty()) {
      return std::nullopt;
    }
    int first = def_use_.uses[gathered][0];
    std::vector<int> readers;
    for (int reader : def_use_.uses[gathered]) {
      if (!Computes(reader) ||
          program_.ops[reader].stream != program_.ops[wait].stream) {
        continue;
      }
      bool early =
          absl::c_all_of(program_.ops[reader].operands, [&](ValueId value) {
            return value == gathered || DefOf(value) < first;
          });
      if (early && IsLegal(Gather(start, wait, {reader}))) {
        readers.push_back(reader);
      }
    }
    if (readers.empty()) return std::nullopt;
    Site site = Gather(start, wait, readers);
    if (!IsLegal(site)) return std::nullopt;
    return site;
  }

  Site Gather(int start, int wait, const std::vector<int>& readers) const {
    Site site;
    BodyMaker maker(program_);
    maker.Add(start);
    std::vector<ValueId> results;
    for (int reader : readers) {
      maker.Add(reader);
      results.push_back(program_.ops[reader].results[0]);
    }
    ValueId gathered = program_.ops[wait].results[0];
    if (def_use_.uses[gathered].size() > readers.size() ||
        def_use_.output_uses[gathered] > 0) {
      results.push_back(gathered);
    }
    site.ops = {start, wait};
    site.ops.insert(readers.begin(), readers.end());
    // Before all readers, those that stay included.
    site.at = def_use_.uses[gathered][0];
    site.order = PlanOrder::kOwnFirst;
    maker.Finish(def_use_, results, &site);
    return site;
  }

  // An op and the collective that moves its result, with exchanges before it.
  std::optional<Site> Behind(int start) {
    const Op& collective = program_.ops[start];
    int wait = WaitOf(collective);
    if (wait < 0) return std::nullopt;
    std::vector<int> chain;  // views, from the collective back
    ValueId value = collective.operands[0];
    while (IsPrivate(value) && IsFree(DefOf(value)) &&
           program_.ops[DefOf(value)].def->is_view) {
      chain.push_back(DefOf(value));
      value = program_.ops[chain.back()].operands[0];
    }
    int producer = IsPrivate(value) ? DefOf(value) : -1;
    if (producer < 0 || !Computes(producer) ||
        program_.ops[producer].stream != program_.ops[wait].stream) {
      return std::nullopt;
    }
    for (bool with_heads : {true, false}) {
      Site site = Moved(start, wait, producer, chain, with_heads);
      if (IsLegal(site)) return site;
    }
    return std::nullopt;
  }

  Site Moved(int start, int wait, int producer, const std::vector<int>& chain,
             bool with_heads) const {
    Site site;
    site.order = PlanOrder::kOwnLast;
    BodyMaker maker(program_);
    site.ops = {start, wait, producer};
    for (ValueId value : program_.ops[producer].operands) {
      int head = with_heads ? HeadOf(value, start) : -1;
      if (head < 0 || !site.ops.insert(head).second) continue;
      site.ops.insert(DefOf(value));
      site.order = PlanOrder::kAlike;
      maker.Add(head);
    }
    maker.Add(producer);
    for (auto view = chain.rbegin(); view != chain.rend(); ++view) {
      maker.Add(*view);
      site.ops.insert(*view);
    }
    maker.Add(start);
    site.at = producer;
    maker.Finish(def_use_, {program_.ops[wait].results[0]}, &site);
    return site;
  }

  // The exchange over the same axes that gives `value` to one reader; -1.
  int HeadOf(ValueId value, int start) const {
    int wait = DefOf(value);
    if (!IsPrivate(value) || !IsFree(wait) ||
        !program_.ops[wait].def->is_wait) {
      return -1;
    }
    int head = DefOf(program_.ops[wait].operands[0]);
    const Op& op = program_.ops[head];
    bool fits = IsFree(head) && WaitOf(op) == wait &&
                op.def->collective == CollectiveKind::kAllToAll &&
                op.attrs.Get<AxisList>("axes") ==
                    program_.ops[start].attrs.Get<AxisList>("axes");
    return fits ? head : -1;
  }

  const Program& program_;
  const OverlapOptions& options_;
  DefUse def_use_;
  std::set<ValueId> awaited_;  // by some `after`
  std::set<int> taken_;
};

// The fastest shape of a site, if it gains alone; equal sites are tried once.
class Chooser {
 public:
  Chooser(const Program& program, const OverlapOptions& options,
          const CostModel& costs)
      : program_(program), options_(options), costs_(costs) {}

  // The attributes of the overlap.
  std::optional<AttrMap> Choose(const Site& site) {
    std::vector<Type> operands;
    for (ValueId value : site.operands)
      operands.push_back(program_.type(value));
    for (const Known& known : known_) {
      if (known.body == site.body && known.operands == operands) {
        return known.attrs;
      }
    }
    std::optional<AttrMap> attrs = Best(site, operands);
    known_.push_back({site.body, std::move(operands), attrs});
    return attrs;
  }

 private:
  struct Known {
    Body body;
    std::vector<Type> operands;
    std::optional<AttrMap> attrs;
  };

  // One after the other; the collectives as the library or copy engines carry
  // them, whichever is faster.
  struct Alone {
    double compute_us = 0, comm_us = 0;
  };
  Alone AloneOf(const Site& site, absl::Span<const Type> operands) const {
    Alone alone;
    auto types = OverlapTypes(site.body, operands, program_.mesh);
    if (!types.ok()) return alone;
    for (size_t i = 0; i < site.body.ops.size(); ++i) {
      BodyCall use(site.body, i, *types);
      double us = costs_.Cost(use.call()).time_us;
      if (site.body.ops[i].def->collective == CollectiveKind::kNone) {
        alone.compute_us += us;
        continue;
      }
      AttrMap copied = site.body.ops[i].attrs;
      AskForCopyEngine(true, &copied);
      const OpCall& call = use.call();
      double copied_us =
          costs_.Cost({call.def, copied, call.operands, call.results}).time_us;
      alone.comm_us += std::min(us, copied_us);
    }
    return alone;
  }

  std::optional<AttrMap> Best(const Site& site,
                              absl::Span<const Type> operands) const {
    if (!options_.always && !CanCarryPlans(site.body, costs_)) {
      return std::nullopt;
    }
    Alone alone = AloneOf(site, operands);
    double most_us = (1 - kLeastGain) * (alone.compute_us + alone.comm_us);
    // No plan is faster than this.
    double bound_us = std::max(alone.compute_us, kCopyMeetingUs + kCopyIssueUs);
    if (!options_.always &&
        (bound_us >= most_us || alone.compute_us < kLeastWorkUs)) {
      return std::nullopt;
    }
    auto group = GroupBodyOf(site.body, operands, program_.mesh);
    if (!group.ok()) return std::nullopt;
    OverlapTuning tuned = TuneOverlap(*group, site.order, costs_);
    bool gains = tuned.time_us > 0 && tuned.time_us < most_us;
    if (tuned.time_us == 0 || (!options_.always && !gains)) return std::nullopt;
    AttrMap attrs = {{"body", BodyRef(site.body)}};
    if (!CompleteAttrs(Def(), &attrs).ok()) return std::nullopt;
    SetPlanShape(tuned.shape, &attrs);
    return attrs;
  }

  static const OpDef& Def() {
    static const OpDef* def = FindOp("overlap");
    return *def;
  }

  const Program& program_;
  const OverlapOptions& options_;
  const CostModel& costs_;
  std::vector<Known> known_;
};

// The overlap in the program's values, after what it reads on other streams. A
// collective that was held back for a better order is so no longer.
Op OpOf(const Program& program, const DefUse& def_use, const Site& site,
        AttrMap attrs) {
  Op op{.def = FindOp("overlap")};
  op.attrs = std::move(attrs);
  op.operands.assign(site.operands.begin(), site.operands.end());
  op.results.assign(site.results.begin(), site.results.end());
  for (int part : site.ops) {
    if (!program.ops[part].start && !program.ops[part].def->is_wait) {
      op.stream = program.ops[part].stream;
    }
  }
  auto add = [&](ValueId value) {
    int def = def_use.def[value];
    if (def < 0 || program.ops[def].stream == op.stream ||
        IsConstant(program.ops[def]) ||
        absl::c_linear_search(op.after, value)) {
      return;
    }
    op.after.push_back(value);
  };
  for (ValueId value : op.operands) add(value);
  return op;
}

}  // namespace

absl::StatusOr<int> FormOverlaps(Program& program,
                                 const OverlapOptions& options,
                                 const CostModel& costs) {
  std::vector<Site> sites = Finder(program, options).Find();
  Chooser chooser(program, options, costs);
  DefUse def_use(program);
  std::vector<bool> gone(program.ops.size(), false);
  std::vector<std::optional<Op>> formed(program.ops.size());
  int count = 0;
  for (const Site& site : sites) {
    std::optional<AttrMap> attrs = chooser.Choose(site);
    if (!attrs.has_value()) continue;
    for (int op : site.ops) gone[op] = true;
    formed[site.at] = OpOf(program, def_use, site, *std::move(attrs));
    ++count;
  }
  if (count == 0) return 0;
  std::vector<Op> ops;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (formed[i].has_value()) ops.push_back(*std::move(formed[i]));
    if (!gone[i]) ops.push_back(std::move(program.ops[i]));
  }
  program.ops = std::move(ops);
  program.DropUnusedValues();
  return count;
}

absl::StatusOr<bool> FormOverlapsPass(Program& program,
                                      const PassOptions& options,
                                      PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs costs: give --machine");
  OverlapOptions own{.gathers = options.Bool("gathers"),
                     .sums = options.Bool("sums"),
                     .always = options.Bool("always")};
  ASYRA_ASSIGN_OR_RETURN(int count, FormOverlaps(program, own, *context.costs));
  if (count > 0) return true;
  context.Remark(
      "form_overlaps: no collective gains by going together with what computes "
      "beside it");
  return false;
}

absl::StatusOr<bool> SplitOverlapsPass(Program& program, const PassOptions&,
                                       PassContext& context) {
  bool any = absl::c_any_of(program.ops,
                            [](const Op& op) { return IsOverlap(*op.def); });
  if (!any) {
    context.Remark("split_overlaps: there is none");
    return false;
  }
  ASYRA_ASSIGN_OR_RETURN(program, InlineOverlaps(program));
  return true;
}

}  // namespace asyra
