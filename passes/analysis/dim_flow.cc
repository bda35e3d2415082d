#include "passes/analysis/dim_flow.h"

#include <algorithm>

namespace asyra {
namespace {

void Append(const DimPieces& more, DimPieces* pieces) {
  for (const DimPiece& piece : more) {
    if (!pieces->empty() && pieces->back().tag == piece.tag) {
      pieces->back().size *= piece.size;
    } else {
      pieces->push_back(piece);
    }
  }
}

bool AnyTag(const DimPieces& pieces) {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const DimPiece& piece) { return piece.tag != 0; });
}

class OpFlow {
 public:
  OpFlow(const AxisRule& rule, std::vector<std::pair<int, int>>* met)
      : rule_(rule), met_(met), factors_(rule.factors.size()) {}

  // Gives each factor of a dimension the pieces it covers. A piece may be cut
  // into factors (tokens into groups), a factor may cover several pieces.
  void Cover(const DimFactors& factors, DimPieces pieces) {
    size_t piece = 0;
    for (FactorId id : factors) {
      DimPieces taken;
      int64_t left = rule_.factors[id].size;
      while (left > 1) {
        while (piece < pieces.size() && pieces[piece].size == 1) ++piece;
        if (piece == pieces.size()) return;
        int64_t size = std::min(left, pieces[piece].size);
        if (left % size != 0 || pieces[piece].size % size != 0) return;
        taken.push_back({size, pieces[piece].tag});
        left /= size;
        pieces[piece].size /= size;
      }
      Give(id, std::move(taken));
    }
  }

  std::vector<DimPieces> Finish() && {
    for (size_t f = 0; f < factors_.size(); ++f) {
      if (factors_[f].empty()) {
        factors_[f].push_back({rule_.factors[f].size, 0});
      }
    }
    return std::move(factors_);
  }

 private:
  void Give(FactorId id, DimPieces taken) {
    DimPieces& known = factors_[id];
    if (known.empty()) {
      known = std::move(taken);
      return;
    }
    if (known.size() != taken.size()) return;
    for (size_t p = 0; p < known.size(); ++p) {
      int a = known[p].tag, b = taken[p].tag;
      if (known[p].size == taken[p].size && a != 0 && b != 0 && a != b) {
        met_->emplace_back(a, b);
      }
    }
  }

  const AxisRule& rule_;
  std::vector<std::pair<int, int>>* met_;
  std::vector<DimPieces> factors_;
};

}  // namespace

DimFlow::DimFlow(const Program& program, const std::vector<AxisRule>& rules,
                 const DimTags& tags)
    : values(program.values.size()) {
  auto begin = [&](ValueId value, int dim) -> DimPieces {
    auto found = tags.find({value, dim});
    return {{program.type(value).size(dim),
             found == tags.end() ? 0 : found->second}};
  };
  for (const Input& input : program.inputs) {
    for (int d = 0; d < program.type(input.value).rank(); ++d) {
      values[input.value].push_back(begin(input.value, d));
    }
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const AxisRule& rule = rules[i];
    OpFlow flow(rule, &met);
    // Operands that know a tag are asked before those that do not.
    for (bool tagged : {true, false}) {
      for (size_t k = 0; k < op.operands.size(); ++k) {
        for (size_t d = 0; d < rule.operands[k].size(); ++d) {
          const DimPieces& pieces = values[op.operands[k]][d];
          if (AnyTag(pieces) == tagged) flow.Cover(rule.operands[k][d], pieces);
        }
      }
    }
    factors.push_back(std::move(flow).Finish());
    for (size_t k = 0; k < op.results.size(); ++k) {
      for (size_t d = 0; d < rule.results[k].size(); ++d) {
        DimPieces dim;
        for (FactorId id : rule.results[k][d]) Append(factors[i][id], &dim);
        if (!AnyTag(dim)) {
          DimPieces made = begin(op.results[k], static_cast<int>(d));
          if (AnyTag(made)) dim = std::move(made);
        }
        values[op.results[k]].push_back(std::move(dim));
      }
    }
  }
}

}  // namespace asyra
