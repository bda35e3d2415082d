#include "executor/comm/collective_geometry.h"

#include "ir/support/status.h"
#include "ir/weights/contiguous_runs.h"

namespace asyra {
namespace {

int64_t Product(const Type& type, int begin, int end) {
  int64_t product = 1;
  for (int d = begin; d < end; ++d) product *= type.size(d);
  return product;
}

// Chunks are adjacent along `dim` of the result.
void Gather(const Type& operand, int dim, int64_t members,
            CollectiveGeometry* geometry) {
  int64_t chunk = Product(operand, dim, operand.rank());
  geometry->outer = ContiguousRuns(operand, dim);
  geometry->run_elements = chunk;
  geometry->read_outer = chunk;
  geometry->write_outer = chunk * members;
  geometry->write_member = chunk;
}

// Chunks are parts along `dim` of the operand.
void Scatter(const Type& result, int dim, int64_t members,
             CollectiveGeometry* geometry) {
  int64_t chunk = Product(result, dim, result.rank());
  geometry->outer = ContiguousRuns(result, dim);
  geometry->run_elements = chunk;
  geometry->read_outer = chunk * members;
  geometry->read_member = chunk;
  geometry->write_outer = chunk;
}

// Parts along `to` of the operand move to `from` of the result. The
// chunk runs over [outer, first, middle, second, inner], where `first` and
// `second` are the two dimensions in their order.
void Exchange(const Type& operand, int from, int to, int64_t members,
              CollectiveGeometry* geometry) {
  int low = std::min(from, to), high = std::max(from, to);
  int64_t inner = Product(operand, high + 1, operand.rank());
  int64_t between = Product(operand, low + 1, high);
  int64_t outer = Product(operand, 0, low);
  int64_t small_from = operand.size(from);
  int64_t small_to = operand.size(to) / members;
  if (to > from) {
    // [outer, from, between, to, inner]: runs are parts of `to`.
    int64_t run = small_to * inner, whole = operand.size(to) * inner;
    int64_t rows = small_from * between;
    *geometry = {.dtype = operand.dtype,
                 .run_elements = run,
                 .outer = outer,
                 .middle = rows,
                 .read_outer = rows * whole,
                 .read_middle = whole,
                 .read_member = run,
                 .write_outer = rows * members * run,
                 .write_middle = run,
                 .write_member = rows * run};
    return;
  }
  // [outer, to, between, from, inner]: runs are parts of `from`.
  int64_t run = small_from * inner, whole = run * members;
  int64_t rows = small_to * between;
  *geometry = {.dtype = operand.dtype,
               .run_elements = run,
               .outer = outer,
               .middle = rows,
               .read_outer = rows * members * run,
               .read_middle = run,
               .read_member = rows * run,
               .write_outer = rows * whole,
               .write_middle = whole,
               .write_member = run};
}

absl::StatusOr<CollectiveGeometry> GeometryOf(const KernelUse& use, int part,
                                              int64_t members) {
  const Type& operand = use.operand(part);
  const Type& result = use.result(part);
  auto dim = [&](std::string_view name) {
    return NormalizeDim(use.attrs().Int(name), operand.rank());
  };
  CollectiveGeometry geometry;
  geometry.dtype = operand.dtype;
  switch (use.def().collective) {
    case CollectiveKind::kAllReduce:
      geometry.sums = true;
      geometry.run_elements = operand.num_elements();
      return geometry;
    case CollectiveKind::kAllGather:
      Gather(operand, dim("dim"), members, &geometry);
      return geometry;
    case CollectiveKind::kReduceScatter:
      geometry.sums = true;
      Scatter(result, dim("dim"), members, &geometry);
      return geometry;
    case CollectiveKind::kAllToAll:
      Exchange(operand, dim("from"), dim("to"), members, &geometry);
      return geometry;
    case CollectiveKind::kShift:
      geometry.shift = use.attrs().Int("by");
      geometry.run_elements = operand.num_elements();
      return geometry;
    case CollectiveKind::kNone:
      break;
  }
  return Unimplemented("{} is no collective that communicators know",
                       use.def().name);
}

}  // namespace

absl::StatusOr<std::vector<CollectiveGeometry>> GeometriesOf(
    const CollectiveUse& use) {
  std::vector<CollectiveGeometry> geometries;
  for (int part = 0; part < use.use.num_operands(); ++part) {
    ASYRA_ASSIGN_OR_RETURN(
        CollectiveGeometry geometry,
        GeometryOf(use.use, part, static_cast<int64_t>(use.members.size())));
    geometries.push_back(geometry);
  }
  return geometries;
}

}  // namespace asyra
