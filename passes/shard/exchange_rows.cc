#include "passes/shard/exchange_rows.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

// Ops to replace, by index: a lookup behind the gather of its table, or a sum
// of rows before its reduction.
struct Site {
  int op = -1;      // embedding, segment_sum
  int gather = -1;  // of the table
  int reduction = -1;
  int cast = -1;  // of the rows that are added, if any
};

// Sites of a program, which outlives it.
class SiteFinder {
 public:
  explicit SiteFinder(const Program& program)
      : program_(program), def_use_(program) {}

  std::vector<Site> Find() const {
    std::vector<Site> sites;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      Site site{.op = static_cast<int>(i)};
      if ((op.def->name == "embedding" && IsLookup(op, &site)) ||
          (op.def->name == "segment_sum" && IsSum(op, &site))) {
        sites.push_back(site);
      }
    }
    return sites;
  }

 private:
  bool IsReadOnce(ValueId value) const {
    return def_use_.uses[value].size() == 1 && def_use_.output_uses[value] == 0;
  }

  bool IsAlongRows(const Op& op) const {
    return op.operands.size() == 1 && op.stream == kNoStream &&
           NormalizeDim(op.attrs.Int("dim"), 2) == 0;
  }

  bool IsLookup(const Op& lookup, Site* site) const {
    ValueId table = lookup.operands[0];
    site->gather = def_use_.def[table];
    if (site->gather < 0 || !IsReadOnce(table)) return false;
    const Op& gather = program_.ops[site->gather];
    if (gather.def->collective != CollectiveKind::kAllGather ||
        !IsAlongRows(gather) || !program_.type(table).dims[0].axes.empty()) {
      return false;
    }
    return program_.type(table).partial.empty() &&
           CutBy(lookup.operands[1], gather.attrs.Get<AxisList>("axes"));
  }

  bool IsSum(const Op& sum, Site* site) const {
    ValueId rows = sum.operands[0], table = sum.results[0];
    if (sum.attrs.Int("dim") != 0 || program_.type(table).rank() != 2 ||
        !program_.type(rows).partial.empty() || !IsReadOnce(table)) {
      return false;
    }
    site->reduction = def_use_.uses[table][0];
    const Op& reduction = program_.ops[site->reduction];
    bool scatters = reduction.def->collective == CollectiveKind::kReduceScatter;
    if (reduction.operands.size() != 1 ||
        (scatters ? !IsAlongRows(reduction)
                  : reduction.def->collective != CollectiveKind::kAllReduce) ||
        !program_.type(reduction.results[0]).partial.empty()) {
      return false;
    }
    int cast = def_use_.def[rows];
    if (cast >= 0 && program_.ops[cast].def->name == "cast" &&
        IsReadOnce(rows)) {
      site->cast = cast;
    }
    return CutBy(sum.operands[1], reduction.attrs.Get<AxisList>("axes"));
  }

  // Returns whether these axes, and no others, cut the ids.
  bool CutBy(ValueId ids, AxisList axes) const {
    AxisList cuts;
    for (const Dim& dim : program_.type(ids).dims) {
      cuts.insert(cuts.end(), dim.axes.begin(), dim.axes.end());
    }
    absl::c_sort(cuts);
    absl::c_sort(axes);
    return !axes.empty() && cuts == axes;
  }

  const Program& program_;
  DefUse def_use_;
};

