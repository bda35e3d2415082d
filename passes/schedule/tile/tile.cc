#include "passes/schedule/tile/tile.h"

#include "absl/strings/numbers.h"
#include "ir/accumulation.h"
#include "ir/builder.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/schedule/tile/tile_plan.h"

namespace asyra {
namespace {

// Writes the program anew as a plan says.
class Tiler {
 public:
  Tiler(const Program& from, int64_t tiles, const TilePlanner& planner,
        const TilePlan& plan)
      : from_(from),
        tiles_(tiles),
        planner_(planner),
        plan_(plan),
        builder_(Builder::Like(from)),
        forms_(from.values.size()),
        parts_(from.ops.size()) {}

  absl::StatusOr<TiledProgram> Run() {
    for (const Input& input : from_.inputs) {
      forms_[input.value].whole = builder_.Input(from_, input);
    }
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      absl::Status status = plan_.ops[i].has_value()
                                ? AddTiles(i, planner_.rule(i), *plan_.ops[i])
                                : AddWhole(op);
      if (!status.ok()) return Annotate(status, ToString(from_, op));
    }
    for (const Output& output : from_.outputs) {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Whole(output.value));
      builder_.Output(
          value,
          output.alias == kNoValue ? kNoValue : forms_[output.alias].whole,
          from_.output_name(output));
    }
    return TiledProgram{std::move(builder_).Finish(), std::move(parts_)};
  }

 private:
  using Tiles = std::vector<ValueId>;

  // A value of the old program: whole, as tiles, or both. Tiles made at one
  // place may be needed at another.
  struct Forms {
    ValueId whole = kNoValue;
    std::vector<std::pair<TilePlace, Tiles>> tiles;
  };

  int64_t Blocks(ValueId value, const TilePlace& place) const {
    return BlocksOnDevice(from_.type(value), place, tiles_, from_.mesh);
  }

  std::string TileName(ValueId value, int64_t part) const {
    return fmt::format("{}.t{}", from_.value_name(value), part);
  }

  absl::StatusOr<ValueId> Whole(ValueId value) {
    Forms& forms = forms_[value];
    if (forms.whole == kNoValue) {
      const auto& [place, tiles] = forms.tiles.front();
      ASYRA_ASSIGN_OR_RETURN(forms.whole,
                             builder_.AddOne("untile", tiles,
                                             {{"dim", int64_t{place.dim}},
                                              {"blocks", Blocks(value, place)}},
                                             from_.value_name(value)));
    }
    return forms.whole;
  }

  absl::StatusOr<Tiles> TilesAt(ValueId value, const TilePlace& place) {
    for (const auto& [at, tiles] : forms_[value].tiles) {
      if (at == place) return tiles;
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId whole, Whole(value));
    Tiles tiles;
    for (int64_t part = 0; part < tiles_; ++part) {
      ASYRA_ASSIGN_OR_RETURN(ValueId tile,
                             builder_.AddOne("tile", {whole},
                                             {{"dim", int64_t{place.dim}},
                                              {"part", part},
                                              {"of", tiles_},
                                              {"blocks", Blocks(value, place)}},
                                             TileName(value, part)));
      tiles.push_back(tile);
    }
    forms_[value].tiles.emplace_back(place, tiles);
    return tiles;
  }

