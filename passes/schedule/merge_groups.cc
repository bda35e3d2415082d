#include "passes/schedule/merge_groups.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "passes/schedule/bucket_candidates.h"

namespace asyra {
namespace {

// Names are of values, and have none.
constexpr char kSeparator[] = "; ";

}  // namespace

PassRun MergePass(absl::Span<const std::string> names) {
  return MakePass("merge_groups",
                  {{"names", absl::StrJoin(names, kSeparator)}});
}

absl::StatusOr<bool> MergeGroups(Program& program, const PassOptions& options,
                                 PassContext& context) {
  std::vector<std::string> names = absl::StrSplit(
      options.Get<std::string>("names"), kSeparator, absl::SkipEmpty());
  std::vector<BucketCandidate> candidates = BucketCandidates(program);
  std::vector<int> chosen = CandidatesNamed(candidates, names);
  if (chosen.empty()) {
    context.Remark("merge_groups: none of the {} groups is there",
                   names.size());
    return false;
  }
  TileMerger merger(program);
  ASYRA_ASSIGN_OR_RETURN(program, MergeCandidates(merger, candidates, chosen));
  return true;
}

}  // namespace asyra
