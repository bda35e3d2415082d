#include "ir/parser.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "ir/call_parser.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"

namespace asyra {
namespace {

class Parser : public CallParser {
 public:
  explicit Parser(std::string_view text, Mesh mesh = {})
      : CallParser(text, std::move(mesh)) {
    program_.mesh = mesh_;
  }

  absl::StatusOr<Program> Parse() {
    ASYRA_RETURN_IF_ERROR(Header());
    ASYRA_RETURN_IF_ERROR(Signature());
    while (!lexer_.TryWord("return")) ASYRA_RETURN_IF_ERROR(Statement());
    ASYRA_RETURN_IF_ERROR(Return());
    ASYRA_RETURN_IF_ERROR(Expect("}"));
    ASYRA_RETURN_IF_ERROR(End());
    return std::move(program_);
  }

 private:
  absl::Status Header() {
    if (!lexer_.TryWord("asyra")) {
      return lexer_.Error("not an .asyra program: expected 'asyra 1 STAGE'");
    }
    ASYRA_ASSIGN_OR_RETURN(int64_t version, Int());
    if (version != 1) {
      return lexer_.Error(
          fmt::format("version {} of the text form, this reads 1", version));
    }
    Token stage = lexer_.peek();
    bool known = false;
    for (Stage candidate : {Stage::kGlobal, Stage::kLocal, Stage::kScheduled,
                            Stage::kAllocated}) {
      if (stage.kind == Token::kName && stage.text == ToString(candidate)) {
        program_.stage = candidate;
        known = true;
      }
    }
    if (!known) {
      return lexer_.Error(
          "expected a stage: global, local, scheduled or allocated");
    }
    lexer_.Take();
    return lexer_.TryWord("mesh") ? MeshAxes() : absl::OkStatus();
  }

  absl::Status MeshAxes() {
    ASYRA_RETURN_IF_ERROR(Expect("("));
    std::vector<Mesh::Axis> axes;
    do {
      if (lexer_.peek().kind != Token::kName) {
        return lexer_.Error("expected the name of a mesh axis");
      }
      std::string name = lexer_.Take().text;
      ASYRA_RETURN_IF_ERROR(Expect("="));
      ASYRA_ASSIGN_OR_RETURN(int64_t size, Int());
      axes.push_back({std::move(name), size});
    } while (lexer_.TryPunct(","));
    Token end = lexer_.peek();
    ASYRA_RETURN_IF_ERROR(Expect(")"));
    absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(axes));
    if (!mesh.ok()) return lexer_.ErrorAt(end, MessageOf(mesh.status()));
    mesh_ = program_.mesh = *std::move(mesh);
    return absl::OkStatus();
  }

  absl::Status Signature() {
    if (!lexer_.TryWord("program")) return lexer_.Error("expected 'program'");
    if (lexer_.peek().kind != Token::kSymbol) {
      return lexer_.Error("expected '@' and the name of the program");
    }
    program_.name = lexer_.Take().text;
    ASYRA_RETURN_IF_ERROR(Expect("("));
    if (!lexer_.TryPunct(")")) {
      do {
        ASYRA_RETURN_IF_ERROR(ParseInput());
      } while (lexer_.TryPunct(","));
      ASYRA_RETURN_IF_ERROR(Expect(")"));
    }
    ASYRA_RETURN_IF_ERROR(Expect("->"));
    ASYRA_RETURN_IF_ERROR(Expect("("));
    if (!lexer_.TryPunct(")")) {
      do {
        ASYRA_ASSIGN_OR_RETURN(Type type, ParseType());
        output_types_.push_back(std::move(type));
      } while (lexer_.TryPunct(","));
      ASYRA_RETURN_IF_ERROR(Expect(")"));
    }
    return Expect("{");
  }

  absl::Status ParseInput() {
    ASYRA_ASSIGN_OR_RETURN(Token name, NewName());
    ASYRA_RETURN_IF_ERROR(Expect(":"));
    ASYRA_ASSIGN_OR_RETURN(ValueId value, Define(name));
    InputRole role = InputRole::kData;
    if (lexer_.TryWord("weight")) role = InputRole::kWeight;
    if (lexer_.TryWord("state")) role = InputRole::kState;
    if (lexer_.TryWord("param")) role = InputRole::kParam;
    Shape stored;
    if (lexer_.TryWord("padded")) {
      ASYRA_ASSIGN_OR_RETURN(stored, StoredShape());
    }
    program_.inputs.push_back({value, role, std::move(stored)});
    return lexer_.TryWord("of") ? ParseOrigin() : absl::OkStatus();
  }

