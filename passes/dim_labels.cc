#include "passes/dim_labels.h"

#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A dimension as a run of labelled pieces, outermost first: [batch*seq] keeps
// both labels when the two are merged by a reshape and split again.
struct Piece {
  int64_t size;
  DimLabel label;
};
using Pieces = absl::InlinedVector<Piece, 2>;
using ValuePieces = std::vector<Pieces>;

ValuePieces InputPieces(const Input& input, const Type& type) {
  ValuePieces dims;
  for (int d = 0; d < type.rank(); ++d) {
    DimLabel label = DimLabel::kNone;
    if (input.role == InputRole::kData && type.rank() >= 2) {
      if (d == 0) label = DimLabel::kBatch;
      if (d == 1) label = DimLabel::kSequence;
    }
    dims.push_back({{type.size(d), label}});
  }
  return dims;
}

// Gives factors the labels of the pieces they cover exactly.
void LabelFactors(const DimFactors& factors, const AxisRule& rule,
                  const Pieces& pieces, std::vector<DimLabel>* labels) {
  size_t piece = 0;
  for (FactorId id : factors) {
    while (piece < pieces.size() && pieces[piece].size == 1) ++piece;
    if (rule.factors[id].size == 1) continue;
    if (piece == pieces.size() || pieces[piece].size != rule.factors[id].size) {
      return;
    }
    if ((*labels)[id] == DimLabel::kNone) (*labels)[id] = pieces[piece].label;
    ++piece;
  }
}

}  // namespace

absl::StatusOr<DimLabels> DimLabels::Of(const Program& program) {
  DimLabels result;
  std::vector<ValuePieces> pieces(program.values.size());
  for (const Input& input : program.inputs) {
    pieces[input.value] = InputPieces(input, program.type(input.value));
  }
  for (const Op& op : program.ops) {
    absl::StatusOr<AxisRule> rule = AxisRuleOf(OpUse(program, op));
    if (!rule.ok()) return Annotate(rule.status(), ToString(program, op));
    std::vector<DimLabel> labels(rule->factors.size(), DimLabel::kNone);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      for (size_t d = 0; d < rule->operands[i].size(); ++d) {
        LabelFactors(rule->operands[i][d], *rule, pieces[op.operands[i]][d],
                     &labels);
      }
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      ValuePieces& dims = pieces[op.results[i]];
      for (const DimFactors& factors : rule->results[i]) {
        dims.emplace_back();
        for (FactorId id : factors) {
          dims.back().push_back({rule->factors[id].size, labels[id]});
        }
      }
    }
    result.rules.push_back(*std::move(rule));
    result.factors.push_back(std::move(labels));
  }
  return result;
}

}  // namespace asyra
