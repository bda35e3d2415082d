#include "passes/schedule/tile/merge_groups.h"

#include <vector>

#include "ir/support/status.h"
#include "passes/analysis/name_list.h"
#include "passes/schedule/tile/bucket_candidates.h"

namespace asyra {

PassRun MergePass(absl::Span<const std::string> names) {
  return MakePass("merge_groups", {{"names", TextOfNames(names)}});
}

absl::StatusOr<bool> MergeGroups(Program& program, const PassOptions& options,
                                 PassContext& context) {
  std::vector<std::string> names = NamesIn(options.Get<std::string>("names"));
  TileMerger merger(program);
  std::vector<BucketCandidate> candidates = BucketCandidates(merger);
  std::vector<int> chosen = CandidatesNamed(candidates, names);
  if (chosen.empty()) {
    context.Remark("merge_groups: none of the {} groups is there",
                   names.size());
    return false;
  }
  ASYRA_ASSIGN_OR_RETURN(program, MergeCandidates(merger, candidates, chosen));
  return true;
}

}  // namespace asyra
