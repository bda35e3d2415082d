#include "ir/call_parser.h"

#include "fmt/format.h"
#include "ir/overlap.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<ParsedCall> CallParser::ParseCall() {
  ParsedCall call;
  ASYRA_ASSIGN_OR_RETURN(call.def, OpName());
  ASYRA_RETURN_IF_ERROR(Expect("("));
  if (!lexer_.TryPunct(")")) {
    do {
      ASYRA_ASSIGN_OR_RETURN(Type type, ParseType());
      call.operands.push_back(std::move(type));
    } while (lexer_.TryPunct(","));
    ASYRA_RETURN_IF_ERROR(Expect(")"));
  }
  ASYRA_ASSIGN_OR_RETURN(call.attrs, Attrs(*call.def, call.operands));
  return call;
}

absl::StatusOr<const OpDef*> CallParser::OpName() {
  Token name = lexer_.peek();
  if (name.kind != Token::kName) return lexer_.Error("expected an op");
  const OpDef* def = FindOp(name.text);
  if (def == nullptr) {
    return lexer_.ErrorAt(name, fmt::format("unknown op {}", name.text));
  }
  lexer_.Take();
  return def;
}

absl::StatusOr<AttrMap> CallParser::Attrs(const OpDef& def,
                                          absl::Span<const Type> operands) {
  AttrMap attrs;
  Token begin = lexer_.peek();
  bool has_body = !def.attrs.empty() && def.attrs[0].kind == AttrKind::kBody;
  if (has_body) {
    ASYRA_ASSIGN_OR_RETURN(Body body, ParseBody(def, operands));
    BodyRef ref(std::move(body));
    attrs.Set(def.attrs[0].name, ref);
    if (def.plan_form.parse != nullptr && lexer_.TryWord("plan")) {
      ASYRA_ASSIGN_OR_RETURN(
          PlanRef plan, def.plan_form.parse(*ref, operands, mesh_, &lexer_));
      attrs.Set("plan", std::move(plan));
    }
  }
  if (lexer_.TryPunct("{") && !lexer_.TryPunct("}")) {
    do {
      ASYRA_RETURN_IF_ERROR(ParseNamedAttr(def, &attrs));
    } while (lexer_.TryPunct(","));
    ASYRA_RETURN_IF_ERROR(Expect("}"));
  }
  absl::Status complete = CompleteAttrs(def, &attrs);
  if (!complete.ok()) return lexer_.ErrorAt(begin, MessageOf(complete));
  return attrs;
}

absl::StatusOr<Body> CallParser::ParseBody(const OpDef& def,
                                           absl::Span<const Type> operands) {
  ASYRA_RETURN_IF_ERROR(Expect("{"));
  Body body;
  body.num_operands = static_cast<int>(operands.size());
  std::vector<Type> types(operands.begin(), operands.end());
  BodyNames names;
  for (size_t i = 0; i < operands.size(); ++i) {
    names[fmt::format("{}", i)] = static_cast<int>(i);
  }
  while (!lexer_.TryWord("return")) {
    ASYRA_RETURN_IF_ERROR(BodyStatement(def, &body, &types, &names));
    lexer_.TryPunct(";");
  }
  Token end = lexer_.peek();
  do {
    ASYRA_ASSIGN_OR_RETURN(int value, BodyUse(def, names));
    body.results.push_back(value);
  } while (lexer_.TryPunct(","));
  ASYRA_RETURN_IF_ERROR(Expect("}"));
  absl::StatusOr<std::vector<Type>> made =
      def.body_communicates ? OverlapTypes(body, operands, mesh_)
                            : BodyTypes(body, operands, mesh_);
  if (!made.ok()) return lexer_.ErrorAt(end, MessageOf(made.status()));
  for (size_t v = operands.size(); v < made->size(); ++v) {
    if ((*made)[v] == types[v]) continue;
    return lexer_.ErrorAt(
        end,
        fmt::format("%{} of the body is {}, what it computes is {}", v,
                    ToString(types[v], mesh_), ToString((*made)[v], mesh_)));
  }
  return body;
}

