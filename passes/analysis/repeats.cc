#include "passes/analysis/repeats.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "passes/analysis/op_classes.h"

namespace asyra {
namespace {

class RepeatFinder {
 public:
  explicit RepeatFinder(const Program& program)
      : program_(program),
        def_use_(program),
        last_use_(LastUses()),
        codes_(OpClasses(program)) {
    for (const Input& input : program.inputs) {
      roles_[input.value] = input.role;
    }
  }

  std::vector<Repeat> Run() {
    Search(0, static_cast<int>(codes_.size()));
    for (Repeat& repeat : found_) FindMirror(&repeat);
    return std::move(found_);
  }

 private:
  std::vector<int> LastUses() const {
    std::vector<int> last(program_.values.size(), -1);
    for (size_t v = 0; v < last.size(); ++v) {
      if (!def_use_.uses[v].empty()) last[v] = def_use_.uses[v].back();
      if (def_use_.output_uses[v] > 0) {
        last[v] = static_cast<int>(program_.ops.size());
      }
    }
    return last;
  }

  // Returns the repeat of [begin, end) that covers most, the shortest period
  // first among equals; of count 1 when there is none.
  Repeat Longest(int begin, int end) const {
    Repeat best{begin, end - begin, 1};
    int covered = 0;
    for (int period = 1; period <= (end - begin) / 2; ++period) {
      int from = begin;
      for (;;) {
        // Less than that makes no repeat, or none that covers more.
        int least = std::max(period, covered + 1 - period);
        auto [first, last] = RunFrom(from, end, period, least);
        if (first == last) break;
        from = last + 1;
        int run = last - first, count = (run + period) / period;
        if (count * period <= covered) continue;
        Repeat candidate =
            BestCut({first, period, count}, (run + period) % period);
        if (!Corresponds(candidate)) {
          candidate = LongestMirror({first, period, count}, last);
        }
        if (candidate.count * period > covered) {
          best = candidate;
          covered = candidate.count * period;
        }
      }
    }
    return best;
  }

  // Returns the first ops [first, last) from `from` on, at least so many, that
  // equal those one period later, before `end`; empty if there are none. Few
  // ops are looked at where `least` is large.
  std::pair<int, int> RunFrom(int from, int end, int period, int least) const {
    auto equal = [&](int i) { return codes_[i] == codes_[i + period]; };
    int limit = end - period;
    while (from + least <= limit) {
      int i = from + least;
      while (i > from && equal(i - 1)) --i;
      if (i == from) {
        int last = from + least;
        while (last < limit && equal(last)) ++last;
        return {from, last};
      }
      from = i;  // behind one that differs
    }
    return {from, from};
  }

  // Returns the best begin, up to `slack` ops later: with the fewest values
  // alive at the boundaries.
  Repeat BestCut(const Repeat& repeat, int slack) const {
    Repeat best = repeat;
    int fewest = Crossing(repeat);
    for (int shift = 1; shift <= slack; ++shift) {
      Repeat moved = repeat;
      moved.begin += shift;
      int crossing = Crossing(moved);
      if (crossing < fewest) {
        best = moved;
        fewest = crossing;
      }
    }
    return best;
  }

  // Values defined in the stretch before a boundary and read after it, for the
  // boundary before the last stretch: all others except the first are equal to
  // it.
  int Crossing(const Repeat& repeat) const {
    int cut = repeat.end() - repeat.period;
    int crossing = 0;
    for (int i = cut - repeat.period; i < cut; ++i) {
      for (ValueId value : program_.ops[i].results) {
        crossing += last_use_[value] >= cut;
      }
    }
    return crossing;
  }

  // Returns the longest repeat of [run.begin, end), whose ops equal those one
  // period later, where operands correspond as well: the first and the last
  // layer of a backward run read something else. Of count 0 if there is none
  // that reads another one backwards.
  Repeat LongestMirror(const Repeat& run, int end) const {
    int longest = 0, last = run.begin, begin = run.begin;
    for (int i = run.begin; i <= end; ++i) {
      if (i < end && LinksRepeat(i, begin, run)) continue;
      if (i - begin > longest) {
        longest = i - begin;
        last = i;
      }
      begin = i + 1;
    }
    Repeat repeat{last - longest, run.period,
                  (longest + run.period) / run.period};
    if (repeat.count < 3) return {0, run.period, 0};
    repeat = BestCut(repeat, (longest + run.period) % run.period);
    bool backwards = false;
    for (int i = repeat.begin; i < repeat.begin + repeat.period; ++i) {
      for (size_t k = 0; k < program_.ops[i].operands.size(); ++k) {
        backwards |= Stride(i, k, repeat) < 0;
      }
    }
    if (!backwards || !Corresponds(repeat)) return {0, run.period, 0};
    return repeat;
  }

  // Returns whether the operands of op i and of the one a period later come
  // from places as far apart, or as far as those of the op one period before,
  // unless that is before `begin`.
  bool LinksRepeat(int i, int begin, const Repeat& run) const {
    const Op& a = program_.ops[i];
    const Op& b = program_.ops[i + run.period];
    for (size_t k = 0; k < a.operands.size(); ++k) {
      int def_a = def_use_.def[a.operands[k]];
      int def_b = def_use_.def[b.operands[k]];
      if (a.operands[k] == b.operands[k]) continue;
      if (def_a >= 0 && def_b - def_a == run.period) continue;
      if (def_a < 0 && def_b < 0) {
        if (roles_.at(a.operands[k]) != roles_.at(b.operands[k])) return false;
        continue;
      }
      int stride = Stride(i, k, run);
      if (stride == 0) return false;
      if (i - run.period >= begin && Stride(i - run.period, k, run) != stride) {
        return false;
      }
    }
    return true;
  }