  absl::Status AddWhole(const Op& op) {
    Op copy = op;
    for (ValueId& value : copy.operands) {
      ASYRA_ASSIGN_OR_RETURN(value, Whole(value));
    }
    std::vector<std::string> names;
    for (ValueId value : op.results) names.push_back(from_.value_name(value));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t i = 0; i < results.size(); ++i) {
      forms_[op.results[i]].whole = results[i];
    }
    return absl::OkStatus();
  }

  absl::Status AddTiles(size_t index, const AxisRule& rule,
                        const FactorPlace& at) {
    const Op& op = from_.ops[index];
    // By operand: its tiles, or one value for all of them.
    std::vector<Tiles> operands;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      auto places = PlacesOf(at, rule.operands[k], rule);
      if (places.empty()) {
        ASYRA_ASSIGN_OR_RETURN(ValueId whole, Whole(op.operands[k]));
        operands.push_back(Tiles(tiles_, whole));
      } else {
        ASYRA_ASSIGN_OR_RETURN(Tiles tiles, TilesAt(op.operands[k], places[0]));
        operands.push_back(std::move(tiles));
      }
    }
    std::vector<Type> types = from_.ResultTypes(op);
    std::vector<std::optional<TilePlace>> places(types.size());
    for (size_t r = 0; r < types.size(); ++r) {
      for (const TilePlace& place : PlacesOf(at, rule.results[r], rule)) {
        types[r] = TileType(std::move(types[r]), place, tiles_);
        places[r] = place;
      }
    }
    std::vector<Tiles> results(types.size());
    bool accumulates = !places[0].has_value() && Accumulates(op, rule);
    for (int64_t part = 0; part < tiles_; ++part) {
      ValueId sum = accumulates && part > 0 ? results[0].back() : kNoValue;
      ASYRA_RETURN_IF_ERROR(
          AddTile(op, operands, types, part, sum, rule, &results));
    }
    parts_[index] = results[0];
    if (accumulates) results[0] = {results[0].back()};
    for (size_t r = 0; r < results.size(); ++r) {
      Forms& forms = forms_[op.results[r]];
      if (places[r].has_value()) {
        forms.tiles.emplace_back(*places[r], std::move(results[r]));
      } else {
        ASYRA_ASSIGN_OR_RETURN(forms.whole, Sum(results[r]));
      }
    }
    return absl::OkStatus();
  }

  // Returns whether a tile's result can be added to that of the tile before in
  // the op itself.
  static bool Accumulates(const Op& op, const AxisRule& rule) {
    return IsMatmul(op) || rule.accumulates_on >= 0;
  }

  // `sum`, unless it is kNoValue, is what the tile is added to.
  absl::Status AddTile(const Op& op, const std::vector<Tiles>& operands,
                       absl::Span<const Type> types, int64_t part, ValueId sum,
                       const AxisRule& rule, std::vector<Tiles>* results) {
    Op copy = op;
    for (size_t k = 0; k < operands.size(); ++k) {
      copy.operands[k] = operands[k][part];
    }
    if (op.def->resize != nullptr) op.def->resize(&copy.attrs, types);
    if (sum != kNoValue && rule.accumulates_on >= 0) {
      copy.operands[rule.accumulates_on] = sum;
    } else if (sum != kNoValue) {
      copy = AddedTo(copy, sum);
    }
    std::vector<std::string> names;
    for (ValueId value : op.results) names.push_back(TileName(value, part));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> tiles,
                           builder_.Insert(std::move(copy), names));
    for (size_t r = 0; r < tiles.size(); ++r) (*results)[r].push_back(tiles[r]);
    return absl::OkStatus();
  }

  // The op summed over the tiled factor: each tile has a part of the sum.
  absl::StatusOr<ValueId> Sum(const Tiles& parts) {
    ValueId sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(
          sum, builder_.AddOne("add", {sum, parts[i]}, {}, "sum"));
    }
    return sum;
  }

  const Program& from_;
  const int64_t tiles_;
  const TilePlanner& planner_;
  const TilePlan& plan_;
  Builder builder_;
  std::vector<Forms> forms_;
  std::vector<Tiles> parts_;
};

// Returns the better plan of both; dimensions that cannot be tiled are left
// out.
absl::StatusOr<TilePlan> PlanBest(const TilePlanner& planner) {
  absl::StatusOr<TilePlan> best = planner.Plan(DimLabel::kBatch);
  absl::StatusOr<TilePlan> other = planner.Plan(DimLabel::kSequence);
  if (!best.ok() && !other.ok()) {
    return Invalid("{}; {}", MessageOf(best.status()),
                   MessageOf(other.status()));
  }
  if (other.ok() && (!best.ok() || other->BetterThan(*best))) return other;
  return best;
}

absl::StatusOr<TilePlan> PlanAlong(const std::string& dim,
                                   const TilePlanner& planner) {
  if (dim == "batch") return planner.Plan(DimLabel::kBatch);
  if (dim == "sequence") return planner.Plan(DimLabel::kSequence);
  if (dim == "auto") return PlanBest(planner);
  int number = 0;
  if (absl::SimpleAtoi(dim, &number) && number >= 0) {
    return planner.Plan(number);
  }
  return Invalid("dim is {}, it should be batch, sequence, auto or a number",
                 dim);
}

}  // namespace

absl::StatusOr<bool> Tile(Program& program, const PassOptions& options,
                          PassContext& context) {
  int64_t tiles = options.Int("tiles");
  if (tiles < 1 || tiles > 64) {
    return Invalid("{} tiles, it should be between 1 and 64", tiles);
  }
  if (tiles == 1) {
    context.Remark("tile: one tile is the program as it is");
    return false;
  }
  ASYRA_ASSIGN_OR_RETURN(
      TilePlanner planner,
      TilePlanner::Create(program, tiles, context.dim_names));
  ASYRA_ASSIGN_OR_RETURN(TilePlan plan,
                         PlanAlong(options.Get<std::string>("dim"), planner));
  if (plan.tiled_ops == 0) {
    context.Remark("tile: no op can be cut along {}",
                   planner.InputDimText(plan.input, plan.dim));
    return false;
  }
  ASYRA_ASSIGN_OR_RETURN(TiledProgram tiled,
                         TileAsPlanned(program, tiles, planner, plan));
  context.Remark(
      "tile: {} of {} ops cut into {} along {}{}, {} join points",
      plan.tiled_ops, program.ops.size(), tiles,
      planner.InputDimText(plan.input, plan.dim),
      plan.blocks == 1 ? "" : fmt::format(" in {} blocks", plan.blocks),
      plan.join_points);
  program = std::move(tiled.program);
  return true;
}

absl::StatusOr<TiledProgram> TileAsPlanned(const Program& program,
                                           int64_t tiles,
                                           const TilePlanner& planner,
                                           const TilePlan& plan) {
  return Tiler(program, tiles, planner, plan).Run();
}

}  // namespace asyra
