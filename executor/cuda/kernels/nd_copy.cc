#include "executor/cuda/kernels/nd_copy.h"

#include <algorithm>

namespace asyra::cuda {
namespace {

using Kind = NdCopy::Kind;

Loop LoopOf(const Shape& sizes, const Access& from, const Access& to) {
  return Collapsed({.columns = sizes, .operands = {from}, .results = {to}});
}

// Runs, and up to three dimensions of them. Where the last dimension is not
// dense on both sides, runs are single elements.
bool IsStrided(const Loop& loop) {
  const Shape &from = loop.operands[0].strides, &to = loop.results[0].strides;
  if (loop.columns.empty()) return true;
  return from.back() == 1 && to.back() == 1 && loop.columns.size() <= 4;
}

StridedCopy StridedCopyOf(const Loop& loop, int64_t bytes) {
  const Shape &from = loop.operands[0].strides, &to = loop.results[0].strides;
  StridedCopy copy;
  size_t n = loop.columns.size();
  copy.run_bytes = bytes * (n > 0 ? loop.columns[n - 1] : 1);
  if (n > 1) {
    copy.middle = loop.columns[n - 2];
    copy.from_middle = bytes * from[n - 2];
    copy.to_middle = bytes * to[n - 2];
  }
  if (n > 2) {
    copy.outer = loop.columns[n - 3];
    copy.from_outer = bytes * from[n - 3];
    copy.to_outer = bytes * to[n - 3];
  }
  if (n > 3) {
    copy.blocks = loop.columns[n - 4];
    copy.from_block = bytes * from[n - 4];
    copy.to_block = bytes * to[n - 4];
  }
  return copy;
}

// The dimension along which `from` is dense while `to` is along the last; none
// where they are not, or tiles would be mostly empty.
std::optional<size_t> TransposedDim(const Loop& loop) {
  constexpr int64_t kLeast = 8;
  const Shape &from = loop.operands[0].strides, &to = loop.results[0].strides;
  size_t n = loop.columns.size();
  if (n < 2 || n > 2 + kMostTransposeBatches || to.back() != 1 ||
      loop.columns.back() < kLeast) {
    return std::nullopt;
  }
  for (size_t d = 0; d + 1 < n; ++d) {
    if (from[d] == 1 && loop.columns[d] >= kLeast) return d;
  }
  return std::nullopt;
}

Transpose TransposeOf(const Loop& loop, size_t dim) {
  const Shape &from = loop.operands[0].strides, &to = loop.results[0].strides;
  Transpose transpose{.a = loop.columns[dim],
                      .b = loop.columns.back(),
                      .from_b = from.back(),
                      .to_a = to[dim]};
  for (size_t d = 0; d + 1 < loop.columns.size(); ++d) {
    if (d == dim) continue;
    int i = transpose.batches++;
    transpose.batch[i] = loop.columns[d];
    transpose.from_batch[i] = from[d];
    transpose.to_batch[i] = to[d];
  }
  return transpose;
}

Kind KindOfLoop(const Loop& loop) {
  if (loop.num_columns() == 0) return Kind::kNothing;
  if (IsStrided(loop)) {
    return IsPlain(StridedCopyOf(loop, 1)) ? Kind::kPlain : Kind::kStrided;
  }
  // Vectors of a transpose begin where its memory does.
  bool begins =
      loop.operands[0].first % 16 == 0 && loop.results[0].first % 16 == 0;
  return begins && TransposedDim(loop) ? Kind::kTranspose : Kind::kGenerated;
}

void* Offset(const void* data, int64_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(data)) + bytes;
}

}  // namespace

Kind NdCopy::KindOf(const Shape& sizes, const Access& from, const Access& to) {
  return KindOfLoop(LoopOf(sizes, from, to));
}

absl::StatusOr<NdCopy> NdCopy::Create(const Shape& sizes, const Access& from,
                                      const Access& to, DType dtype) {
  NdCopy copy;
  Loop loop = LoopOf(sizes, from, to);
  int64_t bytes = SizeOf(dtype);
  copy.kind_ = KindOfLoop(loop);
  copy.element_bytes_ = bytes;
  copy.from_bytes_ = from.first * bytes;
  copy.to_bytes_ = to.first * bytes;
  if (copy.kind_ == Kind::kPlain || copy.kind_ == Kind::kStrided) {
    copy.strided_ = StridedCopyOf(loop, bytes);
  } else if (copy.kind_ == Kind::kTranspose) {
    copy.transpose_ = TransposeOf(loop, *TransposedDim(loop));
  } else if (copy.kind_ == Kind::kGenerated) {
    Expression e;
    e.Store(e.Operand(dtype), dtype);
    ASYRA_ASSIGN_OR_RETURN(copy.generated_, GeneratedKernel::Create(e, loop));
  }
  return copy;
}

absl::Status NdCopy::Enqueue(const void* from, void* to,
                             cudaStream_t stream) const {
  void *read = Offset(from, from_bytes_), *write = Offset(to, to_bytes_);
  switch (kind_) {
    case Kind::kNothing:
      break;
    case Kind::kPlain:
      ASYRA_CUDA(cudaMemcpyAsync(write, read,
                                 strided_.blocks * strided_.outer *
                                     strided_.middle * strided_.run_bytes,
                                 cudaMemcpyDeviceToDevice, stream));
      break;
    case Kind::kStrided:
      ASYRA_CUDA(CopyStrided(strided_, read, write, stream));
      break;
    case Kind::kTranspose:
      ASYRA_CUDA(
          TransposeElements(transpose_, element_bytes_, read, write, stream));
      break;
    case Kind::kGenerated: {
      void* operands[] = {const_cast<void*>(from)};
      void* results[] = {to};
      return generated_.Enqueue(operands, results, stream);
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra::cuda
