#include "ir/split_axes.h"

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "ir/body.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class Splitter {
 public:
  // Errors as SplitAxes.
  absl::StatusOr<Mesh> Split(const Mesh& mesh,
                             absl::Span<const AxisSplit> splits) {
    std::vector<int64_t> inner;
    std::vector<std::string> outer(mesh.num_axes());
    for (const Mesh::Axis& axis : mesh.axes()) inner.push_back(axis.size);
    for (const AxisSplit& split : splits) {
      AxisId axis = mesh.Find(split.axis);
      if (axis < 0) {
        return Invalid("{} has no axis {} to split", ToString(mesh),
                       split.axis);
      }
      if (split.inner < 1 || mesh.size(axis) % split.inner != 0) {
        return Invalid("axis {} of size {} does not divide into parts of {}",
                       split.axis, mesh.size(axis), split.inner);
      }
      inner[axis] = split.inner;
      outer[axis] = split.outer;
    }
    std::vector<Mesh::Axis> axes;
    for (int a = 0; a < mesh.num_axes(); ++a) {
      const Mesh::Axis& axis = mesh.axes()[a];
      AxisList parts;
      if (inner[a] < axis.size) {
        parts.push_back(static_cast<AxisId>(axes.size()));
        axes.push_back(
            {fmt::format("{}.{}", axis.name, outer[a]), axis.size / inner[a]});
      }
      parts.push_back(static_cast<AxisId>(axes.size()));
      axes.push_back({axis.name, inner[a]});
      parts_.push_back(std::move(parts));
    }
    return Mesh::Create(std::move(axes));
  }

  void Map(Type* type) const {
    for (Dim& dim : type->dims) dim.axes = Mapped(dim.axes);
    type->partial = Mapped(type->partial);
  }

  void Map(AttrMap* attrs) const {
    MapCuts(attrs);
    AttrMap mapped;
    for (const auto& [name, value] : *attrs) mapped.Set(name, Mapped(value));
    *attrs = std::move(mapped);
  }

 private:
  // Dimensions that axes cut, one for each, become as many as these.
  void MapCuts(AttrMap* attrs) const {
    const AttrValue* cut = attrs->Find("cut");
    const AttrValue* axes = attrs->Find("axes");
    if (cut == nullptr || axes == nullptr) return;
    const Ints& before = std::get<Ints>(*cut);
    Ints dims;
    for (size_t i = 0; i < before.size(); ++i) {
      AxisId axis = std::get<AxisList>(*axes)[i];
      dims.insert(dims.end(), parts_[axis].size(), before[i]);
    }
    attrs->Set("cut", dims);
  }

  AxisList Mapped(const AxisList& axes) const {
    AxisList mapped;
    for (AxisId axis : axes) {
      mapped.insert(mapped.end(), parts_[axis].begin(), parts_[axis].end());
    }
    return mapped;
  }

  AttrValue Mapped(const AttrValue& value) const {
    if (const auto* axes = std::get_if<AxisList>(&value)) return Mapped(*axes);
    if (const auto* ref = std::get_if<BodyRef>(&value)) {
      Body body = **ref;
      for (BodyOp& op : body.ops) Map(&op.attrs);
      return BodyRef(std::move(body));
    }
    return value;
  }

  std::vector<AxisList> parts_;  // by axis before
};

}  // namespace

bool IsOuterPart(std::string_view name, std::string_view axis) {
  return name.size() > axis.size() + 1 && name.starts_with(axis) &&
         name[axis.size()] == '.';
}

bool IsPart(const Mesh& mesh, AxisId axis) {
  const std::string& name = mesh.name(axis);
  auto is_outer = [&](AxisId of) {
    return of > 0 && of < mesh.num_axes() &&
           IsOuterPart(mesh.name(of - 1), mesh.name(of));
  };
  return name.find('.') != std::string::npos || is_outer(axis) ||
         is_outer(axis + 1);
}

std::string_view WholeAxisName(std::string_view axis) {
  return axis.substr(0, axis.find('.'));
}

absl::StatusOr<Program> SplitAxes(Program program,
                                  absl::Span<const AxisSplit> splits) {
  Splitter splitter;
  ASYRA_ASSIGN_OR_RETURN(program.mesh, splitter.Split(program.mesh, splits));
  for (Value& value : program.values) splitter.Map(&value.type);
  for (Op& op : program.ops) splitter.Map(&op.attrs);
  return program;
}

std::vector<AxisSplit> SplitsOf(const Mesh& mesh) {
  std::vector<AxisSplit> splits;
  for (int a = 1; a < mesh.num_axes(); ++a) {
    const Mesh::Axis& axis = mesh.axes()[a];
    const std::string& before = mesh.axes()[a - 1].name;
    if (IsOuterPart(before, axis.name)) {
      splits.push_back(
          {axis.name, axis.size, before.substr(axis.name.size() + 1)});
    }
  }
  return splits;
}

Mesh WithoutSplits(const Mesh& mesh) {
  std::vector<Mesh::Axis> axes;
  for (const Mesh::Axis& axis : mesh.axes()) {
    if (axes.empty() || !IsOuterPart(axes.back().name, axis.name)) {
      axes.push_back(axis);
    } else {
      axes.back() = {axis.name, axes.back().size * axis.size};
    }
  }
  absl::StatusOr<Mesh> whole = Mesh::Create(std::move(axes));
  ASYRA_CHECK(whole.ok());  // names and sizes are those of a mesh
  return *std::move(whole);
}

}  // namespace asyra
