#include "ir/memory/place_blocks.h"

#include <algorithm>
#include <numeric>

#include "ir/support/round_up.h"

namespace asyra {
namespace {

// Number of pieces into which the program is cut, to find nearby blocks.
constexpr int kPieces = 32;
// The times that the highest blocks are moved to the front of the order.
constexpr int kRepairs = 16;
// After so many in a row that gain nothing, more rarely do.
constexpr int kStalled = 8;
// Other orders gain no more over the first than one in so many bytes.
constexpr int kGainOfOrders = 200;
// A layout may exceed the bytes in use at once by one in so many, where no
// layout has as few bytes as would be enough.
constexpr int kClose = 128;

enum class Fit : uint8_t { kLowest, kSmallest };

// A block that has its bytes.
struct Placed {
  int64_t from, until;
  int begin, end, index;
};

// Sorted by `from`, in chunks: to insert into one array of all would take
// longer than to look for gaps.
class ByOffset {
 public:
  void Insert(const Placed& placed) {
    auto chunk = std::partition_point(
        chunks_.begin(), chunks_.end(),
        [&](const Chunk& c) { return c.back().from <= placed.from; });
    if (chunk == chunks_.end()) {
      if (chunks_.empty()) chunks_.emplace_back();
      chunk = chunks_.end() - 1;
    }
    auto at = std::upper_bound(
        chunk->begin(), chunk->end(), placed,
        [](const Placed& a, const Placed& b) { return a.from < b.from; });
    chunk->insert(at, placed);
    if (chunk->size() == kMost) Split(chunk);
  }

  // Calls `visit` with each, until it returns false.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Chunk& chunk : chunks_) {
      for (const Placed& placed : chunk) {
        if (!visit(placed)) return;
      }
    }
  }

 private:
  using Chunk = std::vector<Placed>;
  static constexpr size_t kMost = 256;

  void Split(std::vector<Chunk>::iterator chunk) {
    auto middle = chunk->begin() + kMost / 2;
    Chunk second(middle, chunk->end());
    chunk->erase(middle, chunk->end());
    chunks_.insert(chunk + 1, std::move(second));
  }

  std::vector<Chunk> chunks_;
};

// Places blocks in a given order, until one reaches beyond a limit.
class Placement {
 public:
  Placement(const MemoryBlocks& blocks, const ArenaOptions& options, Fit fit,
            int64_t limit_bytes)
      : blocks_(blocks),
        options_(options),
        fit_(fit),
        limit_bytes_(limit_bytes) {
    int end = 0;
    for (const MemoryBlock& block : blocks.all()) {
      end = std::max(end, block.end);
    }
    width_ = end / kPieces + 1;
    near_.resize(end / width_ + 1);
    layout_.offsets.assign(blocks.all().size(), 0);
  }

  // Places the blocks in this order. If the layout exceeds the limit, only the
  // blocks up to the one that exceeds it have offsets.
  ArenaLayout Run(const std::vector<int>& order) && {
    for (int block : order) {
      Place(block);
      if (layout_.bytes > limit_bytes_) break;
    }
    return std::move(layout_);
  }

 private:
  int64_t Rounded(int block) const {
    int64_t bytes = blocks_.all()[block].bytes + options_.padding;
    return RoundUp(bytes, options_.alignment);
  }

  void Place(int index) {
    int64_t bytes = Rounded(index);
    if (bytes == 0) return;
    const MemoryBlock& block = blocks_.all()[index];
    int64_t offset = FindGap(index, Around(block), bytes);
    layout_.offsets[index] = offset;
    layout_.bytes = std::max(layout_.bytes, offset + bytes);
    Placed placed{offset, offset + bytes, block.begin, block.end, index};
    all_.Insert(placed);
    // Every piece p where it is in use in piece p or p + 1.
    int first = std::max(0, block.begin / width_ - 1);
    int last = (block.end - 1) / width_;
    for (int p = first; p <= last; ++p) near_[p].Insert(placed);
  }

  // All that may be in use together with it, and more.
  const ByOffset& Around(const MemoryBlock& block) const {
    int piece = block.begin / width_;
    return block.end <= (piece + 2) * width_ ? near_[piece] : all_;
  }

