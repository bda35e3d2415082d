#include "passes/schedule/tile/join_candidates.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "passes/analysis/lanes.h"
#include "passes/analysis/op_classes.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

// Ops between the first and the last of a group.
constexpr int kMostApart = 512;

enum class Grouping { kReader, kStretch, kBytes };

// Sizes of buckets, besides kMostJoinedBytes.
constexpr int64_t kLeast = int64_t{4} << 20, kMiddle = int64_t{16} << 20;

// Starts of one lane that could be joined if they are independent.
struct Bin {
  int lane;
  const Op* first;
  // The group that is open, and how many have been opened.
  JoinGroup open = {};
  int64_t open_bytes = 0;
  int opened = 0;
};

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        lanes_(program),
        uses_(program),
        classes_(OpClasses(program)) {}

  std::vector<JoinCandidate> Run() {
    Group(Grouping::kReader, kMostJoinedBytes);
    Group(Grouping::kStretch, kMostJoinedBytes);
    for (int64_t most_bytes : {kLeast, kMiddle, kMostJoinedBytes}) {
      Group(Grouping::kBytes, most_bytes);
    }
    KeepMost();
    for (JoinCandidate& candidate : found_) {
      absl::c_sort(candidate.groups);
      candidate.name = NameOf(candidate.groups[0]);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const JoinCandidate& a, const JoinCandidate& b) {
                       return a.groups[0] < b.groups[0];
                     });
    return std::move(found_);
  }

 private:
  void Group(Grouping grouping, int64_t most_bytes) {
    bins_.clear();
    // By op and bin: the last group of the bin that the op waits for.
    std::vector<std::vector<int>> waits_for(program_.ops.size());
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      std::vector<int>& mine = waits_for[i];
      auto add = [&](ValueId value) {
        int def = uses_.def[value];
        if (def < 0) return;
        const std::vector<int>& theirs = waits_for[def];
        mine.resize(std::max(mine.size(), theirs.size()), 0);
        for (size_t b = 0; b < theirs.size(); ++b) {
          mine[b] = std::max(mine[b], theirs[b]);
        }
      };
      absl::c_for_each(op.operands, add);
      absl::c_for_each(op.after, add);
      if (op.def->is_barrier) CloseAll();
      if (!op.start) continue;
      int64_t bytes = PayloadBytes(program_, op);
      if (bytes > most_bytes / 2) continue;
      size_t b = BinOf(static_cast<int>(i));
      Bin& bin = bins_[b];
      mine.resize(std::max(mine.size(), b + 1), 0);
      bool independent = mine[b] < bin.opened;
      if (bin.open.empty() || !independent ||
          bin.open_bytes + bytes > most_bytes ||
          !Extends(bin, static_cast<int>(i), grouping)) {
        Close(&bin);
        ++bin.opened;
      }
      bin.open.push_back(static_cast<int>(i));
      bin.open_bytes += bytes;
      mine[b] = bin.opened;
    }
    CloseAll();
  }

  size_t BinOf(int index) {
    const Op& op = program_.ops[index];
    int lane = lanes_.of_op[index];
    size_t b = 0;
    while (b < bins_.size() &&
           (bins_[b].lane != lane || !Joinable(*bins_[b].first, op))) {
      ++b;
    }
    if (b == bins_.size()) bins_.push_back({lane, &op});
    return b;
  }

  bool Extends(const Bin& bin, int index, Grouping grouping) const {
    int apart = kMostApart * std::max(1, lanes_.count);
    if (index - bin.open[0] > apart) return false;
    switch (grouping) {
      case Grouping::kReader:
        return HaveCommonReader(bin.open[0], index);
      case Grouping::kStretch: {
        int first = classes_[bin.open[0]];
        bool alone = absl::c_all_of(
            bin.open, [&](int op) { return classes_[op] == first; });
        return alone || classes_[index] != first;
      }
      case Grouping::kBytes:
        return true;
    }
    return false;
  }

  bool HaveCommonReader(int a, int b) const {
    std::set<int> of_a = ReadersOf(a), of_b = ReadersOf(b);
    return absl::c_any_of(of_b, [&](int op) { return of_a.contains(op); });
  }

  // Returns the readers behind waits and other views.
  std::set<int> ReadersOf(int index) const {
    std::set<int> readers;
    std::vector<int> open = {index};
    while (!open.empty()) {
      const Op& op = program_.ops[open.back()];
      open.pop_back();
      for (ValueId value : op.results) {
        for (int use : uses_.uses[value]) {
          if (program_.ops[use].def->is_view) {
            open.push_back(use);
          } else {
            readers.insert(use);
          }
        }
      }
    }
    return readers;
  }

  void CloseAll() {
    for (Bin& bin : bins_) Close(&bin);
  }

  void Close(Bin* bin) {
    JoinGroup group = std::move(bin->open);
    bin->open.clear();
    bin->open_bytes = 0;
    if (group.size() < 2) return;
    std::vector<int> key;
    for (int op : group) key.push_back(classes_[op]);
    auto [entry, added] = by_key_.emplace(std::move(key), found_.size());
    if (added) found_.emplace_back();
    std::vector<JoinGroup>& groups = found_[entry->second].groups;
    // Another grouping may have found it, or a part of it.
    bool overlaps = absl::c_any_of(groups, [&](const JoinGroup& other) {
      return absl::c_any_of(
          group, [&](int op) { return absl::c_linear_search(other, op); });
    });
    if (!overlaps) groups.push_back(std::move(group));
  }

  void KeepMost() {
    auto saved = [](const JoinCandidate& candidate) {
      size_t saved = 0;
      for (const JoinGroup& group : candidate.groups) {
        saved += group.size() - 1;
      }
      return saved;
    };
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const JoinCandidate& a, const JoinCandidate& b) {
                       return saved(a) > saved(b);
                     });
    if (found_.size() > kMostJoins) found_.resize(kMostJoins);
  }

  // Values have the names of their waits.
  std::string NameOf(const JoinGroup& group) const {
    std::vector<std::string> names;
    for (int op : group) {
      ValueId future = program_.ops[op].results[0];
      const auto& waits = uses_.uses[future];
      ValueId value =
          waits.empty() ? future : program_.ops[waits[0]].results[0];
      names.push_back(program_.value_name(value));
    }
    std::string_view kind = program_.ops[group[0]].def->name;
    if (group.size() > 4) {
      return fmt::format("{} {} from {} to {}", group.size(), kind, names[0],
                         names.back());
    }
    std::string last = std::move(names.back());
    names.pop_back();
    return fmt::format("{} of {} and {}", kind, fmt::join(names, ", "), last);
  }

  const Program& program_;
  Lanes lanes_;
  DefUse uses_;
  std::vector<int> classes_;
  std::vector<Bin> bins_;  // of the current grouping
  std::map<std::vector<int>, size_t> by_key_;
  std::vector<JoinCandidate> found_;
};

}  // namespace

std::vector<JoinCandidate> JoinCandidates(const Program& program) {
  return Finder(program).Run();
}

}  // namespace asyra
