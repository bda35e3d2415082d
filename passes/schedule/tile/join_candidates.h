// Collectives that may be joined (join_collectives.h): small ones of one kind
// over the same axes and on the same stream, near each other, that do not wait
// for each other.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "passes/schedule/tile/join_collectives.h"

namespace asyra {

// Joins that differ only in layer and lane and are decided together.
struct JoinCandidate {
  std::string name;  // "all_to_all of layer0.q, layer0.k and layer0.v"
  std::vector<JoinGroup> groups;
};

// Returns the candidates of a scheduled program, in order of appearance, at
// most kMostJoins: those that remove most collectives. Each lane is considered
// separately; merging across lanes is done by merging tiles. Groups are formed
// in three ways, and costs choose between them:
// - the operands of one op: q, k and v of Ulysses;
// - a stretch in which the first of them does not come again: the gradients of
//   a layer;
// - as much as some bytes, kMostJoinedBytes at most: buckets of gradients
//   across layers.
std::vector<JoinCandidate> JoinCandidates(const Program& program);

inline constexpr size_t kMostJoins = 16;
// Limit of the payload of a device in a joined collective. Beyond it latency is
// a small part on any machine.
inline constexpr int64_t kMostJoinedBytes = int64_t{64} << 20;

}  // namespace asyra
