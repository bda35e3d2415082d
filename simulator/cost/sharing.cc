#include "simulator/cost/sharing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/container/inlined_vector.h"

namespace asyra {
namespace {

// The part of a matmul's slowdown that is by whole waves, the remainder being
// proportional: fitted to a 132-tile matmul next to a collective of 24 CTAs on
// an H100, which took 1.70 times as long; whole waves give 2, proportion gives
// 1.22.
constexpr double kWaveShare = 0.6;
constexpr double kRounding = 1e-9;

// An active op: what it uses at full speed, the SMs it shares with others
// being those that collectives leave.
struct User {
  std::array<double, kNumResources> load;
  double placed = 1;  // the speed of its placed CTAs: `speed` is a part of it
  double speed = 1;
  bool rising = true;
};
using Users = absl::InlinedVector<User, 8>;

// The speed that CTA slots allow each op: all CTAs of a kernel are placed
// before those of the next. Collectives go first whenever a CTA ends, but next
// to a persistent kernel no CTA ends before it is done, and they get only its
// margin.
absl::InlinedVector<double, 8> PlacedSpeeds(absl::Span<const ActiveOp> active) {
  absl::InlinedVector<double, 8> speeds;
  double left = 1, persistent = 0, taken = 0;
  for (auto [op, has_kernel] : active) {
    double wanted = op->load[kCtaSlots];
    if (!op->is_compute) {
      bool placed = !has_kernel || persistent == 0 ||
                    persistent + taken + op->required_sms <= 1 + kRounding;
      speeds.push_back(placed ? 1 : 0);
      if (placed && has_kernel) taken += op->required_sms;
      continue;
    }
    if (op->persistent) persistent += wanted;
    double gets = std::min(wanted, left);
    speeds.push_back(wanted > 0 ? gets / wanted : 1);
    // The margin is for collectives.
    left = std::max(0.0, left - gets - op->sm_margin);
  }
  return speeds;
}

Users UsersOf(absl::Span<const ActiveOp> active) {
  auto placed = PlacedSpeeds(active);
  double held = 0, persistent = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    const OpCost& cost = *active[i].cost;
    // Kernels that stay and came before keep their SMs.
    if (cost.is_compute && cost.persistent) persistent += cost.load[kCtaSlots];
    if (placed[i] == 0 || !active[i].has_kernel) continue;
    held +=
        std::min(cost.held_sms, std::max(cost.required_sms, 1 - persistent));
  }
  // Several collectives may need all SMs; computation still makes progress.
  double share = 1 - std::min(held, 0.9);
  Users users;
  for (size_t i = 0; i < active.size(); ++i) {
    User& user = users.emplace_back(User{active[i].cost->load});
    // It does not need the SMs of its margin.
    double its = std::min(1.0, share + active[i].cost->sm_margin);
    if (its < 1) user.load[kSms] *= SlowdownOn(its, active[i].cost->waves);
    // Used by its placed CTAs.
    for (double& load : user.load) load *= placed[i];
    user.load[kCtaSlots] = 0;
    user.placed = placed[i];
  }
  return users;
}

// Returns how far the speed of the users that still rise can go before a
// resource is full, and which resource that is (kNumResources: none before full
// speed).
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
    // Rounding may leave less than zero of a full resource.
    if (wanted <= 0 || wanted * level <= left) continue;
    level = std::max(left, 0.0) / wanted;
    *full = r;
  }
  return level;
}

void SlowCollectives(absl::Span<const ActiveOp> active,
                     std::vector<double>* speeds) {
  double filled = 0;
  for (auto [op, has_kernel] : active) {
    if (!op->is_compute) continue;
    filled += op->load[kSms] * (op->sm_margin > 0 ? kNotWaiting : 1);
  }
  filled = std::min(filled, 1.0);
  for (size_t i = 0; i < active.size(); ++i) {
    (*speeds)[i] *= 1 - filled * (1 - active[i].cost->beside_compute);
  }
}

// All that ShareResources reads of an op.
using Use = std::array<double, kNumResources + 7>;
Use UseOf(const OpCost& cost) {
  Use use = {cost.is_compute ? 1.0 : 0.0,
             cost.persistent ? 1.0 : 0.0,
             cost.held_sms,
             cost.required_sms,
             cost.sm_margin,
             cost.waves,
             cost.beside_compute};
  std::copy(cost.load.begin(), cost.load.end(), use.end() - kNumResources);
  return use;
}

}  // namespace

double SlowdownOn(double share, double waves) {
  double even = 1 / share;
  if (waves <= 0) return even;
  // A whole number of waves may come out as one more or less by rounding.
  auto whole = [](double w) { return std::max(1.0, std::ceil(w - kRounding)); };
  return std::lerp(even, whole(waves / share) / whole(waves), kWaveShare);
}

void ShareResources(absl::Span<const ActiveOp> active,
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
  for (size_t i = 0; i < users.size(); ++i) {
    (*speeds)[i] = users[i].speed * users[i].placed;
  }
  SlowCollectives(active, speeds);
}

SharedSpeeds::SharedSpeeds(absl::Span<const OpCost> op_costs)
    : op_costs_(op_costs) {
  absl::flat_hash_map<Use, int> kinds;
  for (const OpCost& cost : op_costs) {
    kind_.push_back(kinds.emplace(UseOf(cost), static_cast<int>(kinds.size()))
                        .first->second);
  }
}

uint64_t SharedSpeeds::KeyOf(absl::Span<const Active> active) const {
  constexpr int kBits = 64 / kMost;
  if (active.size() > kMost) return 0;
  uint64_t key = 0;
  for (auto [op, has_kernel] : active) {
    uint64_t one = 2 * (static_cast<uint64_t>(kind_[op]) + 1) + has_kernel;
    if (one >> kBits != 0) return 0;
    key = key << kBits | one;
  }
  return key;
}

void SharedSpeeds::Find(absl::Span<const Active> active,
                        std::vector<double>* speeds) {
  if (active.size() < 2) {
    speeds->assign(active.size(), 1);
    return;
  }
  uint64_t key = KeyOf(active);
  if (key == 0) return Compute(active, speeds);
  auto [kept, is_new] = kept_.try_emplace(key);
  if (is_new) {
    Compute(active, speeds);
    std::copy(speeds->begin(), speeds->end(), kept->second.begin());
  }
  speeds->assign(kept->second.begin(), kept->second.begin() + active.size());
}

void SharedSpeeds::Compute(absl::Span<const Active> active,
                           std::vector<double>* speeds) {
  active_.clear();
  for (auto [op, has_kernel] : active) {
    active_.push_back({&op_costs_[op], has_kernel});
  }
  ShareResources(active_, speeds);
}

}  // namespace asyra
