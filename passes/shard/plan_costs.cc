#include "passes/shard/plan_costs.h"

#include <algorithm>

#include "simulator/cost/cost_model.h"

namespace asyra {

double PlanCosts::OpUs(const OpCall& call, const Mesh& mesh) const {
  if (model != nullptr) return model->Cost(call).time_us;
  if (call.def.is_view) return 0;
  Work work = WorkOf(call, mesh);
  // Vector units are slower.
  double flops_us =
      work.flops / (work.matrix ? flops_per_us : flops_per_us / 16);
  double bytes = work.read_bytes + work.write_bytes;
  return kernel_us + std::max(flops_us, bytes / memory_bytes_per_us);
}

double PlanCosts::CollectiveUs(CollectiveKind kind, double payload_bytes,
                               const AxisList& axes, const Mesh& mesh) const {
  if (model != nullptr) return model->CollectiveUs(kind, payload_bytes, axes);
  auto n = static_cast<double>(mesh.size(axes));
  double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  return latency_us + rounds * payload_bytes * (n - 1) / n / link_bytes_per_us;
}

double PlanCosts::CopyUs(double bytes) const {
  if (model == nullptr) return kernel_us + 2 * bytes / memory_bytes_per_us;
  const Gpu& gpu = model->machine().gpu;
  return gpu.kernel_us + 2 * bytes / (gpu.hbm_gbps.achievable * 1e3);
}

}  // namespace asyra
