#include "passes/schedule/tile/bucket_candidates.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/analysis/lanes.h"
#include "passes/analysis/op_classes.h"
#include "passes/analysis/tile_sums.h"
#include "passes/schedule/tile/join_candidates.h"

namespace asyra {
namespace {

constexpr char kKeyMark = '#';  // no name has it
constexpr char kNumberMark = '.';

class Finder {
 public:
  explicit Finder(const TileMerger& merger)
      : program_(merger.program()),
        lanes_(merger.facts().lanes),
        tiles_(merger.facts().tiles),
        uses_(merger.facts().uses),
        classes_(OpClasses(program_)) {}

  std::vector<BucketCandidate> Run() {
    if (lanes_.count < 2) return {};
    std::vector<std::vector<Ops>> runs, starts;  // by lane
    for (int lane = 0; lane < lanes_.count; ++lane) {
      runs.push_back(RunsOf(lane));
      starts.push_back(CollectivesOf(lane));
    }
    Match(runs, /*collective=*/false);
    Match(starts, /*collective=*/true);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const BucketCandidate& a, const BucketCandidate& b) {
                       return a.groups[0][0] < b.groups[0][0];
                     });
    return std::move(found_);
  }

 private:
  using Ops = std::vector<int>;  // ops of one lane

  bool Communicates(const Op& op) const {
    return op.is_collective() || op.def->is_wait;
  }

  std::vector<Ops> RunsOf(int lane) const {
    std::vector<Ops> runs(1);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (lanes_.of_op[i] != lane || program_.ops[i].def->is_tile) continue;
      if (!Communicates(program_.ops[i])) {
        runs.back().push_back(static_cast<int>(i));
      } else if (!runs.back().empty()) {
        runs.emplace_back();
      }
    }
    if (runs.back().empty()) runs.pop_back();
    return runs;
  }

  // Returns each start with the wait for it.
  std::vector<Ops> CollectivesOf(int lane) const {
    std::vector<Ops> pairs;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (lanes_.of_op[i] != lane || !op.start || op.results.size() > 1) {
        continue;
      }
      pairs.push_back({static_cast<int>(i), uses_.uses[op.results[0]][0]});
    }
    return pairs;
  }

  // Matches the runs at the same position of every lane.
  void Match(const std::vector<std::vector<Ops>>& by_lane, bool collective) {
    for (size_t r = 0; r < by_lane[0].size(); ++r) {
      std::vector<TileGroup> groups;
      std::vector<int> key;
      for (size_t i = 0; i < by_lane[0][r].size(); ++i) {
        TileGroup group;
        for (const auto& runs : by_lane) {
          if (r < runs.size() && i < runs[r].size()) {
            group.push_back(runs[r][i]);
          }
        }
        if (static_cast<int>(group.size()) != lanes_.count ||
            !Mergeable(group)) {
          if (collective) return;
          continue;
        }
        key.push_back(classes_[group[0]]);
        groups.push_back(std::move(group));
      }
      if (!groups.empty()) Add(std::move(groups), std::move(key), collective);
    }
  }

  bool Mergeable(const TileGroup& group) const {
    return AreTilesOfOne(group) ||
           IsTileSum(program_, uses_, lanes_, tiles_, group);
  }

  bool AreTilesOfOne(const TileGroup& group) const {
    const Op& first = program_.ops[group[0]];
    for (int index : group) {
      const Op& op = program_.ops[index];
      if (op.def != first.def || !(op.attrs == first.attrs)) return false;
      // Attention with a mask and without are different ops here.
      if (program_.OperandTypes(op) != program_.OperandTypes(first)) {
        return false;
      }
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (program_.type(op.results[i]) != program_.type(first.results[i]) ||
            !tiles_[op.results[i]].has_value()) {
          return false;
        }
      }
    }
    return true;
  }

  void Add(std::vector<TileGroup> groups, std::vector<int> key,
           bool collective) {
    auto [entry, added] =
        by_key_.emplace(std::pair(collective, std::move(key)), found_.size());
    if (added) {
      found_.push_back({NameOf(groups), "", collective, false, 0, {}});
    }
    BucketCandidate& candidate = found_[entry->second];
    ++candidate.places;
    for (TileGroup& group : groups)
      candidate.groups.push_back(std::move(group));
  }

  std::string NameOf(const std::vector<TileGroup>& groups) const {
    auto name = [&](const TileGroup& group) {
      return program_.value_name(program_.ops[group[0]].results[0]);
    };
    if (groups.size() == 1 || program_.ops[groups[0][0]].start) {
      return name(groups.back());
    }
    return fmt::format("{} to {}", name(groups.front()), name(groups.back()));
  }

  const Program& program_;
  const Lanes& lanes_;
  const std::vector<std::optional<TileOf>>& tiles_;  // by value
  const DefUse& uses_;
  std::vector<int> classes_;
  std::map<std::pair<bool, std::vector<int>>, size_t> by_key_;
  std::vector<BucketCandidate> found_;
};

