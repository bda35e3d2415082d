// Time of a collective alone: algorithms and protocols with their latency,
// bandwidth and the SMs they hold. Equations: simulator/README.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/gpu/copy_engine_reach.h"
#include "ir/op_def.h"
#include "simulator/machine/machine.h"

namespace asyra {

// Fixed costs of a collective on copy engines: a device barrier, where each
// rank raises a flag of each peer, and going from the copy to one peer to the
// next. Fitted, with the rate of h200x*.machine, to 95 gathers and exchanges in
// graphs on two, four and eight H200; flags that are raised together, on two.
inline constexpr double kCopyMeetingUs = 1, kCopyFlagUs = 2.75;
inline constexpr double kCopyMoreFlagUs = 0.85;  // each but the first
inline constexpr double kCopyIssueUs = 6;
// From a flag that is raised until a stream of the other rank has seen it.
inline constexpr double kCopySignalUs = 4.25;
// A stream's wait between two kernels for flags that are raised already.
inline constexpr double kCopyAwaitUs = 4;
// Both: from a post until it is seen.
inline constexpr double kCopyPostUs = kCopyFlagUs + kCopySignalUs;

// The location of a group: `ranks` devices on `hosts` hosts, at least
// `per_host` of them on each.
struct GroupSpan {
  int64_t ranks = 1;
  int64_t hosts = 1;
  int64_t per_host = 1;
};

// The widest-spread group over `axes`. Devices are numbered with the last
// mesh axis fastest; gpus_per_host consecutive ones share a host.
GroupSpan SpanOf(const Mesh& mesh, const AxisList& axes, int gpus_per_host);

// Returns the hosts of the members, in their order, of the first group over
// `axes` that is on the most hosts.
std::vector<int64_t> HostsOf(const Mesh& mesh, const AxisList& axes,
                             int gpus_per_host);

// Bytes on the busiest link over bytes of payload, as nccl-tests counts them; a
// shift sends its payload.
double BusFactor(CollectiveKind kind, int64_t ranks);

enum class Algorithm : uint8_t {
  kNone,
  kRing,
  kTree,        // all_reduce alone
  kDirect,      // all_to_all and shift: sends to each peer
  kCopyEngine,  // chunks are written to peers and reduced there
};
std::string_view ToString(Algorithm algorithm);

// Returns how devices of such groups reach each other, as the machine is
// described.
GroupReach ReachOf(const Machine& machine, const GroupSpan& span);
// Returns whether copy engines connect them (ir/gpu/copy_engine_reach.h).
bool CopyEnginesReach(const Machine& machine, const GroupSpan& span);
// Returns whether copy engines would carry `call`, which has distributed types,
// if it asks for them: CopyEnginesCanCarry, and they connect its group.
bool CanUseCopyEngine(const Machine& machine, const OpCall& call,
                      const Mesh& mesh);

struct CollectiveForm {
  bool copy_engine = false;  // where they reach
  int ctas = 0;              // 0: as many as the library takes
  int64_t shift = 0;         // places, of CollectiveKind::kShift
};

struct CollectiveEstimate {
  double time_us = 0;
  double alpha_us = 0;  // the latency part of it
  Algorithm algorithm = Algorithm::kNone;
  int protocol = -1;  // of machine.protocols
  int ctas = 0;
  // The fraction of the time after which its kernel needs CTA slots: 0, at
  // once; 1, it needs none.
  double kernel_start_fraction = 0;
  // The share of the time from there on in which copy engines' reductions run
  // their kernel: an all_reduce copies its sums behind it.
  double kernel_share = 1;
};

// Latency of an algorithm's steps under a protocol: a base, and its hops
// inside and between hosts.
double LatencyUs(CollectiveKind kind, Algorithm algorithm,
                 const Protocol& protocol, const GroupSpan& span,
                 double network_alpha_us);

// The same of copy engines, inside a host, without the kernel of a reduction.
double CopyLatencyUs(CollectiveKind kind, int64_t ranks);

// The fastest of the algorithms and protocols, or copy engines. `payload_bytes`
// is the size of nccl-tests: the whole buffer of an all_gather (result) or
// reduce_scatter (operand), the buffer of an all_reduce, the bytes that one
// rank sends in an all_to_all or shift. `busy_gpus` of a host communicate at
// once.
CollectiveEstimate EstimateCollective(const Machine& machine,
                                      CollectiveKind kind, double payload_bytes,
                                      const GroupSpan& span, int64_t busy_gpus,
                                      const CollectiveForm& form);

}  // namespace asyra
