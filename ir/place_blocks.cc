#include "ir/place_blocks.h"

#include <algorithm>
#include <numeric>

#include "ir/support/round_up.h"

namespace asyra {
namespace {

// Number of pieces into which the text is cut, to find nearby blocks.
constexpr int kPieces = 32;
// How often the highest blocks are moved to the front of the order.
constexpr int kRepairs = 16;

enum class Fit : uint8_t { kLowest, kSmallest };

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

  // Where it ends beyond the limit, only the blocks up to the one that does
  // have offsets.
  ArenaLayout Run(const std::vector<int>& order) && {
    for (int block : order) {
      Place(block);
      if (layout_.bytes > limit_bytes_) break;
    }
    return std::move(layout_);
  }

 private:
  // A block that has its bytes.
  struct Placed {
    int64_t from, until;
    int begin, end, index;
  };
  using ByOffset = std::vector<Placed>;  // sorted by `from`

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
    Insert(placed, &all_);
    // Where it is in use in the first half or the second.
    int first = std::max(0, block.begin / width_ - 1);
    int last = (block.end - 1) / width_;
    for (int p = first; p <= last; ++p) Insert(placed, &near_[p]);
  }

  static void Insert(const Placed& placed, ByOffset* sorted) {
    auto at = std::upper_bound(
        sorted->begin(), sorted->end(), placed,
        [](const Placed& a, const Placed& b) { return a.from < b.from; });
    sorted->insert(at, placed);
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
    for (const Placed& other : placed) {
      if (other.begin >= block.end || block.begin >= other.end ||
          other.until <= end || !blocks_.Interfere(index, other.index)) {
        continue;
      }
      int64_t gap = other.from - end;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit_ == Fit::kLowest) break;
      }
      end = other.until;
    }
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

}  // namespace

ArenaLayout PlaceBlocks(const MemoryBlocks& blocks,
                        const ArenaOptions& options) {
  int64_t bound = blocks.PeakBytes(options.alignment);
  ArenaLayout best;
  bool found = false;
  // True when it is good enough, or cannot be better.
  auto attempt = [&](const Order& order, Fit fit, ArenaLayout* layout) {
    int64_t limit = found ? best.bytes - 1 : INT64_MAX;
    *layout = Placement(blocks, options, fit, limit).Run(order);
    if (!found || layout->bytes < best.bytes) best = *layout;
    found = true;
    return best.bytes <= std::max(bound, options.enough_bytes);
  };
  ArenaLayout layout;
  for (Order& order : Orders(blocks)) {
    for (Fit fit : {Fit::kLowest, Fit::kSmallest}) {
      if (attempt(order, fit, &layout)) return best;
    }
    for (int i = 0; i < kRepairs; ++i) {
      Promote(blocks, layout, bound, &order);
      if (attempt(order, Fit::kLowest, &layout)) return best;
    }
  }
  return best;
}

}  // namespace asyra
