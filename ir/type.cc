#include "ir/type.h"

#include "fmt/format.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

struct DTypeInfo {
  std::string_view name;
  int64_t bytes;
};

constexpr DTypeInfo kInfo[] = {{"bool", 1}, {"i32", 4}, {"i64", 8}, {"f16", 2},
                               {"bf16", 2}, {"f32", 4}, {"f64", 8}};

const DTypeInfo& Info(DType dtype) { return kInfo[static_cast<int>(dtype)]; }

}  // namespace

int64_t SizeOf(DType dtype) { return Info(dtype).bytes; }
bool Is16Bit(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

bool IsFloat(DType dtype) { return dtype >= DType::kF16; }
bool IsInteger(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64;
}
std::string_view ToString(DType dtype) { return Info(dtype).name; }

bool ParseDType(std::string_view name, DType* dtype) {
  for (DType candidate : kAllDTypes) {
    if (ToString(candidate) == name) {
      *dtype = candidate;
      return true;
    }
  }
  return false;
}

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

std::string ShapeToString(absl::Span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

Type::Type(DType dtype, absl::Span<const int64_t> shape) : dtype(dtype) {
  for (int64_t size : shape) dims.push_back({size, {}});
}

Shape Type::shape() const {
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(dim.size);
  return shape;
}

int64_t Type::num_elements() const {
  int64_t n = 1;
  for (const Dim& dim : dims) n *= dim.size;
  return n;
}

int64_t Type::bytes() const { return num_elements() * SizeOf(dtype); }

bool Type::is_distributed() const {
  for (const Dim& dim : dims) {
    if (!dim.axes.empty()) return true;
  }
  return !partial.empty();
}

Type Type::Global() const { return Type(dtype, shape()); }

Type Type::Local(const Mesh& mesh) const {
  Type local = Global();
  for (int i = 0; i < rank(); ++i) {
    int64_t parts = mesh.size(dims[i].axes);
    ASYRA_CHECK(dims[i].size % parts == 0);
    local.dims[i].size /= parts;
  }
  return local;
}

int64_t LocalBytes(const Type& type, const Mesh& mesh) {
  int64_t elements = 1;
  for (const Dim& dim : type.dims) elements *= dim.size / mesh.size(dim.axes);
  return elements * SizeOf(type.dtype);
}

int NormalizeDim(int64_t dim, int rank) {
  if (dim < 0) dim += rank;
  return dim >= 0 && dim < rank ? static_cast<int>(dim) : -1;
}

int64_t ShardStart(const Dim& dim, const Mesh& mesh, int64_t device) {
  return dim.size / mesh.size(dim.axes) * mesh.GroupIndex(device, dim.axes);
}

absl::Status PutInner(Type* type, int dim, const AxisList& axes,
                      const Mesh& mesh) {
  Dim& to = type->dims[dim];
  for (AxisId axis : axes) {
    bool used = Contains(type->partial, axis);
    for (const Dim& other : type->dims) used |= Contains(other.axes, axis);
    if (used) return Invalid("axis {} is in use already", mesh.name(axis));
    to.axes.push_back(axis);
  }
  if (axes.empty() || to.size % mesh.size(to.axes) != 0) {
    return Invalid("dim {} of size {} does not divide over {} = {}", dim,
                   to.size, AxesToString(to.axes, mesh), mesh.size(to.axes));
  }
  return absl::OkStatus();
}

std::string ToString(const Type& type, const Mesh& mesh) {
  std::string text = type.future ? "future " : "";
  text += ToString(type.dtype);
  text += '[';
  for (int i = 0; i < type.rank(); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{}", type.dims[i].size);
    if (!type.dims[i].axes.empty()) {
      text += '@' + AxesToString(type.dims[i].axes, mesh);
    }
  }
  text += ']';
  if (!type.partial.empty()) {
    std::string axes = AxesToString(type.partial, mesh);
    text += axes[0] == '(' ? " partial" + axes : " partial(" + axes + ")";
  }
  return text;
}

std::string ToString(absl::Span<const Type> types, const Mesh& mesh) {
  std::string text;
  for (const Type& type : types) {
    if (!text.empty()) text += ", ";
    text += ToString(type, mesh);
  }
  return text;
}

}  // namespace asyra
