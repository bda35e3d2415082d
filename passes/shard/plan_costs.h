// Costs for the sharding planner: time of ops and of collectives. With a cost
// model every cost is the simulator's.
#pragma once

#include "ir/program.h"

namespace asyra {

class CostModel;

struct PlanCosts {
  // Model that estimates every cost, if given; must outlive this. The rates
  // below are for programs without a machine.
  const CostModel* model = nullptr;

  double latency_us = 10;            // of one collective
  double link_bytes_per_us = 300e3;  // out of one device
  double flops_per_us = 600e6;       // of matmuls
  double memory_bytes_per_us = 4e6;
  double kernel_us = 2;  // fixed cost of an op

  // `call` has distributed types of that mesh.
  double OpUs(const OpCall& call, const Mesh& mesh) const;
  // `payload_bytes` as in CostModel::CollectiveUs.
  double CollectiveUs(CollectiveKind kind, double payload_bytes,
                      const AxisList& axes, const Mesh& mesh) const;
  // Returns the time to copy so many bytes within a device.
  double CopyUs(double bytes) const;
};

}  // namespace asyra
