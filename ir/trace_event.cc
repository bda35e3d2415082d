#include "ir/trace_event.h"

#include <cctype>
#include <cmath>

#include "ir/body.h"
#include "ir/copy_engine.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

// "all_reduce" -> "AllReduce".
std::string CamelCase(std::string_view name) {
  std::string camel;
  bool up = true;
  for (char c : name) {
    if (c != '_') camel += up ? static_cast<char>(std::toupper(c)) : c;
    up = c == '_';
  }
  return camel;
}

int64_t LocalElements(const Program& program,
                      absl::Span<const ValueId> values) {
  int64_t elements = 0;
  for (ValueId value : values) {
    elements += program.type(value).Local(program.mesh).num_elements();
  }
  return elements;
}

}  // namespace

double TraceUs(double us) { return std::round(us * 1000) / 1000; }

std::string TraceName(const Op& op) {
  std::string label = OpLabel(*op.def, op.attrs);
  return op.is_collective() ? "ncclDevKernel_" + CamelCase(label) : label;
}

void AddCollectiveArgs(const Program& program, const Op& op, int64_t device,
                       std::string_view transport,
                       nlohmann::ordered_json* args) {
  const auto& axes = op.attrs.Get<AxisList>("axes");
  auto& to = *args;
  to["Collective name"] = op.def->name;
  to["In msg nelems"] = LocalElements(program, op.operands);
  to["Out msg nelems"] = LocalElements(program, op.results);
  to["Group size"] = program.mesh.size(axes);
  to["dtype"] = ToString(program.type(op.operands[0]).dtype);
  std::string group = AxesToString(axes, program.mesh);
  to["Process Group Name"] = group;
  to["Process Group Description"] = group;
  // A string, which is how profilers write it.
  to["Process Group Ranks"] =
      nlohmann::ordered_json(program.mesh.Group(device, axes)).dump();
  to["transport"] = transport;
}

}  // namespace asyra
