#include "simulator/arena.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace asyra {
namespace {

// Finds values by when they live: time is cut at evenly spaced beginnings of
// lifetimes, and each piece lists the values alive in it.
class Timeline {
 public:
  explicit Timeline(absl::Span<const Lifetime> lifetimes) {
    std::vector<double> begins;
    for (const Lifetime& life : lifetimes) begins.push_back(life.from);
    std::sort(begins.begin(), begins.end());
    size_t step = std::max<size_t>(1, begins.size() / kPieces);
    for (size_t i = 0; i < begins.size(); i += step) {
      cuts_.push_back(begins[i]);
    }
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    pieces_.resize(cuts_.size() + 1);
  }

  void Add(int index, const Lifetime& life) {
    for (size_t p = PieceOf(life.from); p <= PieceOf(life.until); ++p) {
      pieces_[p].push_back(index);
    }
  }

  // May name a value more than once.
  template <typename Visit>
  void ForEachNear(const Lifetime& life, Visit visit) const {
    for (size_t p = PieceOf(life.from); p <= PieceOf(life.until); ++p) {
      for (int index : pieces_[p]) visit(index);
    }
  }

 private:
  static constexpr size_t kPieces = 256;

  size_t PieceOf(double time) const {
    return std::upper_bound(cuts_.begin(), cuts_.end(), time) - cuts_.begin();
  }

  std::vector<double> cuts_;
  std::vector<std::vector<int>> pieces_;
};

bool Overlap(const Lifetime& a, const Lifetime& b) {
  return a.from < b.until && b.from < a.until;
}

int64_t Rounded(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class Placement {
 public:
  // Keeps the places of `begun`, and what is below its end free of others.
  Placement(absl::Span<const Lifetime> lifetimes, int64_t alignment,
            ArenaPlan begun)
      : lifetimes_(lifetimes),
        alignment_(alignment),
        timeline_(lifetimes),
        lowest_(begun.bytes),
        plan_(std::move(begun)),
        seen_(lifetimes.size(), -1) {}

  ArenaPlan Run(absl::Span<const int> order) {
    for (int index : order) Place(index);
    return std::move(plan_);
  }

 private:
  struct Taken {
    int64_t from, until;
    friend bool operator<(const Taken& a, const Taken& b) {
      return a.from < b.from;
    }
  };

  void Place(int index) {
    const Lifetime& life = lifetimes_[index];
    int64_t bytes = Rounded(life.bytes, alignment_);
    if (bytes == 0) return;
    taken_.clear();
    timeline_.ForEachNear(life, [&](int other) {
      if (seen_[other] == index || !Overlap(life, lifetimes_[other])) return;
      seen_[other] = index;
      taken_.push_back({plan_.offsets[other],
                        plan_.offsets[other] +
                            Rounded(lifetimes_[other].bytes, alignment_)});
    });
    std::sort(taken_.begin(), taken_.end());
    int64_t offset = lowest_;
    for (const Taken& taken : taken_) {
      if (taken.from - offset >= bytes) break;
      offset = std::max(offset, taken.until);
    }
    plan_.offsets[index] = offset;
    plan_.bytes = std::max(plan_.bytes, offset + bytes);
    timeline_.Add(index, life);
  }

  absl::Span<const Lifetime> lifetimes_;
  int64_t alignment_;
  Timeline timeline_;
  int64_t lowest_;
  ArenaPlan plan_;
  std::vector<int> seen_;  // by value: the last one it was in the way of
  std::vector<Taken> taken_;
};

using Key = std::function<double(const Lifetime&)>;

// The end of time, which many values live to, is no length.
double LengthOf(const Lifetime& life, double horizon) {
  return std::min(life.until, horizon) - life.from;
}

// Places what lives throughout side by side; any plan holds all of it all the
// time, so that nothing is lost by placing it first. The others go to `rest`.
ArenaPlan PlaceResidents(absl::Span<const Lifetime> lifetimes,
                         int64_t alignment, std::vector<int>* rest) {
  Lifetime all;
  for (const Lifetime& life : lifetimes) {
    all.from = std::min(all.from, life.from);
    all.until = std::max(all.until, life.until);
  }
  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& life = lifetimes[i];
    if (life.bytes == 0) continue;
    if (life.from > all.from || life.until < all.until) {
      rest->push_back(static_cast<int>(i));
      continue;
    }
    plan.offsets[i] = plan.bytes;
    plan.bytes += Rounded(life.bytes, alignment);
  }
  return plan;
}

}  // namespace

ArenaPlan PlanArena(absl::Span<const Lifetime> lifetimes, int64_t alignment) {
  double horizon = 0;
  for (const Lifetime& life : lifetimes) {
    horizon = std::max(horizon, life.from);
    if (std::isfinite(life.until)) horizon = std::max(horizon, life.until);
  }
  const Key kOrders[] = {
      [](const Lifetime& life) { return -static_cast<double>(life.bytes); },
      [&](const Lifetime& life) { return -LengthOf(life, horizon); },
      [&](const Lifetime& life) {
        return -static_cast<double>(life.bytes) * LengthOf(life, horizon);
      },
      [](const Lifetime& life) { return life.from; }};
  std::vector<int> rest;
  const ArenaPlan residents = PlaceResidents(lifetimes, alignment, &rest);
  ArenaPlan best;
  best.bytes = -1;
  std::vector<double> keys(lifetimes.size());
  for (const Key& key : kOrders) {
    std::transform(lifetimes.begin(), lifetimes.end(), keys.begin(), key);
    std::vector<int> order = rest;
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return keys[a] < keys[b]; });
    ArenaPlan plan = Placement(lifetimes, alignment, residents).Run(order);
    if (best.bytes < 0 || plan.bytes < best.bytes) best = std::move(plan);
  }
  return best;
}

}  // namespace asyra
