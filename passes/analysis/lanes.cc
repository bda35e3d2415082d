#include "passes/analysis/lanes.h"

#include <algorithm>

#include "ir/accumulation.h"
#include "ir/identical_ops.h"

namespace asyra {

Lanes::Lanes(const Program& program) {
  constexpr int kSeveral = -2;
  std::vector<int> of_value(program.values.size(), kNoLane);
  for (const Op& op : program.ops) {
    int lane = kNoLane, onto = AccumulatesOn(program, op);
    for (int k = 0; k < static_cast<int>(op.operands.size()); ++k) {
      if (k == onto) continue;
      int other = of_value[op.operands[k]];
      if (other == kNoLane || other == lane) continue;
      lane = lane == kNoLane ? other : kSeveral;
    }
    if (op.def->is_tile && lane == kNoLane) {
      lane = static_cast<int>(op.attrs.Int("part"));
    }
    if (lane == kSeveral) lane = kNoLane;
    of_op.push_back(lane);
    // A result added to a value of another lane, or of none, is a sum over
    // lanes.
    bool sums = onto >= 0 && of_value[op.operands[onto]] != lane;
    for (ValueId value : op.results) of_value[value] = sums ? kNoLane : lane;
    count = std::max(count, lane + 1);
  }
}

namespace {

class TileFinder {
 public:
  explicit TileFinder(const Program& program)
      : program_(program), found_(program.values.size()), identical_(program) {}

  std::vector<std::optional<TileOf>> Run(const Lanes& lanes) {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (lanes.of_op[i] == kNoLane) continue;
      if (op.def->is_tile) {
        found_[op.results[0]] = CutBy(op);
      } else if (!FollowIdentical(static_cast<int>(i))) {
        Follow(op);
      }
    }
    return std::move(found_);
  }

 private:
  TileOf CutBy(const Op& op) const {
    TileOf tile;
    tile.whole = program_.type(op.operands[0]);
    tile.place.dim = NormalizeDim(op.attrs.Int("dim"), tile.whole.rank());
    tile.place.blocks =
        op.attrs.Int("blocks") *
        program_.mesh.size(tile.whole.dims[tile.place.dim].axes);
    tile.tiles = op.attrs.Int("of");
    return tile;
  }

  // Copies what an identical op before has found on tiles of the same, as in
  // another layer; not for an op whose attributes are to be found.
  bool FollowIdentical(int i) {
    const Op& op = program_.ops[i];
    int first = op.def->resize == nullptr ? identical_.FirstIdentical(i) : i;
    if (first == i) return false;
    const Op& before = program_.ops[first];
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (found_[op.operands[k]] != found_[before.operands[k]]) return false;
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      found_[op.results[r]] = found_[before.results[r]];
    }
    return true;
  }

  // Finds the wholes of an op's results from those of its operands.
  void Follow(const Op& op) {
    std::vector<Type> operands = program_.OperandTypes(op);
    int first = -1;  // an operand that is a tile
    for (size_t k = 0; k < operands.size(); ++k) {
      const std::optional<TileOf>& tile = found_[op.operands[k]];
      if (!tile.has_value()) continue;
      operands[k] = tile->whole;
      if (first < 0) first = static_cast<int>(k);
    }
    if (first < 0) return;
    if (op.def->resize == nullptr) {
      Enter(op, op.attrs, operands, first, -1);
      return;
    }
    // Finds the attributes of the whole from those of the tile.
    const Type& result = program_.type(op.results[0]);
    for (int dim : DimsToTry(op)) {
      Type whole = result;
      whole.dims[dim].size *= found_[op.operands[first]]->tiles;
      AttrMap attrs = op.attrs;
      op.def->resize(&attrs, {&whole, 1});
      if (Enter(op, attrs, operands, first, dim)) return;
    }
  }

  // Enters the wholes of the results if the op on the whole operands has these
  // attributes; along `dim` unless that is -1. False if it does not match.
  bool Enter(const Op& op, const AttrMap& attrs,
             const std::vector<Type>& operands, int first, int dim) {
    const TileOf& from = *found_[op.operands[first]];
    auto wholes = InferTypes(*op.def, attrs, operands, program_.mesh);
    if (!wholes.ok()) return false;
    auto rule = AxisRuleOf({*op.def, attrs, operands, *wholes});
    if (!rule.ok()) return false;
    auto at = FactorAt(rule->operands[first][from.place.dim], *rule,
                       from.place.blocks, from.tiles);
    if (!at.has_value() || !AreCutAt(*at, op, *rule)) return false;
    bool entered = false;
    for (size_t r = 0; r < op.results.size(); ++r) {
      auto places = PlacesOf(*at, rule->results[r], *rule);
      if (places.size() != 1 || (dim >= 0 && places[0].dim != dim)) continue;
      Type whole = (*wholes)[r];
      whole.future = op.start;
      Type tile = whole;
      tile.dims[places[0].dim].size /= from.tiles;
      if (tile != program_.type(op.results[r])) continue;
      found_[op.results[r]] = {std::move(whole), places[0], from.tiles};
      entered = true;
    }
    return entered;
  }

  // Returns whether all operands that are tiles are cut inside that factor. The
  // whole of a reshaped tile may be ambiguous; another operand decides.
  bool AreCutAt(const FactorPlace& at, const Op& op,
                const AxisRule& rule) const {
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const std::optional<TileOf>& tile = found_[op.operands[k]];
      if (!tile.has_value()) continue;
      auto own = FactorAt(rule.operands[k][tile->place.dim], rule,
                          tile->place.blocks, tile->tiles);
      if (!own.has_value() || !(*own == at)) return false;
    }
    return true;
  }

  // Dimensions of the result, the one along which it is joined later first.
  std::vector<int> DimsToTry(const Op& op) {
    if (joined_along_.empty()) FindJoined();
    std::vector<int> dims;
    int joined = joined_along_[op.results[0]];
    if (joined >= 0) dims.push_back(joined);
    for (int d = 0; d < program_.type(op.results[0]).rank(); ++d) {
      if (d != joined) dims.push_back(d);
    }
    return dims;
  }

  // Follows each untile backward, as far as dimensions are led by one factor.
  void FindJoined() {
    joined_along_.assign(program_.values.size(), -1);
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const Op& op = program_.ops[i];
      if (op.def->is_untile) {
        int dim = NormalizeDim(op.attrs.Int("dim"),
                               program_.type(op.results[0]).rank());
        for (ValueId tile : op.operands) joined_along_[tile] = dim;
        continue;
      }
      if (op.results.size() != 1 || joined_along_[op.results[0]] < 0) continue;
      absl::StatusOr<AxisRule> rule = AxisRuleOf(OpUse(program_, op));
      if (!rule.ok()) continue;
      const DimFactors& dim = rule->results[0][joined_along_[op.results[0]]];
      for (size_t k = 0; k < op.operands.size() && !dim.empty(); ++k) {
        for (size_t d = 0; d < rule->operands[k].size(); ++d) {
          const DimFactors& factors = rule->operands[k][d];
          if (factors.empty() || factors[0] != dim[0]) continue;
          joined_along_[op.operands[k]] = static_cast<int>(d);
        }
      }
    }
  }

  const Program& program_;
  std::vector<std::optional<TileOf>> found_;
  IdenticalOps identical_;
  std::vector<int> joined_along_;  // by value; empty until it is needed
};

}  // namespace

std::vector<std::optional<TileOf>> TilesOf(const Program& program,
                                           const Lanes& lanes) {
  return TileFinder(program).Run(lanes);
}

}  // namespace asyra
