#include "tools/bench/bench_power.h"

#include <algorithm>
#include <cmath>

#include "ir/copy_engine.h"
#include "ir/parser.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "simulator/cost/collective_cost.h"

namespace asyra {
namespace {

constexpr double kPicojoules = 1e6;  // in a microjoule
// The share of the time in which matmuls run where their clock should stay at
// its highest.
constexpr double kPausedBusy = 0.4;
// Clocks that are closer count as one.
constexpr double kSameClock = 0.02;
// The share of GEMMs on an H200, for GPUs that no load takes to their limit.
constexpr double kUsualClockShare = 0.6;
constexpr int64_t kGatherBytes = int64_t{256} << 20;

std::string MatmulText(const std::string& dtype) {
  bool is_short = dtype == "bf16" || dtype == "f16";
  return is_short
             ? fmt::format("matmul({0}[16384,4096], {0}[4096,14336])", dtype)
             : fmt::format("matmul({0}[4096,4096], {0}[4096,4096])", dtype);
}

absl::StatusOr<Work> WorkOfText(const std::string& text) {
  ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall(text));
  const KernelUse& use = call.use;
  return WorkOf(
      {use.def(), use.attrs(), use.global_operands(), use.global_results()},
      Mesh());
}

// The numbers that the loads tell, one after the other: each takes those before
// it.
class Fit {
 public:
  Fit(absl::Span<const MeasuredLoad> loads, int ranks)
      : loads_(loads), ranks_(ranks) {}

  absl::StatusOr<GpuPower> Run() {
    power_.idle_w = Find(MeasuredLoad::kPause)->power.watts;
    power_.most_mhz = Find(MeasuredLoad::kPause)->power.most_mhz;
    // Each number is part of the loads that tell others.
    constexpr int kRounds = 4;
    for (int i = 0; i < kRounds; ++i) {
      ASYRA_RETURN_IF_ERROR(FitBytes());
      ASYRA_RETURN_IF_ERROR(FitClock());
      ASYRA_RETURN_IF_ERROR(FitMatrix());
      ASYRA_RETURN_IF_ERROR(FitVector());
    }
    if (const MeasuredLoad* link = Find(MeasuredLoad::kLink)) {
      double sent = static_cast<double>(kGatherBytes) *
                    BusFactor(CollectiveKind::kAllGather, ranks_);
      power_.pj_link = UjOfCall(link->power) / sent * kPicojoules;
    }
    return power_;
  }

 private:
  const MeasuredLoad* Find(MeasuredLoad::Kind kind,
                           std::string_view dtype = "") const {
    for (const MeasuredLoad& load : loads_) {
      if (load.kind == kind && (dtype.empty() || load.dtype == dtype)) {
        return &load;
      }
    }
    return nullptr;
  }
  absl::StatusOr<Work> WorkOfLoad(MeasuredLoad::Kind kind) const {
    return WorkOfText(Find(kind)->load.text);
  }

  // Returns the energy of a call beyond what idling takes.
  double UjOfCall(const LoadPower& load) const {
    return std::max(0.0, load.watts - power_.idle_w) * load.us / load.busy;
  }
  double BytesUj(const Work& work) const {
    return (work.read_bytes + work.write_bytes) * power_.pj_hbm / kPicojoules;
  }
  // Returns what the energy of arithmetic is of that at the highest clock.
  double EnergyShare(double mhz) const {
    return std::pow(mhz / power_.most_mhz, power_.exponent);
  }

  absl::Status FitBytes() {
    ASYRA_ASSIGN_OR_RETURN(Work work, WorkOfLoad(MeasuredLoad::kBytes));
    const LoadPower& load = Find(MeasuredLoad::kBytes)->power;
    // 0 in the first round, before anything is known.
    double math_uj = power_.pj_vector > 0
                         ? work.flops * power_.pj_vector *
                               EnergyShare(load.mhz) / kPicojoules
                         : 0;
    power_.pj_hbm = std::max(0.0, UjOfCall(load) - math_uj) /
                    (work.read_bytes + work.write_bytes) * kPicojoules;
    return absl::OkStatus();
  }

  // From long matmuls, at the limit of power, and from the same with pauses.
  absl::Status FitClock() {
    const LoadPower &full = Find(MeasuredLoad::kMatmul, "bf16")->power,
                    &paused = Find(MeasuredLoad::kPausedMatmul)->power;
    power_.measured_mhz = full.mhz;
    power_.cap_w = full.limit_w;
    power_.clock_share = kUsualClockShare;
    ASYRA_ASSIGN_OR_RETURN(Work work, WorkOfLoad(MeasuredLoad::kPausedMatmul));
    double full_uj = UjOfCall(full) - BytesUj(work),
           paused_uj = UjOfCall(paused) - BytesUj(work);
    if (full_uj <= 0 || paused_uj <= 0) {
      return Invalid("a matmul takes {:.0f} W, as a pause does ({:.0f} W)",
                     full.watts, power_.idle_w);
    }
    if (full.mhz > (1 - kSameClock) * paused.mhz) return absl::OkStatus();
    power_.cap_w = full.watts;
    power_.exponent = std::clamp(
        std::log(full_uj / paused_uj) / std::log(full.mhz / paused.mhz), 0.0,
        4.0);
    power_.clock_share = std::clamp(
        (1 - paused.us / full.us) / (1 - full.mhz / paused.mhz), 0.0, 1.0);
    return absl::OkStatus();
  }

