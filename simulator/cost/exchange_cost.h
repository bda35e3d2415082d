// Bytes that the ranks of a group send each other in one exchange of messages
// (ir/plans/plan_exchanges.h), as its cost is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace asyra {

class ExchangeTraffic {
 public:
  explicit ExchangeTraffic(int ranks) : ranks_(ranks) {}

  void Add(int from, int to, double bytes);

  // Returns the places from each sender to its receiver, modulo the ranks, if
  // they are the same for all; else 0.
  int64_t Shift() const;
  // Returns whether some rank sends to all others.
  bool GoesToAll() const;

  // The most bytes that a rank sends or receives; inside its host, where `host`
  // has that of each rank.
  double Busiest() const;
  double BusiestInside(absl::Span<const int64_t> host) const;
  // The most bytes that enter or leave a host.
  double BusiestOfHosts(absl::Span<const int64_t> host) const;

 private:
  int ranks_;
  std::map<std::pair<int, int>, double> bytes_;  // by sender and receiver
};

}  // namespace asyra
