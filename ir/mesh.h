// The device mesh of an SPMD program: named axes over which values shard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"

namespace asyra {

// An axis is known by its position in the mesh; names are for people.
using AxisId = int8_t;

// Mesh axes, outermost (slowest varying) first.
using AxisList = absl::InlinedVector<AxisId, 4>;

bool Contains(const AxisList& axes, AxisId axis);

// Axes are listed like the dimensions of an array: the last one varies
// fastest from device to device, so it is the one whose neighbours are the
// first to share a host. An empty mesh is one device.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int64_t size = 1;
    friend bool operator==(const Axis& a, const Axis& b) {
      return a.name == b.name && a.size == b.size;
    }
  };

  Mesh() = default;
  // Errors: an invalid (lexer.h) or repeated name, a size below 1, more than 16
  // axes.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int64_t num_devices() const;
  int64_t size(AxisId axis) const { return axes_[axis].size; }
  // Product of the sizes of `axes`.
  int64_t size(const AxisList& axes) const;
  const std::string& name(AxisId axis) const { return axes_[axis].name; }
  // The axis of that name, or -1.
  AxisId Find(std::string_view name) const;

  // Position of `device` along `axis`.
  int64_t Coordinate(int64_t device, AxisId axis) const;
  // Position of `device` in its group over `axes`: coordinates read as the
  // digits of one number, the first axis most significant.
  int64_t GroupIndex(int64_t device, const AxisList& axes) const;
  // The devices that differ from `device` only along `axes`, in the order of
  // their GroupIndex; `device` itself is one of them.
  std::vector<int64_t> Group(int64_t device, const AxisList& axes) const;

  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.axes_ == b.axes_;
  }

 private:
  int64_t Stride(AxisId axis) const;
  std::vector<Axis> axes_;
};

// "tp" or "(dp,sp)".
std::string AxesToString(const AxisList& axes, const Mesh& mesh);
// "(dp=2, tp=4)".
std::string ToString(const Mesh& mesh);

}  // namespace asyra