  // The lowest gap, or the smallest, between blocks that interfere with it.
  int64_t FindGap(int index, const ByOffset& placed, int64_t bytes) const {
    const MemoryBlock& block = blocks_.all()[index];
    int64_t end = 0, best = -1, best_gap = 0;
    placed.ForEach([&](const Placed& other) {
      if (other.until <= end || other.begin >= block.end ||
          block.begin >= other.end || !blocks_.Interfere(index, other.index)) {
        return true;
      }
      int64_t gap = other.from - end;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit_ == Fit::kLowest) return false;
      }
      end = other.until;
      return true;
    });
    return best >= 0 ? best : end;
  }

  const MemoryBlocks& blocks_;
  ArenaOptions options_;
  Fit fit_;
  int64_t limit_bytes_;
  int width_;  // of a piece, in ops
  ByOffset all_;
  std::vector<ByOffset> near_;  // by piece: in use there or in the next one
  ArenaLayout layout_;
};

using Order = std::vector<int>;

// Ascending by what `key` says of a block.
template <typename Key>
Order SortedBy(const MemoryBlocks& blocks, Key key) {
  std::vector<double> keys;
  for (const MemoryBlock& block : blocks.all()) keys.push_back(key(block));
  Order order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return keys[a] < keys[b]; });
  return order;
}

std::vector<Order> Orders(const MemoryBlocks& blocks) {
  auto bytes = [](const MemoryBlock& block) {
    return static_cast<double>(block.bytes);
  };
  auto length = [](const MemoryBlock& block) {
    return static_cast<double>(block.end - block.begin);
  };
  return {
      SortedBy(blocks, [&](const MemoryBlock& b) { return -bytes(b); }),
      SortedBy(blocks, [&](const MemoryBlock& b) { return -length(b); }),
      SortedBy(blocks,
               [&](const MemoryBlock& b) { return -bytes(b) * length(b); }),
      SortedBy(blocks, [](const MemoryBlock& b) { return double(b.begin); })};
}

// Moves the blocks that reach beyond `bound` to the front of the order.
void Promote(const MemoryBlocks& blocks, const ArenaLayout& layout,
             int64_t bound, Order* order) {
  std::stable_partition(order->begin(), order->end(), [&](int block) {
    return layout.offsets[block] + blocks.all()[block].bytes > bound;
  });
}

// Tries layouts until one is good enough.
class Placer {
 public:
  Placer(const MemoryBlocks& blocks, const ArenaOptions& options)
      : blocks_(blocks),
        options_(options),
        bound_(blocks.PeakBytes(options.alignment)),
        enough_(std::max(bound_, options.enough_bytes)) {
    if (options.enough_bytes > 0 && options.enough_bytes < bound_) {
      enough_ = bound_ + bound_ / kClose;
    }
  }

  ArenaLayout Run() && {
    for (Order& order : Orders(blocks_)) {
      if (Try(std::move(order)) || IsHopeless()) break;
    }
    return std::move(best_);
  }

 private:
  // True when a layout is good enough, or cannot be better.
  bool Try(Order order) {
    ArenaLayout layout;
    for (Fit fit : {Fit::kLowest, Fit::kSmallest}) {
      layout = Attempt(order, fit);
      if (IsDone()) return true;
    }
    int stalled = 0;
    for (int i = 0; i < kRepairs && stalled < kStalled; ++i) {
      Promote(blocks_, layout, bound_, &order);
      int64_t before = best_.bytes;
      layout = Attempt(order, Fit::kLowest);
      if (IsDone()) return true;
      stalled = best_.bytes < before ? 0 : stalled + 1;
    }
    return false;
  }

  ArenaLayout Attempt(const Order& order, Fit fit) {
    bool is_first = best_.offsets.empty();
    int64_t limit = is_first ? INT64_MAX : best_.bytes - 1;
    ArenaLayout layout = Placement(blocks_, options_, fit, limit).Run(order);
    if (is_first || layout.bytes < best_.bytes) best_ = layout;
    return layout;
  }

  bool IsDone() const { return best_.bytes <= enough_; }

  // Returns whether what would be enough is too far away for another order.
  bool IsHopeless() const {
    return options_.enough_or_nothing && options_.enough_bytes > 0 &&
           best_.bytes - best_.bytes / kGainOfOrders > enough_;
  }

  const MemoryBlocks& blocks_;
  const ArenaOptions& options_;
  const int64_t bound_;
  int64_t enough_;
  ArenaLayout best_;
};

}  // namespace

ArenaLayout PlaceBlocks(const MemoryBlocks& blocks,
                        const ArenaOptions& options) {
  return Placer(blocks, options).Run();
}

}  // namespace asyra
