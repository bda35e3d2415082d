// The sharing of resources by concurrent ops.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "simulator/cost/op_cost.h"

namespace asyra {

// The part of a collective's slowdown next to matmuls that is not the wait for
// its first CTA slots: fitted to gathers with 4 to 16 CTAs next to matmuls with
// an SM margin, on two H200.
inline constexpr double kNotWaiting = 0.5;

// Slowdown of computation on a share of the SMs, in (0, 1]. `waves` are the
// tiles of a matmul over all SMs (OpCost::waves): they run in whole waves, so
// that 1.6 waves lose nothing on 0.8 of the SMs, and 2.0 become three. 0 waves:
// proportional.
double SlowdownOn(double share, double waves);

// The speed of each active op, in the order in which their kernels came,
// relative to running alone, in [0, 1]. A kernel gets the CTA slots that
// earlier ones leave, which may be none; a collective finds none while
// persistent kernels fill the GPU (OpCost::persistent). Other resources are
// shared max-min fair: all speeds rise together until a resource is full; the
// ops that use it keep that speed and the others rise further. Collectives hold
// their SMs: computation has the remaining ones. A collective next to
// computation keeps at most the share `beside_compute` of its speed, more where
// the computation leaves SMs free.
struct ActiveOp {
  const OpCost* cost;
  // True if it has a kernel at this time, false in the part of a collective
  // without one.
  bool has_kernel = true;
};
void ShareResources(absl::Span<const ActiveOp> active,
                    std::vector<double>* speeds);

// ShareResources for ops of one program, with results kept: in a search over
// orders, the same few kinds of ops run together again and again.
class SharedSpeeds {
 public:
  // By op. The costs must outlive this.
  explicit SharedSpeeds(absl::Span<const OpCost> op_costs);

  // Ops by number, as in ActiveOp.
  struct Active {
    int op;
    bool has_kernel;
  };
  void Find(absl::Span<const Active> active, std::vector<double>* speeds);

 private:
  // So many fit into a key.
  static constexpr size_t kMost = 4;

  // 0: not to be kept.
  uint64_t KeyOf(absl::Span<const Active> active) const;
  void Compute(absl::Span<const Active> active, std::vector<double>* speeds);

  absl::Span<const OpCost> op_costs_;
  // The kind of each op: equal for ops that use the same share of each
  // resource.
  std::vector<int> kind_;
  absl::flat_hash_map<uint64_t, std::array<double, kMost>> kept_;
  std::vector<ActiveOp> active_;
};

}  // namespace asyra
