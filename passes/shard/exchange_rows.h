// Sends the rows of a table that tokens need, instead of the table.
//
// A table whose rows are cut over devices, as ZeRO 3 cuts all parameters, is
// gathered before tokens look up rows of it:
//
//   %t = all_gather(%table) {dim=0, axes=dp} : bf16[256, 64]
//   %y = embedding(%t, %ids) : bf16[4@dp, 16, 64]
// becomes
//   %i = all_gather(%ids) {dim=0, axes=dp} : i64[4, 16]
//   %y.rows = embedding(%table, %i) : bf16[4, 16, 64] partial(dp)
//   %y = reduce_scatter(%y.rows) {dim=0, axes=dp} : bf16[4@dp, 16, 64]
//
// where a device adds zeros for the rows that others have, so the result is the
// same. The gradient of a table is a sum of rows, which devices add:
//
//   %d.f32 = cast(%d) {to=f32} : f32[4@dp, 16, 64]
//   %p = segment_sum(%d.f32, %ids) {dim=0, size=256} : f32[256, 64] partial(dp)
//   %g = reduce_scatter(%p) {dim=0, axes=dp} : f32[256@dp, 64]
// becomes
//   %r = all_gather(%d) {dim=0, axes=dp} : bf16[4, 16, 64]
//   %d.f32 = cast(%r) {to=f32} : f32[4, 16, 64]
//   %g = segment_sum(%d.f32, %i) {dim=0, size=256} : f32[256@dp, 64]
//
// An all_reduce is replaced the same way. The rows are then added in the order
// of one device, so the last digits of a sum may differ.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Each lookup and each sum by itself, where all ops of the program together
// take less time by context.costs. Only where the axes that cut the table, or
// sum it, are those that cut the ids. Error: without costs.
absl::StatusOr<bool> ExchangeRows(Program& program, const PassOptions& options,
                                  PassContext& context);

}  // namespace asyra
