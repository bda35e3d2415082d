// Keys that walk: attention over a sequence that is sharded computes with the
// keys that a device has while those of the others come, one shard after the
// other, instead of gathering all first.
//
//   %kw = all_gather(%k) {dim=1, axes=sp}            %vw likewise
//   %y = attention(%q, %kw, %vw)
// over 4 devices becomes
//   %y0, %l0 = attention(%q, %k, %v) {shards=4, shift=0}
//   %k1 = shift(%k) {dim=1, by=1, axes=sp}           %v1 likewise
//   %y1, %l1 = attention(%q, %k1, %v1) {shards=4, shift=1}
//   ...
//   %y = attention_merge(%y0, %l0, %y1, %l1, ...)
//
// Each shard is fetched from the device that has it, so that no step waits for
// the one before. Of two axes, keys walk over the outer one and are gathered
// over the inner one, each part when it has come: shards cross slow links once,
// and a kernel has several of them. Gradients of keys and values are summed
// where they are computed and go back the same way.
//
// With `merge_each` memory holds the shards that are in use, one sum and one
// part, where a gather holds all keys. Gradients are not held so. Rows in
// stripes (stripes.h) see equally much of each shard; windows do not see the
// shards behind them, which are not fetched.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Applies to attention without mask and lengths, whose rows and keys are
// sharded over the same axes, and to its gradients. Options:
//   parts (int, default 0): the parts that walk, which divide the devices that
//       share a sequence; 0: one a device. An axis is split where that is
//       needed (ir/split_axes.h), and the context's costs are then over the new
//       mesh.
//   merge_each (bool, default false): each part is merged when it is computed,
//       and the schedule has no more than one at a time (hold_walks.h), which
//       takes the least memory.
// A remark says how many attentions it applied to. Error: parts is negative.
absl::StatusOr<bool> WalkKeys(Program& program, const PassOptions& options,
                              PassContext& context);

// A form of attention: parts of the keys that walk, 1: none, and parts of the
// heads (split_heads.h).
struct AttentionForm {
  int64_t walk = 1, heads = 1;
  bool merge_each = false;
  auto operator<=>(const AttentionForm&) const = default;
};

// The forms that may pay on a machine: keys in one part a host and in two,
// heads in parts where there are several hosts, alone and with such keys. With
// `least_memory` also keys in one part a device, each merged by itself, whose
// kernels are short.
std::vector<AttentionForm> AttentionFormsOf(const Program& program,
                                            int64_t gpus_per_host,
                                            bool least_memory = false);

// Returns the choice that a program shows: a number of parts, or "never".
std::string WalkOf(const Program& program);

}  // namespace asyra
