#include "executor/cuda/kernels/conv.h"

#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/cudnn/graph.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {
namespace {

enum Uid : int64_t { kX = 1, kW, kY };

using Dims = std::vector<int64_t>;

// The sizes of x, w and y. One spatial dimension is given to cuDNN as two.
struct ConvDims {
  Dims x, w, y, stride, dilation, before, after;

  explicit ConvDims(const ConvProblem& p)
      : x({p.batch, p.groups * p.per_group}),
        w({p.outputs, p.per_group}),
        y({p.batch, p.outputs}) {
    if (p.spatial == 1) Add(ConvWindow());
    for (int i = 0; i < p.spatial; ++i) Add(p.windows[i]);
  }

 private:
  void Add(const ConvWindow& window) {
    x.push_back(window.size);
    w.push_back(window.taps);
    y.push_back(window.results);
    stride.push_back(window.stride);
    dilation.push_back(window.dilation);
    before.push_back(window.before);
    after.push_back(window.after);
  }
};

int64_t Product(const Dims& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

Dims DenseStrides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

fe::graph::Tensor_attributes DenseTensor(const char* name, Uid uid,
                                         const Dims& dims) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim(dims)
      .set_stride(DenseStrides(dims));
}

std::shared_ptr<fe::graph::Graph> Describe(const ConvProblem& p,
                                           const ConvDims& dims) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(CudnnType(p.element))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  auto x = graph->tensor(DenseTensor("x", kX, dims.x));
  auto w = graph->tensor(DenseTensor("w", kW, dims.w));
  auto y = graph->conv_fprop(x, w,
                             fe::graph::Conv_fprop_attributes()
                                 .set_name("conv")
                                 .set_stride(dims.stride)
                                 .set_dilation(dims.dilation)
                                 .set_pre_padding(dims.before)
                                 .set_post_padding(dims.after));
  y->set_output(true).set_uid(kY).set_dim(dims.y).set_stride(
      DenseStrides(dims.y));
  return graph;
}

std::string KeyOf(const ConvProblem& p) {
  std::string key =
      fmt::format("conv {} {} {} {} {}", static_cast<int>(p.element), p.batch,
                  p.groups, p.per_group, p.outputs);
  for (int i = 0; i < p.spatial; ++i) {
    const ConvWindow& w = p.windows[i];
    key += fmt::format(" ({} {} {} {} {} {})", w.size, w.taps, w.stride,
                       w.before, w.after, w.dilation);
  }
  return key;
}

// Single precision stays single precision.
std::vector<fe::NumericalNote_t> BarredFor(Element element) {
  using Note = fe::NumericalNote_t;
  if (element != Element::kF32) return {Note::NONDETERMINISTIC};
  return {Note::NONDETERMINISTIC,
          Note::TENSOR_CORE,
          Note::DOWN_CONVERT_INPUTS,
          Note::REDUCED_PRECISION_REDUCTION,
          Note::FFT,
          Note::WINOGRAD,
          Note::WINOGRAD_TILE_4x4,
          Note::WINOGRAD_TILE_6x6,
          Note::WINOGRAD_TILE_13x13};
}

class CudnnConv : public CudaKernel {
 public:
  absl::Status Prepare(const ConvProblem& p) {
    ConvDims dims(p);
    GraphSpec spec = {
        .key = KeyOf(p),
        .describe = [&] { return Describe(p, dims); },
        .values = {{kX, p.element, Product(dims.x), std::nullopt},
                   {kW, p.element, Product(dims.w), std::nullopt},
                   {kY, p.element, Product(dims.y), std::nullopt}},
        .barred = BarredFor(p.element)};
    ASYRA_ASSIGN_OR_RETURN(graph_, CudnnGraph::Create(spec));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return graph_->workspace_bytes(); }

  void AddTuningResults(TuningResults* results) const override {
    graph_->AddTuningResult(results);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    return graph_->Enqueue(
        {{kX, args.operands[0]}, {kW, args.operands[1]}, {kY, args.results[0]}},
        args.workspace, stream);
  }

 private:
  std::shared_ptr<CudnnGraph> graph_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCudnnConv(
    const ConvProblem& problem) {
  if (problem.element == Element::kF64 || problem.spatial > 3 ||
      problem.batch == 0 || problem.outputs == 0) {
    return Unimplemented("cuDNN has no convolution of this form");
  }
  for (int i = 0; i < problem.spatial; ++i) {
    const ConvWindow& window = problem.windows[i];
    if (window.spacing != 1 || window.before < 0 || window.after < 0 ||
        window.results == 0) {
      return Unimplemented("spread inputs and negative pads are left to us");
    }
  }
  auto kernel = std::make_unique<CudnnConv>();
  ASYRA_RETURN_IF_ERROR(kernel->Prepare(problem));
  return kernel;
}

}  // namespace asyra::cuda
