#include "executor/train/token_batches.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/algorithm/container.h"
#include "executor/train/label_shift.h"
#include "ir/body.h"
#include "ir/support/status.h"
#include "ir/training_names.h"

namespace asyra {
namespace {

constexpr char kMask[] = "attention_mask", kPositions[] = "position_ids";

// Returns the rows without those of padding.
int64_t RowsOf(const Program& program, ValueId table, int64_t dim) {
  for (const Input& input : program.inputs) {
    if (input.value == table) return program.GivenShape(input)[dim];
  }
  return program.type(table).size(dim);
}

// A select may keep numbers out of the range that a reader refuses.
enum class Selects : uint8_t { kIgnored, kFollowed };

// Returns whether operand k is given on as it is, whole or in part.
bool Carries(const OpDef& def, size_t k, Selects selects) {
  constexpr std::string_view kNames[] = {
      "all_gather", "all_to_all", "broadcast", "cast",  "concat", "copy",
      "pad",        "shard",      "shift",     "slice", "stripe", "tile",
      "transpose",  "unstripe",   "untile",    "wait"};
  if (def.name == "select") return k > 0 && selects == Selects::kFollowed;
  return def.is_view || absl::c_linear_search(kNames, def.name);
}

// Marks what a body makes of the operands that are marked.
std::vector<bool> CarriedBy(const Body& body, std::vector<bool> marked,
                            Selects selects) {
  for (const BodyOp& op : body.ops) {
    bool any = false;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      any |= marked[op.operands[k]] && Carries(*op.def, k, selects);
    }
    marked.push_back(any);
  }
  std::vector<bool> results;
  for (int result : body.results) results.push_back(marked[result]);
  return results;
}

// Marks the values whose elements are those of marked inputs.
void MarkCarried(const Program& program, Selects selects,
                 std::vector<bool>* marked) {
  for (const Op& op : program.ops) {
    std::vector<bool> operands;
    for (ValueId operand : op.operands) operands.push_back((*marked)[operand]);
    if (absl::c_count(operands, true) == 0) continue;
    if (const Body* body = BodyOf(op.attrs)) {
      std::vector<bool> results = CarriedBy(*body, operands, selects);
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i]) (*marked)[op.results[i]] = true;
      }
      continue;
    }
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!operands[k] || !Carries(*op.def, k, selects)) continue;
      (*marked)[op.results[std::min(k, op.results.size() - 1)]] = true;
    }
  }
}

// The label of a token is the next one: logits for each of them, of as many
// classes as there are tokens.
absl::Status CheckLabels(const Type& labels, const Type& tokens) {
  if (labels.dtype == DType::kI64 && labels.shape() == tokens.shape()) {
    return absl::OkStatus();
  }
  return Invalid(
      "the model's labels are {}{}, those of tokens {} are i64{}: its output "
      "is not logits for each token",
      ToString(labels.dtype), ShapeToString(labels.shape()),
      ShapeToString(tokens.shape()), ShapeToString(tokens.shape()));
}

}  // namespace

absl::StatusOr<const Input*> TokensOf(const Program& program) {
  const Input* tokens = nullptr;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kData) continue;
    const std::string& name = program.value_name(input.value);
    const Type& type = program.type(input.value);
    bool other = name == kLabels || name == kMask || name == kPositions ||
                 name == kDocumentStarts;
    if (other || type.dtype != DType::kI64 || type.rank() != 2) continue;
    if (tokens != nullptr) {
      return Invalid(
          "both %{} and %{} may be the tokens; inputs called {}, {}, {} or {} "
          "are taken as what they are called",
          program.value_name(tokens->value), name, kLabels, kMask, kPositions,
          kDocumentStarts);
    }
    tokens = &input;
  }
  if (tokens != nullptr) return tokens;
  return Invalid(
      "no data input is i64 [rows, length]: the model takes no tokens");
}

absl::StatusOr<Tensor> FixedInput(const std::string& name, const Type& type,
                                  const Type& tokens) {
  if (name != kMask && name != kPositions) {
    return Invalid(
        "%{} is neither tokens nor labels: the data has nothing for it", name);
  }
  std::string wanted =
      fmt::format("integers [{}{}]",
                  name == kMask ? fmt::format("{}, ", tokens.size(0)) : "..., ",
                  tokens.size(1));
  bool fits = name == kMask
                  ? type.shape() == tokens.shape()
                  : type.rank() > 0 && type.dims.back().size == tokens.size(1);
  if (!IsInteger(type.dtype) || !fits) {
    return Invalid(
        "%{} is {}{}: the data has nothing for it; an input of that name is "
        "filled with {} where it is {}",
        name, ToString(type.dtype), ShapeToString(type.shape()),
        name == kMask ? "ones, for tokens that are seen," : "positions",
        wanted);
  }
  std::vector<double> numbers(type.num_elements(), 1);
  for (size_t i = 0; name == kPositions && i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(static_cast<int64_t>(i) % tokens.size(1));
  }
  return Tensor::FromDoubles(type.dtype, type.shape(), numbers);
}

