#include "passes/schedule/transport/fuse_reductions.h"

#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "ir/body.h"
#include "ir/gpu/vector_bytes.h"
#include "ir/plans/fused_reduction.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/schedule/transport/put_overlaps.h"
#include "simulator/cost/fused_reduction_cost.h"
#include "simulator/cost/plan_cost.h"

namespace asyra {
namespace {

// A kernel must be faster alone by this share: the other ops may hide a part of
// what it is made of.
constexpr double kLeastGain = 0.03;

class Finder {
 public:
  Finder(const Program& program, bool gathers)
      : program_(program), gathers_(gathers), def_use_(program) {
    for (const Op& op : program.ops) {
      for (ValueId value : op.after) {
        if (!absl::c_linear_search(op.operands, value)) awaited_.insert(value);
      }
    }
  }

  // Finds the sites; of two sums that one op reads, the first.
  std::vector<OverlapSite> Find() const {
    std::vector<OverlapSite> sites;
    std::set<int> taken;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!op.start || !Reduces(op.def->collective)) continue;
      auto site = At(static_cast<int>(i));
      if (!site.has_value() || taken.contains(site->at)) continue;
      taken.insert(site->ops.begin(), site->ops.end());
      sites.push_back(*std::move(site));
    }
    return sites;
  }

 private:
  // Returns the only reader of a value that nothing else uses; else -1.
  int OnlyReader(ValueId value) const {
    const auto& uses = def_use_.uses[value];
    bool is_private = uses.size() == 1 && def_use_.output_uses[value] == 0 &&
                      !awaited_.contains(value);
    return is_private ? uses[0] : -1;
  }

  // Returns the wait of a collective of one value; else -1.
  int WaitOf(const Op& start) const {
    return start.operands.size() == 1 ? OnlyReader(start.results[0]) : -1;
  }

  static bool ComputesRows(const Op& op) {
    const Body* body = BodyOf(op.attrs);
    if (body != nullptr) {
      return op.def->name == "fusion" && !BeginsWithMatmul(*body);
    }
    return op.results.size() == 1 && (op.def->fusable == Fusable::kElement ||
                                      op.def->fusable == Fusable::kRow);
  }

  std::optional<OverlapSite> At(int start) const {
    int wait = WaitOf(program_.ops[start]);
    if (wait < 0) return std::nullopt;
    ValueId sum = program_.ops[wait].results[0];
    int reader = OnlyReader(sum);
    if (reader < 0 || !ComputesRows(program_.ops[reader]) ||
        program_.ops[reader].stream != program_.ops[wait].stream) {
      return std::nullopt;
    }
    OverlapSite site;
    site.ops = {start, wait, reader};
    site.at = reader;
    AddBody(start, reader, sum, &site);
    AddResults(reader, program_.ops[start].attrs.Get<AxisList>("axes"), &site);
    return IsLegal(site) ? std::make_optional(site) : std::nullopt;
  }

  // Adds the reduction and the reader's ops, in the order of the reader's
  // operands.
  void AddBody(int start, int reader, ValueId sum, OverlapSite* site) const {
    const Op& rows = program_.ops[reader];
    std::vector<int> number;  // by value of the reader's body
    int count = static_cast<int>(rows.operands.size());
    BodyOp reduction = BodyPartOf(program_.ops[start]);
    for (int k = 0; k < count; ++k) {
      bool is_sum = rows.operands[k] == sum;
      if (is_sum) reduction.operands = {k};
      number.push_back(is_sum ? count : k);
      site->operands.push_back(is_sum ? program_.ops[start].operands[0]
                                      : rows.operands[k]);
    }
    Body& body = site->body;
    body.num_operands = count;
    body.ops.push_back(std::move(reduction));
    for (BodyOp part : PartsOf(rows)) {
      for (int& value : part.operands) value = number[value];
      number.push_back(body.num_values());
      body.ops.push_back(std::move(part));
    }
    const Body* given = BodyOf(rows.attrs);
    for (size_t r = 0; r < rows.results.size(); ++r) {
      int value = given != nullptr ? given->results[r] : count;
      body.results.push_back(number[value]);
      site->results.push_back(rows.results[r]);
    }
  }

  static std::vector<BodyOp> PartsOf(const Op& rows) {
    const Body* body = BodyOf(rows.attrs);
    if (body != nullptr) return body->ops;
    BodyOp only = BodyPartOf(rows);
    for (size_t k = 0; k < rows.operands.size(); ++k) {
      only.operands.push_back(static_cast<int>(k));
    }
    return {only};
  }

