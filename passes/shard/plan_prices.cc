#include "passes/shard/plan_prices.h"

#include <algorithm>

#include "simulator/cost_model.h"

namespace asyra {

double PlanPrices::OpUs(const OpCall& call, const Mesh& mesh) const {
  if (costs != nullptr) return costs->Cost(call).time_us;
  if (call.def.is_view) return 0;
  Work work = WorkOf(call, mesh);
  // Vector units are slower.
  double flops_us =
      work.flops / (work.matrix ? flops_per_us : flops_per_us / 16);
  double bytes = work.read_bytes + work.write_bytes;
  return kernel_us + std::max(flops_us, bytes / memory_bytes_per_us);
}

double PlanPrices::CollectiveUs(CollectiveKind kind, double payload_bytes,
                                const AxisList& axes, const Mesh& mesh) const {
  if (costs != nullptr) return costs->CollectiveUs(kind, payload_bytes, axes);
  auto n = static_cast<double>(mesh.size(axes));
  double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  return latency_us + rounds * payload_bytes * (n - 1) / n / link_bytes_per_us;
}

double PlanPrices::CopyUs(double bytes) const {
  if (costs == nullptr) return kernel_us + 2 * bytes / memory_bytes_per_us;
  const Gpu& gpu = costs->machine().gpu;
  return gpu.kernel_us + 2 * bytes / (gpu.hbm_gbps.achievable * 1e3);
}

}  // namespace asyra
