// Values made larger at their ends (ir/ops/pad.cc): an n-d copy of what was
// there before, and one for each side and corner that is taken from it.
#include <algorithm>

#include "executor/cuda/kernels/kernel_list.h"
#include "executor/cuda/kernels/nd_copy.h"

namespace asyra::cuda {
namespace {

// Elements `begin` to `end` of one dimension of the result, from element `from`
// of the operand on, `step` by `step`.
struct Segment {
  int64_t begin, end, from, step;
};

// Returns the segments along a dimension of `size`, of which the result has
// `total`, `before` of them ahead of the first.
std::vector<Segment> SegmentsOf(std::string_view mode, int64_t before,
                                int64_t size, int64_t total) {
  int64_t begin = std::clamp<int64_t>(before, 0, total);
  int64_t end = std::clamp<int64_t>(before + size, begin, total);
  std::vector<Segment> segments = {{begin, end, begin - before, 1}};
  if (mode == "edge") {
    segments.push_back({0, begin, 0, 0});
    segments.push_back({end, total, size - 1, 0});
  } else if (mode == "wrap") {
    segments.push_back({0, begin, size - before, 1});
    segments.push_back({end, total, 0, 1});
  } else if (mode == "reflect") {
    segments.push_back({0, begin, before, -1});
    segments.push_back({end, total, size - 2, -1});
  }
  std::erase_if(segments, [](const Segment& s) { return s.begin >= s.end; });
  return segments;
}

class PadKernel : public CudaKernel {
 public:
  absl::Status Prepare(const KernelUse& use) {
    const Type &x = use.operand(0), &result = use.result(0);
    const auto& mode = use.attrs().Get<std::string>("mode");
    if (mode == "constant") {
      ASYRA_RETURN_IF_ERROR(PrepareFill(result, use.attrs().Float("value")));
    }
    std::vector<std::vector<Segment>> segments;
    for (int d = 0; d < x.rank(); ++d) {
      segments.push_back(SegmentsOf(mode, use.attrs().Get<Ints>("before")[d],
                                    x.size(d), result.size(d)));
    }
    Shape sizes;
    Access from, to;
    return AddCopies(segments, DenseStrides(x.shape()),
                     DenseStrides(result.shape()), result.dtype, sizes, from,
                     to);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_RETURN_IF_ERROR(fill_.Enqueue({}, args.results, stream));
    for (const NdCopy& copy : copies_) {
      ASYRA_RETURN_IF_ERROR(
          copy.Enqueue(args.operands[0], args.results[0], stream));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status PrepareFill(const Type& result, double value) {
    Expression e;
    if (result.dtype == DType::kBool) value = value != 0 ? 1 : 0;
    e.Store(e.Number(value, ComputedOf(result.dtype)), result.dtype);
    Loop loop{.columns = {result.num_elements()}};
    loop.results = {{{1}}};
    ASYRA_ASSIGN_OR_RETURN(fill_, GeneratedKernel::Create(e, loop));
    return absl::OkStatus();
  }

  // Adds copies of all segments of the dimensions from sizes.size() on.
  absl::Status AddCopies(const std::vector<std::vector<Segment>>& segments,
                         const Shape& from_strides, const Shape& to_strides,
                         DType dtype, const Shape& sizes, const Access& from,
                         const Access& to) {
    size_t d = sizes.size();
    if (d == segments.size()) {
      ASYRA_ASSIGN_OR_RETURN(NdCopy copy,
                             NdCopy::Create(sizes, from, to, dtype));
      copies_.push_back(copy);
      return absl::OkStatus();
    }
    for (const Segment& segment : segments[d]) {
      Shape inner = sizes;
      Access read = from, write = to;
      inner.push_back(segment.end - segment.begin);
      read.first += segment.from * from_strides[d];
      read.strides.push_back(segment.step * from_strides[d]);
      write.first += segment.begin * to_strides[d];
      write.strides.push_back(to_strides[d]);
      ASYRA_RETURN_IF_ERROR(AddCopies(segments, from_strides, to_strides, dtype,
                                      inner, read, write));
    }
    return absl::OkStatus();
  }

  GeneratedKernel fill_;
  std::vector<NdCopy> copies_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  auto kernel = std::make_unique<PadKernel>();
  ASYRA_RETURN_IF_ERROR(kernel->Prepare(use));
  return kernel;
}

}  // namespace

std::vector<CudaKernelDef> PadKernels() {
  return {{"pad", [](const KernelUse&) { return true; }, Prepare}};
}

}  // namespace asyra::cuda
