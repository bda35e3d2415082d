// Host tensors: of the interpreter, weights, inputs and outputs. Dense,
// row-major, immutable storage shared between copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ir/support/byte_source.h"
#include "ir/type.h"

namespace asyra {

// Rounds to nearest, ties to even; overflow becomes infinity.
uint16_t FloatToHalf(float value);
float HalfToFloat(uint16_t bits);
uint16_t FloatToBFloat16(float value);
float BFloat16ToFloat(uint16_t bits);

class Tensor {
 public:
  Tensor() : Tensor(DType::kF32, {0}) {}
  // Zeros.
  Tensor(DType dtype, absl::Span<const int64_t> shape);
  // A view of `data`, which `owner` keeps alive (a mapped file, a message).
  // `data` holds at least bytes() and may be unaligned.
  static Tensor View(DType dtype, absl::Span<const int64_t> shape,
                     const std::byte* data, std::shared_ptr<const void> owner);
  // A view of bytes in a file, which `source` keeps mapped at `data` and can
  // read in parts from `offset` on (ir/weights/shard_reader.h).
  static Tensor View(DType dtype, absl::Span<const int64_t> shape,
                     const std::byte* data,
                     std::shared_ptr<const ByteSource> source, int64_t offset);
  // From values, each rounded to `dtype`. The sizes must agree.
  static Tensor FromDoubles(DType dtype, absl::Span<const int64_t> shape,
                            absl::Span<const double> values);
  static Tensor FromInts(DType dtype, absl::Span<const int64_t> shape,
                         absl::Span<const int64_t> values);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t size(int dim) const { return shape_[dim]; }
  int64_t num_elements() const { return NumElements(shape_); }
  int64_t bytes() const { return num_elements() * SizeOf(dtype_); }
  const std::byte* data() const { return data_; }
  // The file it is a view of, or null, and its first byte there.
  const ByteSource* source() const { return source_; }
  int64_t source_offset() const { return source_offset_; }
  // Writable bytes; the tensor must be new: not a View and not yet copied.
  std::byte* mutable_data();

  // One element. Integers up to 2^63 are exact through GetInt/SetInt; floats
  // are rounded to dtype on the way in.
  double Get(int64_t index) const;
  int64_t GetInt(int64_t index) const;
  void Set(int64_t index, double value);
  void SetInt(int64_t index, int64_t value);

  // All elements, rounded as Set does; values.size() is num_elements().
  void SetAll(absl::Span<const double> values);
  std::vector<double> ToDoubles() const;
  std::vector<int64_t> ToInts() const;

  // The same bytes under another shape of equal element count.
  Tensor Reshaped(absl::Span<const int64_t> shape) const;
  // Rows [start, start+size) of `dim`; a copy unless dim is outermost.
  Tensor Slice(int dim, int64_t start, int64_t size) const;
  // Parts joined along `dim`; there is at least one.
  static Tensor Concat(absl::Span<const Tensor> parts, int dim);

 private:
  DType dtype_;
  Shape shape_;
  // The same elements' type and bytes, `offset` bytes further on.
  Tensor ViewAt(absl::Span<const int64_t> shape, int64_t offset) const;

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  const ByteSource* source_ = nullptr;  // the owner, where it is a file
  int64_t source_offset_ = 0;
};

// Equal dtype, shape and bytes.
bool SameBytes(const Tensor& a, const Tensor& b);

// The part of global tensor `whole` that `device` holds under `type`. Of a
// partial type the first device of a group has all of the sum, the others
// zeros.
Tensor Shard(const Tensor& whole, const Type& type, const Mesh& mesh,
             int64_t device);
// The global tensor from each device's shard (one per device of the mesh).
// Replicated parts are taken from the first device that has them, partial ones
// are added up.
Tensor Unshard(absl::Span<const Tensor> shards, const Type& type,
               const Mesh& mesh);

}  // namespace asyra
