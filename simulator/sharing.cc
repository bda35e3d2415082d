#include "simulator/sharing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/container/inlined_vector.h"

namespace asyra {
namespace {

// How much of a product's slowdown is that of whole waves, the rest being in
// proportion: fitted to a 132-tile product beside a collective of 24 CTAs on
// an H100, 1.70 times as long, where waves say 2 and proportion 1.22.
constexpr double kWaveShare = 0.6;

// An active op: what it uses at full speed, the SMs it shares with others
// being those that collectives leave.
struct User {
  std::array<double, kNumResources> load;
  double speed = 1;
  bool rising = true;
};
using Users = absl::InlinedVector<User, 8>;

Users UsersOf(absl::Span<const OpCost* const> active) {
  double held = 0;
  for (const OpCost* op : active) held += op->held_sms;
  // Several collectives may ask for all; computation still gets its turn.
  double share = 1 - std::min(held, 0.9);
  Users users;
  for (const OpCost* op : active) {
    users.push_back({op->load});
    if (share < 1) users.back().load[kSms] *= SlowdownOn(share, op->waves);
  }
  return users;
}

// How far the speed of the users that still rise can go before a resource is
// full, and which resource that is (kNumResources: none before full speed).
double RiseTo(const Users& users, int* full) {
  double level = 1;
  *full = kNumResources;
  for (int r = 0; r < kNumResources; ++r) {
    double wanted = 0, left = 1;
    for (const User& user : users) {
      if (user.rising) {
        wanted += user.load[r];
      } else {
        left -= user.load[r] * user.speed;
      }
    }
    // Rounding may have left less than nothing of what nobody wants more of.
    if (wanted <= 0 || wanted * level <= left) continue;
    level = std::max(left, 0.0) / wanted;
    *full = r;
  }
  return level;
}

void SlowCollectives(absl::Span<const OpCost* const> active,
                     std::vector<double>* speeds) {
  double filled = 0;
  for (const OpCost* op : active) {
    if (op->is_compute) filled += op->load[kSms];
  }
  filled = std::min(filled, 1.0);
  for (size_t i = 0; i < active.size(); ++i) {
    (*speeds)[i] *= 1 - filled * (1 - active[i]->beside_compute);
  }
}

}  // namespace

double SlowdownOn(double share, double waves) {
  double even = 1 / share;
  if (waves <= 0) return even;
  // A whole number of waves may come out as one more or less by rounding.
  auto whole = [](double w) { return std::max(1.0, std::ceil(w - 1e-9)); };
  return std::lerp(even, whole(waves / share) / whole(waves), kWaveShare);
}

void ShareResources(absl::Span<const OpCost* const> active,
                    std::vector<double>* speeds) {
  speeds->assign(active.size(), 1);
  if (active.size() < 2) return;
  Users users = UsersOf(active);
  for (int round = 0; round < kNumResources; ++round) {
    int full;
    double level = RiseTo(users, &full);
    for (User& user : users) {
      if (!user.rising) continue;
      user.speed = level;
      if (full < kNumResources && user.load[full] > 0) user.rising = false;
    }
    if (full == kNumResources) break;
  }
  for (size_t i = 0; i < users.size(); ++i) (*speeds)[i] = users[i].speed;
  SlowCollectives(active, speeds);
}

}  // namespace asyra
