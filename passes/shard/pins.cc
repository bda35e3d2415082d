#include "passes/shard/pins.h"

#include <charconv>
#include <regex>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The parts between separators outside parentheses.
std::vector<std::string_view> SplitOutside(std::string_view text,
                                           char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i == text.size() || (depth == 0 && text[i] == separator)) {
      parts.push_back(Trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts;
}

struct DimPin {
  int dim;
  AxisList axes;
};

struct Pin {
  std::string_view text;
  std::string_view pattern;
  std::vector<DimPin> dims;  // none: whole
};

// "1@tp", "1@(sp,tp)".
absl::StatusOr<DimPin> ReadDim(std::string_view text, const Mesh& mesh) {
  size_t at = text.find('@');
  DimPin pin{};
  if (at != std::string_view::npos) {
    auto [end, error] = std::from_chars(text.data(), text.data() + at, pin.dim);
    if (error != std::errc() || end != text.data() + at || pin.dim < 0) {
      at = std::string_view::npos;
    }
  }
  if (at == std::string_view::npos) {
    return Invalid("expected DIM@AXIS, as 1@tp, or whole; got '{}'", text);
  }
  std::string_view axes = text.substr(at + 1);
  if (axes.size() >= 2 && axes.front() == '(' && axes.back() == ')') {
    axes = axes.substr(1, axes.size() - 2);
  }
  for (std::string_view name : SplitOutside(axes, ',')) {
    AxisId axis = mesh.Find(name);
    if (axis < 0) {
      return Invalid("the mesh {} has no axis '{}'", ToString(mesh), name);
    }
    pin.axes.push_back(axis);
  }
  return pin;
}

absl::StatusOr<Pin> ReadPin(std::string_view text, const Mesh& mesh) {
  // A pattern may contain '=', a distribution does not.
  size_t equal = text.rfind('=');
  if (equal == std::string_view::npos || equal == 0) {
    return Invalid("expected REGEX=DIM@AXIS");
  }
  Pin pin{text, Trimmed(text.substr(0, equal)), {}};
  std::string_view dims = Trimmed(text.substr(equal + 1));
  if (dims == "whole") return pin;
  for (std::string_view dim : SplitOutside(dims, ',')) {
    ASYRA_ASSIGN_OR_RETURN(DimPin read, ReadDim(dim, mesh));
    pin.dims.push_back(std::move(read));
  }
  return pin;
}

// " (reshape)": the op that makes a value; nothing for inputs.
std::string MadeBy(const Program& program, ValueId value) {
  for (const Op& op : program.ops) {
    for (ValueId result : op.results) {
      if (result == value) return fmt::format(" ({})", op.def->name);
    }
  }
  return "";
}

absl::StatusOr<Type> Pinned(const Pin& pin, const Program& program,
                            ValueId value) {
  Type type = program.type(value);
  std::vector<bool> used(program.mesh.num_axes(), false);
  for (const DimPin& dim : pin.dims) {
    if (dim.dim >= type.rank()) {
      return Invalid("%{} has rank {}, no dim {}", program.value_name(value),
                     type.rank(), dim.dim);
    }
    for (AxisId axis : dim.axes) {
      if (used[axis]) {
        return Invalid("axis {} is given twice", program.mesh.name(axis));
      }
      used[axis] = true;
    }
    int64_t devices = program.mesh.size(dim.axes);
    if (type.size(dim.dim) % devices != 0) {
      return Invalid(
          "dim {} of %{}{} has size {}, which {} of size {} does not divide",
          dim.dim, program.value_name(value), MadeBy(program, value),
          type.size(dim.dim), AxesToString(dim.axes, program.mesh), devices);
    }
    type.dims[dim.dim].axes = dim.axes;
  }
  return type;
}

absl::StatusOr<std::regex> PatternOf(const Pin& pin) {
  try {  // std::regex knows no other way to refuse
    return std::regex(pin.pattern.begin(), pin.pattern.end());
  } catch (const std::regex_error& error) {
    return Invalid("'{}' is no regular expression: {}", pin.pattern,
                   error.what());
  }
}

absl::Status Enter(const Pin& pin, const Program& program, Pins* pins) {
  ASYRA_ASSIGN_OR_RETURN(std::regex pattern, PatternOf(pin));
  bool matched = false;
  for (size_t v = 0; v < program.values.size(); ++v) {
    auto value = static_cast<ValueId>(v);
    if (!std::regex_match(program.value_name(value), pattern)) continue;
    matched = true;
    ASYRA_ASSIGN_OR_RETURN((*pins)[v], Pinned(pin, program, value));
  }
  if (!matched) return Invalid("no value has a name like '{}'", pin.pattern);
  return absl::OkStatus();
}

// Calls `use` for each pin; its errors, and those of reading, name the pin.
template <typename Use>
absl::Status ForEachPin(std::string_view text, const Mesh& mesh,
                        const Use& use) {
  for (std::string_view one : SplitOutside(text, ';')) {
    if (one.empty()) continue;
    absl::StatusOr<Pin> pin = ReadPin(one, mesh);
    absl::Status status = pin.ok() ? use(*pin) : pin.status();
    ASYRA_RETURN_IF_ERROR(Annotate(status, fmt::format("pin '{}'", one)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Pins> ReadPins(std::string_view text, const Program& program) {
  Pins pins(program.values.size());
  ASYRA_RETURN_IF_ERROR(ForEachPin(text, program.mesh, [&](const Pin& pin) {
    return Enter(pin, program, &pins);
  }));
  return pins;
}

absl::Status CheckPins(std::string_view text, const Mesh& mesh) {
  return ForEachPin(text, mesh,
                    [](const Pin& pin) { return PatternOf(pin).status(); });
}

}  // namespace asyra
