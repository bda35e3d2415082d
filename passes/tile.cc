#include "passes/tile.h"

#include "ir/builder.h"
#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class Tiler {
 public:
  Tiler(const Program& from, int64_t tiles)
      : from_(from),
        tiles_(tiles),
        builder_(Builder::Like(from)),
        forms_(from.values.size()) {}

  absl::StatusOr<Program> Run(int64_t dim) {
    for (const Input& input : from_.inputs) {
      Forms& forms = forms_[input.value];
      const Type& type = from_.type(input.value);
      forms.whole = builder_.Input(from_.value_name(input.value), type,
                                   input.role, input.stored);
      if (input.role == InputRole::kData && type.rank() > dim) {
        ASYRA_RETURN_IF_ERROR(CutInput(input.value, static_cast<int>(dim)));
      }
    }
    for (const Op& op : from_.ops) {
      absl::Status status = AddOp(op);
      if (!status.ok()) return Annotate(status, ToString(from_, op));
    }
    for (const Output& output : from_.outputs) {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Whole(output.value));
      builder_.Output(value, output.alias == kNoValue
                                 ? kNoValue
                                 : forms_[output.alias].whole);
    }
    return std::move(builder_).Finish();
  }

  int tiled_ops() const { return tiled_ops_; }
  int seams() const { return seams_; }

 private:
  // A value of the old program: whole, as tiles along `dim`, or both.
  struct Forms {
    ValueId whole = kNoValue;
    std::vector<ValueId> tiles;
    int dim = -1;
  };

  absl::Status CutInput(ValueId value, int dim) {
    int64_t size = from_.type(value).Local(from_.mesh).size(dim);
    if (size % tiles_ != 0) {
      return Invalid(
          "dim {} of input %{} is {} on a device, it does not "
          "cut into {} tiles",
          dim, from_.value_name(value), size, tiles_);
    }
    return Cut(value, dim);
  }

  absl::Status Cut(ValueId value, int dim) {
    Forms& forms = forms_[value];
    for (int64_t part = 0; part < tiles_; ++part) {
      ASYRA_ASSIGN_OR_RETURN(
          ValueId tile,
          builder_.AddOne(
              "tile", {forms.whole},
              {{"dim", int64_t{dim}}, {"part", part}, {"of", tiles_}},
              TileName(value, part)));
      forms.tiles.push_back(tile);
    }
    forms.dim = dim;
    return absl::OkStatus();
  }

  std::string TileName(ValueId value, int64_t part) const {
    return fmt::format("{}.t{}", from_.value_name(value), part);
  }

  absl::StatusOr<ValueId> Whole(ValueId value) {
    Forms& forms = forms_[value];
    if (forms.whole == kNoValue) {
      ASYRA_ASSIGN_OR_RETURN(
          forms.whole,
          builder_.AddOne("untile", forms.tiles, {{"dim", int64_t{forms.dim}}},
                          from_.value_name(value)));
    }
    return forms.whole;
  }

  // The dimension of an operand or result that a factor leads; -1 when it is
  // in none, -2 when it is there but inside.
  static int DimLedBy(const OperandFactors& dims, FactorId factor,
                      const AxisRule& rule) {
    int found = -1;
    for (size_t d = 0; d < dims.size(); ++d) {
      bool first = true;
      for (FactorId id : dims[d]) {
        if (id == factor) {
          if (!first || found != -1) return -2;
          found = static_cast<int>(d);
        }
        if (rule.factors[id].size > 1) first = false;
      }
    }
    return found;
  }

  // The factor along which this op's operands are tiled, or -1 when it is not
  // to be tiled: nothing is, they disagree, or its rule forbids it.
  FactorId TiledFactor(const Op& op, const AxisRule& rule) const {
    FactorId factor = -1;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Forms& forms = forms_[op.operands[k]];
      if (forms.tiles.empty()) continue;
      FactorId leading = rule.Leading(static_cast<int>(k), forms.dim);
      // A form that is also whole does not decide.
      if (leading < 0 || (factor >= 0 && leading != factor)) return -1;
      factor = leading;
    }
    if (factor < 0 || op.def->is_barrier || op.def->is_tile ||
        op.def->is_untile) {
      return -1;
    }
    const Factor& bound = rule.factors[factor];
    if (bound.kind == FactorKind::kWhole || bound.positional) return -1;
    auto cuts = [&](const Type& type, const OperandFactors& dims) {
      int dim = DimLedBy(dims, factor, rule);
      return dim == -1 ||
             (dim >= 0 && type.Local(from_.mesh).size(dim) % tiles_ == 0);
    };
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (!cuts(from_.type(op.operands[k]), rule.operands[k])) return -1;
    }
    for (size_t k = 0; k < op.results.size(); ++k) {
      if (!cuts(from_.type(op.results[k]), rule.results[k])) return -1;
    }
    return factor;
  }

  absl::Status AddOp(const Op& op) {
    ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(OpUse(from_, op)));
    FactorId factor = TiledFactor(op, rule);
    return factor >= 0 ? AddTiles(op, rule, factor) : AddWhole(op);
  }

  absl::Status AddWhole(const Op& op) {
    Op copy = op;
    bool seam = false;
    for (ValueId& value : copy.operands) {
      seam |= forms_[value].whole == kNoValue;
      ASYRA_ASSIGN_OR_RETURN(value, Whole(value));
    }
    seams_ += seam;
    std::vector<std::string> names;
    for (ValueId value : op.results) names.push_back(from_.value_name(value));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t i = 0; i < results.size(); ++i) {
      forms_[op.results[i]].whole = results[i];
    }
    return absl::OkStatus();
  }

  absl::Status AddTiles(const Op& op, const AxisRule& rule, FactorId factor) {
    ++tiled_ops_;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      int dim = DimLedBy(rule.operands[k], factor, rule);
      if (dim >= 0 && forms_[op.operands[k]].tiles.empty()) {
        ASYRA_RETURN_IF_ERROR(Cut(op.operands[k], dim));
      }
    }
    std::vector<Type> tile_types = from_.ResultTypes(op);
    for (size_t i = 0; i < tile_types.size(); ++i) {
      int dim = DimLedBy(rule.results[i], factor, rule);
      if (dim >= 0) tile_types[i].dims[dim].size /= tiles_;
    }
    for (int64_t part = 0; part < tiles_; ++part) {
      Op copy = op;
      for (size_t k = 0; k < op.operands.size(); ++k) {
        const Forms& forms = forms_[op.operands[k]];
        bool cut = DimLedBy(rule.operands[k], factor, rule) >= 0;
        copy.operands[k] = cut ? forms.tiles[part] : forms.whole;
      }
      if (op.def->resize != nullptr) op.def->resize(&copy.attrs, tile_types);
      std::vector<std::string> names;
      for (ValueId value : op.results) names.push_back(TileName(value, part));
      ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                             builder_.Insert(std::move(copy), names));
      for (size_t i = 0; i < results.size(); ++i) {
        forms_[op.results[i]].tiles.push_back(results[i]);
      }
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      int dim = DimLedBy(rule.results[i], factor, rule);
      Forms& forms = forms_[op.results[i]];
      forms.dim = dim;
      if (dim < 0) ASYRA_RETURN_IF_ERROR(AddUp(&forms));
    }
    return absl::OkStatus();
  }

  // The op summed over the tiled factor: each tile has a part of the sum.
  absl::Status AddUp(Forms* forms) {
    forms->whole = forms->tiles[0];
    for (size_t i = 1; i < forms->tiles.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(
          forms->whole,
          builder_.AddOne("add", {forms->whole, forms->tiles[i]}, {}, "sum"));
    }
    forms->tiles.clear();
    return absl::OkStatus();
  }

  const Program& from_;
  const int64_t tiles_;
  Builder builder_;
  std::vector<Forms> forms_;
  int tiled_ops_ = 0;
  int seams_ = 0;
};

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
  Tiler tiler(program, tiles);
  ASYRA_ASSIGN_OR_RETURN(Program tiled, tiler.Run(options.Int("dim")));
  if (tiler.tiled_ops() == 0) {
    context.Remark("tile: no op can be cut along dim {} of the data inputs",
                   options.Int("dim"));
    return false;
  }
  context.Remark(
      "tile: {} of {} ops cut into {} along dim {} of the data "
      "inputs, {} seams",
      tiler.tiled_ops(), program.ops.size(), tiles, options.Int("dim"),
      tiler.seams());
  program = std::move(tiled);
  return true;
}

}  // namespace asyra
