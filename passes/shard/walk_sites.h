// Attention and its gradients whose keys can walk (walk_keys.h).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace asyra {

// Keys or values that are gathered before attention reads them.
struct GatheredKeys {
  ValueId shard = kNoValue;  // what is gathered along dimension 1
  AxisList axes;
  int64_t pairs = 0;  // the order of `shard` is that of stripes; 0: natural

  friend bool operator==(const GatheredKeys& a, const GatheredKeys& b) {
    return a.axes == b.axes && a.pairs == b.pairs;
  }
};

class WalkSites {
 public:
  explicit WalkSites(const Program& program);

  // Returns whether the op is attention, or its gradients, to which it applies.
  bool Has(int op) const { return sites_[op]; }
  // Returns the gathered keys of such an op, or its values.
  const GatheredKeys& KeysOf(int op, bool values) const;

  // A reduce_scatter that sums the gradients of gathered keys or values.
  struct Sum {
    GatheredKeys keys;  // `shard` is unset
    // Results of attention_grad, whose sum it is.
    std::vector<ValueId> gradients;
  };
  // By the op that reduces them.
  const std::map<int, Sum>& sums() const { return sums_; }
  // Returns the reduction of sums() that alone reads what the op adds up, or
  // -1.
  int ReductionBehind(int op) const { return reduction_behind_[op]; }

  // The axes of all sites, each list once.
  std::vector<AxisList> AxesOfSites() const;

 private:
  std::optional<GatheredKeys> Gathered(ValueId value) const;
  bool IsSite(const Op& op) const;
  ValueId Summed(const Op& reduction, GatheredKeys* keys,
                 std::vector<int>* ops) const;
  std::optional<std::pair<Sum, std::vector<int>>> SumOf(
      const Op& reduction) const;
  bool DropPartlySummed();
  bool AddGradients(ValueId value, std::vector<ValueId>* gradients,
                    std::vector<int>* ops) const;
  void FindSums();

  const Program& program_;
  std::vector<int> definition_;  // of each value: the op, or -1
  std::vector<int> uses_;        // of each value
  std::vector<bool> sites_;
  std::vector<int> reduction_behind_;  // by op
  std::map<ValueId, GatheredKeys> keys_;
  std::map<int, Sum> sums_;
};

}  // namespace asyra
