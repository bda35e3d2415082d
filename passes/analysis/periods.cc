#include "passes/analysis/periods.h"

#include <algorithm>
#include <map>

namespace asyra {

Periods::Periods(const Program& program, absl::Span<const int> classes)
    : program_(program),
      classes_(classes),
      touches_(program.values.size()),
      is_output_(program.values.size(), false) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    int at = static_cast<int>(i);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      touches_[op.operands[k]].push_back({at, static_cast<int>(k)});
    }
    for (size_t k = 0; k < op.results.size(); ++k) {
      touches_[op.results[k]].push_back({at, -1 - static_cast<int>(k)});
    }
  }
  for (const Output& output : program.outputs) is_output_[output.value] = true;
  FindPeriods();
}

const Periods::Touch* Periods::Before(ValueId value, int op, int slot) const {
  const Touch* last = nullptr;
  for (const Touch& touch : touches_[value]) {
    if (touch.op > op || (touch.op == op && touch.slot >= slot)) break;
    last = &touch;
  }
  return last;
}

// Operands correspond when they come from corresponding places, are one value
// that both read, or are read here first.
bool Periods::SameLink(int i, size_t slot, int period) const {
  ValueId here = program_.ops[i].operands[slot];
  ValueId there = program_.ops[i - period].operands[slot];
  if (here == there) return true;
  int k = static_cast<int>(slot);
  const Touch* a = Before(here, i, k);
  const Touch* b = Before(there, i - period, k);
  if (a == nullptr || b == nullptr) return a == b;
  return a->op - period == b->op && a->slot == b->slot;
}

bool Periods::Same(int i, int period) const {
  if (i < period || classes_[i] != classes_[i - period]) return false;
  const Op& here = program_.ops[i];
  const Op& there = program_.ops[i - period];
  for (size_t k = 0; k < here.operands.size(); ++k) {
    ValueId a = here.operands[k], b = there.operands[k];
    bool a_last = touches_[a].back().op == i;
    bool b_last = touches_[b].back().op == i - period;
    if (!SameLink(i, k, period) || a_last != b_last ||
        is_output_[a] != is_output_[b]) {
      return false;
    }
  }
  for (size_t k = 0; k < here.results.size(); ++k) {
    ValueId a = here.results[k], b = there.results[k];
    if (is_output_[a] != is_output_[b] ||
        (touches_[a].size() > 1) != (touches_[b].size() > 1)) {
      return false;
    }
  }
  return true;
}

// Candidates are distances between ops of a class; the best are those at which
// most ops repeat.
void Periods::FindPeriods() {
  constexpr size_t kBack = 4, kTried = 16, kKept = 2;
  int count = static_cast<int>(program_.ops.size());
  std::map<int, std::vector<int>> places;  // by class
  std::map<int, int> votes;                // by distance
  for (int i = 0; i < count; ++i) {
    std::vector<int>& before = places[classes_[i]];
    for (size_t b = 0; b < std::min(before.size(), kBack); ++b) {
      ++votes[i - before[before.size() - 1 - b]];
    }
    before.push_back(i);
  }
  std::vector<std::pair<int, int>> ranked;  // -count, period
  for (auto [period, count_of] : votes) ranked.push_back({-count_of, period});
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > kTried) ranked.resize(kTried);
  for (auto& [score, period] : ranked) {
    score = 0;
    for (int i = period; i < count; ++i) score -= Same(i, period);
  }
  std::sort(ranked.begin(), ranked.end());
  for (auto [score, period] : ranked) {
    if (periods_.size() == kKept || -score < period) break;
    std::vector<int> runs(count + 1, 0);
    for (int i = count; i-- > 0;) {
      runs[i] = Same(i, period) ? runs[i + 1] + 1 : 0;
    }
    periods_.push_back(period);
    runs_.push_back(std::move(runs));
  }
}

ValueId Periods::At(const Touch& touch, int shift) const {
  const Op& op = program_.ops[touch.op + shift];
  return touch.slot < 0 ? op.results[-1 - touch.slot] : op.operands[touch.slot];
}

ValueId Periods::ShiftedByNext(ValueId value, int boundary, int p) const {
  for (const Touch& touch : touches_[value]) {
    if (touch.op < boundary) continue;
    if (touch.op >= boundary + periods_[p]) break;
    return At(touch, periods_[p]);
  }
  return value;
}

ValueId Periods::ShiftedByLast(ValueId value, int boundary, int p) const {
  const Touch* last = Before(value, boundary, INT32_MIN);
  if (last == nullptr || last->op < boundary - periods_[p]) return value;
  return At(*last, periods_[p]);
}

}  // namespace asyra
