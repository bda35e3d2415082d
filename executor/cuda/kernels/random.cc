// Random values by global index (ir/ops/random.cc), generated.
#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/ops/random_numbers.h"

namespace asyra::cuda {
namespace {

// The numbers that the elements of this rank have in the whole.
Access PlacesIn(const KernelUse& use, const Type& global) {
  Access places{DenseStrides(global.shape())};
  for (int d = 0; d < global.rank(); ++d) {
    places.first += use.Start(global, d) * places.strides[d];
  }
  return places;
}

// The two numbers of a key, repeated.
void AddKey(const Shape& shape, Loop* loop) {
  Access seed{Shape(shape.size(), 0), 0}, stream{Shape(shape.size(), 0), 1};
  loop->operands.push_back(seed);
  loop->operands.push_back(stream);
}

template <bool normal>
GeneratedUse Random(const KernelUse& use) {
  const Type& result = use.result(0);
  Shape shape = result.shape();
  Loop loop{.columns = shape};
  AddKey(shape, &loop);
  loop.places = {PlacesIn(use, use.global_results()[0])};
  loop.results = {{DenseStrides(shape)}};
  Expression e;
  int seed = e.Operand(DType::kI64), stream = e.Operand(DType::kI64);
  std::vector<int> inputs = {seed, stream, e.Place()};
  std::string code = normal ? "Normal($0, $1, $2)"
                            : fmt::format("Uniform(Word($0, $1, $2), {})",
                                          ops::FractionBits(result.dtype));
  e.Store(e.Formula(std::move(code), inputs, Computed::kDouble), result.dtype);
  return {e, loop, {0, 0}};
}

GeneratedUse Dropout(const KernelUse& use) {
  const Type& x = use.operand(0);
  double rate = use.attrs().Float("rate");
  Shape shape = x.shape();
  Loop loop{.columns = shape, .operands = {{DenseStrides(shape)}}};
  AddKey(shape, &loop);
  loop.places = {PlacesIn(use, use.global_operands()[0])};
  loop.results = {{DenseStrides(shape)}};
  Expression e;
  int value = e.Operand(x.dtype);
  int seed = e.Operand(DType::kI64), stream = e.Operand(DType::kI64);
  int drawn = e.Formula("Uniform(Word($0, $1, $2), 24)",
                        {seed, stream, e.Place()}, Computed::kDouble);
  int drops = e.Formula("$0 < $1", {drawn, e.Number(rate, Computed::kDouble)},
                        Computed::kInt);
  int kept = e.Formula("$0 / $1", {value, e.Number(1 - rate, value)});
  e.Store(e.Formula("$0 != 0 ? 0 : $1", {drops, kept}), x.dtype);
  return {e, loop, {0, 1, 1}};
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CudaKernelDef> RandomKernels() {
  return {Generated("random_uniform", Always, Random<false>),
          Generated("random_normal", Always, Random<true>),
          Generated("dropout", Always, Dropout)};
}

}  // namespace asyra::cuda
