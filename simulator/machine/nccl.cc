#include "simulator/machine/nccl.h"

#include <algorithm>
#include <cmath>

namespace asyra {
namespace {

constexpr double kKiB = 1024;

Protocol LowLatency(LinkKind link, double ll_gbps) {
  double hop = link == LinkKind::kNvlink ? 0.6 : 1.0;
  return {.name = "LL",
          .ring_base_us = 6.6,
          .ring_hop_us = hop,
          .ring_network_hop_us = 2.7,
          .tree_base_us = 6.8,
          .tree_hop_us = hop,
          .tree_network_hop_us = 5.0,
          .fraction = 0.5,  // every second word is a flag
          .cap_gbps = ll_gbps};
}

Protocol LowLatency128() {
  return {.name = "LL128",
          .ring_base_us = 14.0,
          .ring_hop_us = 1.9,
          .ring_network_hop_us = 4.0,
          .tree_base_us = 14.0,
          .tree_hop_us = 1.25,
          .tree_network_hop_us = 8.5,
          .fraction = 0.92};
}

Protocol Simple(LinkKind link) {
  bool nvlink = link == LinkKind::kNvlink;
  return {.name = "Simple",
          .ring_base_us = 8.4,
          .ring_hop_us = nvlink ? 3.4 : 5.7,
          .ring_network_hop_us = 14.0,
          .tree_base_us = 8.4,
          .tree_hop_us = 4.0,
          .tree_network_hop_us = 14.0};
}

}  // namespace

std::vector<Protocol> NcclProtocols(LinkKind link, double ll_gbps) {
  // LL128 needs stores of 128 bytes that stay whole, which PCIe does not
  // promise.
  if (link == LinkKind::kPcie) return {LowLatency(link, ll_gbps), Simple(link)};
  return {LowLatency(link, ll_gbps), LowLatency128(), Simple(link)};
}

// 0.92, and a dip to half of it between 128 KiB and 1 MiB with slopes of three
// doublings on either side.
double TreeFraction(double payload_bytes) {
  double doublings = std::log2(std::max(payload_bytes, 1.0) / (128 * kKiB));
  double away = std::max({0.0, -doublings, doublings - 3});
  return 0.92 * std::lerp(0.5, 1.0, std::min(1.0, away / 3));
}

}  // namespace asyra
