// Rows of a table by id.
#include "ir/ops/gradient.h"
#include "ir/ops/indexing.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  const Type& table = call.operands[0];
  if (table.rank() != 2) {
    return Invalid("the table has rank {}, it should be 2", table.rank());
  }
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  int64_t rows = call.attrs.Int("rows");
  if (rows < -1 || rows > table.size(0)) {
    return Invalid("rows is {}, the table has {}", rows, table.size(0));
  }
  Type type = call.operands[1];
  type.dtype = table.dtype;
  type.dims.push_back(table.dims[1]);
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  return ParseAxisRule("@v e, ... -> ... e", call.operands, call.results,
                       Linearity::kFirst);
}

// Ids of rows on other devices give zeros here: the sum over devices has each
// row once.
absl::Status Reference(const RefCall& call) {
  const Tensor& table = call.operands[0];
  Tensor& out = call.results[0];
  int64_t start = call.Start(0, 0), count = table.size(0);
  int64_t total = IdsOf(call.attrs.Int("rows"), call.operand_types[0].size(0));
  int64_t row = table.size(1) * SizeOf(table.dtype());
  std::vector<int64_t> ids = call.operands[1].ToInts();
  for (size_t i = 0; i < ids.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(int64_t local, Position(ids[i], total));
    local -= start;
    if (local < 0 || local >= count || row == 0) continue;
    std::memcpy(out.mutable_data() + static_cast<int64_t>(i) * row,
                table.data() + local * row, row);
  }
  return absl::OkStatus();
}

Gradients EmbeddingVjp(Gradient& g) {
  return {g.Op("segment_sum", {g.dy(), g.x(1)},
               {{"dim", int64_t{0}},
                {"size", g.type(g.x()).size(0)},
                {"rows", g.attrs().Int("rows")}}),
          kNoValue};
}

}  // namespace

std::vector<OpDef> EmbedOps() {
  return {{.name = "embedding",
           .summary = "row ids[...] of the table, for every id, negative ones "
                      "counted from the end; an id outside the table is an "
                      "error",
           .operands = {{"table"}, {"ids"}},
           .attrs = {RowsAttr()},
           .infer = Infer,
           .axes = Axes,
           .work = MoveWork,
           .vjp = Vjp<EmbeddingVjp>,
           .reference = Reference,
           .samples = {{"embedding(f32[8,4], i64[2,6])", -8, 7},
                       {"embedding(f32[8,4], i64[2,6]) {rows=6}", -6, 5},
                       {"embedding(bf16[4,6], i32[4])", 0, 3}},
           .counts_from_end = true}};
}

}  // namespace asyra::ops
