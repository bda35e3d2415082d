#include "simulator/cost/exchange_cost.h"

#include <algorithm>
#include <set>
#include <utility>

#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

// Bytes that places send and receive.
class SentAndReceived {
 public:
  void Add(int64_t from, int64_t to, double bytes) {
    sent_[from] += bytes;
    received_[to] += bytes;
  }
  double Most() const { return std::max(Most(sent_), Most(received_)); }

 private:
  static double Most(const std::map<int64_t, double>& bytes) {
    double most = 0;
    for (auto [place, its] : bytes) most = std::max(most, its);
    return most;
  }

  std::map<int64_t, double> sent_, received_;
};

}  // namespace

void ExchangeTraffic::Add(int from, int to, double bytes) {
  bytes_[{from, to}] += bytes;
}

int64_t ExchangeTraffic::Shift() const {
  std::set<int64_t> shifts;
  for (const auto& [ends, bytes] : bytes_) {
    shifts.insert((ends.second - ends.first + ranks_) % ranks_);
  }
  return shifts.size() == 1 ? *shifts.begin() : 0;
}

bool ExchangeTraffic::GoesToAll() const {
  std::vector<int> receivers(ranks_, 0);
  for (const auto& [ends, bytes] : bytes_) ++receivers[ends.first];
  return *std::max_element(receivers.begin(), receivers.end()) + 1 == ranks_;
}

double ExchangeTraffic::Busiest() const {
  return BusiestInside(std::vector<int64_t>(ranks_, 0));
}

double ExchangeTraffic::BusiestInside(absl::Span<const int64_t> host) const {
  SentAndReceived of_ranks;
  for (const auto& [ends, bytes] : bytes_) {
    auto [from, to] = ends;
    if (host[from] == host[to]) of_ranks.Add(from, to, bytes);
  }
  return of_ranks.Most();
}

double ExchangeTraffic::BusiestOfHosts(absl::Span<const int64_t> host) const {
  SentAndReceived of_hosts;
  for (const auto& [ends, bytes] : bytes_) {
    int64_t from = host[ends.first], to = host[ends.second];
    if (from != to) of_hosts.Add(from, to, bytes);
  }
  return of_hosts.Most();
}

OpCost CostModel::ExchangeCost(const ExchangeTraffic& traffic,
                               const AxisList& axes, int ctas) const {
  GroupSpan span = SpanOf(axes);
  int64_t shift = traffic.Shift();
  if (span.hosts == 1 || shift != 0 || traffic.GoesToAll()) {
    return MessagesCost(traffic.Busiest(), span, shift, ctas);
  }
  // Inside hosts and between them at the same time. Members of a host that send
  // to the same ones share its network.
  std::vector<int64_t> host = HostsOf(mesh_, axes, machine_.gpus_per_host);
  OpCost inside = MessagesCost(traffic.BusiestInside(host),
                               {span.per_host, 1, span.per_host}, 0, ctas);
  OpCost between = MessagesCost(
      traffic.BusiestOfHosts(host) / static_cast<double>(span.per_host),
      {span.hosts, span.hosts, 1}, 0, ctas);
  return inside.time_us > between.time_us ? inside : between;
}

OpCost CostModel::MessagesCost(double bytes, const GroupSpan& span,
                               int64_t shift, int ctas) const {
  if (bytes == 0) return {};
  auto ranks = static_cast<double>(span.ranks);
  // An all_to_all keeps a share of its payload.
  CollectiveKind kind = CollectiveKind::kShift;
  if (shift == 0 && span.ranks > 2) {
    kind = CollectiveKind::kAllToAll;
    bytes *= ranks / (ranks - 1);
  }
  OpCost cost =
      CollectiveCost(kind, bytes, span, {.ctas = ctas, .shift = shift});
  Correct(CollectiveKey(kind, bytes, span, /*copy_engine=*/false), &cost);
  return cost;
}

}  // namespace asyra
