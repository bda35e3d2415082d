// Types carry the distribution: a dimension has its global size and the mesh
// axes that shard it; local sizes are derived. `bf16[8192@dp, 4096]`,
// `8192@(dp,sp)`; `partial(tp)` marks a value still to be summed over tp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/mesh.h"

namespace asyra {

enum class DType : uint8_t { kBool, kI32, kI64, kF16, kBF16, kF32, kF64 };
inline constexpr DType kAllDTypes[] = {DType::kBool, DType::kI32,  DType::kI64,
                                       DType::kF16,  DType::kBF16, DType::kF32,
                                       DType::kF64};

int64_t SizeOf(DType dtype);  // bytes of one element
bool IsFloat(DType dtype);
// Returns whether it is f16 or bf16.
bool Is16Bit(DType dtype);
bool IsInteger(DType dtype);             // not bool
std::string_view ToString(DType dtype);  // "bf16"
// False when `name` is none of the above.
bool ParseDType(std::string_view name, DType* dtype);

using Shape = absl::InlinedVector<int64_t, 4>;
int64_t NumElements(absl::Span<const int64_t> shape);
std::string ShapeToString(absl::Span<const int64_t> shape);  // "[2,3]"

struct Dim {
  int64_t size = 1;  // global
  AxisList axes;     // outermost first
  friend bool operator==(const Dim& a, const Dim& b) {
    return a.size == b.size && a.axes == b.axes;
  }
};

// The type of a value. An axis shards at most one dimension, and is then not
// partial; the product of a dimension's axis sizes divides its size.
struct Type {
  DType dtype = DType::kF32;
  absl::InlinedVector<Dim, 4> dims;
  AxisList partial;     // ascending; the value is the sum over these axes
  bool future = false;  // result of a `start`, to be waited for

  Type() = default;
  Type(DType dtype, absl::Span<const int64_t> shape);

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t size(int dim) const { return dims[dim].size; }
  Shape shape() const;  // global
  int64_t num_elements() const;
  int64_t bytes() const;  // global

  bool is_distributed() const;
  // The same shape and element type, on one device.
  Type Global() const;
  // The local type of one device, without axes.
  Type Local(const Mesh& mesh) const;

  friend bool operator==(const Type& a, const Type& b) {
    return a.dtype == b.dtype && a.dims == b.dims && a.partial == b.partial &&
           a.future == b.future;
  }
  friend bool operator!=(const Type& a, const Type& b) { return !(a == b); }
};

// Cuts `dim` by `axes` too, inside those that do already. Errors: none, one
// that is in use, sizes that do not divide; `type` is then unspecified.
absl::Status PutInner(Type* type, int dim, const AxisList& axes,
                      const Mesh& mesh);

// Bytes that one device holds of a value.
int64_t LocalBytes(const Type& type, const Mesh& mesh);

// Dimension counted from the end when negative, as in ONNX and NumPy; -1 when
// out of range.
int NormalizeDim(int64_t dim, int rank);

// First global index that `device` holds of `dim`.
int64_t ShardStart(const Dim& dim, const Mesh& mesh, int64_t device);

std::string ToString(const Type& type, const Mesh& mesh);
std::string ToString(absl::Span<const Type> types, const Mesh& mesh);

}  // namespace asyra
