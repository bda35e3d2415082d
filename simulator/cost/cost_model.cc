#include "simulator/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "ir/body.h"
#include "ir/copy_engine.h"
#include "ir/happens_before.h"
#include "ir/overlap.h"
#include "ir/support/status.h"
#include "simulator/cost/compute_cost.h"
#include "simulator/cost/energy.h"
#include "simulator/cost/packing.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/cost/sharing.h"

namespace asyra {
namespace {

double LocalBytes(absl::Span<const Type> types, const Mesh& mesh) {
  int64_t bytes = 0;
  for (const Type& type : types) bytes += LocalBytes(type, mesh);
  return static_cast<double>(bytes);
}

// The attribute `ctas` of a collective; 0: not set.
int CtasOf(const OpCall& call) {
  if (call.def.collective == CollectiveKind::kNone) return 0;
  return static_cast<int>(call.attrs.Int("ctas"));
}

// The fraction of the GPU's CTA slots that a kernel takes. CTAs of
// matmuls fill an SM each. Others have a thread for each 16 bytes, and so an
// SM 2048 of them.
double CtaSlotsOf(const Gpu& gpu, const Work& work,
                  const ComputeEstimate& estimate) {
  constexpr double kBytesOfSm = 2048 * 16;
  double slots = estimate.waves > 0
                     ? estimate.waves
                     : std::max(work.read_bytes, work.write_bytes) /
                           (kBytesOfSm * gpu.sms);
  return std::min(1.0, slots);
}

// A matmul with an SM margin holds fewer SMs, and takes longer if it used them.
void LeaveSms(double margin, OpCost* cost) {
  if (margin == 0 || cost->waves == 0) return;
  // A margin of all SMs is an error of the device.
  double share = std::max(1 - margin, 0.01);
  double slower = SlowdownOn(share, cost->waves);
  double longer = std::max(1.0, cost->load[kSms] * slower);
  cost->time_us *= longer;
  cost->math_us *= longer;
  cost->memory_us *= longer;
  for (double& load : cost->load) load /= longer;
  cost->load[kSms] = std::min(cost->load[kSms], share);
  cost->load[kCtaSlots] = std::min(cost->load[kCtaSlots] * longer, share);
  cost->sm_margin = margin;
}

}  // namespace

int64_t PayloadBytes(const Program& program, const Op& op) {
  int64_t in = 0, out = 0;
  for (ValueId value : op.operands) {
    in += LocalBytes(program.type(value), program.mesh);
  }
  for (ValueId value : op.results) {
    out += LocalBytes(program.type(value), program.mesh);
  }
  return std::max(in, out);
}

// Costs by use: the op with the types of its operands and results.
class CostMemo {
 public:
  std::optional<OpCost> Find(size_t hash, const Program& program,
                             const Op& op) const {
    absl::MutexLock lock(&mutex_);
    auto bucket = known_.find(hash);
    if (bucket == known_.end()) return std::nullopt;
    for (const Known& known : bucket->second) {
      if (known.IsOf(program, op)) return known.cost;
    }
    return std::nullopt;
  }

  void Add(size_t hash, const Program& program, const Op& op,
           const OpCost& cost) {
    absl::MutexLock lock(&mutex_);
    known_[hash].push_back({op.def, op.attrs, program.OperandTypes(op),
                            program.ResultTypes(op), cost});
  }

  // Hashes the types: of ops with equal ones, few differ in attributes.
  static size_t Hash(const Program& program, const Op& op) {
    size_t hash = std::hash<const OpDef*>()(op.def);
    auto add = [&hash](uint64_t word) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    };
    for (ValueId value : op.operands) {
      for (const Dim& dim : program.type(value).dims) {
        add(static_cast<uint64_t>(dim.size));
        for (AxisId axis : dim.axes) add(static_cast<uint64_t>(axis) + 1);
      }
    }
    return hash;
  }

 private:
  struct Known {
    const OpDef* def;
    AttrMap attrs;
    std::vector<Type> operands, results;
    OpCost cost;

    bool IsOf(const Program& program, const Op& op) const {
      auto same = [&](const Type& type, ValueId value) {
        return type == program.type(value);
      };
      return op.def == def && absl::c_equal(operands, op.operands, same) &&
             absl::c_equal(results, op.results, same) && op.attrs == attrs;
    }
  };

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<size_t, std::vector<Known>> known_
      ABSL_GUARDED_BY(mutex_);
};

