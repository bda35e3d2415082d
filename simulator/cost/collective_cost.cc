#include "simulator/cost/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "simulator/machine/nccl.h"

namespace asyra {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Bus bandwidth of a group over the links inside a host.
double LinkGbps(const Machine& machine, int64_t busy_gpus) {
  if (machine.p2p) return machine.link_gbps.achievable;
  // All bytes are written to host memory and read from it.
  return std::min(machine.link_gbps.achievable,
                  machine.host_memory_gbps.achievable /
                      (2 * static_cast<double>(busy_gpus)));
}

// The same for the network, unlimited inside a host.
double NetworkGbps(CollectiveKind kind, const GroupSpan& span, int64_t shift,
                   const Machine& machine) {
  if (span.hosts == 1) return kUnlimited;
  auto ranks = static_cast<double>(span.ranks);
  auto per_host = static_cast<double>(span.per_host);
  double share = machine.network_share_gbps();
  // Each rank sends (n - g) / n of its buffer over its own share of the
  // network; busbw counts (n - 1) / n.
  if (kind == CollectiveKind::kAllToAll) {
    return share * (ranks - 1) / (ranks - per_host);
  }
  // So many members of a host send to another, over the shares of all, each
  // over one adapter at most.
  if (kind == CollectiveKind::kShift) {
    int64_t away = std::min({shift, span.ranks - shift, span.per_host});
    return std::min(
        machine.network_gbps.achievable,
        share * per_host / static_cast<double>(std::max<int64_t>(away, 1)));
  }
  // One ring per member on a host, each leaving through its own share.
  return share * per_host;
}

struct AlgorithmSpeed {
  Algorithm algorithm;
  double fraction;  // of the bandwidth
};

std::vector<AlgorithmSpeed> AlgorithmsOf(CollectiveKind kind,
                                         double payload_bytes) {
  if (kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kShift) {
    return {{Algorithm::kDirect, 1}};
  }
  if (kind != CollectiveKind::kAllReduce) return {{Algorithm::kRing, 1}};
  return {{Algorithm::kRing, 1},
          {Algorithm::kTree, TreeFraction(payload_bytes)}};
}

// Chunks go to every peer; in a reduction each member adds those that it gets,
// and all_reduce sends the result to every peer.
CollectiveEstimate EstimateCopyEngine(const Machine& machine,
                                      CollectiveKind kind, double payload_bytes,
                                      const GroupSpan& span) {
  auto n = static_cast<double>(span.ranks);
  bool twice = kind == CollectiveKind::kAllReduce;
  bool reduces = Reduces(kind);
  CollectiveEstimate estimate;
  estimate.algorithm = Algorithm::kCopyEngine;
  estimate.alpha_us = CopyLatencyUs(kind, span.ranks);
  if (reduces) estimate.alpha_us += machine.gpu.kernel_us;
  estimate.time_us =
      estimate.alpha_us + payload_bytes * BusFactor(kind, span.ranks) /
                              (machine.copy_gbps.achievable * 1e3);
  // Without a reduction there is no kernel: the self-copy comes after
  // everything else and delays nothing.
  if (!reduces) {
    estimate.kernel_start_fraction = 1;
    return estimate;
  }
  double moving_us = estimate.time_us;
  // A chunk of each member is read, one is written.
  double sum_us =
      payload_bytes * (n + 1) / n / (machine.gpu.hbm_gbps.achievable * 1e3);
  estimate.time_us += sum_us;
  estimate.kernel_start_fraction =
      moving_us / (twice ? 2 : 1) / estimate.time_us;
  estimate.kernel_share =
      sum_us / (estimate.time_us - moving_us / (twice ? 2 : 1));
  return estimate;
}

}  // namespace

GroupReach ReachOf(const Machine& machine, const GroupSpan& span) {
  return {.engines = machine.copy_engines > 0,
          .one_host = span.hosts == 1,
          .peer_access = machine.p2p,
          .one_process = !machine.ranks_are_processes,
          .process_copies = machine.process_copies};
}

bool CopyEnginesReach(const Machine& machine, const GroupSpan& span) {
  return ReachObstacle(ReachOf(machine, span)).empty();
}

bool CanUseCopyEngine(const Machine& machine, const OpCall& call,
                      const Mesh& mesh) {
  GroupSpan span =
      SpanOf(mesh, call.attrs.Get<AxisList>("axes"), machine.gpus_per_host);
  return CopyEngineObstacle(call, mesh, ReachOf(machine, span)).empty();
}

std::string_view ToString(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"none", "ring", "tree", "direct",
                                         "copy engine"};
  return kNames[static_cast<int>(algorithm)];
}

double CopyLatencyUs(CollectiveKind kind, int64_t ranks) {
  bool twice = kind == CollectiveKind::kAllReduce;
  auto peers =
      kind == CollectiveKind::kShift ? 1 : static_cast<double>(ranks - 1);
  double flags = kCopyFlagUs + kCopyMoreFlagUs * (peers - 1);
  return (kCopyMeetingUs + flags) * (twice ? 3 : 2) +
         kCopyIssueUs * peers * (twice ? 2 : 1);
}

