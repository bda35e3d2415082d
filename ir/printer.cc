#include "ir/printer.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "ir/body.h"
#include "ir/lexer.h"
#include "ir/overlap.h"
#include "ir/weight_origin.h"

namespace asyra {
namespace {

// Shortest text that reads back to the same double; always a float to the eye.
std::string FloatToString(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct AttrPrinter {
  const Mesh& mesh;
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const {
    return fmt::format("{}", value);
  }
  std::string operator()(double value) const { return FloatToString(value); }
  std::string operator()(const std::string& value) const {
    return QuotedText(value);
  }
  std::string operator()(const Ints& value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
  std::string operator()(const AxisList& value) const {
    return AxesToString(value, mesh);
  }
  std::string operator()(DType value) const {
    return std::string(ToString(value));
  }
  std::string operator()(const Tensor& value) const { return ToString(value); }
  std::string operator()(const BodyRef& value) const {
    return "{" + BodyOutline(*value) + "}";
  }
  std::string operator()(const PlanRef& value) const {
    return value.get() == nullptr ? "no plan" : "a plan";
  }
};

// The separator of the statements of a body, and its end; how long lists are.
struct Layout {
  std::string_view begin, next, end;
  size_t most = std::string::npos;  // values of a list, statements of a body
};
constexpr Layout kOneLine = {"", "; ", ""};
constexpr Layout kBrief = {"", "; ", "", 3};
constexpr Layout kLines = {"\n    ", "\n    ", "\n  "};

std::string PrintAttrs(const OpDef& def, const AttrMap& attrs,
                       absl::Span<const Type> operands, const Mesh& mesh,
                       const Layout& layout);

// Types are left out if the body is invalid and they are unknown.
std::string PrintBody(const Body& body, absl::Span<const Type> operands,
                      const Mesh& mesh, const Layout& layout) {
  auto types = Communicates(body) ? OverlapTypes(body, operands, mesh)
                                  : BodyTypes(body, operands, mesh);
  std::string text(layout.begin);
  for (size_t i = 0; i < body.ops.size(); ++i) {
    if (i == layout.most) {
      text += fmt::format("and {} more{}", body.ops.size() - i, layout.next);
      break;
    }
    const BodyOp& op = body.ops[i];
    size_t result = body.num_operands + i;
    text += fmt::format("%{} = {}(%{}){}", result, op.def->name,
                        fmt::join(op.operands, ", %"),
                        PrintAttrs(*op.def, op.attrs, {}, mesh, layout));
    if (types.ok()) text += " : " + ToString((*types)[result], mesh);
    text += layout.next;
  }
  return text + fmt::format("return %{}{}", fmt::join(body.results, ", %"),
                            layout.end);
}

// Prints the lines of a plan, the lines between braces.
std::string PrintPlanLines(std::vector<std::string> lines,
                           const Layout& layout) {
  if (lines.size() > layout.most) {
    return fmt::format(" plan {{{} lines}}", lines.size());
  }
  bool one_line = layout.begin.empty();
  if (one_line) {
    for (std::string& line : lines) line.erase(0, line.find_first_not_of(' '));
  }
  return fmt::format(" plan {{{}{}{}}}", layout.begin,
                     fmt::join(lines, one_line ? " " : layout.next),
                     layout.end);
}

std::string PrintAttrs(const OpDef& def, const AttrMap& attrs,
                       absl::Span<const Type> operands, const Mesh& mesh,
                       const Layout& layout) {
  std::string body_text, text;
  auto print = [&](const AttrDef& attr) {
    const AttrValue* value = attrs.Find(attr.name);
    if (value == nullptr || attr.default_value == *value) return;
    if (const BodyRef* body = std::get_if<BodyRef>(value)) {
      body_text = " {" + PrintBody(**body, operands, mesh, layout) + "}";
      return;
    }
    if (const PlanRef* plan = std::get_if<PlanRef>(value)) {
      body_text += PrintPlanLines(def.plan_form.print(**plan), layout);
      return;
    }
    if (!text.empty()) text += ", ";
    text += fmt::format("{}={}", attr.name,
                        attr.words.empty() ? ToString(*value, mesh)
                                           : std::get<std::string>(*value));
  };
  for (const AttrDef& attr : def.attrs) print(attr);
  for (const AttrDef& attr : ScheduleAttrs()) print(attr);
  return body_text + (text.empty() ? "" : " {" + text + "}");
}

// Prints each value by `print`.
template <typename Ids, typename Print>
std::string PrintList(const Ids& values, const Layout& layout, Print print) {
  std::string text;
  size_t listed = std::min<size_t>(values.size(), layout.most);
  for (size_t i = 0; i < listed; ++i) {
    if (i > 0) text += ", ";
    text += print(values[i]);
  }
  if (listed == values.size()) return text;
  return fmt::format("{} and {} more", text, values.size() - listed);
}

template <typename Ids>
std::string PrintValues(const Program& program, const Ids& values,
                        const Layout& layout) {
  return PrintList(values, layout, [&](ValueId value) {
    return "%" + program.value_name(value);
  });
}

std::string PrintType(const Program& program, ValueId value) {
  std::string text = ToString(program.type(value), program.mesh);
  int64_t offset = program.values[value].offset;
  if (offset >= 0) text += fmt::format(" at {}", offset);
  return text;
}

std::string PrintSignature(const Program& program) {
  std::string text = "program @" + program.name + "(";
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    if (i > 0) text += ",\n    ";
    text += fmt::format("%{}: {}", program.value_name(input.value),
                        PrintType(program, input.value));
    if (input.role == InputRole::kWeight) text += " weight";
    if (input.role == InputRole::kState) text += " state";
    if (input.role == InputRole::kParam) text += " param";
    if (!input.stored.empty()) {
      text += fmt::format(" padded from [{}]", fmt::join(input.stored, ", "));
    }
    if (input.origin != nullptr) text += " " + ToString(*input.origin);
  }
  text += ") -> (";
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += ToString(program.type(program.outputs[i].value), program.mesh);
  }
  return text + ") {\n";
}

}  // namespace

std::string ToString(const AttrValue& value, const Mesh& mesh) {
  return std::visit(AttrPrinter{mesh}, value);
}

std::string ToString(const Tensor& tensor) {
  std::string text = fmt::format("{}{}(", ToString(tensor.dtype()),
                                 ShapeToString(tensor.shape()));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (i > 0) text += ", ";
    text += IsFloat(tensor.dtype()) ? FloatToString(tensor.Get(i))
                                    : fmt::format("{}", tensor.GetInt(i));
  }
  return text + ")";
}