CostModel::CostModel(Machine machine, Mesh mesh, CostOptions options)
    : machine_(std::move(machine)),
      mesh_(std::move(mesh)),
      options_(options),
      memo_(std::make_shared<CostMemo>()) {
  machine_.ranks_are_processes |= options.ranks_are_processes;
}

CostModel CostModel::Over(Mesh mesh) const {
  CostModel other = *this;
  other.mesh_ = std::move(mesh);
  return other;
}

CostModel CostModel::AtClock(double mhz) const {
  CostModel other = *this;
  other.clock_mhz_ = machine_.gpu.power.has_value() ? mhz : 0;
  return other;
}

OpCost CostModel::AtItsClock(OpCost cost) const {
  if (clock_mhz_ > 0) SetClock(*machine_.gpu.power, clock_mhz_, &cost);
  return cost;
}

OpCost CostModel::ComputeCost(const Work& work, DType dtype,
                              const Type& result) const {
  const Gpu& gpu = machine_.gpu;
  if (work.flops == 0 && work.read_bytes + work.write_bytes == 0) return {};
  ComputeEstimate estimate = EstimateCompute(gpu, work, dtype, result);
  double busy_us = std::max(estimate.math_us, estimate.memory_us);

  OpCost cost;
  cost.is_compute = true;
  cost.time_us = gpu.kernel_us + busy_us;
  cost.math_us = estimate.math_us;
  cost.memory_us = estimate.memory_us;
  cost.energy = EnergyOf(gpu, work, dtype);
  cost.limit = gpu.kernel_us > busy_us                 ? OpCost::kLatency
               : estimate.math_us > estimate.memory_us ? OpCost::kMath
                                                       : OpCost::kMemory;
  cost.waves = estimate.waves;
  cost.persistent = gpu.gemm_persistent && estimate.waves > 0;
  cost.load[kHbm] = estimate.memory_us / cost.time_us;
  // Moving bytes takes SMs too: hbm_sms of them saturate the memory.
  double moving = std::min(1.0, static_cast<double>(gpu.hbm_sms) / gpu.sms);
  cost.load[kSms] =
      std::max(estimate.math_us / cost.time_us, moving * cost.load[kHbm]);
  cost.load[kCtaSlots] = CtaSlotsOf(gpu, work, estimate);
  return cost;
}

OpCost CostModel::CollectiveCost(CollectiveKind kind, double payload_bytes,
                                 const GroupSpan& span,
                                 const CollectiveForm& form) const {
  if (span.ranks == 1) return {};
  int64_t busy_gpus =
      std::min<int64_t>(mesh_.num_devices(), machine_.gpus_per_host);
  CollectiveEstimate estimate =
      EstimateCollective(machine_, kind, payload_bytes, span, busy_gpus, form);
  OpCost cost;
  cost.time_us = estimate.time_us;
  cost.algorithm = estimate.algorithm;
  cost.protocol = estimate.protocol;
  cost.energy.bytes_uj =
      LinkEnergyUj(machine_.gpu, payload_bytes * BusFactor(kind, span.ranks));
  cost.sms = estimate.ctas;
  cost.kernel_start_fraction = estimate.kernel_start_fraction;
  // A part always remains for computation.
  cost.held_sms =
      std::min(0.9, static_cast<double>(estimate.ctas) / machine_.gpu.sms);
  cost.required_sms = cost.held_sms;
  cost.beside_compute = machine_.collectives.at(kind).beside_compute;
  if (span.hosts > 1) {
    // Computation slows the collective's kernels, which wait for the network
    // most of the time: they have to be slower than it to be felt.
    CollectiveEstimate kernels =
        EstimateCollective(machine_, kind, payload_bytes,
                           {span.ranks, 1, span.ranks}, busy_gpus, form);
    cost.beside_compute =
        std::min(1.0, cost.beside_compute * estimate.time_us / kernels.time_us);
  }
  double moving = 1 - estimate.alpha_us / estimate.time_us;
  cost.limit = moving < 0.5     ? OpCost::kLatency
               : span.hosts > 1 ? OpCost::kNetworkBytes
                                : OpCost::kLinkBytes;
  // The payload is read and written at least once.
  cost.load[kHbm] = std::min(
      1.0, 2 * payload_bytes /
               (machine_.gpu.hbm_gbps.achievable * 1e3 * estimate.time_us));
  cost.load[span.hosts > 1 ? kNetwork : kLink] = moving;
  if (estimate.algorithm == Algorithm::kCopyEngine) {
    cost.load[kCopyEngines] = moving;
    // Matmuls next to it take only memory bandwidth from it; a reduction
    // requires as many SMs as saturate the memory.
    cost.beside_compute = 1;
    cost.required_sms =
        static_cast<double>(machine_.gpu.hbm_sms) / machine_.gpu.sms;
    // The reduction's kernel fills all SMs ahead of the next kernel. Where it
    // does not run to the end, this is its average.
    if (Reduces(kind)) cost.held_sms = estimate.kernel_share;
  }
  return cost;
}

