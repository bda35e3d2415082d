#include "ir/plans/plan_names.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {

absl::Status PlanNames::Error(const Token& at, std::string_view what) const {
  if (is_one_) return lexer_.ErrorAt(at, what);
  return lexer_.ErrorAt(at, fmt::format("for rank {}: {}", rank_, what));
}

absl::StatusOr<int> PlanNames::RankOf(const RankSyntax& rank) const {
  int64_t n = group_.ranks;
  if (rank.moves) {
    return static_cast<int>(((rank_ + rank.number % n) % n + n) % n);
  }
  if (rank.number < n) return static_cast<int>(rank.number);
  return Error(rank.at, fmt::format("there is no rank {}, the group has {}",
                                    rank.number, n));
}

absl::Status PlanNames::SetRange(const RangeSyntax& range, const Token& at,
                                 int value, int d, Box* box) const {
  int64_t total = group_.types[value].size(d), n = group_.ranks;
  int64_t first = 0, end = total;
  if (range.kind == RangeSyntax::kElements) {
    first = range.first;
    end = range.end;
  } else if (range.kind == RangeSyntax::kShard) {
    ASYRA_ASSIGN_OR_RETURN(int64_t shard, RankOf(range.shard));
    bool fits = range.parts >= 1 && range.parts <= total / n;
    int64_t parts = fits ? n * range.parts : 1;
    if (!fits || total % parts != 0) {
      return Error(at, fmt::format("dim {} of %{} has size {}, which does not "
                                   "divide into {} shards of {} parts",
                                   d, value, total, n, range.parts));
    }
    int64_t unit = total / parts;
    int64_t begin = shard * range.parts;
    int64_t last = std::max(range.first, range.end);
    if (last > parts - begin) {
      return Error(at, fmt::format("{} parts from shard {} on, there are {}",
                                   last, shard, parts - begin));
    }
    first = (begin + range.first) * unit;
    end = (begin + range.end) * unit;
  }
  if (first >= end || end > total) {
    return Error(at, fmt::format("elements {} to {} of dim {} of %{}, which "
                                 "has size {}",
                                 first, end, d, value, total));
  }
  box->start.push_back(first);
  box->size.push_back(end - first);
  return absl::OkStatus();
}

absl::StatusOr<Box> PlanNames::BoxIn(const BoxSyntax& syntax, int value) const {
  int rank = group_.types[value].rank();
  if (static_cast<int>(syntax.ranges.size()) != rank) {
    return Error(syntax.at, fmt::format("the box has {} dimensions, %{} has {}",
                                        syntax.ranges.size(), value, rank));
  }
  Box box;
  for (int d = 0; d < rank; ++d) {
    ASYRA_RETURN_IF_ERROR(
        SetRange(syntax.ranges[d], syntax.at, value, d, &box));
  }
  return box;
}

absl::StatusOr<int> PlanNames::ValueOf(const Token& name) const {
  int value = -1;
  const char* end = name.text.data() + name.text.size();
  auto [at, error] = std::from_chars(name.text.data(), end, value);
  if (error == std::errc() && at == end && value >= 0 &&
      value < group_.body.num_values()) {
    return value;
  }
  return Error(name, fmt::format("%{} is no value of the body, which has {}",
                                 name.text, group_.body.num_values()));
}

absl::StatusOr<int> PlanNames::BufferOf(const Token& name, int rank) const {
  if (name.kind == Token::kValue) return ValueOf(name);
  auto found = scratch_[rank].find(name.text);
  if (found != scratch_[rank].end()) return found->second;
  return Error(name, fmt::format("rank {} has no scratch {}", rank, name.text));
}

absl::StatusOr<PlanRegion> PlanNames::RegionOf(const RegionSyntax& syntax,
                                               int rank, const Box* box) const {
  PlanRegion region{.rank = rank};
  ASYRA_ASSIGN_OR_RETURN(region.buffer, BufferOf(syntax.buffer, rank));
  const PlanBuffer& buffer = plan_.buffer(region);
  region.box = box == nullptr ? buffer.box : *box;
  if (syntax.box.has_value()) {
    ASYRA_ASSIGN_OR_RETURN(region.box, BoxIn(*syntax.box, buffer.value));
  }
  if (region.box.rank() == buffer.box.rank() &&
      buffer.box.Contains(region.box)) {
    return region;
  }
  return Error(syntax.buffer,
               fmt::format("{} is not in {}, which {}{} of rank {} holds",
                           ToString(region.box), ToString(buffer.box),
                           syntax.buffer.kind == Token::kValue ? "%" : "",
                           syntax.buffer.text, rank));
}

}  // namespace asyra