// Returns a hash (FNV-1a) of the texts of definitions and types: those of one
// lane of the first run, or of the first collectives that are joined.
// Attributes are left out, since other decisions set them and a plan repeats
// them later.
std::string KeyOf(const Program& program, const BucketCandidate& candidate) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](std::string_view text) {
    for (char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  };
  size_t groups = candidate.join ? 1
                                 : candidate.groups.size() /
                                       static_cast<size_t>(candidate.places);
  add(candidate.join ? "join" : candidate.collective ? "collective" : "run");
  for (size_t g = 0; g < groups; ++g) {
    const auto& group = candidate.groups[g];
    for (size_t i = 0; i < (candidate.join ? group.size() : 1); ++i) {
      const Op& op = program.ops[group[i]];
      add(op.def->name);
      add(ToString(program.OperandTypes(op), program.mesh));
      add(ToString(program.ResultTypes(op), program.mesh));
    }
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::vector<BucketCandidate> BucketCandidates(const Program& program) {
  return BucketCandidates(TileMerger(program));
}

std::vector<BucketCandidate> BucketCandidates(const TileMerger& merger) {
  const Program& program = merger.program();
  std::vector<BucketCandidate> candidates = Finder(merger).Run();
  for (JoinCandidate& join : JoinCandidates(program)) {
    auto places = static_cast<int>(join.groups.size());
    candidates.push_back(
        {std::move(join.name), "", true, true, places, std::move(join.groups)});
  }
  std::map<std::string, int> of_hash;
  for (BucketCandidate& candidate : candidates) {
    std::string hash = KeyOf(program, candidate);
    candidate.key = fmt::format("{}{}{}", hash, kNumberMark, of_hash[hash]++);
  }
  return candidates;
}

std::string NameAndKey(const BucketCandidate& candidate) {
  return candidate.name + kKeyMark + candidate.key;
}

absl::StatusOr<Program> MergeCandidates(
    const TileMerger& merger, absl::Span<const BucketCandidate> candidates,
    absl::Span<const int> set, std::vector<int>* order) {
  std::vector<TileGroup> tiles;
  std::vector<JoinGroup> joins;
  for (int c : set) {
    auto& groups = candidates[c].join ? joins : tiles;
    groups.insert(groups.end(), candidates[c].groups.begin(),
                  candidates[c].groups.end());
  }
  if (tiles.empty()) {
    if (joins.empty()) return merger.program();
    return JoinCollectives(merger.program(), joins, order);
  }
  ASYRA_CHECK(order == nullptr);
  std::vector<int> new_ops;
  ASYRA_ASSIGN_OR_RETURN(Program merged, merger.Merge(tiles, &new_ops));
  if (joins.empty()) return merged;
  for (JoinGroup& group : joins) {
    for (int& op : group) op = new_ops[op];
  }
  return JoinCollectives(merged, joins);
}

std::vector<int> CandidatesNamed(absl::Span<const BucketCandidate> candidates,
                                 absl::Span<const std::string> names) {
  auto hash = [](std::string_view key) {
    return key.substr(0, key.rfind(kNumberMark));
  };
  std::set<int> chosen;
  for (std::string_view text : names) {
    size_t mark = text.rfind(kKeyMark);
    bool has_key = mark != std::string_view::npos;
    std::string_view name = text.substr(0, mark);
    std::string_view key = has_key ? text.substr(mark + 1) : "";
    std::vector<int> named, same, of_hash;
    for (size_t c = 0; c < candidates.size(); ++c) {
      const BucketCandidate& candidate = candidates[c];
      auto index = static_cast<int>(c);
      if (has_key && hash(candidate.key) != hash(key)) continue;
      of_hash.push_back(index);
      if (candidate.name == name) named.push_back(index);
      if (candidate.key == key) same.push_back(index);
    }
    if (!has_key || !named.empty()) {
      chosen.insert(named.begin(), named.end());
    } else {
      const std::vector<int>& found = same.empty() ? of_hash : same;
      chosen.insert(found.begin(), found.end());
    }
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace asyra