double CostModel::ComputeUs(const Work& work, DType dtype) const {
  double elements = work.write_bytes / static_cast<double>(SizeOf(dtype));
  auto side = static_cast<int64_t>(std::max(1.0, std::sqrt(elements)));
  return ComputeCost(work, dtype, Type(dtype, {side, side})).time_us;
}

double CostModel::CollectiveUs(CollectiveKind kind, double payload_bytes,
                               const AxisList& axes) const {
  GroupSpan span = SpanOf(axes);
  OpCost cost = CollectiveCost(kind, payload_bytes, span, {});
  if (cost.time_us > 0) {
    Correct(CollectiveKey(kind, payload_bytes, span, /*copy_engine=*/false),
            &cost);
  }
  return cost.time_us;
}

CollectiveForm CostModel::FormOf(const OpCall& call) const {
  return {.copy_engine = AsksForCopyEngine(call.attrs) &&
                         CanUseCopyEngine(machine_, call, mesh_),
          .ctas = CtasOf(call),
          .shift = call.def.collective == CollectiveKind::kShift
                       ? call.attrs.Int("by")
                       : 0};
}

double CostModel::PayloadOf(const OpCall& call) const {
  return std::max(LocalBytes(call.operands, mesh_),
                  LocalBytes(call.results, mesh_));
}

CostKey CostModel::KeyOf(const OpCall& call) const {
  if (call.def.collective != CollectiveKind::kNone) {
    const auto& axes = call.attrs.Get<AxisList>("axes");
    return CollectiveKey(call.def.collective, PayloadOf(call), SpanOf(axes),
                         FormOf(call).copy_engine);
  }
  CostKey key =
      ComputeKey(call, WorkOf(call, mesh_), call.results[0].Local(mesh_));
  if (call.def.body_communicates) {
    key.behind =
        fmt::format("{} ranks", SpanOf(AxesOf(*BodyOf(call.attrs))).ranks);
  }
  return key;
}

double CostModel::MeasuredFactor(const OpCall& call) const {
  OpCost cost;
  cost.time_us = 1;
  Correct(KeyOf(call), &cost);
  return cost.source < OpCost::kFormula ? cost.time_us : 1;
}

void CostModel::Correct(const CostKey& key, OpCost* cost) const {
  if (machine_.table == nullptr) return;
  CostTable::Match match = machine_.table->Find(key);
  // Measurements of another machine do not count as measured.
  cost->source = static_cast<OpCost::Source>(
      machine_.edited ? std::max<int>(match.source, OpCost::kExtrapolated)
                      : match.source);
  cost->time_us *= match.factor;
  cost->math_us *= match.factor;
  cost->memory_us *= match.factor;
  for (int r = 0; r < kNumResources; ++r) {
    // CTA slots are held for its whole time.
    if (r == kCtaSlots) continue;
    cost->load[r] = std::min(1.0, cost->load[r] / match.factor);
  }
}

