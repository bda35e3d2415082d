#include "passes/shard/same_states.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/split_axes.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A regular expression that matches the name alone.
std::string Literal(const std::string& name) {
  std::string text;
  for (char c : name) {
    if (std::string_view(".+*?()[]{}|^$\\").find(c) != std::string::npos) {
      text += '\\';
    }
    text += c;
  }
  return text;
}

// "0@dp,1@(sp,tp)", or "whole": over the mesh without splits, of a value that
// each of them leaves whole or shards with both of its axes.
std::string PinOfType(const Type& type, const Mesh& mesh) {
  Mesh whole = WithoutSplits(mesh);
  std::vector<std::string> dims;
  for (int d = 0; d < type.rank(); ++d) {
    const AxisList& axes = type.dims[d].axes;
    if (axes.empty()) continue;
    std::vector<std::string> names;
    for (AxisId axis : axes) {
      const std::string& name = mesh.name(axis);
      if (whole.Find(name) >= 0) names.push_back(name);
    }
    std::string joined = absl::StrJoin(names, ",");
    dims.push_back(names.size() > 1 ? fmt::format("{}@({})", d, joined)
                                    : fmt::format("{}@{}", d, joined));
  }
  return dims.empty() ? "whole" : absl::StrJoin(dims, ",");
}

}  // namespace

bool ShardsByParts(const Program& step) {
  auto has_one = [&](const AxisList& axes) {
    for (AxisId axis = 1; axis < step.mesh.num_axes(); ++axis) {
      if (IsOuterPart(step.mesh.name(axis - 1), step.mesh.name(axis)) &&
          absl::c_linear_search(axes, axis) !=
              absl::c_linear_search(axes, axis - 1)) {
        return true;
      }
    }
    return false;
  };
  return absl::c_any_of(step.inputs, [&](const Input& input) {
    const Type& type = step.type(input.value);
    return input.role != InputRole::kData &&
           (has_one(type.partial) ||
            absl::c_any_of(type.dims,
                           [&](const Dim& dim) { return has_one(dim.axes); }));
  });
}

std::string PinsWhere(
    const Program& step,
    const std::function<bool(const Input& input, const std::string& name)>&
        is_pinned) {
  std::vector<std::string> pins;
  for (const Input& input : step.inputs) {
    const std::string& name = step.value_name(input.value);
    if (input.role == InputRole::kData || !is_pinned(input, name)) continue;
    pins.push_back(fmt::format("{}={}", Literal(name),
                               PinOfType(step.type(input.value), step.mesh)));
  }
  return absl::StrJoin(pins, ";");
}

std::string PinsLike(const Program& step, const Program& other) {
  return PinsWhere(step, [&](const Input& input, const std::string& name) {
    return IsWeight(input) && other.FindValue(name) != kNoValue;
  });
}

absl::Status CheckAgree(const Program& step, const Program& other) {
  for (const Input& input : other.inputs) {
    if (!IsUpdated(input)) continue;
    const std::string& name = other.value_name(input.value);
    ValueId value = step.FindValue(name);
    if (value == kNoValue || step.type(value) == other.type(input.value)) {
      continue;
    }
    return Invalid("%{} is {} in @{}, {} in the training step", name,
                   ToString(other.type(input.value), other.mesh), other.name,
                   ToString(step.type(value), step.mesh));
  }
  return absl::OkStatus();
}

int64_t BytesOfOthers(const Program& step, const Program& other) {
  int64_t bytes = 0;
  for (const Input& input : step.inputs) {
    if (input.role == InputRole::kData ||
        other.FindValue(step.value_name(input.value)) != kNoValue) {
      continue;
    }
    bytes += LocalBytes(step.type(input.value), step.mesh);
  }
  return bytes;
}

}  // namespace asyra
