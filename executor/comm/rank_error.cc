#include "executor/comm/rank_error.h"

#include "fmt/ranges.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr size_t kMostListed = 16;

// Returns whether the message is one of RankFailed.
bool NamesFailedRank(std::string_view message) {
  constexpr std::string_view kRank = "rank ", kFailed = " failed: ";
  if (!message.starts_with(kRank)) return false;
  message.remove_prefix(kRank.size());
  size_t digits = message.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos &&
         message.substr(digits).starts_with(kFailed);
}

}  // namespace

absl::Status NameRank(int64_t rank, const absl::Status& cause) {
  return Annotate(cause, fmt::format("rank {}", rank));
}

absl::Status RankFailed(int64_t rank, const absl::Status& cause) {
  std::string message(MessageOf(cause));
  if (NamesFailedRank(message)) return absl::AbortedError(message);
  return absl::AbortedError(fmt::format("rank {} failed: {}", rank, message));
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

absl::Status DidNotBegin(std::string_view what,
                         const std::vector<int64_t>& ranks, double timeout_s) {
  return absl::DeadlineExceededError(
      fmt::format("{}: {} did not begin the step within {:g} s", what,
                  ListRanks(ranks), timeout_s));
}

absl::Status DidNotCome(std::string_view what,
                        const std::vector<int64_t>& ranks, double timeout_s) {
  return absl::DeadlineExceededError(
      fmt::format("{}: of its group, {} did not come within {:g} s", what,
                  ListRanks(ranks), timeout_s));
}

}  // namespace asyra
