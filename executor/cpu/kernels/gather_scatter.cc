// Gather and scatter of elements and slices (ir/ops/{gather,gather_nd,
// scatter}.cc). Offsets are computed one at a time, so that nothing is stored.
#include <cstring>

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/number.h"
#include "executor/cpu/strided.h"
#include "executor/cpu/workspace.h"
#include "ir/ops/indexing.h"
#include "ir/ops/integers.h"

namespace asyra::cpu {
namespace {

using ops::Position;
using ops::Reduction;
using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// Position of a slice of operand 0 that is on another rank; each group of
// indices in operand 1 has one slice.
constexpr int64_t kElsewhere = -1;

class SliceIndexing {
 public:
  virtual ~SliceIndexing() = default;
  int64_t count = 0;       // of slices
  int64_t slice_size = 1;  // contiguous elements
  // The first element of slice i.
  virtual absl::StatusOr<int64_t> At(const void* indices, int64_t i) const = 0;
};

// Every index is for `dim`, the other dimensions are those of its own place.
class ElementIndexing : public SliceIndexing {
 public:
  explicit ElementIndexing(const KernelUse& use)
      : index_dtype_(use.operand(1).dtype),
        shape_(use.operand(1).shape()),
        dim_(NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank())),
        start_(use.Start(use.global_operands()[0], dim_)),
        size_(use.operand(0).size(dim_)),
        total_(use.global_operands()[0].size(dim_)),
        strides_(DenseStrides(use.operand(0).shape())) {
    count = use.operand(1).num_elements();
  }

  absl::StatusOr<int64_t> At(const void* indices, int64_t i) const override {
    ASYRA_ASSIGN_OR_RETURN(
        int64_t at, Position(IntegerAt(index_dtype_, indices, i), total_));
    at -= start_;
    if (at < 0 || at >= size_) return kElsewhere;
    int64_t element = at * strides_[dim_];
    for (int d = static_cast<int>(shape_.size()); d-- > 0; i /= shape_[d]) {
      if (d != dim_) element += i % shape_[d] * strides_[d];
    }
    return element;
  }

 private:
  DType index_dtype_;
  Shape shape_;
  int dim_;
  int64_t start_, size_, total_;
  Shape strides_;
};

// The last dimension of the indices holds coordinates in the dimensions of
// operand 0 that follow `batch_dims`.
class CoordinateIndexing : public SliceIndexing {
 public:
  explicit CoordinateIndexing(const KernelUse& use)
      : index_dtype_(use.operand(1).dtype) {
    const Type& x = use.operand(0);
    const Type& global = use.global_operands()[0];
    int batch = static_cast<int>(use.attrs().Int("batch_dims"));
    int depth =
        static_cast<int>(use.operand(1).size(use.operand(1).rank() - 1));
    Shape strides = DenseStrides(x.shape());
    for (int d = batch; d < batch + depth; ++d) {
      dims_.push_back(
          {x.size(d), global.size(d), use.Start(global, d), strides[d]});
    }
    Around around(x, batch, batch + depth);
    slice_size = around.inner;
    batch_size_ = around.size * around.inner;
    count = use.operand(1).num_elements() / depth;
    per_batch_ = around.outer > 0 ? count / around.outer : 0;
  }

  absl::StatusOr<int64_t> At(const void* indices, int64_t i) const override {
    int64_t element = i / per_batch_ * batch_size_;
    auto depth = static_cast<int64_t>(dims_.size());
    bool here = true;
    for (int64_t k = 0; k < depth; ++k) {
      const IndexedDim& dim = dims_[k];
      ASYRA_ASSIGN_OR_RETURN(
          int64_t at,
          Position(IntegerAt(index_dtype_, indices, i * depth + k), dim.total));
      at -= dim.start;
      here &= at >= 0 && at < dim.size;
      element += at * dim.stride;
    }
    return here ? element : kElsewhere;
  }

