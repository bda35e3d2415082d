#include "executor/matmul_plan.h"

#include <algorithm>

#include "ir/body.h"

namespace asyra {
namespace {

bool Flag(const KernelUse& use, std::string_view name) {
  const AttrValue* value = use.attrs().Find(name);
  return value != nullptr && std::get<bool>(*value);
}

Shape BatchOf(const Type& type) {
  Shape shape = type.shape();
  shape.resize(shape.size() - 2);
  return shape;
}

// Returns the matrix of batch `index` of `batch` among those of `of`, which
// broadcast to it as in NumPy.
int64_t MatrixOf(int64_t index, const Shape& batch, const Shape& of) {
  int64_t matrix = 0, stride = 1;
  for (size_t i = 1; i <= batch.size(); ++i) {
    int64_t size = batch[batch.size() - i], at = index % size;
    index /= size;
    if (i > of.size()) continue;
    int64_t own = of[of.size() - i];
    if (own > 1) matrix += at * stride;
    stride *= own;
  }
  return matrix;
}

int64_t RowStride(const KernelUse& use, int operand) {
  const Type& type = use.operand(operand);
  int64_t stride = use.row_stride(operand);
  return stride > 0 ? stride : type.size(type.rank() - 1);
}

}  // namespace

MatmulPlan PlanMatmul(const KernelUse& use) {
  const Type &a = use.operand(0), &b = use.operand(1), &c = use.result(0);
  MatmulPlan plan;
  plan.a_stride = RowStride(use, 0);
  plan.b_stride = RowStride(use, 1);
  if (use.def().name == "matmul_wgrad") {
    plan.transpose_a = true;
    plan.m = c.size(c.rank() - 2);
    plan.n = c.size(c.rank() - 1);
    int64_t count = NumElements(BatchOf(c));
    plan.k = a.num_elements() / std::max<int64_t>(1, plan.m * count);
    for (int64_t i = 0; i < count; ++i) {
      plan.matmuls.push_back({i * plan.k * plan.a_stride,
                              i * plan.k * plan.b_stride, i * plan.m * plan.n});
    }
    return plan;
  }
  plan.transpose_a = Flag(use, "transpose_a");
  plan.transpose_b = Flag(use, "transpose_b");
  plan.m = c.size(c.rank() - 2);
  plan.n = c.size(c.rank() - 1);
  plan.k = a.size(a.rank() - (plan.transpose_a ? 2 : 1));
  Shape batch = BatchOf(c), a_batch = BatchOf(a), b_batch = BatchOf(b);
  int64_t count = NumElements(batch);
  if (NumElements(b_batch) == 1 && !plan.transpose_a && a_batch == batch) {
    plan.m *= count;
    plan.matmuls = {{0, 0, 0}};
    return plan;
  }
  int64_t a_matrix = a.size(a.rank() - 2) * plan.a_stride;
  int64_t b_matrix = b.size(b.rank() - 2) * plan.b_stride;
  for (int64_t i = 0; i < count; ++i) {
    plan.matmuls.push_back({MatrixOf(i, batch, a_batch) * a_matrix,
                            MatrixOf(i, batch, b_batch) * b_matrix,
                            i * plan.m * plan.n});
  }
  return plan;
}

KernelUse MatmulOfFusion(const KernelUse& fusion,
                         absl::Span<const Type> types) {
  const Body& body = *BodyOf(fusion.attrs());
  BodyCall matmul(body, 0, types);
  const auto& factors = body.ops[0].operands;
  return fusion.OfPart(matmul.call())
      .WithRowStrides(
          {fusion.row_stride(factors[0]), fusion.row_stride(factors[1])});
}

}  // namespace asyra