  absl::Status FitMatrix() {
    for (const MeasuredLoad& load : loads_) {
      if (load.kind != MeasuredLoad::kMatmul) continue;
      ASYRA_ASSIGN_OR_RETURN(Work work, WorkOfText(load.load.text));
      double uj = std::max(0.0, UjOfCall(load.power) - BytesUj(work));
      power_.pj_matrix[load.dtype] =
          uj / EnergyShare(load.power.mhz) / work.flops * kPicojoules;
    }
    return absl::OkStatus();
  }

  absl::Status FitVector() {
    const LoadPower& load = Find(MeasuredLoad::kAttention)->power;
    ASYRA_ASSIGN_OR_RETURN(Work work, WorkOfLoad(MeasuredLoad::kAttention));
    double uj = (UjOfCall(load) - BytesUj(work)) / EnergyShare(load.mhz) -
                work.flops * power_.pj_matrix["bf16"] / kPicojoules;
    power_.pj_vector = std::max(0.0, uj) / work.vector_flops * kPicojoules;
    return absl::OkStatus();
  }

  absl::Span<const MeasuredLoad> loads_;
  const int ranks_;
  GpuPower power_;
};

std::string NameOf(const MeasuredLoad& load) {
  switch (load.kind) {
    case MeasuredLoad::kPause:
      return "nothing";
    case MeasuredLoad::kMatmul:
      return "matmul of " + load.dtype;
    case MeasuredLoad::kPausedMatmul:
      return fmt::format("matmul of {}, {:.0f} % of the time", load.dtype,
                         100 * load.power.busy);
    case MeasuredLoad::kBytes:
      return "bytes of memory";
    case MeasuredLoad::kAttention:
      return "attention";
    case MeasuredLoad::kLink:
      return "bytes over links";
  }
  return "";
}

}  // namespace

std::vector<MeasuredLoad> PowerLoads(const Machine& machine, int ranks) {
  // First, while nothing has run: hot GPUs take more.
  std::vector<MeasuredLoad> loads = {{MeasuredLoad::kPause, "", {}}};
  for (const auto& [dtype, rate] : machine.gpu.matrix_tflops) {
    loads.push_back({MeasuredLoad::kMatmul, dtype, {MatmulText(dtype)}});
  }
  loads.push_back(
      {MeasuredLoad::kPausedMatmul, "bf16", {MatmulText("bf16"), kPausedBusy}});
  loads.push_back(
      {MeasuredLoad::kBytes, "", {"add(bf16[32768,8192], bf16[32768,8192])"}});
  loads.push_back({MeasuredLoad::kAttention,
                   "",
                   {"attention(bf16[2,8192,32,128], bf16[2,8192,32,128], "
                    "bf16[2,8192,32,128]) {causal=true, scale=0.0884}"}});
  if (ranks > 1) {
    bool copy_engines = machine.copy_engines > 0 && machine.p2p;
    CollectiveCall gather =
        CollectiveOf(CollectiveKind::kAllGather, DType::kBF16, kGatherBytes,
                     ranks, copy_engines ? kByCopyEngine : "");
    loads.push_back({MeasuredLoad::kLink, "", {gather.text}});
  }
  return loads;
}

absl::Status MeasureLoads(RankTimer& timer,
                          absl::FunctionRef<void(size_t)> tell,
                          std::vector<MeasuredLoad>* loads) {
  const bool first = timer.rank() == 0;
  for (size_t i = 0; i < loads->size(); ++i) {
    if (first) tell(i);
    absl::StatusOr<LoadPower> power = timer.PowerOf((*loads)[i].load);
    if (!power.ok()) return Annotate(power.status(), "--power");
    if (first) (*loads)[i].power = *power;
  }
  return absl::OkStatus();
}

absl::StatusOr<GpuPower> PowerOf(absl::Span<const MeasuredLoad> loads,
                                 int ranks) {
  return Fit(loads, ranks).Run();
}

std::string PowerText(absl::Span<const MeasuredLoad> loads,
                      const GpuPower& power) {
  std::string text = "       W   MHz  time of a call  what runs\n";
  for (const MeasuredLoad& load : loads) {
    text += fmt::format(
        "{:>8.0f} {:>5.0f} {:>14}  {}\n", load.power.watts, load.power.mhz,
        load.load.text.empty() ? "" : TimeText(load.power.us), NameOf(load));
  }
  text += fmt::format(
      "limit {:.0f} W, highest clock {:.0f} MHz; {:.2f} of the time of matmuls "
      "follows the clock, their energy its power of {:.2f}\npJ of a flop:",
      power.cap_w, power.most_mhz, power.clock_share, power.exponent);
  for (const auto& [dtype, pj] : power.pj_matrix) {
    text += fmt::format(" {} {:.3g},", dtype, pj);
  }
  return text +
         fmt::format(" other {:.3g}; of a byte: memory {:.3g}, link {:.3g}\n",
                     power.pj_vector, power.pj_hbm, power.pj_link);
}

}  // namespace asyra
