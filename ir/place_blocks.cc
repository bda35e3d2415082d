#include "ir/place_blocks.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ir/support/round_up.h"

namespace asyra {
namespace {

// Number of pieces into which the text is cut, to find nearby blocks.
constexpr int kPieces = 512;
// How often the highest blocks are moved to the front of the order.
constexpr int kRepairs = 16;

enum class Fit : uint8_t { kLowest, kSmallest };

// Places blocks in a given order.
class Placement {
 public:
  Placement(const MemoryBlocks& blocks, const ArenaOptions& options, Fit fit)
      : blocks_(blocks), options_(options), fit_(fit) {
    int end = 0;
    for (const MemoryBlock& block : blocks.all()) {
      end = std::max(end, block.end);
    }
    width_ = end / kPieces + 1;
    pieces_.resize(end / width_ + 1);
    layout_.offsets.assign(blocks.all().size(), 0);
  }

  ArenaLayout Run(const std::vector<int>& order) && {
    for (int block : order) Place(block);
    return std::move(layout_);
  }

 private:
  struct Taken {
    int64_t from, until;
  };

  int64_t Rounded(int block) const {
    int64_t bytes = blocks_.all()[block].bytes + options_.padding;
    return RoundUp(bytes, options_.alignment);
  }

  // Blocks placed that are in use in a piece of the text.
  struct Piece {
    std::vector<int> all, beginning;
  };

  void Place(int index) {
    int64_t bytes = Rounded(index);
    if (bytes == 0) return;
    FindTaken(index);
    int64_t offset = FindGap(bytes);
    layout_.offsets[index] = offset;
    layout_.bytes = std::max(layout_.bytes, offset + bytes);
    const MemoryBlock& block = blocks_.all()[index];
    int first = block.begin / width_, last = (block.end - 1) / width_;
    pieces_[first].beginning.push_back(index);
    for (int p = first; p <= last; ++p) pieces_[p].all.push_back(index);
  }

  // The byte ranges of interfering blocks, by offset: those in use where this
  // one begins, and those that begin later.
  void FindTaken(int index) {
    const MemoryBlock& block = blocks_.all()[index];
    taken_.clear();
    int first = block.begin / width_, last = (block.end - 1) / width_;
    AddTaken(index, pieces_[first].all);
    for (int p = first + 1; p <= last; ++p) {
      AddTaken(index, pieces_[p].beginning);
    }
    std::sort(taken_.begin(), taken_.end(),
              [](const Taken& a, const Taken& b) { return a.from < b.from; });
  }

  void AddTaken(int index, const std::vector<int>& others) {
    const MemoryBlock& block = blocks_.all()[index];
    for (int other : others) {
      const MemoryBlock& placed = blocks_.all()[other];
      if (placed.begin >= block.end || block.begin >= placed.end ||
          !blocks_.Interfere(index, other)) {
        continue;
      }
      int64_t offset = layout_.offsets[other];
      taken_.push_back({offset, offset + Rounded(other)});
    }
  }

  int64_t FindGap(int64_t bytes) const {
    int64_t end = 0, best = -1, best_gap = 0;
    for (const Taken& taken : taken_) {
      int64_t gap = taken.from - end;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit_ == Fit::kLowest) break;
      }
      end = std::max(end, taken.until);
    }
    return best >= 0 ? best : end;
  }

  const MemoryBlocks& blocks_;
  ArenaOptions options_;
  Fit fit_;
  int width_;  // of a piece, in ops
  std::vector<Piece> pieces_;
  std::vector<Taken> taken_;
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
    *layout = Placement(blocks, options, fit).Run(order);
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
