// What bucketing may merge: ops that all lanes of a tiled program have alike.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "passes/merge_tiles.h"

namespace asyra {

// Merges that are the same but for the layer they are in, and are decided
// together.
struct BucketCandidate {
  std::string name;  // "layer0.o_proj to layer0.norm", of the first of them
  bool collective = false;
  int places = 0;  // how many times it occurs
  std::vector<TileGroup> groups;
};

// Of a scheduled program, in order of appearance:
// - runs of computing ops of a lane between two communications;
// - collectives, each with its wait.
std::vector<BucketCandidate> BucketCandidates(const Program& program);

// The program with these of its candidates merged.
absl::StatusOr<Program> MergeCandidates(
    const Program& program, absl::Span<const BucketCandidate> candidates,
    absl::Span<const int> set);

}  // namespace asyra
