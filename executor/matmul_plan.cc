#include "executor/matmul_plan.h"

#include <algorithm>

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

// Where batch `index` of `batch` finds its matrix among those of `of`, which
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

}  // namespace

MatmulPlan PlanMatmul(const KernelUse& use) {
  const Type &a = use.operand(0), &b = use.operand(1), &c = use.result(0);
  MatmulPlan plan;
  if (use.def().name == "matmul_wgrad") {
    plan.transpose_a = true;
    plan.m = c.size(c.rank() - 2);
    plan.n = c.size(c.rank() - 1);
    int64_t count = NumElements(BatchOf(c));
    plan.k = a.num_elements() / std::max<int64_t>(1, plan.m * count);
    for (int64_t i = 0; i < count; ++i) {
      plan.matmuls.push_back(
          {i * plan.m * plan.k, i * plan.k * plan.n, i * plan.m * plan.n});
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
  for (int64_t i = 0; i < count; ++i) {
    plan.matmuls.push_back({MatrixOf(i, batch, a_batch) * plan.m * plan.k,
                            MatrixOf(i, batch, b_batch) * plan.k * plan.n,
                            i * plan.m * plan.n});
  }
  return plan;
}

}  // namespace asyra
