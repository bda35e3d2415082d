#include "passes/schedule/tile/merge_tiles.h"

#include "absl/algorithm/container.h"
#include "ir/accumulation.h"
#include "ir/builder.h"
#include "ir/streams.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/analysis/tile_sums.h"
#include "passes/schedule/tile/group_order.h"

namespace asyra {
namespace {

// Returns the name of the value before tiling: "y" for "y.t0", and "y.future"
// for "y.t0.future".
std::string WholeName(const std::string& tile) {
  size_t suffix = tile.rfind(".t0");
  if (suffix == std::string::npos) return tile + ".whole";
  std::string rest = tile.substr(suffix + 3);
  return rest.empty() || rest == ".future" ? tile.substr(0, suffix) + rest
                                           : tile + ".whole";
}

class Merger {
 public:
  Merger(const Program& from, const TileFacts& facts,
         const std::vector<TileGroup>& groups)
      : from_(from),
        lanes_(facts.lanes),
        tiles_(facts.tiles),
        uses_(facts.uses),
        new_op_(from.ops.size(), -1),
        builder_(Builder::Like(from)),
        new_value_(from.values.size(), kNoValue),
        part_of_(from.values.size()),
        compute_(MainComputeStream(from)) {
    nodes_.group_of.assign(from.ops.size(), -1);
    for (const TileGroup& group : groups) AddNode(group);
    for (size_t i = 0; i < from.ops.size(); ++i) {
      if (nodes_.group_of[i] < 0) AddNode({static_cast<int>(i)});
    }
  }

  absl::StatusOr<Program> Run() {
    builder_.CopyInputs(from_, &new_value_);
    ASYRA_ASSIGN_OR_RETURN(std::vector<int> order, Sort());
    for (int node : order) {
      const TileGroup& ops = nodes_.ops[node];
      ASYRA_RETURN_IF_ERROR(nodes_.sums[node] ? EmitSum(ops)
                            : ops.size() > 1  ? EmitMerged(ops)
                                              : EmitOne(ops[0]));
    }
    for (const Output& output : from_.outputs) {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Get(output.value));
      builder_.Output(
          value, output.alias == kNoValue ? kNoValue : new_value_[output.alias],
          from_.output_name(output));
    }
    Program result = std::move(builder_).Finish();
    DropUnusedTiles(&result);
    return result;
  }

  const std::vector<int>& new_ops() const { return new_op_; }

 private:
  // A value that exists as one part of a merged op's result.
  struct PartOf {
    ValueId whole = kNoValue;
    int part = 0;
  };

  void AddNode(TileGroup ops) {
    for (int op : ops)
      nodes_.group_of[op] = static_cast<int>(nodes_.ops.size());
    nodes_.sums.push_back(IsTileSum(from_, uses_, lanes_, tiles_, ops));
    nodes_.ops.push_back(std::move(ops));
  }

  // A merged op takes the place of its first one.
  absl::StatusOr<std::vector<int>> Sort() const {
    std::vector<int> places;
    for (const TileGroup& ops : nodes_.ops) places.push_back(ops[0]);
    auto order = GroupOrder(from_, uses_, nodes_, places);
    if (order.has_value()) return *std::move(order);
    return Invalid("merging these tiles makes a cycle");
  }

  absl::Status EmitOne(int index) {
    const Op& op = from_.ops[index];
    if (op.def->is_untile && JoinsAllParts(op)) return absl::OkStatus();
    Op copy = op;
    for (ValueId& value : copy.operands) {
      ASYRA_ASSIGN_OR_RETURN(value, Get(value));
    }
    copy.after = AfterAll({index});
    std::vector<std::string> names;
    for (ValueId value : op.results) names.push_back(from_.value_name(value));
    new_op_[index] = NextOp();
    // The operands' types are what they were.
    std::vector<ValueId> results =
        builder_.Append(std::move(copy), from_.ResultTypes(op), names);
    for (size_t i = 0; i < results.size(); ++i) {
      new_value_[op.results[i]] = results[i];
    }
    return absl::OkStatus();
  }

  // The untile of a value that was never cut, or is cut equally, is the whole
  // itself.
  bool JoinsAllParts(const Op& untile) {
    const std::optional<TileOf>& tile = tiles_[untile.operands[0]];
    if (!tile.has_value() || tile->place.dim != DimOf(untile) ||
        Blocks(*tile) != untile.attrs.Int("blocks")) {
      return false;
    }
    ValueId whole = WholeOf({untile.operands.begin(), untile.operands.end()});
    if (whole == kNoValue) return false;
    new_value_[untile.results[0]] = whole;
    return true;
  }

  int64_t Blocks(const TileOf& tile) const {
    return BlocksOnDevice(tile.whole, tile.place, tile.tiles, from_.mesh);
  }
  int DimOf(const Op& op) const {
    return NormalizeDim(op.attrs.Int("dim"), from_.type(op.results[0]).rank());
  }

