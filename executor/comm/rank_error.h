// Errors in which ranks speak of each other: one text for all communicators. A
// rank's own number is put in front once, by NameRank, when its error leaves
// the world; no other text begins with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace asyra {

// "rank 3: CAUSE", where the tools and RunLocalRanks report how a rank ended.
absl::Status NameRank(int64_t rank, const absl::Status& cause);

// "rank 3 failed: CAUSE": the error of the others. A cause that says so of a
// rank is passed on as it is: that rank has failed, and not the one that has
// told it.
absl::Status RankFailed(int64_t rank, const absl::Status& cause);

// "rank 3", "ranks 1 3 4"; at most 16 of them, then "and 9 more".
std::string ListRanks(const std::vector<int64_t>& ranks);

// "nothing was heard from ranks 1 3 within 60 s".
absl::Status NothingHeard(const std::vector<int64_t>& ranks, double timeout_s);

// "WHAT: rank 3 did not begin the step within 60 s".
absl::Status DidNotBegin(std::string_view what,
                         const std::vector<int64_t>& ranks, double timeout_s);
// "WHAT: of its group, rank 3 did not come within 60 s".
absl::Status DidNotCome(std::string_view what,
                        const std::vector<int64_t>& ranks, double timeout_s);

}  // namespace asyra
