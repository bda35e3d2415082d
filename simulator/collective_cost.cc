// Alpha-beta prices of collectives, inside a host and between hosts.
#include <algorithm>
#include <cmath>

#include "ir/support/check.h"
#include "simulator/cost_model.h"

namespace asyra {
namespace {

// The bandwidth and latency that crossing hosts leaves a collective.
struct Crossing {
  double busbw_gbps = INFINITY;
  double alpha_us = 0;
};

Crossing CrossingOf(CollectiveKind kind, const GroupSpan& span,
                    const Machine& machine) {
  if (span.hosts == 1) return {};
  auto ranks = static_cast<double>(span.ranks);
  auto per_host = static_cast<double>(span.per_host);
  double rounds = std::log2(static_cast<double>(span.hosts));
  Crossing crossing;
  if (kind == CollectiveKind::kAllToAll) {
    // Each rank sends (n - g) / n of its buffer over its own share of the
    // network; busbw counts (n - 1) / n.
    crossing.busbw_gbps =
        machine.network_gbps.achievable * (ranks - 1) / (ranks - per_host);
  } else {
    // One ring per member on a host, each leaving through its own share.
    crossing.busbw_gbps = machine.network_gbps.achievable * per_host;
  }
  if (kind == CollectiveKind::kAllReduce) rounds *= 2;
  crossing.alpha_us = machine.network_alpha_us * rounds;
  return crossing;
}

struct Price {
  double time_us = 0;
  double alpha_us = 0;  // part of it that moves no bytes
};

Price PriceOf(const CollectiveFit& fit, double bus_bytes,
              const Crossing& crossing) {
  Price best = {INFINITY, 0};
  for (const Protocol& protocol : fit.protocols) {
    double alpha = protocol.alpha_us + crossing.alpha_us;
    double busbw = std::min(protocol.busbw_gbps, crossing.busbw_gbps);
    double time = alpha + bus_bytes / (busbw * 1e3);
    if (time < best.time_us) best = {time, alpha};
  }
  return best;
}

// Between the fitted group sizes, linear in the logarithm of the size; the
// outermost fits beyond them.
Price Interpolate(const std::vector<CollectiveFit>& fits, int64_t ranks,
                  double bus_bytes, const Crossing& crossing) {
  auto above = std::find_if(fits.begin(), fits.end(), [&](const auto& fit) {
    return fit.ranks >= ranks;
  });
  if (above == fits.end()) return PriceOf(fits.back(), bus_bytes, crossing);
  Price high = PriceOf(*above, bus_bytes, crossing);
  if (above == fits.begin() || above->ranks == ranks) return high;
  Price low = PriceOf(above[-1], bus_bytes, crossing);
  double at = std::log2(static_cast<double>(ranks) / above[-1].ranks) /
              std::log2(static_cast<double>(above->ranks) / above[-1].ranks);
  return {std::lerp(low.time_us, high.time_us, at),
          std::lerp(low.alpha_us, high.alpha_us, at)};
}

OpCost::Source SourceOf(const CollectiveParams& params, const GroupSpan& span,
                        double payload_bytes) {
  if (span.hosts > 1 || params.measured_to_bytes == 0) return OpCost::kFormula;
  bool inside = payload_bytes >= params.measured_from_bytes &&
                payload_bytes <= params.measured_to_bytes &&
                span.ranks <= params.fits.back().ranks;
  return inside ? OpCost::kInterpolated : OpCost::kExtrapolated;
}

}  // namespace

double BusFactor(CollectiveKind kind, int64_t ranks) {
  auto n = static_cast<double>(ranks);
  double factor = (n - 1) / n;
  return kind == CollectiveKind::kAllReduce ? 2 * factor : factor;
}

GroupSpan CostModel::SpanOf(const AxisList& axes) const {
  GroupSpan worst;
  worst.ranks = worst.per_host = mesh_.size(axes);
  if (mesh_.num_devices() <= machine_.gpus_per_host) return worst;
  std::vector<bool> seen(mesh_.num_devices());
  for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
    if (seen[device]) continue;
    std::vector<int64_t> group = mesh_.Group(device, axes);
    for (int64_t& member : group) {
      seen[member] = true;
      member /= machine_.gpus_per_host;
    }
    std::sort(group.begin(), group.end());
    for (auto first = group.begin(); first != group.end();) {
      auto last = std::upper_bound(first, group.end(), *first);
      worst.per_host = std::min<int64_t>(worst.per_host, last - first);
      first = last;
    }
    worst.hosts = std::max<int64_t>(
        worst.hosts, std::unique(group.begin(), group.end()) - group.begin());
  }
  return worst;
}

OpCost CostModel::CollectiveCost(CollectiveKind kind, double payload_bytes,
                                 const AxisList& axes) const {
  auto params = machine_.collectives.find(kind);
  ASYRA_CHECK(params != machine_.collectives.end());
  GroupSpan span = SpanOf(axes);
  if (span.ranks == 1) return {};
  double bus_bytes = payload_bytes * BusFactor(kind, span.ranks);
  Price price = Interpolate(params->second.fits, span.ranks, bus_bytes,
                            CrossingOf(kind, span, machine_));
  OpCost cost;
  cost.time_us = price.time_us;
  cost.launch_us = machine_.launch_us;
  cost.sms = params->second.sms;
  cost.beside_compute = params->second.beside_compute;
  cost.source = SourceOf(params->second, span, payload_bytes);
  double moving = 1 - price.alpha_us / price.time_us;
  cost.limit = moving < 0.5     ? OpCost::kLatency
               : span.hosts > 1 ? OpCost::kNetworkBytes
                                : OpCost::kLinkBytes;
  cost.load[kSms] =
      std::min(1.0, static_cast<double>(cost.sms) / machine_.gpu.sms);
  // The payload is read and written at least once.
  cost.load[kHbm] = std::min(
      1.0, 2 * payload_bytes /
               (machine_.gpu.hbm_gbps.achievable * 1e3 * price.time_us));
  cost.load[span.hosts > 1 ? kNetwork : kLink] = moving;
  return cost;
}

double CostModel::CollectiveUs(CollectiveKind kind, double payload_bytes,
                               const AxisList& axes) const {
  return CollectiveCost(kind, payload_bytes, axes).time_us;
}

}  // namespace asyra
