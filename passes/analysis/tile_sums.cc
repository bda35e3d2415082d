#include "passes/analysis/tile_sums.h"

#include "absl/algorithm/container.h"
#include "ir/accumulation.h"

namespace asyra {
namespace {

class Reader {
 public:
  Reader(const Program& program, const DefUse& uses, const Lanes& lanes,
         const std::vector<std::optional<TileOf>>& tiles,
         absl::Span<const int> ops)
      : program_(program),
        uses_(uses),
        lanes_(lanes),
        tiles_(tiles),
        ops_(ops) {}

  bool Run() {
    if (ops_.size() < 2) return false;
    for (int op : ops_) {
      // All of its operands are tiles of its own lane.
      if (lanes_.of_op[op] != static_cast<int>(matmuls_.size())) return false;
      std::optional<AddedMatmul> matmul =
          AddedMatmulOf(program_, program_.ops[op]);
      if (!matmul.has_value() || !Follows(*matmul)) return false;
      matmuls_.push_back(*std::move(matmul));
    }
    return IsWhole();
  }

 private:
  // Returns whether the matmul is like those before it and added to the last of
  // them, which no other op reads.
  bool Follows(const AddedMatmul& matmul) const {
    if (matmuls_.empty()) return true;
    const Op& first = matmuls_[0].op;
    ValueId before = program_.ops[ops_[matmuls_.size() - 1]].results[0];
    return matmul.onto == before && uses_.uses[before].size() == 1 &&
           uses_.output_uses[before] == 0 && matmul.op.def == first.def &&
           matmul.op.attrs == first.attrs &&
           program_.OperandTypes(matmul.op) == program_.OperandTypes(first);
  }

  // Returns whether the matmul of the whole values is the sum.
  bool IsWhole() const {
    const Op& first = matmuls_[0].op;
    std::vector<Type> wholes = program_.OperandTypes(first);
    for (size_t k = 0; k < wholes.size(); ++k) {
      if (IsShared(k)) continue;
      if (!AreTiles(k)) return false;
      wholes[k] = tiles_[first.operands[k]]->whole;
    }
    auto types = InferTypes(*first.def, first.attrs, wholes, program_.mesh);
    const Type& sum = program_.type(program_.ops[ops_[0]].results[0]);
    if (!types.ok() || (*types)[0] != sum) return false;
    auto rule = AxisRuleOf({*first.def, first.attrs, wholes, *types});
    return rule.ok() && SumsOverTiles(*rule);
  }

  bool IsShared(size_t operand) const {
    return absl::c_all_of(matmuls_, [&](const AddedMatmul& matmul) {
      return matmul.op.operands[operand] == matmuls_[0].op.operands[operand];
    });
  }

  // Returns whether the operands of all matmuls are the tiles of one value.
  bool AreTiles(size_t operand) const {
    const auto& first = tiles_[matmuls_[0].op.operands[operand]];
    return first.has_value() && first->tiles == std::ssize(ops_) &&
           absl::c_all_of(matmuls_, [&](const AddedMatmul& matmul) {
             const auto& tile = tiles_[matmul.op.operands[operand]];
             return tile.has_value() && tile->place == first->place &&
                    tile->whole == first->whole && tile->tiles == first->tiles;
           });
  }

  // Returns whether all operands are cut at one place of a factor that is
  // summed over.
  bool SumsOverTiles(const AxisRule& rule) const {
    std::optional<FactorPlace> cut;
    for (size_t k = 0; k < rule.operands.size(); ++k) {
      if (IsShared(k)) continue;
      const TileOf& tile = *tiles_[matmuls_[0].op.operands[k]];
      auto at = FactorAt(rule.operands[k][tile.place.dim], rule,
                         tile.place.blocks, tile.tiles);
      if (!at.has_value() || !rule.IsSummedIn(at->factor, 0)) return false;
      if (cut.has_value() && !(*cut == *at)) return false;
      cut = at;
    }
    return cut.has_value();
  }

  const Program& program_;
  const DefUse& uses_;
  const Lanes& lanes_;
  const std::vector<std::optional<TileOf>>& tiles_;  // by value
  absl::Span<const int> ops_;
  std::vector<AddedMatmul> matmuls_;
};

}  // namespace

bool IsTileSum(const Program& program, const DefUse& uses, const Lanes& lanes,
               const std::vector<std::optional<TileOf>>& tiles,
               absl::Span<const int> ops) {
  return Reader(program, uses, lanes, tiles, ops).Run();
}

}  // namespace asyra