int64_t TokenLimit(const Program& program, ValueId tokens) {
  std::vector<bool> are_tokens(program.values.size(), false);
  are_tokens[tokens] = true;
  MarkCarried(program, Selects::kIgnored, &are_tokens);
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const Op& op : program.ops) {
    std::string_view name = op.def->name;
    bool looks_up = name == "embedding" || name == "gather";
    if (!looks_up || !are_tokens[op.operands[1]]) continue;
    int64_t dim = name == "gather" ? op.attrs.Int("dim") : 0;
    limit = std::min(limit, RowsOf(program, op.operands[0], dim));
    if (name == "embedding" && op.attrs.Int("rows") >= 0) {
      limit = std::min(limit, op.attrs.Int("rows"));
    }
  }
  return limit;
}

namespace {

// Returns the cross entropies whose labels are given with each batch.
std::vector<const Op*> LossesOfLabels(const Program& program) {
  std::vector<bool> are_labels(program.values.size(), false);
  for (const Input& input : program.inputs) {
    are_labels[input.value] = input.role == InputRole::kData &&
                              IsInteger(program.type(input.value).dtype);
  }
  MarkCarried(program, Selects::kFollowed, &are_labels);
  std::vector<const Op*> losses;
  for (const Op& op : program.ops) {
    bool is_loss = op.def->name == "cross_entropy" ||
                   op.def->name == "cross_entropy_parts";
    if (is_loss && are_labels[op.operands[1]]) losses.push_back(&op);
  }
  return losses;
}

// Returns the place in its window of element `i` of a batch.
int64_t ColumnOf(const TokenReader::Batch& batch, int64_t i) {
  return batch.column + i % batch.tokens.shape()[1];
}

// Checks that a program has starts of documents where the reader tells them.
absl::Status CheckDocuments(const Program& program,
                            const TokenReaderOptions& options) {
  bool takes = absl::c_any_of(program.inputs, [&](const Input& input) {
    return program.value_name(input.value) == kDocumentStarts;
  });
  if (takes == options.document_end.has_value()) return absl::OkStatus();
  if (takes) {
    return Invalid(
        "the model takes %{}: tell the last token of each document "
        "(--document-end)",
        kDocumentStarts);
  }
  return Invalid(
      "documents end with token {}, but the model has no %{}: it was compiled "
      "without --documents",
      *options.document_end, kDocumentStarts);
}

}  // namespace

int64_t ClassLimit(const Program& program) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const Op* op : LossesOfLabels(program)) {
    bool in_parts = op->def->name == "cross_entropy_parts";
    int64_t classes = in_parts ? op->attrs.Int("classes") : -1;
    if (classes < 0) classes = program.type(op->operands[0]).dims.back().size;
    limit = std::min(limit, classes);
  }
  return limit;
}

std::optional<int64_t> IgnoredLabel(const Program& program) {
  std::set<int64_t> ignored;
  for (const Op* op : LossesOfLabels(program)) {
    ignored.insert(op->attrs.Int("ignore_index"));
  }
  if (ignored.size() != 1 || *ignored.begin() >= 0) return std::nullopt;
  return *ignored.begin();
}

struct TokenBatches::Source {
  std::shared_ptr<const TokenFiles> files;
  const Program& program;
  int64_t device;
  TokenReaderOptions options;
  std::vector<Type> types;
};

absl::StatusOr<std::unique_ptr<TokenBatches>> TokenBatches::Open(
    std::shared_ptr<const TokenFiles> files, const Program& program,
    int64_t device, TokenReaderOptions options) {
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(program));
  ASYRA_RETURN_IF_ERROR(CheckDocuments(program, options));
  options.limit =
      std::min(TokenLimit(program, tokens->value), ClassLimit(program));
  std::unique_ptr<TokenBatches> batches(new TokenBatches);
  batches->document_end_ = options.document_end;
  Source source{std::move(files), program, device, options, {}};
  ASYRA_RETURN_IF_ERROR(
      batches->ReaderOf(program.type(tokens->value), source).status());
  batches->model_shifts_ = LabelShift(program) > 0;
  if (options.document_end.has_value()) {
    batches->ignored_ = IgnoredLabel(program);
  }
  for (const Input& input : program.inputs) {
    bool is_rate = program.value_name(input.value) == kRate;
    if (input.role != InputRole::kData || is_rate) continue;
    ASYRA_ASSIGN_OR_RETURN(batches->parts_.emplace_back(),
                           batches->PartOf(input, *tokens, source));
  }
  return batches;
}