  // Returns the value of which these are all the parts in order, if there is
  // one.
  ValueId WholeOf(const std::vector<ValueId>& parts) const {
    if (!tiles_[parts[0]].has_value() ||
        tiles_[parts[0]]->tiles != static_cast<int64_t>(parts.size())) {
      return kNoValue;
    }
    ValueId whole = part_of_[parts[0]].whole;
    for (size_t k = 0; k < parts.size(); ++k) {
      const PartOf& part = part_of_[parts[k]];
      if (part.whole != whole || part.part != static_cast<int>(k)) {
        whole = kNoValue;
      }
    }
    return whole != kNoValue ? whole : SourceOfTiles(parts);
  }

  // Returns the value that these were cut from by `tile` ops, if there is one.
  ValueId SourceOfTiles(const std::vector<ValueId>& tiles) const {
    ValueId source = kNoValue;
    for (size_t k = 0; k < tiles.size(); ++k) {
      int def = uses_.def[tiles[k]];
      if (def < 0 || !from_.ops[def].def->is_tile) return kNoValue;
      const Op& tile = from_.ops[def];
      if (tile.attrs.Int("part") != static_cast<int64_t>(k) ||
          !(tiles_[tiles[k]]->place == tiles_[tiles[0]]->place) ||
          (k > 0 && tile.operands[0] != source)) {
        return kNoValue;
      }
      source = tile.operands[0];
    }
    return new_value_[source];
  }