  // The origin of the last input, after "of" (ir/weight_origin.h).
  absl::Status ParseOrigin() {
    auto origin = std::make_shared<WeightOrigin>();
    ASYRA_ASSIGN_OR_RETURN(origin->tensor, String());
    ASYRA_ASSIGN_OR_RETURN(origin->shape, Sizes());
    origin->transposed = lexer_.TryWord("transposed");
    if (lexer_.TryWord("stored")) {
      ASYRA_ASSIGN_OR_RETURN(origin->stored_as, String());
    }
    while (lexer_.TryWord("cut")) {
      WeightOrigin::Cut cut;
      ASYRA_ASSIGN_OR_RETURN(cut.split, Sizes());
      ASYRA_ASSIGN_OR_RETURN(int64_t dim, Int());
      cut.dim = static_cast<int>(
          std::clamp<int64_t>(dim, -1, std::numeric_limits<int>::max()));
      ASYRA_ASSIGN_OR_RETURN(cut.start, Int());
      ASYRA_ASSIGN_OR_RETURN(cut.size, Int());
      origin->cuts.push_back(std::move(cut));
    }
    while (lexer_.TryWord("tied")) {
      WeightOrigin::Tied tied;
      ASYRA_ASSIGN_OR_RETURN(tied.tensor, String());
      tied.transposed = lexer_.TryWord("transposed");
      if (lexer_.TryWord("stored")) {
        ASYRA_ASSIGN_OR_RETURN(tied.stored_as, String());
        tied.stored_transposed = lexer_.TryWord("transposed");
      }
      origin->tied.push_back(std::move(tied));
    }
    if (lexer_.TryWord("constant")) {
      ASYRA_ASSIGN_OR_RETURN(origin->constant, String());
    }
    origin->made = lexer_.TryWord("made");
    program_.inputs.back().origin = std::move(origin);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> String() {
    if (lexer_.peek().kind != Token::kString) {
      return lexer_.Error("expected a string in quotes");
    }
    return lexer_.Take().text;
  }

  absl::StatusOr<Shape> Sizes() {
    ASYRA_ASSIGN_OR_RETURN(Ints sizes, IntList());
    return Shape(sizes.begin(), sizes.end());
  }

  // "from [4, 6]", after "padded".
  absl::StatusOr<Shape> StoredShape() {
    if (!lexer_.TryWord("from")) {
      return lexer_.Error("expected 'from' and the shape before padding");
    }
    ASYRA_RETURN_IF_ERROR(Expect("["));
    Shape shape;
    do {
      ASYRA_ASSIGN_OR_RETURN(int64_t size, Int());
      shape.push_back(size);
    } while (lexer_.TryPunct(","));
    ASYRA_RETURN_IF_ERROR(Expect("]"));
    return shape;
  }

  absl::StatusOr<Token> NewName() {
    if (lexer_.peek().kind != Token::kValue) {
      return lexer_.Error("expected a value, %name");
    }
    Token name = lexer_.Take();
    if (ids_.contains(name.text)) {
      return lexer_.ErrorAt(name,
                            fmt::format("%{} is defined twice", name.text));
    }
    return name;
  }

  // Reads "TYPE [at OFFSET]" and enters the value.
  absl::StatusOr<ValueId> Define(const Token& name) {
    ASYRA_ASSIGN_OR_RETURN(Type type, ParseType());
    int64_t offset = -1;
    if (lexer_.TryWord("at")) {
      ASYRA_ASSIGN_OR_RETURN(offset, Int());
      if (offset < 0) return lexer_.Error("an offset is negative");
    }
    ValueId value = static_cast<ValueId>(program_.values.size());
    if (!ids_.emplace(name.text, value).second) {
      return lexer_.ErrorAt(name,
                            fmt::format("%{} is defined twice", name.text));
    }
    program_.values.push_back({name.text, std::move(type), offset});
    return value;
  }

  absl::StatusOr<ValueId> Use() {
    if (lexer_.peek().kind != Token::kValue) {
      return lexer_.Error("expected a value, %name");
    }
    Token name = lexer_.Take();
    auto found = ids_.find(name.text);
    if (found == ids_.end()) {
      return lexer_.ErrorAt(
          name, fmt::format("%{} is used before it is defined", name.text));
    }
    return found->second;
  }

  template <typename List>
  absl::Status Uses(List* values) {
    ASYRA_RETURN_IF_ERROR(Expect("("));
    if (lexer_.TryPunct(")")) return absl::OkStatus();
    do {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Use());
      values->push_back(value);
    } while (lexer_.TryPunct(","));
    return Expect(")");
  }

