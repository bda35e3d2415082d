// Candidates for bucketing: ops that all lanes of a tiled program have in
// common, and small collectives of one lane, or of none.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "passes/schedule/tile/merge_tiles.h"

namespace asyra {

// Merges that differ only in the layer and are decided together.
struct BucketCandidate {
  std::string name;  // "layer0.o_proj to layer0.norm", of the first of them
  // A key of what is merged, independent of names, and of how many candidates
  // before it merge the same: equal in programs that differ in their layers
  // only.
  std::string key;
  bool collective = false;
  // Groups of different collectives (join_collectives.h), not of tiles.
  bool join = false;
  int places = 0;  // how many times it occurs
  std::vector<TileGroup> groups;
};

// Returns the candidates of the merger's program, which is scheduled, in order
// of appearance:
// - runs of computing ops of a lane between two communications;
// - collectives, each with its wait;
// - after all of these, collectives that may be joined (join_candidates.h).
std::vector<BucketCandidate> BucketCandidates(const TileMerger& merger);
std::vector<BucketCandidate> BucketCandidates(const Program& program);

// Returns `merger`'s program with these of its candidates merged: tiles first,
// then collectives are joined. A collective that several candidates would join
// goes with the first. An order of the program's ops, if one is given and no
// tiles are merged, is converted to one of the result's. Errors: merges that
// wait for each other.
absl::StatusOr<Program> MergeCandidates(
    const TileMerger& merger, absl::Span<const BucketCandidate> candidates,
    absl::Span<const int> set, std::vector<int>* order = nullptr);

// Returns the name and the key of a candidate:
// "layer0.norm#5f3a0c2e91b7d846.0".
std::string NameAndKey(const BucketCandidate& candidate);

// Indices of candidates by their names, or by NameAndKey: of those that merge
// the same the one so called, or the one with this key, or all of them. Unknown
// ones are left out.
std::vector<int> CandidatesNamed(absl::Span<const BucketCandidate> candidates,
                                 absl::Span<const std::string> names);

}  // namespace asyra
