#include "ir/memory/buffer_map.h"

#include <numeric>

namespace asyra {

BufferMap::BufferMap(const Program& program)
    : program_(program), overwrites_(false), owner_(program.values.size()) {
  std::iota(owner_.begin(), owner_.end(), 0);
}

BufferMap::BufferMap(const Program& program, absl::Span<const ValueId> sums)
    : program_(program),
      overwrites_(true),
      sums_(sums),
      owner_(program.values.size()) {
  std::iota(owner_.begin(), owner_.end(), 0);
}

void BufferMap::Add(const Op& op) {
  if (op.start) {
    start_of_.resize(program_.values.size(), nullptr);
    for (ValueId future : op.results) start_of_[future] = &op;
  }
  if (op.def->is_view) {
    owner_[op.results[0]] = owner_[op.operands[0]];
    return;
  }
  if (!overwrites_ || !op.def->in_place) return;
  for (size_t r = 0; r < op.results.size(); ++r) {
    ValueId under = Overwritten(op, r);
    if (under != kNoValue) owner_[op.results[r]] = owner_[under];
  }
}

void BufferMap::AddAll() {
  for (const Op& op : program_.ops) Add(op);
}

ValueId BufferMap::Overwritten(const Op& op, size_t r) const {
  int64_t offset = program_.values[op.results[r]].offset;
  if (offset < 0) return sums_.empty() ? kNoValue : sums_[op.results[r]];
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId operand = op.operands[k];
    if (program_.values[operand].offset == offset &&
        MayOverwrite(program_, op, k, r)) {
      return operand;
    }
  }
  return kNoValue;
}

}  // namespace asyra
