// Collectives over several hosts as collectives inside each host and across
// hosts, which then are ops of the schedule.
//
//   mesh (dp=16), hosts of 8 devices
//   %y = all_reduce(%p) {axes=dp} : f32[4096]
// becomes
//   mesh (dp.hosts=2, dp=8)
//   %y.inside = reduce_scatter(%p) {dim=0, axes=dp} : f32[4096@dp] ...
//   %y.across = all_reduce(%y.inside) {axes=dp.hosts} : f32[4096@dp]
//   %y = all_gather(%y.across) {dim=0, axes=dp} : f32[4096]
//
// all_gathers go across first, while there is little to send, reduce_scatters
// inside first. The parts of a dimension that is sharded over (dp.hosts,dp) are
// [hosts, devices, part], and each collective is along its own of these:
//
//   %y.parts = reshape(%x) {shape=[2, 8, 512]} : f32[2@dp.hosts, 8@dp, 512]
//   %y.across = all_gather(%y.parts) {dim=0, axes=dp.hosts} : f32[2, 8@dp, 512]
//   %y.inside = all_gather(%y.across) {dim=1, axes=dp} : f32[2, 8, 512]
//   %y = reshape(%y.inside) {shape=[8192]} : f32[8192]
//
// Of n devices on H hosts, a ring sends (n - 1) / n of the payload out of each
// host, the collective across (H - 1) / H: about half on two hosts. In exchange
// the steps follow each other, where a library's collective is one pipeline.
// So one alone takes about as long or longer; of several at once those inside
// hide behind those across, which use other links.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Applies to an all_reduce, all_gather or reduce_scatter of one value that asks
// for nothing of its transport, between hosts with several of its devices each.
// Axes that lead out of a host are split (ir/split_axes.h), and the context's
// costs are then over the new mesh.
// Options:
//   host (int, default 0): devices of a host; 0: as the machine has
//   always (bool, default false): also where half of its time is latency, of
//       which each step has its own
// Error: no machine, and it is needed.
absl::StatusOr<bool> DecomposeOverHosts(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

}  // namespace asyra