absl::StatusOr<int> CallParser::BodyUse(const OpDef& of,
                                        const BodyNames& names) {
  if (lexer_.peek().kind != Token::kValue) {
    return lexer_.Error("expected a value of the body, %number");
  }
  Token name = lexer_.Take();
  auto found = names.find(name.text);
  if (found != names.end()) return found->second;
  return lexer_.ErrorAt(
      name, fmt::format("%{} is no operand of the {}, nor defined above in "
                        "its body",
                        name.text, of.name));
}

absl::Status CallParser::BodyStatement(const OpDef& of, Body* body,
                                       std::vector<Type>* types,
                                       BodyNames* names) {
  if (lexer_.peek().kind != Token::kValue) {
    return lexer_.Error("expected a statement of the body, or 'return'");
  }
  Token name = lexer_.Take();
  if (!names->emplace(name.text, body->num_values()).second) {
    return lexer_.ErrorAt(
        name, fmt::format("%{} is defined twice in the body", name.text));
  }
  ASYRA_RETURN_IF_ERROR(Expect("="));
  Token at = lexer_.peek();
  BodyOp op;
  ASYRA_ASSIGN_OR_RETURN(op.def, OpName());
  bool communicates = of.body_communicates;
  if (!communicates && op.def->fusable == Fusable::kNo) {
    return lexer_.ErrorAt(
        at, fmt::format("{} cannot be part of a fusion", op.def->name));
  }
  std::vector<Type> operands;
  ASYRA_RETURN_IF_ERROR(Expect("("));
  do {
    ASYRA_ASSIGN_OR_RETURN(int value, BodyUse(of, *names));
    if (value == body->num_values()) {
      return lexer_.ErrorAt(at, fmt::format("%{} reads itself", name.text));
    }
    op.operands.push_back(value);
    operands.push_back((*types)[value]);
    if (!communicates) operands.back() = operands.back().Global();
  } while (lexer_.TryPunct(","));
  ASYRA_RETURN_IF_ERROR(Expect(")"));
  ASYRA_ASSIGN_OR_RETURN(op.attrs, Attrs(*op.def, operands));
  // The distribution follows from the whole body of a fusion, and from each op
  // of an overlap.
  absl::StatusOr<std::vector<Type>> inferred =
      InferTypes(*op.def, op.attrs, operands, communicates ? mesh_ : Mesh());
  if (!inferred.ok()) {
    return lexer_.ErrorAt(at, MessageOf(inferred.status()));
  }
  ASYRA_RETURN_IF_ERROR(Expect(":"));
  ASYRA_ASSIGN_OR_RETURN(Type type, ParseType());
  Type given = communicates ? type : type.Global();
  if (given != (*inferred)[0]) {
    return lexer_.ErrorAt(at, fmt::format("%{} is {}, the definition gives {}",
                                          name.text, ToString(given, mesh_),
                                          ToString((*inferred)[0], mesh_)));
  }
  types->push_back(std::move(type));
  body->ops.push_back(std::move(op));
  return absl::OkStatus();
}

absl::Status CallParser::ParseNamedAttr(const OpDef& def, AttrMap* attrs) {
  Token name = lexer_.Take();
  const AttrDef* known = FindAttr(def, name.text);
  if (known == nullptr) {
    return lexer_.ErrorAt(
        name, fmt::format("{}: unknown attribute {}", def.name, name.text));
  }
  if (attrs->Find(name.text) != nullptr) {
    return lexer_.ErrorAt(name, fmt::format("{}: attribute {} is given twice",
                                            def.name, name.text));
  }
  ASYRA_RETURN_IF_ERROR(Expect("="));
  if (known->kind == AttrKind::kPlan) {
    return lexer_.ErrorAt(name, fmt::format("{}: the plan comes behind the "
                                            "body: plan {{ ... }}",
                                            def.name));
  }
  ASYRA_ASSIGN_OR_RETURN(AttrValue value, known->words.empty()
                                              ? ParseAttr(known->kind)
                                              : ParseWord());
  attrs->Set(name.text, std::move(value));
  return absl::OkStatus();
}

}  // namespace asyra
