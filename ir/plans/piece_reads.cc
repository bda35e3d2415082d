#include "ir/plans/piece_reads.h"

#include "ir/support/status.h"

namespace asyra {

PieceReads::PieceReads(const GroupBody& group)
    : group_(group), walk_(FindWalk(group, 1)) {}

absl::StatusOr<Box> PieceReads::Of(int op, int k, int rank,
                                   const Box& result) const {
  if (!walk_.ok()) return walk_.status();
  const Body& body = group_.body;
  int made = body.num_operands + op, read = body.ops[op].operands[k];
  const Type& type = group_.types[read];
  Box held = BoxOf(type, rank, group_.ranks);
  int from = walk_->dim[made], dim = walk_->dim[read];
  if (dim < 0) return held;
  int64_t total = group_.types[made].size(from), size = type.size(dim);
  int64_t first = result.start[from] * size, count = result.size[from] * size;
  Box cut = held;
  if (first % total != 0 || count % total != 0) {
    return Invalid(
        "dim {} of {}, of size {}, is no whole part of dim {} of %{}, of size "
        "{}",
        from, ToString(result), total, dim, read, size);
  }
  cut.start[dim] = first / total;
  cut.size[dim] = count / total;
  Box both = Intersection(held, cut);
  if (both.elements() > 0) return both;
  return Invalid("rank {} has nothing of it: it holds {} of %{}, not {}", rank,
                 ToString(held), read, ToString(cut));
}

}  // namespace asyra