// Copies of chunks around the library's kernel, which tables have without them.
void CostModel::AddPacking(const OpCall& call, OpCost* cost) const {
  auto us = [this](int64_t bytes) {
    if (bytes == 0) return 0.0;
    return machine_.gpu.kernel_us +
           2 * static_cast<double>(bytes) /
               (machine_.gpu.hbm_gbps.achievable * 1e3);
  };
  double before_us = 0, after_us = 0;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    Packing packing =
        PackingOf(call.def, call.attrs, call.operands[i].Local(mesh_),
                  call.results[i].Local(mesh_));
    before_us += us(packing.before);
    after_us += us(packing.after);
  }
  cost->Stretch(1 + (before_us + after_us) / cost->time_us);
  if (before_us > 0) {
    cost->kernel_start_fraction = std::min(0.9, before_us / cost->time_us);
  }
}

OpCost CostModel::Cost(const OpCall& call) const {
  return AtItsClock(MeasuredCost(call));
}

OpCost CostModel::MeasuredCost(const OpCall& call) const {
  if (call.def.is_view || call.def.is_wait) return {};
  if (call.def.body_communicates) {
    OpCost cost = OverlapCost(call, clock_mhz_ > 0 ? AtClock(0) : *this);
    // Whole plans that were measured correct the replay of their pieces.
    if (cost.time_us > 0 && CanCarryPlans(*BodyOf(call.attrs), *this)) {
      OpCost measured = cost;
      Correct(KeyOf(call), &measured);
      if (measured.source < OpCost::kFormula) cost = measured;
    }
    cost.launch_us = cost.time_us == 0 ? 0 : LaunchUs();
    return cost;
  }
  OpCost cost;
  if (call.def.collective != CollectiveKind::kNone) {
    cost =
        CollectiveCost(call.def.collective, PayloadOf(call),
                       SpanOf(call.attrs.Get<AxisList>("axes")), FormOf(call));
  } else if (!IsSetUpOnce(call.def, call.operands.size())) {
    cost = ComputeCost(WorkOnGpu(call, mesh_), ComputeDType(call),
                       call.results[0].Local(mesh_));
  }
  if (cost.time_us == 0) return {};
  Correct(KeyOf(call), &cost);
  // Measured with the library's CTAs; with others the same factor is assumed.
  if (CtasOf(call) > 0) {
    cost.source = std::max(cost.source, OpCost::kExtrapolated);
  }
  if (call.def.collective != CollectiveKind::kNone && cost.sms > 0) {
    AddPacking(call, &cost);
  }
  LeaveSms(std::min(1.0, static_cast<double>(SmMargin(call.attrs)) /
                             machine_.gpu.sms),
           &cost);
  cost.launch_us = LaunchUs();
  return cost;
}

OpCost CostModel::RememberedCost(const Program& program, const Op& op) const {
  if (op.def->is_view || op.def->is_wait || IsConstant(op)) return {};
  size_t hash = CostMemo::Hash(program, op);
  if (std::optional<OpCost> known = memo_->Find(hash, program, op)) {
    return AtItsClock(*known);
  }
  OpCost cost = MeasuredCost(OpUse(program, op));
  memo_->Add(hash, program, op, cost);
  return AtItsClock(cost);
}

std::vector<OpCost> EstimateCosts(const Program& program,
                                  const CostModel& costs) {
  std::vector<OpCost> op_costs;
  op_costs.reserve(program.ops.size());
  for (const Op& op : program.ops) {
    op_costs.push_back(costs.RememberedCost(program, op));
  }
  return op_costs;
}

absl::Status CheckMeasured(const Program& program,
                           absl::Span<const OpCost> op_costs) {
  int first = -1, count = 0;
  double guessed_us = 0, all_us = 0;
  for (size_t i = 0; i < op_costs.size(); ++i) {
    all_us += op_costs[i].time_us;
    if (op_costs[i].time_us == 0 ||
        op_costs[i].source <= OpCost::kInterpolated) {
      continue;
    }
    if (first < 0) first = static_cast<int>(i);
    guessed_us += op_costs[i].time_us;
    ++count;
  }
  if (first < 0) return absl::OkStatus();
  const Op& op = program.ops[first];
  return Invalid(
      "{} of {} ops, {:.1f} % of the time of all ops, are not measured; the "
      "first is %{} = {}, whose cost is {}",
      count, op_costs.size(), 100 * guessed_us / all_us,
      op.results.empty() ? "" : program.value_name(op.results[0]),
      OpLabel(*op.def, op.attrs), ToString(op_costs[first].source));
}

}  // namespace asyra