namespace {

std::string PrintOp(const Program& program, const Op& op,
                    const Layout& layout) {
  std::string text;
  if (!op.results.empty())
    text = PrintValues(program, op.results, layout) + " = ";
  if (op.start) text += "start ";
  text += fmt::format("{}({})", op.def->name,
                      PrintValues(program, op.operands, layout));
  text += PrintAttrs(*op.def, op.attrs, program.OperandTypes(op), program.mesh,
                     layout);
  if (op.stream != kNoStream) text += " on " + program.streams[op.stream];
  if (!op.after.empty()) {
    text += fmt::format(" after({})", PrintValues(program, op.after, layout));
  }
  if (op.results.empty()) return text;
  return text + " : " + PrintList(op.results, layout, [&](ValueId value) {
           return PrintType(program, value);
         });
}

}  // namespace

std::string AttrsToString(const OpDef& def, const AttrMap& attrs,
                          absl::Span<const Type> operands, const Mesh& mesh) {
  return PrintAttrs(def, attrs, operands, mesh, kOneLine);
}

std::string ToString(const Program& program, const Op& op) {
  return PrintOp(program, op, kOneLine);
}

std::string Brief(const Program& program, const Op& op) {
  return PrintOp(program, op, kBrief);
}

std::string ToString(const Program& program) {
  std::string text = fmt::format("asyra 1 {}\n", ToString(program.stage));
  if (program.mesh.num_axes() > 0) {
    text += fmt::format("mesh {}\n", ToString(program.mesh));
  }
  text += "\n" + PrintSignature(program);
  for (const Op& op : program.ops) {
    text += "  " + PrintOp(program, op, kLines) + "\n";
  }
  text += "  return";
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Output& output = program.outputs[i];
    text += (i == 0 ? " %" : ", %") + program.value_name(output.value);
    if (program.output_name(output) != program.value_name(output.value)) {
      text += fmt::format(" as \"{}\"", output.name);
    }
    if (output.alias != kNoValue) {
      text += " alias %" + program.value_name(output.alias);
    }
  }
  return text + "\n}\n";
}

}  // namespace asyra
