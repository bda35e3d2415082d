// Gather and scatter of elements and slices (ir/ops/{gather,gather_nd,
// scatter}.cc).
#include "executor/cuda/kernels/gather_scatter.h"

#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/ops/indexing.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// Every index is for `dim`, the other dimensions are those of its own place.
SliceIndexing ElementIndexing(const KernelUse& use) {
  const Type &x = use.operand(0), &indices = use.operand(1);
  int dim = NormalizeDim(use.attrs().Int("dim"), x.rank());
  Shape strides = DenseStrides(x.shape());
  SliceIndexing indexing{.index = ElementOf(indices.dtype),
                         .count = indices.num_elements(),
                         .groups = indices.num_elements(),
                         .dims = x.rank()};
  for (int d = 0; d < x.rank(); ++d) {
    indexing.shape[d] = indices.size(d);
    indexing.strides[d] = d == dim ? 0 : strides[d];
  }
  const Type& global = use.global_operands()[0];
  // A dimension of one element has stride 0.
  indexing.indexed[0] = {x.size(dim), global.size(dim), use.Start(global, dim),
                         strides[dim]};
  return indexing;
}

// The last dimension of the indices holds coordinates in the dimensions of
// operand 0 that follow `batch_dims`.
SliceIndexing CoordinateIndexing(const KernelUse& use) {
  const Type &x = use.operand(0), &indices = use.operand(1);
  const Type& global = use.global_operands()[0];
  int batch = static_cast<int>(use.attrs().Int("batch_dims"));
  int depth = static_cast<int>(indices.size(indices.rank() - 1));
  Shape strides = DenseStrides(x.shape());
  SliceIndexing indexing{
      .index = ElementOf(indices.dtype),
      .count = depth > 0 ? indices.num_elements() / depth : 0,
      .dims = 2,
      .depth = depth};
  indexing.groups = indexing.count;
  for (int k = 0; k < depth; ++k) {
    int d = batch + k;
    indexing.indexed[k] = {x.size(d), global.size(d), use.Start(global, d),
                           strides[d]};
  }
  int64_t batches = 1, per_batch = 1;
  for (int d = 0; d < batch; ++d) batches *= x.size(d);
  for (int d = batch; d < x.rank(); ++d) per_batch *= x.size(d);
  for (int d = batch + depth; d < x.rank(); ++d) indexing.slice *= x.size(d);
  indexing.shape[0] = batches;
  indexing.shape[1] = batches > 0 ? indexing.count / batches : 0;
  indexing.strides[0] = per_batch;
  return indexing;
}

// Rows [outer][index][inner] of operand 0 added up by their index.
SliceIndexing SegmentIndexing(const KernelUse& use) {
  const Type &x = use.operand(0), &indices = use.operand(1);
  const Type& global = use.global_results()[0];
  int dim = static_cast<int>(use.attrs().Int("dim"));
  int64_t outer = 1, rows = indices.num_elements();
  SliceIndexing indexing{
      .index = ElementOf(indices.dtype), .groups = rows, .dims = 2};
  for (int d = 0; d < dim; ++d) outer *= x.size(d);
  for (int d = dim + indices.rank(); d < x.rank(); ++d) {
    indexing.slice *= x.size(d);
  }
  int64_t segments = use.result(0).size(dim);
  indexing.count = outer * rows;
  indexing.shape[0] = outer;
  indexing.shape[1] = rows;
  indexing.strides[0] = segments * indexing.slice;
  int64_t total = ops::IdsOf(use.attrs().Int("rows"), use.attrs().Int("size"));
  indexing.indexed[0] = {segments, total, use.Start(global, dim),
                         indexing.slice};
  return indexing;
}

