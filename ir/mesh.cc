#include "ir/mesh.h"

#include <algorithm>

#include "fmt/format.h"
#include "ir/lexer.h"
#include "ir/support/status.h"

namespace asyra {

bool Contains(const AxisList& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  constexpr size_t kMaxAxes = 16;
  if (axes.size() > kMaxAxes) {
    return Invalid("mesh: {} axes, at most {} are supported", axes.size(),
                   kMaxAxes);
  }
  int64_t devices = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (!IsName(axis.name)) {
      return Invalid(
          "mesh: axis {} is called '{}'; names are letters, digits, _ and ., "
          "with no digit first",
          i, axis.name);
    }
    if (axis.size < 1) {
      return Invalid("mesh: axis {} has size {}, it must be at least 1",
                     axis.name, axis.size);
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return Invalid("mesh: axis {} is given twice, of size {} and of {}",
                       axis.name, axes[j].size, axis.size);
      }
    }
    if (__builtin_mul_overflow(devices, axis.size, &devices) ||
        devices > (int64_t{1} << 31)) {
      return Invalid("mesh: more than 2^31 devices with axis {}={}", axis.name,
                     axis.size);
    }
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  return mesh;
}

int64_t Mesh::num_devices() const {
  int64_t n = 1;
  for (const Axis& axis : axes_) n *= axis.size;
  return n;
}

int64_t Mesh::size(const AxisList& axes) const {
  int64_t n = 1;
  for (AxisId axis : axes) n *= axes_[axis].size;
  return n;
}

AxisId Mesh::Find(std::string_view name) const {
  for (int i = 0; i < num_axes(); ++i) {
    if (axes_[i].name == name) return static_cast<AxisId>(i);
  }
  return -1;
}

int64_t Mesh::Stride(AxisId axis) const {
  int64_t stride = 1;
  for (int i = num_axes() - 1; i > axis; --i) stride *= axes_[i].size;
  return stride;
}

int64_t Mesh::Coordinate(int64_t device, AxisId axis) const {
  return device / Stride(axis) % axes_[axis].size;
}

int64_t Mesh::GroupIndex(int64_t device, const AxisList& axes) const {
  int64_t index = 0;
  for (AxisId axis : axes) {
    index = index * axes_[axis].size + Coordinate(device, axis);
  }
  return index;
}

std::vector<int64_t> Mesh::Group(int64_t device, const AxisList& axes) const {
  int64_t origin = device;
  for (AxisId axis : axes) origin -= Coordinate(device, axis) * Stride(axis);
  std::vector<int64_t> group = {origin};
  for (AxisId axis : axes) {
    std::vector<int64_t> next;
    for (int64_t base : group) {
      for (int64_t i = 0; i < size(axis); ++i) {
        next.push_back(base + i * Stride(axis));
      }
    }
    group = std::move(next);
  }
  return group;
}

std::string AxesToString(const AxisList& axes, const Mesh& mesh) {
  if (axes.size() == 1) return mesh.name(axes[0]);
  std::string text = "(";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += ',';
    text += mesh.name(axes[i]);
  }
  return text + ")";
}

std::string ToString(const Mesh& mesh) {
  std::string text = "(";
  for (const Mesh::Axis& axis : mesh.axes()) {
    if (text.size() > 1) text += ", ";
    text += fmt::format("{}={}", axis.name, axis.size);
  }
  return text + ")";
}

}  // namespace asyra
