#include "passes/raise/mask_documents.h"

#include <vector>

#include "ir/ops/attention.h"
#include "ir/support/status.h"
#include "ir/training_names.h"

namespace asyra {
namespace {

// Checks an attention and returns the shape of its starts.
absl::StatusOr<Shape> RowsOf(const Program& program, const Op& op) {
  std::vector<Type> types = program.OperandTypes(op);
  auto error = [&](std::string_view what) {
    return Invalid("%{}: {}", program.value_name(op.results[0]), what);
  };
  ops::AttentionSizes sizes{absl::Span<const Type>(types)};
  if (!op.attrs.Bool("causal")) {
    return error("attention that is not causal sees documents behind its own");
  }
  if (sizes.s != sizes.t || op.attrs.Int("offset") != 0 ||
      op.attrs.Bool("at_end")) {
    return error(fmt::format(
        "rows are not where their keys are ({} rows, {} keys, offset {}): they "
        "have no documents of their own",
        sizes.s, sizes.t, op.attrs.Int("offset")));
  }
  if (ops::AttentionExtras(types, ops::kFirstExtra).starts >= 0) {
    return error("attention has documents already");
  }
  return Shape{sizes.b, sizes.s};
}

// Returns the shape of the starts that all attentions take.
absl::StatusOr<Shape> StartsOf(const Program& program) {
  const Op* first = nullptr;
  Shape starts;
  for (const Op& op : program.ops) {
    if (op.def->name != "attention") continue;
    ASYRA_ASSIGN_OR_RETURN(Shape its, RowsOf(program, op));
    if (first == nullptr) {
      first = &op;
      starts = its;
    } else if (its != starts) {
      return Invalid("%{} has rows {}, %{} {}: documents are of one length",
                     program.value_name(op.results[0]), ShapeToString(its),
                     program.value_name(first->results[0]),
                     ShapeToString(starts));
    }
  }
  if (first == nullptr) return Invalid("the model has no attention");
  return starts;
}

}  // namespace

absl::StatusOr<bool> MaskDocuments(Program& program, const PassOptions& options,
                                   PassContext&) {
  int64_t documents = options.Int("documents");
  if (documents < 1) return Invalid("documents is {}", documents);
  ASYRA_ASSIGN_OR_RETURN(Shape shape, StartsOf(program));
  if (program.FindValue(kDocumentStarts) != kNoValue) {
    return Invalid("the model has a %{} of its own", kDocumentStarts);
  }
  auto starts = static_cast<ValueId>(program.values.size());
  program.values.push_back({kDocumentStarts, Type(DType::kI64, shape)});
  program.inputs.push_back({starts, InputRole::kData, {}});
  for (Op& op : program.ops) {
    if (op.def->name == "attention") op.operands.push_back(starts);
  }
  SetDocuments(documents, &program);
  return true;
}

void SetDocuments(int64_t documents, Program* program) {
  for (Op& op : program->ops) {
    if (op.def->name != "attention") continue;
    ops::AttentionExtras extras(program->OperandTypes(op), ops::kFirstExtra);
    if (extras.starts >= 0) op.attrs.Set("documents", documents);
  }
}

}  // namespace asyra
