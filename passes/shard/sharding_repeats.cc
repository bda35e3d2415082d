// Layers that repeat: decisions of one are those of all.
#include <algorithm>
#include <numeric>

#include "passes/shard/sharding_solver.h"

namespace asyra {

// Compares the states before op `begin` with those of one period before.
bool ShardingSolver::SameStates(const std::vector<State>& before, int begin,
                                int p) const {
  if (before.size() != states_.size() || before.empty()) return false;
  for (size_t s = 0; s < before.size(); ++s) {
    if (states_[s].frontier.size() != before[s].frontier.size()) return false;
  }
  int period = periods_.all()[p];
  for (size_t s = 0; s < before.size(); ++s) {
    Frontier shifted = before[s].frontier;
    for (Held& held : shifted) {
      held.value = periods_.ShiftedByNext(held.value, begin - period, p);
    }
    std::sort(shifted.begin(), shifted.end());
    if (shifted != states_[s].frontier) return false;
  }
  return true;
}

// The state in front of op `begin` from which each one before op `end` came.
std::vector<int> ShardingSolver::OriginsOf(int begin, int end) const {
  std::vector<int> origins(states_.size());
  std::iota(origins.begin(), origins.end(), 0);
  for (int i = end; i-- > begin;) {
    for (int& at : origins) at = layers_[i]->backs[at].from;
  }
  return origins;
}

// True where the next period repeats the one before op `begin`. Each state here
// came from one a period before, and its cost grew on the way: by the least
// that any grew, or by more, as where every layer converts the layout of a
// table. The period repeats where the states are the same and none that grew
// by the least came from one that grew by more: then each comes from the same
// state again, at the same cost. Those that grow by more only fall behind.
// Others may replace one no later than where it is left, since they can convert
// what it holds.
bool ShardingSolver::Repeats(const std::vector<State>& before, int begin, int p,
                             absl::Span<const int> origins) const {
  auto growth = [&](size_t s) { return states_[s].ns - before[s].ns; };
  for (size_t s = 0; s < before.size(); ++s) {
    if (growth(s) < growth(0)) return false;
    if (growth(s) == growth(0) && growth(origins[s]) != growth(0)) return false;
  }
  return SameStates(before, begin, p);
}

// Compares the choices of ops [begin, end) with those of a period before.
bool ShardingSolver::SameChoices(int begin, int end, int period,
                                 const CostedPlan& plan) {
  for (int i = begin; i < end; ++i) {
    const OpSharding& here = plan.ops[i];
    const OpSharding& there = plan.ops[i - period];
    if (choices_.Of(i, open_, here) != choices_.Of(i - period, open_, there)) {
      return false;
    }
  }
  return true;
}

int ShardingSolver::Stamp(int next, const CostedPlan& plan) {
  for (size_t p = 0; p < periods_.all().size(); ++p) {
    int period = periods_.all()[p];
    if (next < period || next >= static_cast<int>(program_.ops.size())) {
      continue;
    }
    int times = periods_.RunFrom(next, static_cast<int>(p)) / period;
    const std::vector<State>& before = states_before_[next - period];
    if (times == 0 || before.size() != states_.size()) continue;
    std::vector<int> origins = OriginsOf(next - period, next);
    if (!Repeats(before, next, static_cast<int>(p), origins)) continue;
    std::vector<int64_t> added(states_.size());
    for (size_t s = 0; s < states_.size(); ++s) {
      added[s] = states_[s].ns - before[origins[s]].ns;
    }
    int done = 0;
    for (; done < times; ++done) {
      int begin = next + done * period;
      if (!SameChoices(begin, begin + period, period, plan)) break;
      StampOnce(begin, static_cast<int>(p), origins, added);
    }
    if (done > 0) return next + done * period;
  }
  return next;
}

// One period from op `begin` on, as the one before it.
void ShardingSolver::StampOnce(int begin, int p, absl::Span<const int> origins,
                               absl::Span<const int64_t> added) {
  int period = periods_.all()[p];
  for (int i = begin; i < begin + period; ++i) {
    layers_[i] = layers_[i - period];
  }
  std::vector<int64_t> ns;
  for (const State& state : states_) ns.push_back(state.ns);
  for (size_t s = 0; s < states_.size(); ++s) {
    State& state = states_[s];
    state.ns = ns[origins[s]] + added[s];
    state.hash = 0;
    for (Held& held : state.frontier) {
      held.value = periods_.ShiftedByLast(held.value, begin, p);
      state.hash += held.Hash();
    }
    std::sort(state.frontier.begin(), state.frontier.end());
  }
}

}  // namespace asyra
