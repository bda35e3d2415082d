#include "passes/schedule/transport/overlap_sites.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/overlap.h"

namespace asyra {
namespace {

class Finder {
 public:
  Finder(const Program& program, const OverlapKinds& kinds)
      : program_(program), kinds_(kinds), def_use_(program) {
    for (const Op& op : program.ops) {
      awaited_.insert(op.after.begin(), op.after.end());
    }
  }

  std::vector<OverlapSite> Find() {
    std::vector<OverlapSite> sites;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      std::optional<OverlapSite> site;
      if (op.start && IsBehind(op) && kinds_.reductions) {
        site = Behind(static_cast<int>(i));
      } else if (op.start && kinds_.gathers &&
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
  // Returns whether all that the site reads is available where it comes.
  bool IsEarly(const OverlapSite& site) const {
    return absl::c_all_of(
        site.operands, [&](ValueId value) { return DefOf(value) < site.at; });
  }
  static bool IsBehind(const Op& op) {
    return Reduces(op.def->collective) ||
           op.def->collective == CollectiveKind::kAllToAll;
  }
  int DefOf(ValueId value) const { return def_use_.def[value]; }
  // Returns whether the value is read by one op alone, and nothing else uses
  // it.
  bool IsPrivate(ValueId value) const {
    return def_use_.uses[value].size() == 1 &&
           def_use_.output_uses[value] == 0 && !awaited_.contains(value);
  }
  bool IsFree(int op) const { return op >= 0 && !taken_.contains(op); }

  // Returns the wait of a collective of one value; else -1.
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

  // Adds ops to a body, whose operands are collected first.
  class BodyMaker {
   public:
    explicit BodyMaker(const Program& program) : program_(program) {}

    void Add(int op) { ops_.push_back(op); }
    void Finish(const DefUse& def_use, absl::Span<const ValueId> results,
                OverlapSite* site) const {
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
        BodyOp part = BodyPartOf(program_.ops[op]);
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

  // Returns the site of a gather and what reads it.
  std::optional<OverlapSite> Before(int start) {
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
      if (early && HasPlan(program_, Gather(start, wait, {reader}))) {
        readers.push_back(reader);
      }
    }
    if (readers.empty()) return std::nullopt;
    OverlapSite site = Gather(start, wait, readers);
    if (!HasPlan(program_, site)) return std::nullopt;
    return site;
  }

  OverlapSite Gather(int start, int wait,
                     const std::vector<int>& readers) const {
    OverlapSite site;
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
    // The site is before all readers, those that stay included.
    site.at = def_use_.uses[gathered][0];
    site.order = PlanOrder::kOwnFirst;
    maker.Finish(def_use_, results, &site);
    return site;
  }

  // Returns the site of an op and the collective that moves its result, with
  // exchanges before it.
  std::optional<OverlapSite> Behind(int start) {
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
      OverlapSite site = Moved(start, wait, producer, chain, with_heads);
      if (HasPlan(program_, site)) return site;
    }
    return std::nullopt;
  }

  OverlapSite Moved(int start, int wait, int producer,
                    const std::vector<int>& chain, bool with_heads) const {
    OverlapSite site;
    site.order = PlanOrder::kOwnLast;
    BodyMaker maker(program_);
    site.ops = {start, wait, producer};
    for (ValueId value : program_.ops[producer].operands) {
      int head = with_heads ? HeadOf(value, start) : -1;
      if (head < 0 || !site.ops.insert(head).second) continue;
      site.ops.insert(DefOf(value));
      site.order = PlanOrder::kSame;
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

  // Returns the exchange over the same axes that gives `value` to one reader;
  // else -1.
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
  const OverlapKinds& kinds_;
  DefUse def_use_;
  std::set<ValueId> awaited_;  // by some `after`
  std::set<int> taken_;
};

}  // namespace

BodyOp BodyPartOf(const Op& op) {
  BodyOp part{op.def, {}, op.attrs};
  if (op.is_collective()) {
    part.attrs.Set("ctas", int64_t{0});
    AskForCopyEngine(false, &part.attrs);
  }
  for (const AttrDef& attr : ScheduleAttrs()) part.attrs.Erase(attr.name);
  return part;
}

bool HasPlan(const Program& program, const OverlapSite& site) {
  std::vector<Type> operands;
  for (ValueId value : site.operands) operands.push_back(program.type(value));
  auto group = GroupBodyOf(site.body, operands, program.mesh);
  return group.ok() && CheckPlanShape(*group, {.order = site.order}).ok();
}

std::vector<OverlapSite> FindOverlapSites(const Program& program,
                                          const OverlapKinds& kinds) {
  return Finder(program, kinds).Find();
}

}  // namespace asyra