 private:
  struct IndexedDim {
    int64_t size, total, start, stride;
  };
  DType index_dtype_;
  std::vector<IndexedDim> dims_;
  int64_t batch_size_ = 0, per_batch_ = 0;
};

// Slices of operand 0 one after the other; zeros for those of other ranks.
class GatherKernel : public CpuKernel {
 public:
  GatherKernel(const KernelUse& use, std::unique_ptr<SliceIndexing> indexing)
      : indexing_(std::move(indexing)),
        slice_bytes_(indexing_->slice_size * SizeOf(use.operand(0).dtype)),
        dtype_(use.operand(0).dtype) {}

  absl::Status Run(const KernelArgs& args) override {
    auto* to = static_cast<std::byte*>(args.results[0]);
    if (slice_bytes_ == 0) return absl::OkStatus();
    for (int64_t i = 0; i < indexing_->count; ++i, to += slice_bytes_) {
      ASYRA_ASSIGN_OR_RETURN(int64_t from, indexing_->At(args.operands[1], i));
      if (from == kElsewhere) {
        std::memset(to, 0, slice_bytes_);
      } else {
        std::memcpy(to, ElementAt(dtype_, args.operands[0], from),
                    slice_bytes_);
      }
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<SliceIndexing> indexing_;
  int64_t slice_bytes_;
  DType dtype_;
};

template <typename C>
C Combined(Reduction reduction, C old, C update) {
  switch (reduction) {
    case Reduction::kNone:
      break;
    case Reduction::kAdd:
      return ops::Plus(old, update);
    case Reduction::kMul:
      return ops::Times(old, update);
    case Reduction::kMax:
      return ops::Maximum(old, update);
    case Reduction::kMin:
      return ops::Minimum(old, update);
  }
  return update;
}

// A copy of operand 0 in the workspace, wide, into which the slices of operand
// 2 are put one after the other.
template <typename C>  // double or int64_t
class ScatterKernel : public CpuKernel {
 public:
  ScatterKernel(const KernelUse& use, Reduction reduction,
                std::unique_ptr<SliceIndexing> indexing)
      : indexing_(std::move(indexing)),
        reduction_(reduction),
        dtype_(use.operand(0).dtype),
        elements_(use.operand(0).num_elements()) {
    wide_at_ = layout_.Add(elements_ * static_cast<int64_t>(sizeof(C)));
    slice_at_ =
        layout_.Add(indexing_->slice_size * static_cast<int64_t>(sizeof(C)));
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    C* wide = WorkspaceAt<C>(args.workspace, wide_at_);
    C* slice = WorkspaceAt<C>(args.workspace, slice_at_);
    Load(dtype_, args.operands[0], elements_, wide);
    int64_t size = indexing_->slice_size;
    for (int64_t i = 0; i < indexing_->count; ++i) {
      ASYRA_ASSIGN_OR_RETURN(int64_t to, indexing_->At(args.operands[1], i));
      if (to == kElsewhere) continue;
      Load(dtype_, ElementAt(dtype_, args.operands[2], i * size), size, slice);
      for (int64_t k = 0; k < size; ++k) {
        wide[to + k] = Combined(reduction_, wide[to + k], slice[k]);
      }
    }
    Store(dtype_, wide, elements_, args.results[0]);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<SliceIndexing> indexing_;
  Reduction reduction_;
  DType dtype_;
  int64_t elements_;
  WorkspaceLayout layout_;
  int64_t wide_at_, slice_at_;
};

// Rows [outer][index][inner] of operand 0 added up by their index, [outer]
// [segment][inner].
template <typename C>
class SegmentSumKernel : public CpuKernel {
 public:
  explicit SegmentSumKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype), index_dtype_(use.operand(1).dtype) {
    int dim = static_cast<int>(use.attrs().Int("dim"));
    Around rows(use.operand(0), dim, dim + use.operand(1).rank());
    outer_ = rows.outer;
    rows_ = rows.size;
    inner_ = rows.inner;
    segments_ = use.result(0).size(dim);
    total_ = ops::IdsOf(use.attrs().Int("rows"), use.attrs().Int("size"));
    start_ = use.Start(use.global_results()[0], dim);
    sum_at_ = layout_.Add(Results() * static_cast<int64_t>(sizeof(C)));
    row_at_ = layout_.Add(inner_ * static_cast<int64_t>(sizeof(C)));
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    C* sum = WorkspaceAt<C>(args.workspace, sum_at_);
    C* row = WorkspaceAt<C>(args.workspace, row_at_);
    std::fill_n(sum, Results(), C{});
    for (int64_t i = 0; i < outer_ * rows_; ++i) {
      ASYRA_ASSIGN_OR_RETURN(
          int64_t segment,
          Position(IntegerAt(index_dtype_, args.operands[1], i % rows_),
                   total_));
      segment -= start_;
      if (segment < 0 || segment >= segments_) continue;
      Load(dtype_, ElementAt(dtype_, args.operands[0], i * inner_), inner_,
           row);
      C* to = sum + (i / rows_ * segments_ + segment) * inner_;
      for (int64_t k = 0; k < inner_; ++k) to[k] = ops::Plus(to[k], row[k]);
    }
    Store(dtype_, sum, Results(), args.results[0]);
    return absl::OkStatus();
  }

 private:
  int64_t Results() const { return outer_ * segments_ * inner_; }

  DType dtype_, index_dtype_;
  int64_t outer_, rows_, inner_, segments_, total_, start_;
  WorkspaceLayout layout_;
  int64_t sum_at_, row_at_;
};

// Zeros, and a one where the index says.
class OneHotKernel : public CpuKernel {
 public:
  explicit OneHotKernel(const KernelUse& use)
      : index_dtype_(use.operand(0).dtype),
        dtype_(use.result(0).dtype),
        bytes_(use.result(0).bytes()),
        indices_(use.operand(0).num_elements()),
        depth_(use.attrs().Int("depth")) {
    int dim = NormalizeDim(use.attrs().Int("dim"), use.result(0).rank());
    Around around(use.result(0), dim, dim + 1);
    size_ = around.size;
    inner_ = around.inner;
    start_ = use.Start(use.global_results()[0], dim);
  }

  absl::Status Run(const KernelArgs& args) override {
    if (bytes_ == 0) return absl::OkStatus();
    std::memset(args.results[0], 0, bytes_);
    const int64_t one = 1;
    for (int64_t i = 0; i < indices_; ++i) {
      int64_t hot = IntegerAt(index_dtype_, args.operands[0], i);
      hot += (hot < 0 ? depth_ : 0) - start_;
      if (hot < 0 || hot >= size_) continue;  // no one, or not ours
      int64_t at = (i / inner_ * size_ + hot) * inner_ + i % inner_;
      Store(dtype_, &one, 1, ElementAt(dtype_, args.results[0], at));
    }
    return absl::OkStatus();
  }

 private:
  DType index_dtype_, dtype_;
  int64_t bytes_, indices_, depth_, size_, inner_, start_;
};

template <typename P>
Prepared PrepareGather(const KernelUse& use) {
  return std::make_unique<GatherKernel>(use, std::make_unique<P>(use));
}

template <typename P>
Prepared PrepareScatter(const KernelUse& use) {
  auto indexing = std::make_unique<P>(use);
  Reduction reduction = ops::ReductionOf(use.attrs());
  if (IsFloat(use.operand(0).dtype)) {
    return std::make_unique<ScatterKernel<double>>(use, reduction,
                                                   std::move(indexing));
  }
  return std::make_unique<ScatterKernel<int64_t>>(use, reduction,
                                                  std::move(indexing));
}

Prepared PrepareSegmentSum(const KernelUse& use) {
  if (IsFloat(use.operand(0).dtype)) {
    return std::make_unique<SegmentSumKernel<double>>(use);
  }
  return std::make_unique<SegmentSumKernel<int64_t>>(use);
}

Prepared PrepareOneHot(const KernelUse& use) {
  return std::make_unique<OneHotKernel>(use);
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> GatherScatterKernels() {
  return {
      {"gather_elements", Always, PrepareGather<ElementIndexing>},
      {"gather_nd", Always, PrepareGather<CoordinateIndexing>},
      {"scatter_elements", Always, PrepareScatter<ElementIndexing>},
      {"scatter_nd", Always, PrepareScatter<CoordinateIndexing>},
      {"segment_sum", Always, PrepareSegmentSum},
      {"one_hot", Always, PrepareOneHot},
  };
}

}  // namespace asyra::cpu
