#include "executor/cuda/codegen/loop.h"

namespace asyra::cuda {
namespace {

// All accesses, for changes to all of them.
std::vector<Access*> AccessesOf(Loop* loop) {
  std::vector<Access*> all;
  for (Access& access : loop->operands) all.push_back(&access);
  for (Access& access : loop->results) all.push_back(&access);
  for (Access& access : loop->places) all.push_back(&access);
  return all;
}

// Returns whether steps of dimension `d` go on where those of `d` + 1 end.
bool Joins(const std::vector<Access*>& accesses, size_t d, int64_t inner_size) {
  for (const Access* access : accesses) {
    const Shape& strides = access->strides;
    if (strides[d] != strides[d + 1] * inner_size) return false;
  }
  return true;
}

// Collapses the dimensions of `sizes`, the strides of which begin at `first`.
void Collapse(size_t first, Shape* sizes,
              const std::vector<Access*>& accesses) {
  auto erase = [&](size_t d) {
    sizes->erase(sizes->begin() + static_cast<ptrdiff_t>(d));
    for (Access* access : accesses) {
      access->strides.erase(access->strides.begin() +
                            static_cast<ptrdiff_t>(first + d));
    }
  };
  for (size_t d = sizes->size(); d-- > 0;) {
    if ((*sizes)[d] == 1) erase(d);
  }
  for (size_t d = sizes->size(); d-- > 1;) {
    int64_t inner = (*sizes)[d];
    if (!Joins(accesses, first + d - 1, inner)) continue;
    (*sizes)[d] *= (*sizes)[d - 1];
    erase(d - 1);
  }
}

}  // namespace

Loop Collapsed(const Loop& loop) {
  Loop collapsed = loop;
  std::vector<Access*> accesses = AccessesOf(&collapsed);
  Collapse(collapsed.rows.size(), &collapsed.columns, accesses);
  Collapse(0, &collapsed.rows, accesses);
  return collapsed;
}

}  // namespace asyra::cuda
