#include "simulator/cost/plan_groups.h"

#include <algorithm>

#include "ir/support/check.h"

namespace asyra {
namespace {

// The ends of computation and of the link after some chunks, and how they came
// about: the last group, and the state before it.
struct State {
  double compute_us = 0, link_us = 0;
  int64_t group = 0;
  int before = -1;  // of the position that the group begins at
};

// Drops states that another one beats, or equals, in both ends.
void KeepBest(std::vector<State>* states) {
  std::sort(states->begin(), states->end(), [](const State& a, const State& b) {
    return std::pair(a.compute_us, a.link_us) <
           std::pair(b.compute_us, b.link_us);
  });
  std::vector<State> kept;
  for (const State& state : *states) {
    if (kept.empty() || state.link_us < kept.back().link_us) {
      kept.push_back(state);
    }
  }
  *states = std::move(kept);
}

// The costs of 1 to `chunks` chunks, from index 1.
std::vector<double> Costs(int64_t chunks, const GroupCost& cost) {
  std::vector<double> costs = {0};
  for (int64_t size = 1; size <= chunks; ++size) costs.push_back(cost(size));
  return costs;
}

// `extend` gives the state after a group that ends at a position.
template <typename Extend>
GroupPlan Best(int64_t chunks, const Extend& extend) {
  ASYRA_CHECK(chunks > 0);
  std::vector<std::vector<State>> at(chunks + 1);
  at[0] = {State{}};
  for (int64_t end = 1; end <= chunks; ++end) {
    for (int64_t group = 1; group <= end; ++group) {
      const std::vector<State>& from = at[end - group];
      for (size_t s = 0; s < from.size(); ++s) {
        State state = extend(from[s], end, group);
        state.group = group;
        state.before = static_cast<int>(s);
        at[end].push_back(state);
      }
    }
    KeepBest(&at[end]);
  }
  const auto best = std::min_element(
      at[chunks].begin(), at[chunks].end(),
      [](const State& a, const State& b) { return a.link_us < b.link_us; });
  GroupPlan plan{{}, best->link_us};
  int64_t end = chunks;
  for (const State* state = &*best; end > 0;) {
    plan.groups.push_back(state->group);
    end -= state->group;
    state = &at[end][state->before];
  }
  std::reverse(plan.groups.begin(), plan.groups.end());
  return plan;
}

}  // namespace

GroupPlan BestGroupsToMove(int64_t chunks, const GroupCost& piece_us,
                           const GroupCost& move_us) {
  std::vector<double> piece = Costs(chunks, piece_us);
  std::vector<double> move = Costs(chunks, move_us);
  return Best(chunks, [&](const State& from, int64_t, int64_t group) {
    State to;
    to.compute_us = from.compute_us + piece[group];
    to.link_us = std::max(to.compute_us, from.link_us) + move[group];
    return to;
  });
}

double TimeToMove(absl::Span<const int64_t> groups, const GroupCost& piece_us,
                  const GroupCost& move_us) {
  double compute_us = 0, link_us = 0;
  for (int64_t group : groups) {
    compute_us += piece_us(group);
    link_us = std::max(compute_us, link_us) + move_us(group);
  }
  return link_us;
}

GroupPlan BestGroupsOfArrivals(absl::Span<const double> arrival_us,
                               const GroupCost& piece_us) {
  auto chunks = static_cast<int64_t>(arrival_us.size());
  std::vector<double> piece = Costs(chunks, piece_us);
  return Best(chunks, [&](const State& from, int64_t end, int64_t group) {
    State to;
    to.compute_us =
        std::max(from.compute_us, arrival_us[end - 1]) + piece[group];
    to.link_us = to.compute_us;
    return to;
  });
}

double TimeOfArrivals(absl::Span<const int64_t> groups,
                      absl::Span<const double> arrival_us,
                      const GroupCost& piece_us) {
  double compute_us = 0;
  size_t end = 0;
  for (int64_t group : groups) {
    end += static_cast<size_t>(group);
    compute_us = std::max(compute_us, arrival_us[end - 1]) + piece_us(group);
  }
  return compute_us;
}

}  // namespace asyra