absl::StatusOr<size_t> TokenBatches::ReaderOf(const Type& type,
                                              Source& source) {
  auto found = absl::c_find(source.types, type);
  auto number = static_cast<size_t>(found - source.types.begin());
  if (found != source.types.end()) return number;
  ASYRA_ASSIGN_OR_RETURN(
      readers_.emplace_back(),
      TokenReader::Open(source.files, type, source.program.mesh, source.device,
                        source.options));
  source.types.push_back(type);
  return number;
}

absl::StatusOr<TokenBatches::Part> TokenBatches::PartOf(const Input& input,
                                                        const Input& tokens,
                                                        Source& source) {
  const Program& program = source.program;
  const std::string& name = program.value_name(input.value);
  const Type &its = program.type(input.value),
             &type = program.type(tokens.value);
  Part part;
  part.kind = &input == &tokens         ? Kind::kTokens
              : name == kLabels         ? Kind::kLabels
              : name == kDocumentStarts ? Kind::kStarts
                                        : Kind::kFixed;
  if (part.kind == Kind::kLabels) {
    ASYRA_RETURN_IF_ERROR(CheckLabels(its, type));
  } else if (part.kind == Kind::kFixed) {
    ASYRA_ASSIGN_OR_RETURN(Tensor whole, FixedInput(name, its, type));
    part.fixed = Shard(whole, its, program.mesh, source.device);
    if (name != kPositions || !document_end_.has_value()) return part;
    part.kind = Kind::kPlaces;
  }
  if (part.kind != Kind::kTokens && its.shape() != type.shape()) {
    return Invalid(
        "%{} is {}{}, the tokens are {}: documents begin in other places of "
        "each row",
        name, ToString(its.dtype), ShapeToString(its.shape()),
        ShapeToString(type.shape()));
  }
  Type like = its;
  like.dtype = DType::kI64;
  ASYRA_ASSIGN_OR_RETURN(part.reader, ReaderOf(like, source));
  return part;
}

absl::StatusOr<std::vector<Tensor>> TokenBatches::Next() {
  std::vector<TokenReader::Batch> batches;
  for (const auto& reader : readers_) {
    ASYRA_ASSIGN_OR_RETURN(batches.emplace_back(), reader->Next());
  }
  std::vector<Tensor> inputs;
  for (const Part& part : parts_) {
    inputs.push_back(ValueOf(part, batches[part.reader]));
  }
  return inputs;
}

Tensor TokenBatches::ValueOf(const Part& part,
                             const TokenReader::Batch& batch) const {
  switch (part.kind) {
    case Kind::kTokens:
      return batch.tokens;
    case Kind::kStarts:
      return batch.starts;
    case Kind::kFixed:
      return part.fixed;
    case Kind::kLabels:
      return LabelsOf(batch);
    case Kind::kPlaces:
      break;
  }
  Tensor places = part.fixed;
  for (int64_t i = 0; i < places.num_elements(); ++i) {
    places.SetInt(i, places.GetInt(i) - batch.starts.GetInt(i));
  }
  return places;
}

// Returns the next token as the label of each, or, where the model shifts, the
// token itself. Ignored is the first token of a document, which would be
// compared with the document before.
Tensor TokenBatches::LabelsOf(const TokenReader::Batch& batch) const {
  Tensor labels = model_shifts_ ? batch.tokens : batch.labels;
  if (!ignored_.has_value()) return labels;
  for (int64_t i = 0; i < labels.num_elements(); ++i) {
    bool crosses = model_shifts_ ? batch.starts.GetInt(i) == ColumnOf(batch, i)
                                 : batch.tokens.GetInt(i) == *document_end_;
    if (crosses) labels.SetInt(i, *ignored_);
  }
  return labels;
}

absl::Status TokenBatches::GoOnFrom(const DataPlace& place) {
  const std::string& own = tokens().order();
  if (!place.order.empty() && place.order != own) {
    return Invalid(
        "the data of the run that this one goes on from was {}; it is {} now",
        place.order, own);
  }
  Seek(place.position);
  return absl::OkStatus();
}

void TokenBatches::Seek(int64_t position) {
  for (const auto& reader : readers_) reader->Seek(position);
}

}  // namespace asyra
