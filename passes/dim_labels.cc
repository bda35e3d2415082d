#include "passes/dim_labels.h"

#include <algorithm>

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

// Gives each factor of a dimension the pieces it covers. A piece may be cut
// into factors (tokens into groups), a factor may cover several pieces.
void CoverFactors(const DimFactors& factors, const AxisRule& rule,
                  Pieces pieces, std::vector<Pieces>* covered) {
  size_t piece = 0;
  for (FactorId id : factors) {
    Pieces taken;
    int64_t left = rule.factors[id].size;
    while (left > 1) {
      while (piece < pieces.size() && pieces[piece].size == 1) ++piece;
      if (piece == pieces.size()) return;
      int64_t size = std::min(left, pieces[piece].size);
      if (left % size != 0 || pieces[piece].size % size != 0) return;
      taken.push_back({size, pieces[piece].label});
      left /= size;
      pieces[piece].size /= size;
    }
    if ((*covered)[id].empty()) (*covered)[id] = std::move(taken);
  }
}

void Append(const Pieces& more, Pieces* pieces) {
  for (const Piece& piece : more) {
    if (!pieces->empty() && pieces->back().label == piece.label) {
      pieces->back().size *= piece.size;
    } else {
      pieces->push_back(piece);
    }
  }
}

bool AnyLabel(const Pieces& pieces) {
  return std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return piece.label != DimLabel::kNone;
  });
}

DimLabel LabelOf(const Pieces& pieces) {
  DimLabel label = DimLabel::kNone;
  for (const Piece& piece : pieces) label = std::max(label, piece.label);
  return label;
}

// By factor. Operands that know a label are asked before those that do not.
std::vector<Pieces> PiecesOf(const Op& op, const AxisRule& rule,
                             const std::vector<ValuePieces>& values) {
  std::vector<Pieces> factors(rule.factors.size());
  for (bool labelled : {true, false}) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      for (size_t d = 0; d < rule.operands[i].size(); ++d) {
        const Pieces& pieces = values[op.operands[i]][d];
        if (AnyLabel(pieces) != labelled) continue;
        CoverFactors(rule.operands[i][d], rule, pieces, &factors);
      }
    }
  }
  for (size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].empty()) {
      factors[f].push_back({rule.factors[f].size, DimLabel::kNone});
    }
  }
  return factors;
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
    std::vector<Pieces> factors = PiecesOf(op, *rule, pieces);
    for (size_t i = 0; i < op.results.size(); ++i) {
      ValuePieces& dims = pieces[op.results[i]];
      for (const DimFactors& dim : rule->results[i]) {
        dims.emplace_back();
        for (FactorId id : dim) Append(factors[id], &dims.back());
      }
    }
    std::vector<DimLabel> labels;
    for (const Pieces& factor : factors) {
      labels.push_back(factor.empty() ? DimLabel::kNone : factor[0].label);
    }
    result.rules.push_back(*std::move(rule));
    result.factors.push_back(std::move(labels));
  }
  for (const ValuePieces& dims : pieces) {
    result.values.emplace_back();
    for (const Pieces& dim : dims) {
      result.values.back().push_back(LabelOf(dim));
    }
  }
  return result;
}

}  // namespace asyra