  // Puts a gather's result in the place of a result that the gather alone
  // reads.
  void AddResults(int reader, const AxisList& axes, OverlapSite* site) const {
    if (!gathers_) return;
    const Op& rows = program_.ops[reader];
    for (size_t r = 0; r < rows.results.size(); ++r) {
      int start = OnlyReader(rows.results[r]);
      if (start < 0) continue;
      const Op& gather = program_.ops[start];
      int wait = gather.start ? WaitOf(gather) : -1;
      if (wait < 0 || gather.def->collective != CollectiveKind::kAllGather ||
          gather.attrs.Get<AxisList>("axes") != axes ||
          program_.ops[wait].stream != rows.stream) {
        continue;
      }
      BodyOp part = BodyPartOf(gather);
      part.operands = {site->body.results[r]};
      site->body.results[r] = site->body.num_values();
      site->body.ops.push_back(std::move(part));
      site->results[r] = program_.ops[wait].results[0];
      site->ops.insert({start, wait});
    }
  }

  bool IsLegal(const OverlapSite& site) const {
    std::vector<Type> operands;
    for (ValueId value : site.operands) {
      operands.push_back(program_.type(value));
    }
    return FusedReductionOf(site.body, operands, program_.mesh).ok();
  }

  const Program& program_;
  const bool gathers_;
  DefUse def_use_;
  // Values that an op waits for (`after`) without reading them.
  std::set<ValueId> awaited_;
};

AttrMap AttrsOf(const OverlapSite& site) {
  AttrMap attrs = {{"body", BodyRef(site.body)},
                   {"form", std::string(kOneKernel)}};
  ASYRA_CHECK_OK(CompleteAttrs(*FindOp("overlap"), &attrs));
  return attrs;
}

// Kernels read the summands by vectors. A scalar, as the norm of all gradients
// is, has none.
bool HasRows(const Type& sum, const Mesh& mesh) {
  if (sum.rank() == 0) return false;
  Type local = sum.Local(mesh);
  return local.size(local.rank() - 1) * SizeOf(local.dtype) >= kGpuVectorBytes;
}

bool Gains(const Program& program, const OverlapSite& site,
           const AttrMap& attrs, const CostModel& costs) {
  if (!CanCarryPlans(site.body, costs)) return false;
  std::vector<Type> operands;
  for (ValueId value : site.operands) operands.push_back(program.type(value));
  auto fused = FusedReductionOf(site.body, operands, program.mesh);
  if (!fused.ok() || !HasRows(fused->operands[fused->summed], program.mesh)) {
    return false;
  }
  const OpDef& def = *FindOp("overlap");
  auto results = InferTypes(def, attrs, operands, program.mesh);
  if (!results.ok()) return false;
  OpCall call{def, attrs, operands, *results};
  double fused_us = costs.Cost(call).time_us;
  double split_us = SplitReductionCost(call, costs).time_us;
  return fused_us > 0 && fused_us < (1 - kLeastGain) * split_us;
}

}  // namespace

absl::StatusOr<int> FuseReductions(Program& program,
                                   const FuseReductionsOptions& options,
                                   const CostModel& costs) {
  std::vector<FormedOverlap> formed;
  for (OverlapSite& site : Finder(program, options.gathers).Find()) {
    AttrMap attrs = AttrsOf(site);
    if (!options.always && !Gains(program, site, attrs, costs)) continue;
    formed.push_back({std::move(site), std::move(attrs)});
  }
  auto count = static_cast<int>(formed.size());
  PutOverlaps(std::move(formed), &program);
  return count;
}

bool HasReductionsInReach(const Program& program, const Machine& machine) {
  return absl::c_any_of(program.ops, [&](const Op& op) {
    return Reduces(op.def->collective) &&
           CopyEnginesReach(machine,
                            SpanOf(program.mesh, op.attrs.Get<AxisList>("axes"),
                                   machine.gpus_per_host));
  });
}

absl::StatusOr<bool> FuseReductionsPass(Program& program,
                                        const PassOptions& options,
                                        PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  FuseReductionsOptions own{.gathers = options.Bool("gathers"),
                            .always = options.Bool("always")};
  ASYRA_ASSIGN_OR_RETURN(int count,
                         FuseReductions(program, own, *context.costs));
  if (count > 0) return true;
  context.Remark(
      "fuse_reductions: no reduction gains by being one kernel with what is "
      "computed from it");
  return false;
}

}  // namespace asyra
