#include "executor/comm/rank_error.h"

#include "fmt/ranges.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr size_t kMostListed = 16;

}  // namespace

absl::Status NameRank(int64_t rank, const absl::Status& cause) {
  return Annotate(cause, fmt::format("rank {}", rank));
}

absl::Status RankFailed(int64_t rank, const absl::Status& cause) {
  return absl::AbortedError(
      fmt::format("rank {} failed: {}", rank, MessageOf(cause)));
}

std::string ListRanks(const std::vector<int64_t>& ranks) {
  size_t listed = std::min(ranks.size(), kMostListed);
  std::string text =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                  fmt::join(ranks.begin(), ranks.begin() + listed, " "));
  if (listed == ranks.size()) return text;
  return fmt::format("{} and {} more", text, ranks.size() - listed);
}

absl::Status NothingHeard(const std::vector<int64_t>& ranks, double timeout_s) {
  return absl::DeadlineExceededError(fmt::format(
      "nothing was heard from {} within {:g} s", ListRanks(ranks), timeout_s));
}

absl::Status DidNotCome(std::string_view what,
                        const std::vector<int64_t>& ranks, double timeout_s) {
  return absl::DeadlineExceededError(
      fmt::format("{}: of its group, {} did not come within {:g} s", what,
                  ListRanks(ranks), timeout_s));
}

}  // namespace asyra