  absl::Status Statement() {
    std::vector<Token> names;
    if (lexer_.peek().kind == Token::kValue) {
      do {
        ASYRA_ASSIGN_OR_RETURN(Token name, NewName());
        names.push_back(std::move(name));
      } while (lexer_.TryPunct(","));
      ASYRA_RETURN_IF_ERROR(Expect("="));
    }
    Op op;
    op.start = lexer_.TryWord("start");
    ASYRA_ASSIGN_OR_RETURN(op.def, OpName());
    ASYRA_RETURN_IF_ERROR(Uses(&op.operands));
    ASYRA_ASSIGN_OR_RETURN(op.attrs, Attrs(*op.def, program_.OperandTypes(op)));
    if (lexer_.TryWord("on")) {
      if (lexer_.peek().kind != Token::kName) {
        return lexer_.Error("expected the name of a stream");
      }
      op.stream = program_.Stream(lexer_.Take().text);
      if (program_.streams.size() > kMaxStreams) {
        return lexer_.Error(fmt::format("more than {} streams", kMaxStreams));
      }
    }
    if (lexer_.TryWord("after")) ASYRA_RETURN_IF_ERROR(Uses(&op.after));
    if (!names.empty()) ASYRA_RETURN_IF_ERROR(Expect(":"));
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) ASYRA_RETURN_IF_ERROR(Expect(","));
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Define(names[i]));
      op.results.push_back(value);
    }
    program_.ops.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status Return() {
    if (lexer_.peek().kind == Token::kValue) {
      do {
        Output output;
        ASYRA_ASSIGN_OR_RETURN(output.value, Use());
        std::string name;
        if (lexer_.TryWord("as")) {
          ASYRA_ASSIGN_OR_RETURN(name, OutputName());
        }
        if (lexer_.TryWord("alias")) {
          ASYRA_ASSIGN_OR_RETURN(output.alias, Use());
        }
        program_.AddOutput(output.value, output.alias, name);
      } while (lexer_.TryPunct(","));
    }
    if (program_.outputs.size() != output_types_.size()) {
      return lexer_.Error(
          fmt::format("{} values are returned, the signature says {}",
                      program_.outputs.size(), output_types_.size()));
    }
    for (size_t i = 0; i < output_types_.size(); ++i) {
      const Type& type = program_.type(program_.outputs[i].value);
      if (type != output_types_[i]) {
        return lexer_.Error(
            fmt::format("output {} is {}, the signature says {}", i,
                        ToString(type, program_.mesh),
                        ToString(output_types_[i], program_.mesh)));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> OutputName() {
    Token token = lexer_.Take();
    if (token.kind == Token::kString && IsValueName(token.text)) {
      return token.text;
    }
    return lexer_.ErrorAt(token, "expected the name of an output, as \"y\"");
  }

  Program program_;
  absl::flat_hash_map<std::string, ValueId> ids_;
  std::vector<Type> output_types_;
};

}  // namespace

absl::StatusOr<Program> ParseProgram(std::string_view text) {
  return Parser(text).Parse();
}

absl::StatusOr<Type> ParseType(std::string_view text, const Mesh& mesh) {
  Parser parser(text, mesh);
  ASYRA_ASSIGN_OR_RETURN(Type type, parser.ParseType());
  ASYRA_RETURN_IF_ERROR(parser.End());
  return type;
}

absl::StatusOr<ParsedCall> ParseCall(std::string_view text, const Mesh& mesh) {
  Parser parser(text, mesh);
  ASYRA_ASSIGN_OR_RETURN(ParsedCall call, parser.ParseCall());
  ASYRA_RETURN_IF_ERROR(parser.End());
  return call;
}

absl::StatusOr<AttrValue> ParseAttr(AttrKind kind, std::string_view text,
                                    const Mesh& mesh) {
  Parser parser(text, mesh);
  ASYRA_ASSIGN_OR_RETURN(AttrValue value, parser.ParseAttr(kind));
  ASYRA_RETURN_IF_ERROR(parser.End());
  return value;
}

}  // namespace asyra
