// Ops that scheduling adds to a program: `wait` for a `start`, and tiles. Tiles
// cut each device's shard, so they never communicate: a device's part of the
// dimension is viewed as [blocks, of, rest], and a tile is one of `of` in every
// block.
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> WaitTypes(const OpCall& call, const Mesh&) {
  Type type = call.operands[0];
  if (!type.future) return Invalid("the operand is not a future");
  type.future = false;
  return std::vector<Type>{type};
}

// `size` is what a device holds of the dimension; each of `blocks` equal parts
// of it is to have `of` tiles.
absl::Status CheckCut(int dim, int64_t size, int64_t of, int64_t blocks) {
  if (blocks < 1) return Invalid("{} blocks", blocks);
  int64_t least = 0;
  if (!__builtin_mul_overflow(of, blocks, &least) && size % least == 0) {
    return absl::OkStatus();
  }
  return Invalid("dim {} holds {} on a device, which does not cut into {}{}",
                 dim, size, of,
                 blocks == 1 ? "" : fmt::format(" in {} blocks", blocks));
}

absl::StatusOr<std::vector<Type>> InferTile(const OpCall& call) {
  Type type = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type.rank()));
  int64_t part = call.attrs.Int("part"), of = call.attrs.Int("of");
  if (of < 1 || part < 0 || part >= of) {
    return Invalid("part {} of {}", part, of);
  }
  ASYRA_RETURN_IF_ERROR(
      CheckCut(dim, type.size(dim), of, call.attrs.Int("blocks")));
  type.dims[dim].size /= of;
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> TileTypes(const OpCall& call,
                                            const Mesh& mesh) {
  Type type = call.operands[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), type.rank());
  ASYRA_RETURN_IF_ERROR(CheckCut(dim, type.Local(mesh).size(dim),
                                 call.attrs.Int("of"),
                                 call.attrs.Int("blocks")));
  type.dims[dim].size = call.results[0].size(dim);
  return std::vector<Type>{type};
}

// `shape` with one dimension as [blocks, size / blocks].
Shape InBlocks(Shape shape, int dim, int64_t blocks) {
  shape[dim] /= blocks;
  shape.insert(shape.begin() + dim, blocks);
  return shape;
}

absl::Status TileReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), x.rank());
  int64_t blocks = call.attrs.Int("blocks");
  Shape shape = call.results[0].shape();
  int64_t size = shape[dim] / blocks;
  call.results[0] = x.Reshaped(InBlocks(x.shape(), dim, blocks))
                        .Slice(dim + 1, call.attrs.Int("part") * size, size)
                        .Reshaped(shape);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferUntile(const OpCall& call) {
  Type type = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type.rank()));
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i] != type) {
      return Invalid("tile {} is {}, tile 0 is {}", i,
                     ToString(call.operands[i], {}), ToString(type, {}));
    }
  }
  ASYRA_RETURN_IF_ERROR(
      CheckCut(dim, type.size(dim), 1, call.attrs.Int("blocks")));
  type.dims[dim].size *= static_cast<int64_t>(call.operands.size());
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> UntileTypes(const OpCall& call,
                                              const Mesh& mesh) {
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i] != call.operands[0]) {
      return Invalid("tile {} is {}, tile 0 is {}", i,
                     ToString(call.operands[i], mesh),
                     ToString(call.operands[0], mesh));
    }
  }
  Type type = call.operands[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), type.rank());
  ASYRA_RETURN_IF_ERROR(
      CheckCut(dim, type.Local(mesh).size(dim), 1, call.attrs.Int("blocks")));
  type.dims[dim].size = call.results[0].size(dim);
  return std::vector<Type>{type};
}

absl::Status UntileReference(const RefCall& call) {
  int dim = NormalizeDim(call.attrs.Int("dim"), call.operands[0].rank());
  int64_t blocks = call.attrs.Int("blocks");
  std::vector<Tensor> tiles;
  for (const Tensor& tile : call.operands) {
    tiles.push_back(tile.Reshaped(InBlocks(tile.shape(), dim, blocks)));
  }
  call.results[0] =
      Tensor::Concat(tiles, dim + 1).Reshaped(call.results[0].shape());
  return absl::OkStatus();
}

// Copies the bytes of the tile, not of the whole.
Work TileWork(const OpCall& local) {
  double bytes = static_cast<double>(local.results[0].bytes());
  return {.flops = 0, .read_bytes = bytes, .write_bytes = bytes};
}

// Everything but `dim` may be tiled once more.
absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  int rank = call.operands[0].rank();
  const AttrValue* whole = call.attrs.Find("dim");
  std::string operand, result;
  for (int d = 0; d < rank; ++d) {
    bool cut =
        whole != nullptr && NormalizeDim(std::get<int64_t>(*whole), rank) == d;
    operand += fmt::format("{}d{} ", cut ? "!" : "", d);
    result += fmt::format("{}d{} ", cut ? "!out" : "", d);
  }
  std::string spec = operand;
  for (size_t i = 1; i < call.operands.size(); ++i) spec += ", " + operand;
  return ParseAxisRule(spec + "-> " + result, call.operands, call.results);
}

absl::Status WaitReference(const RefCall& call) {
  call.results[0] = call.operands[0];
  return absl::OkStatus();
}

}  // namespace

std::vector<OpDef> ScheduleOps() {
  const AttrDef dim = {"dim", AttrKind::kInt, "dimension"};
  const AttrDef blocks = {"blocks", AttrKind::kInt,
                          "parts of a device's shard that are cut identically",
                          int64_t{1}};
  return {
      {.name = "wait",
       .summary = "the value of a future, once it is there",
       .operands = {{"future"}},
       .infer = SameAsFirst,
       .axes = Axes,
       .distribute = WaitTypes,
       .reference = WaitReference,
       .samples = {{"wait(future f32[4@a,6])", -3, 3, "(a=2, b=2)"}},
       .is_wait = true,
       .is_view = true},
      {.name = "tile",
       .summary =
           "part `part` of `of` of each block of a device's shard along `dim`",
       .operands = {{"x"}},
       .attrs = {dim,
                 {"part", AttrKind::kInt, "which one, from 0"},
                 {"of", AttrKind::kInt, "how many"},
                 blocks},
       .infer = InferTile,
       .axes = Axes,
       .distribute = TileTypes,
       .work = TileWork,
       .reference = TileReference,
       .samples = {{"tile(f32[8@a,6]) {dim=0, part=1, of=2}", -3, 3,
                    "(a=2, b=2)"},
                   {"tile(f32[4,6@b] partial(a)) {dim=1, part=0, of=3}", -3, 3,
                    "(a=2, b=2)"},
                   {"tile(i64[16@a,6]) {dim=0, part=1, of=2, blocks=2}", -3, 3,
                    "(a=2, b=2)"}},
       .is_tile = true},
      {.name = "untile",
       .summary =
           "tiles of each device's shard joined along `dim`, block by block",
       .operands = {{"tiles", OperandDef::kVariadic}},
       .attrs = {dim, blocks},
       .infer = InferUntile,
       .axes = Axes,
       .distribute = UntileTypes,
       .work = TileWork,
       .reference = UntileReference,
       .samples = {{"untile(f32[4@a,6], f32[4@a,6]) {dim=0}", -3, 3,
                    "(a=2, b=2)"},
                   {"untile(f32[2,12@b], f32[2,12@b]) {dim=-1, blocks=3}", -3,
                    3, "(a=2, b=2)"}},
       .is_untile = true},
  };
}

}  // namespace asyra::ops