double BusFactor(CollectiveKind kind, int64_t ranks) {
  auto n = static_cast<double>(ranks);
  if (kind == CollectiveKind::kShift) return 1;
  double factor = (n - 1) / n;
  return kind == CollectiveKind::kAllReduce ? 2 * factor : factor;
}

namespace {

// Calls visit(hosts) with the hosts of the members of each group over `axes`.
template <typename Visit>
void ForEachGroup(const Mesh& mesh, const AxisList& axes, int gpus_per_host,
                  Visit visit) {
  std::vector<bool> seen(mesh.num_devices());
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    if (seen[device]) continue;
    std::vector<int64_t> hosts = mesh.Group(device, axes);
    for (int64_t& member : hosts) {
      seen[member] = true;
      member /= gpus_per_host;
    }
    visit(std::move(hosts));
  }
}

}  // namespace

GroupSpan SpanOf(const Mesh& mesh, const AxisList& axes, int gpus_per_host) {
  GroupSpan worst;
  worst.ranks = worst.per_host = mesh.size(axes);
  if (mesh.num_devices() <= gpus_per_host) return worst;
  ForEachGroup(mesh, axes, gpus_per_host, [&](std::vector<int64_t> hosts) {
    std::sort(hosts.begin(), hosts.end());
    for (auto first = hosts.begin(); first != hosts.end();) {
      auto last = std::upper_bound(first, hosts.end(), *first);
      worst.per_host = std::min<int64_t>(worst.per_host, last - first);
      first = last;
    }
    worst.hosts = std::max<int64_t>(
        worst.hosts, std::unique(hosts.begin(), hosts.end()) - hosts.begin());
  });
  return worst;
}

std::vector<int64_t> HostsOf(const Mesh& mesh, const AxisList& axes,
                             int gpus_per_host) {
  std::vector<int64_t> widest;
  size_t most = 0;
  ForEachGroup(mesh, axes, gpus_per_host, [&](std::vector<int64_t> hosts) {
    size_t different = std::set<int64_t>(hosts.begin(), hosts.end()).size();
    if (different <= most) return;
    most = different;
    widest = std::move(hosts);
  });
  return widest;
}

double LatencyUs(CollectiveKind kind, Algorithm algorithm,
                 const Protocol& protocol, const GroupSpan& span,
                 double network_alpha_us) {
  auto n = static_cast<double>(span.ranks), hosts = double(span.hosts);
  if (algorithm == Algorithm::kTree) {
    // Up and down a tree over the hosts, along a chain inside each.
    return protocol.tree_base_us +
           2 * ((n / hosts - 1) * protocol.tree_hop_us +
                std::log2(hosts) *
                    (protocol.tree_network_hop_us + network_alpha_us));
  }
  if (kind == CollectiveKind::kShift) {
    return protocol.ring_base_us +
           (hosts > 1 ? protocol.ring_network_hop_us + network_alpha_us
                      : protocol.ring_hop_us);
  }
  double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  double between = rounds * (hosts - 1);
  return protocol.ring_base_us +
         (rounds * (n - 1) - between) * protocol.ring_hop_us +
         between * (protocol.ring_network_hop_us + network_alpha_us);
}

CollectiveEstimate EstimateCollective(const Machine& machine,
                                      CollectiveKind kind, double payload_bytes,
                                      const GroupSpan& span, int64_t busy_gpus,
                                      const CollectiveForm& form) {
  if (form.copy_engine && CopyEnginesReach(machine, span)) {
    return EstimateCopyEngine(machine, kind, payload_bytes, span);
  }
  int ctas = form.ctas > 0 ? form.ctas : machine.collectives.at(kind).ctas;
  double bus_bytes = payload_bytes * BusFactor(kind, span.ranks);
  double inside =
      std::min(LinkGbps(machine, busy_gpus), ctas * machine.cta_gbps);
  double network = NetworkGbps(kind, span, form.shift, machine);
  CollectiveEstimate best;
  best.time_us = kUnlimited;
  for (const AlgorithmSpeed& choice : AlgorithmsOf(kind, payload_bytes)) {
    // Between two hosts a tree sends the payload once in each direction, where
    // a ring sends what busbw counts.
    bool once = choice.algorithm == Algorithm::kTree && span.hosts == 2;
    double gbps = std::min(
        inside, once ? network * BusFactor(kind, span.ranks) : network);
    for (size_t i = 0; i < machine.protocols.size(); ++i) {
      const Protocol& protocol = machine.protocols[i];
      double busbw = gbps * protocol.fraction * choice.fraction;
      if (protocol.cap_gbps > 0) busbw = std::min(busbw, protocol.cap_gbps);
      double alpha =
          machine.gpu.kernel_us + LatencyUs(kind, choice.algorithm, protocol,
                                            span, machine.network_alpha_us);
      double time = alpha + bus_bytes / (busbw * 1e3);
      if (time < best.time_us) {
        best = {time, alpha, choice.algorithm, static_cast<int>(i), ctas};
      }
    }
  }
  return best;
}

}  // namespace asyra