// The program with some of its sites replaced.
class RowExchange {
 public:
  RowExchange(const Program& from, absl::Span<const Site> sites)
      : from_(from),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue) {
    for (const Site& site : sites) {
      sites_[site.op] = &site;
      gone_.insert({site.gather, site.reduction, site.cast});
    }
  }

  absl::StatusOr<Program> Run() {
    builder_.CopyInputs(from_, &map_);
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      auto site = sites_.find(static_cast<int>(i));
      if (site != sites_.end()) {
        ASYRA_RETURN_IF_ERROR(site->second->gather >= 0 ? Lookup(*site->second)
                                                        : Sum(*site->second));
      } else if (!gone_.contains(static_cast<int>(i))) {
        ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, from_.ops[i], &map_));
      }
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

 private:
  absl::Status Lookup(const Site& site) {
    const Op& lookup = from_.ops[site.op];
    const std::string& name = from_.value_name(lookup.results[0]);
    ASYRA_ASSIGN_OR_RETURN(ValueId ids, WholeIds(lookup.operands[1]));
    ValueId table = map_[from_.ops[site.gather].operands[0]];
    ASYRA_ASSIGN_OR_RETURN(
        ValueId rows, builder_.AddOne("embedding", {table, ids}, lookup.attrs,
                                      name + ".rows"));
    const Type& cut = from_.type(lookup.operands[1]);
    for (int d = 0; d < cut.rank(); ++d) {
      if (cut.dims[d].axes.empty()) continue;
      ASYRA_ASSIGN_OR_RETURN(
          rows, builder_.AddOne(
                    "reduce_scatter", {rows},
                    {{"dim", int64_t{d}}, {"axes", cut.dims[d].axes}}, name));
    }
    map_[lookup.results[0]] = rows;
    return absl::OkStatus();
  }

  absl::Status Sum(const Site& site) {
    Op sum = from_.ops[site.op];
    ValueId old_ids = sum.operands[1], old_rows = sum.operands[0];
    if (site.cast >= 0) old_rows = from_.ops[site.cast].operands[0];
    ASYRA_ASSIGN_OR_RETURN(ValueId ids, WholeIds(old_ids));
    ASYRA_ASSIGN_OR_RETURN(ValueId rows, Gathered(old_rows, old_ids));
    if (site.cast >= 0) {
      const Op& cast = from_.ops[site.cast];
      ASYRA_ASSIGN_OR_RETURN(
          rows, builder_.AddOne("cast", {rows}, cast.attrs,
                                from_.value_name(cast.results[0])));
    }
    ValueId table = from_.ops[site.reduction].results[0];
    sum.attrs.Set("axes", from_.type(table).dims[0].axes);
    ASYRA_ASSIGN_OR_RETURN(
        map_[table],
        builder_.AddOne("segment_sum", {rows, ids}, std::move(sum.attrs),
                        from_.value_name(sum.results[0])));
    return absl::OkStatus();
  }

  // All ids on each device; gathered once.
  absl::StatusOr<ValueId> WholeIds(ValueId ids) {
    auto known = whole_.find(ids);
    if (known != whole_.end()) return known->second;
    ASYRA_ASSIGN_OR_RETURN(ValueId whole, Gathered(ids, ids));
    whole_[ids] = whole;
    return whole;
  }

  // A value of `from_` along the dimensions in which the ids are cut.
  absl::StatusOr<ValueId> Gathered(ValueId value, ValueId ids) {
    const std::string name = from_.value_name(value) + ".all_gather";
    const Type& cut = from_.type(ids);
    value = map_[value];
    for (int d = cut.rank() - 1; d >= 0; --d) {
      if (cut.dims[d].axes.empty()) continue;
      ASYRA_ASSIGN_OR_RETURN(
          value, builder_.AddOne(
                     "all_gather", {value},
                     {{"dim", int64_t{d}}, {"axes", cut.dims[d].axes}}, name));
    }
    return value;
  }

  const Program& from_;
  std::map<int, const Site*> sites_;
  std::set<int> gone_;
  Builder builder_;
  std::vector<ValueId> map_;  // from a value of `from_` to one of the new
  std::map<ValueId, ValueId> whole_;
};

double OpsUs(const Program& program, const CostModel& costs) {
  double us = 0;
  for (const OpCost& cost : EstimateCosts(program, costs)) us += cost.time_us;
  return us;
}

}  // namespace

absl::StatusOr<bool> ExchangeRows(Program& program, const PassOptions&,
                                  PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  const std::vector<Site> sites = SiteFinder(program).Find();
  if (sites.empty()) return false;
  std::vector<Site> chosen;
  Program best = program;
  double best_us = OpsUs(program, *context.costs);
  for (const Site& site : sites) {
    chosen.push_back(site);
    ASYRA_ASSIGN_OR_RETURN(Program with, RowExchange(program, chosen).Run());
    double with_us = OpsUs(with, *context.costs);
    if (with_us < best_us) {
      best = std::move(with);
      best_us = with_us;
    } else {
      chosen.pop_back();
    }
  }
  if (chosen.empty()) return false;
  context.Remark(
      "exchange_rows: {} lookups and sums send rows instead of tables",
      chosen.size());
  program = std::move(best);
  return true;
}

}  // namespace asyra