  absl::Status EmitMerged(const TileGroup& ops) {
    const Op& first = from_.ops[ops[0]];
    Op merged = first;
    // A collective's stream must not be held up by joining its tiles.
    StreamId stream = first.start ? compute_ : first.stream;
    for (size_t i = 0; i < first.operands.size(); ++i) {
      std::vector<ValueId> tiles;
      for (int op : ops) tiles.push_back(from_.ops[op].operands[i]);
      ASYRA_ASSIGN_OR_RETURN(merged.operands[i], JoinOrGet(tiles, stream));
    }
    merged.after = AfterAll(ops);
    std::vector<Type> types;
    for (size_t i = 0; i < first.results.size(); ++i) {
      for (int op : ops) ASYRA_RETURN_IF_ERROR(CheckSameCut(first, op, i));
      types.push_back(tiles_[first.results[i]]->whole);
    }
    if (first.def->resize != nullptr) first.def->resize(&merged.attrs, types);
    std::vector<std::string> names;
    for (ValueId value : first.results) {
      names.push_back(WholeName(from_.value_name(value)));
    }
    int index = NextOp();
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(merged), names));
    for (size_t k = 0; k < ops.size(); ++k) {
      const Op& op = from_.ops[ops[k]];
      new_op_[ops[k]] = index;
      for (size_t i = 0; i < results.size(); ++i) {
        part_of_[op.results[i]] = {results[i], static_cast<int>(k)};
      }
    }
    return absl::OkStatus();
  }

  // Emits the matmuls of a sum over tiles as one, which is its last value.
  absl::Status EmitSum(const TileGroup& ops) {
    std::vector<AddedMatmul> matmuls;
    for (int op : ops) {
      matmuls.push_back(*AddedMatmulOf(from_, from_.ops[op]));
    }
    Op merged = matmuls[0].op;
    for (size_t i = 0; i < merged.operands.size(); ++i) {
      std::vector<ValueId> tiles;
      for (const AddedMatmul& matmul : matmuls) {
        tiles.push_back(matmul.op.operands[i]);
      }
      ASYRA_ASSIGN_OR_RETURN(merged.operands[i],
                             JoinOrGet(tiles, merged.stream));
    }
    if (matmuls[0].onto != kNoValue) {
      ASYRA_ASSIGN_OR_RETURN(ValueId onto, Get(matmuls[0].onto));
      merged = AddedTo(merged, onto);
    }
    merged.after = AfterAll(ops);
    ValueId first = from_.ops[ops[0]].results[0];
    int index = NextOp();
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> results,
        builder_.Insert(std::move(merged),
                        {WholeName(from_.value_name(first))}));
    for (int op : ops) {
      new_op_[op] = index;
      new_value_[from_.ops[op].results[0]] = results[0];
    }
    return absl::OkStatus();
  }

  // Returns the values that any of the ops waits for; a tile's whole instead of
  // the tile.
  absl::InlinedVector<ValueId, 1> AfterAll(const TileGroup& ops) const {
    absl::InlinedVector<ValueId, 1> all;
    for (int op : ops) {
      for (ValueId old : from_.ops[op].after) {
        ValueId value =
            new_value_[old] != kNoValue ? new_value_[old] : part_of_[old].whole;
        if (!absl::c_linear_search(all, value)) all.push_back(value);
      }
    }
    return all;
  }

  // Checks that result i of an op of a group is a tile cut as that of the first
  // is.
  absl::Status CheckSameCut(const Op& first, int op, size_t i) const {
    const std::optional<TileOf>& a = tiles_[first.results[i]];
    const std::optional<TileOf>& b = tiles_[from_.ops[op].results[i]];
    if (a.has_value() && b.has_value() && a->place == b->place &&
        a->whole == b->whole && a->tiles == b->tiles) {
      return absl::OkStatus();
    }
    return Invalid("%{} and %{} are not tiles of one value",
                   from_.value_name(first.results[i]),
                   from_.value_name(from_.ops[op].results[i]));
  }

  // Returns the whole of which these are tiles, or the one value that they all
  // are.
  absl::StatusOr<ValueId> JoinOrGet(const std::vector<ValueId>& tiles,
                                    StreamId stream) {
    bool shared =
        absl::c_all_of(tiles, [&](ValueId tile) { return tile == tiles[0]; });
    return shared ? Get(tiles[0]) : Join(tiles, stream);
  }

  absl::StatusOr<ValueId> Join(const std::vector<ValueId>& tiles,
                               StreamId stream) {
    ValueId whole = WholeOf(tiles);
    if (whole != kNoValue) return whole;
    Op untile;
    untile.def = FindOp("untile");
    const std::optional<TileOf>& cut = tiles_[tiles[0]];
    if (!cut.has_value()) return Invalid("what is merged reads no tiles");
    untile.attrs = {{"dim", int64_t{cut->place.dim}}, {"blocks", Blocks(*cut)}};
    untile.stream = stream;
    for (ValueId tile : tiles) {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Get(tile));
      untile.operands.push_back(value);
    }
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> results,
        builder_.Insert(std::move(untile),
                        {WholeName(from_.value_name(tiles[0]))}));
    return results[0];
  }

  // Returns an old value in the new program; cut from its whole when it is a
  // part.
  absl::StatusOr<ValueId> Get(ValueId value) {
    if (new_value_[value] == kNoValue) {
      const PartOf& part = part_of_[value];
      ASYRA_CHECK(part.whole != kNoValue);
      Op tile;
      tile.def = FindOp("tile");
      const TileOf& cut = *tiles_[value];
      tile.attrs = {{"dim", int64_t{cut.place.dim}},
                    {"part", int64_t{part.part}},
                    {"of", cut.tiles},
                    {"blocks", Blocks(cut)}};
      tile.operands = {part.whole};
      // Compute cuts; a collective's stream must not be held up by it.
      tile.stream = compute_;
      ASYRA_ASSIGN_OR_RETURN(
          std::vector<ValueId> results,
          builder_.Insert(std::move(tile), {from_.value_name(value)}));
      new_value_[value] = results[0];
    }
    return new_value_[value];
  }

  // Tiles whose only readers were merged, and that no op waits for.
  void DropUnusedTiles(Program* program) {
    DefUse uses(*program);
    std::vector<bool> awaited(program->values.size(), false);
    for (const Op& op : program->ops) {
      for (ValueId value : op.after) awaited[value] = true;
    }
    std::vector<int> kept(program->ops.size(), -1);
    std::vector<Op> ops;
    for (size_t i = 0; i < program->ops.size(); ++i) {
      Op& op = program->ops[i];
      if (op.def->is_tile && uses.uses[op.results[0]].empty() &&
          uses.output_uses[op.results[0]] == 0 && !awaited[op.results[0]]) {
        continue;
      }
      kept[i] = static_cast<int>(ops.size());
      ops.push_back(std::move(op));
    }
    program->ops = std::move(ops);
    program->DropUnusedValues();
    for (int& op : new_op_) op = op < 0 ? op : kept[op];
  }

  int NextOp() const { return static_cast<int>(builder_.program().ops.size()); }

  const Program& from_;
  const Lanes& lanes_;
  const std::vector<std::optional<TileOf>>& tiles_;  // by value
  const DefUse& uses_;
  OpGroups nodes_;  // ops of the new program: an old one, or a merged group
  std::vector<int> new_op_;  // by old op; -1: gone
  Builder builder_;
  std::vector<ValueId> new_value_;
  std::vector<PartOf> part_of_;
  const StreamId compute_;  // the main compute stream
};

}  // namespace

absl::StatusOr<Program> TileMerger::Merge(const std::vector<TileGroup>& groups,
                                          std::vector<int>* new_ops) const {
  Merger merger(program_, facts_, groups);
  ASYRA_ASSIGN_OR_RETURN(Program merged, merger.Run());
  if (new_ops != nullptr) *new_ops = merger.new_ops();
  return merged;
}

}  // namespace asyra