  // Returns whether operands correspond, and each stretch reads the one before.
  bool Corresponds(const Repeat& repeat) const {
    bool chained = false;
    for (int i = repeat.begin; i < repeat.end() - repeat.period; ++i) {
      const Op& a = program_.ops[i];
      const Op& b = program_.ops[i + repeat.period];
      for (size_t k = 0; k < a.operands.size(); ++k) {
        if (!OperandsCorrespond(a.operands[k], b.operands[k], repeat) &&
            !InStride(i, k, repeat)) {
          return false;
        }
        int def = def_use_.def[b.operands[k]];
        chained |= i < repeat.begin + repeat.period && def >= repeat.begin &&
                   def < repeat.begin + repeat.period;
      }
    }
    return chained;
  }

  // `a` is read one period before `b`.
  bool OperandsCorrespond(ValueId a, ValueId b, const Repeat& repeat) const {
    if (a == b) return true;
    int def_a = def_use_.def[a], def_b = def_use_.def[b];
    if (def_a < 0 && def_b < 0) return roles_.at(a) == roles_.at(b);
    // Operands of the first stretch from outside may come from anywhere.
    return def_b - def_a == repeat.period ||
           (def_a < repeat.begin && def_b >= repeat.begin &&
            def_b < repeat.begin + repeat.period);
  }

  // Returns how far the op that makes operand k of op i comes before the one
  // that makes it one period later, where these are equal ops outside the
  // repeat; else 0.
  int Stride(int i, size_t k, const Repeat& repeat) const {
    ValueId a = program_.ops[i].operands[k];
    ValueId b = program_.ops[i + repeat.period].operands[k];
    int def_a = def_use_.def[a], def_b = def_use_.def[b];
    if (def_a < 0 || def_b < 0 || def_a >= repeat.begin ||
        def_b >= repeat.begin || codes_[def_a] != codes_[def_b] ||
        ResultNumber(def_a, a) != ResultNumber(def_b, b)) {
      return 0;
    }
    return def_b - def_a;
  }

  size_t ResultNumber(int op, ValueId value) const {
    const auto& results = program_.ops[op].results;
    return std::find(results.begin(), results.end(), value) - results.begin();
  }

  // Operand k of op i is as far from the next one as those before it. Two
  // stretches show no stride.
  bool InStride(int i, size_t k, const Repeat& repeat) const {
    int first = repeat.begin + (i - repeat.begin) % repeat.period;
    int stride = Stride(first, k, repeat);
    return repeat.count > 2 && stride != 0 && Stride(i, k, repeat) == stride;
  }

  // Finds the mirror by the most frequent of the stretches that the first one
  // reads backwards.
  void FindMirror(Repeat* repeat) const {
    if (repeat->count < 3) return;
    std::map<std::pair<int, int>, int> votes;
    for (int i = repeat->begin; i < repeat->begin + repeat->period; ++i) {
      for (size_t k = 0; k < program_.ops[i].operands.size(); ++k) {
        int stride = Stride(i, k, *repeat);
        int def = def_use_.def[program_.ops[i].operands[k]];
        for (size_t r = 0; r < found_.size() && stride < 0; ++r) {
          const Repeat& other = found_[r];
          bool within = def >= other.begin && def < other.end();
          if (!within || other.period != -stride) continue;
          int stretch = (def - other.begin) / other.period;
          ++votes[{static_cast<int>(r), stretch}];
        }
      }
    }
    int most = 0;
    for (const auto& [mirror, count] : votes) {
      if (count <= most) continue;
      most = count;
      repeat->mirror_of = mirror.first;
      repeat->mirrored = mirror.second;
    }
  }

  void Search(int begin, int end) {
    if (begin == end) return;
    Repeat best = Longest(begin, end);
    if (best.count > 1) Search(begin, best.begin);
    found_.push_back(best);
    if (best.count > 1) Search(best.end(), end);
  }

  const Program& program_;
  DefUse def_use_;
  std::vector<int> last_use_;  // by value: op; ops.size() for outputs
  absl::flat_hash_map<ValueId, InputRole> roles_;
  std::vector<int> codes_;  // by op
  std::vector<Repeat> found_;
};

// Marks by value, read off in the order of the program.
std::vector<ValueId> Marked(const std::vector<bool>& marked) {
  std::vector<ValueId> values;
  for (size_t v = 0; v < marked.size(); ++v) {
    if (marked[v]) values.push_back(static_cast<ValueId>(v));
  }
  return values;
}

}  // namespace

std::vector<Repeat> FindRepeats(const Program& program) {
  return RepeatFinder(program).Run();
}

std::vector<ValueId> ValuesInto(const Program& program, const Repeat& repeat) {
  DefUse def_use(program);
  std::vector<bool> marked(program.values.size());
  for (int i = repeat.begin; i < repeat.begin + repeat.period; ++i) {
    for (ValueId value : program.ops[i].operands) {
      int def = def_use.def[value];
      marked[value] = marked[value] || (def >= 0 && def < repeat.begin);
    }
  }
  return Marked(marked);
}

std::vector<ValueId> ValuesOutOf(const Program& program, const Repeat& repeat) {
  DefUse def_use(program);
  std::vector<bool> marked(program.values.size());
  for (int i = repeat.end() - repeat.period; i < repeat.end(); ++i) {
    for (ValueId value : program.ops[i].results) {
      const auto& uses = def_use.uses[value];
      marked[value] = def_use.output_uses[value] > 0 ||
                      (!uses.empty() && uses.back() >= repeat.end());
    }
  }
  return Marked(marked);
}

}  // namespace asyra
