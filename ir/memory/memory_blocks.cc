#include "ir/memory/memory_blocks.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "ir/support/round_up.h"

namespace asyra {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

}  // namespace

MemoryBlocks::MemoryBlocks(const Program& program, const HappensBefore& order,
                           const DefUse& def_use, bool in_place)
    : program_(program),
      order_(order),
      def_use_(def_use),
      in_place_(in_place),
      buffers_(program),
      users_(program.values.size()),
      kept_(program.values.size()),
      outside_(program.values.size()),
      block_of_(program.values.size(), kOutside),
      ops_on_(program.streams.size() + 1) {
  FindAccesses();
  PlaceStates();
  MakeBlocks();
  FindEnds();
}

void MemoryBlocks::FindAccesses() {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    int index = static_cast<int>(i);
    slot_.push_back(op.stream + 1);
    position_.push_back(static_cast<int>(ops_on_[slot_.back()].size()));
    ops_on_[slot_.back()].push_back(index);
    for (ValueId value : op.operands) {
      users_[RootOf(value)].push_back(index);
      if (!op.start) continue;
      users_[RootOf(value)].push_back(def_use_.FirstWait(op));
    }
    buffers_.Add(op);
    for (ValueId value : op.results) users_[RootOf(value)].push_back(index);
  }
  for (const Output& output : program_.outputs) {
    kept_[RootOf(output.value)] = true;
  }
}

// Returns whether the result may use the bytes of `old`: all ops that access it
// have finished, except the op itself if it works in place.
bool MemoryBlocks::MayReplace(ValueId old, ValueId result) const {
  int by = def_use_.def[result];
  const Op& op = program_.ops[by];
  int wait = op.start ? def_use_.FirstWait(op) : by;
  for (int user : users_[old]) {
    bool own = user == by || user == wait;
    if (!own && !order_.Finished(user, by)) return false;
  }
  Type type = program_.type(result).Local(program_.mesh);
  auto at = static_cast<size_t>(absl::c_find(op.results, result) -
                                op.results.begin());
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId value = op.operands[k];
    if (RootOf(value) != old) continue;
    bool same_type = program_.type(value).Local(program_.mesh) == type;
    if (!same_type || !MayOverwrite(program_, op, k, at)) return false;
  }
  return true;
}

// An output is stored in the state that it replaces, if possible; in the first
// one if it replaces several.
void MemoryBlocks::PlaceStates() {
  std::vector<bool> seen(program_.values.size());
  for (const Output& output : program_.outputs) {
    ValueId root = RootOf(output.value);
    int def = def_use_.def[root];
    if (output.alias == kNoValue || def < 0 || seen[root]) continue;
    seen[root] = true;
    const Op& op = program_.ops[def];
    outside_[root] = !IsConstant(op) && !kept_[output.alias] &&
                     MayReplace(output.alias, root);
  }
}

void MemoryBlocks::MakeBlocks() {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    if (op.def->is_view || IsConstant(op)) continue;
    for (ValueId result : op.results) {
      if (outside_[result]) continue;
      int block = InPlaceBlock(static_cast<int>(i), result);
      if (block == kOutside) block = AddBlock(result, static_cast<int>(i));
      Extend(block, result);
    }
  }
}

int MemoryBlocks::InPlaceBlock(int op, ValueId result) const {
  if (!in_place_ || !program_.ops[op].def->in_place) return kOutside;
  for (ValueId operand : program_.ops[op].operands) {
    ValueId root = RootOf(operand);
    int block = block_of_[root];
    // Not over an output, nor where another result of the op is stored.
    if (block == kOutside || kept_[root] || top_[block] != root) continue;
    if (MayReplace(root, result)) return block;
  }
  return kOutside;
}

int MemoryBlocks::AddBlock(ValueId value, int op) {
  int64_t bytes = LocalBytes(program_.type(value), program_.mesh);
  blocks_.push_back({.bytes = bytes, .begin = op, .last = op, .end = op + 1});
  accesses_.emplace_back(order_);
  top_.push_back(value);
  block_kept_.push_back(false);
  return static_cast<int>(blocks_.size()) - 1;
}

void MemoryBlocks::Extend(int block, ValueId value) {
  block_of_[value] = block;
  top_[block] = value;
  for (int user : users_[value]) {
    order_.Add(user, &accesses_[block]);
    blocks_[block].last = std::max(blocks_[block].last, user);
  }
  if (kept_[value]) block_kept_[block] = true;
}

void MemoryBlocks::FindEnds() {
  int ops = static_cast<int>(program_.ops.size());
  done_from_.assign(blocks_.size() * ops_on_.size(), kNever);
  for (size_t b = 0; b < blocks_.size(); ++b) {
    MemoryBlock& block = blocks_[b];
    if (block_kept_[b]) {
      block.last = ops - 1;
      block.end = ops;
      continue;
    }
    for (size_t s = 0; s < ops_on_.size(); ++s) {
      const std::vector<int>& stream = ops_on_[s];
      // None at or above the last access comes after it.
      auto later = std::upper_bound(stream.begin(), stream.end(), block.last);
      auto done = std::partition_point(later, stream.end(), [&](int op) {
        return order_.Unfinished(accesses_[b], op) >= 0;
      });
      done_from_[b * ops_on_.size() + s] =
          static_cast<int>(done - stream.begin());
      if (done != stream.begin()) {
        block.end = std::max(block.end, *std::prev(done) + 1);
      }
    }
  }
}

int64_t MemoryBlocks::PeakBytes(int64_t alignment) const {
  std::vector<int64_t> change(program_.ops.size() + 1, 0);
  for (const MemoryBlock& block : blocks_) {
    int64_t bytes = RoundUp(block.bytes, alignment);
    change[block.begin] += bytes;
    change[block.last + 1] -= bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace asyra