class GatherKernel : public CudaKernel {
 public:
  GatherKernel(const KernelUse& use, const SliceIndexing& indexing)
      : indexing_(indexing), element_bytes_(SizeOf(use.operand(0).dtype)) {}
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(GatherSlices(indexing_, args.operands[1], element_bytes_,
                            args.operands[0], args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  SliceIndexing indexing_;
  int64_t element_bytes_;
};

class ScatterKernel : public CudaKernel {
 public:
  // Numbers of the operands; no `x`: zeros.
  ScatterKernel(const KernelUse& use, const SliceIndexing& indexing,
                ScatterReduction reduction, int x, int updates)
      : indexing_(indexing),
        reduction_(reduction),
        element_(ElementOf(use.result(0).dtype)),
        elements_(use.result(0).num_elements()),
        is_wider_(ScatterBytes(element_) > SizeOf(use.result(0).dtype)),
        x_(x),
        updates_(updates) {}
  int64_t workspace_bytes() const override {
    return is_wider_ ? elements_ * ScatterBytes(element_) : 0;
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    void* to = args.results[0];
    ASYRA_CUDA(ScatterSlices(indexing_, reduction_, element_, elements_,
                             x_ < 0 ? nullptr : args.operands[x_],
                             args.operands[1], args.operands[updates_],
                             is_wider_ ? args.workspace : to, to, stream));
    return absl::OkStatus();
  }

 private:
  SliceIndexing indexing_;
  ScatterReduction reduction_;
  Element element_;
  int64_t elements_;
  bool is_wider_;
  int x_, updates_;
};

template <SliceIndexing (*indexing)(const KernelUse&)>
Prepared PrepareGather(const KernelUse& use) {
  return std::make_unique<GatherKernel>(use, indexing(use));
}

static_assert(static_cast<int>(ops::Reduction::kMin) ==
              static_cast<int>(ScatterReduction::kMin));

template <SliceIndexing (*indexing)(const KernelUse&)>
Prepared PrepareScatter(const KernelUse& use) {
  auto reduction = static_cast<ScatterReduction>(ops::ReductionOf(use.attrs()));
  return std::make_unique<ScatterKernel>(use, indexing(use), reduction, 0, 2);
}

Prepared PrepareSegmentSum(const KernelUse& use) {
  return std::make_unique<ScatterKernel>(use, SegmentIndexing(use),
                                         ScatterReduction::kAdd, -1, 0);
}

// 1 where a place along the dimension is the index.
GeneratedUse OneHot(const KernelUse& use) {
  const Type &indices = use.operand(0), &result = use.result(0);
  int dim = NormalizeDim(use.attrs().Int("dim"), result.rank());
  Access index{DenseStrides(indices.shape())};
  index.strides.insert(index.strides.begin() + dim, 0);
  Access place{Shape(result.rank(), 0),
               use.Start(use.global_results()[0], dim)};
  place.strides[dim] = 1;
  Loop loop{.columns = result.shape(), .operands = {index}};
  loop.results = {{DenseStrides(result.shape())}};
  loop.places = {place};
  Expression e;
  int value = e.Operand(indices.dtype);
  int depth = e.Number(static_cast<double>(use.attrs().Int("depth")), value);
  int from_start = e.Formula("$1 < 0 ? $1 + $0 : $1", {depth, value});
  e.Store(e.Formula("$0 == $1", {from_start, e.Place()}), result.dtype);
  return {e, loop};
}

bool Always(const KernelUse&) { return true; }

bool HasRoom(const KernelUse& use) {
  return use.operand(0).rank() <= kMostIndexDims;
}

}  // namespace

std::vector<CudaKernelDef> GatherScatterKernels() {
  return {{"gather_elements", HasRoom, PrepareGather<ElementIndexing>},
          {"gather_nd", HasRoom, PrepareGather<CoordinateIndexing>},
          {"scatter_elements", HasRoom, PrepareScatter<ElementIndexing>},
          {"scatter_nd", HasRoom, PrepareScatter<CoordinateIndexing>},
          {"segment_sum", HasRoom, PrepareSegmentSum},
          Generated("one_hot", Always, OneHot)};
}

}  // namespace asyra::cuda
