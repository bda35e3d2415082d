#ifdef ASYRA_ONEDNN
#include "executor/cpu/gemm.h"
#include "executor/cpu/onednn.h"
#include "executor/cpu/threads.h"
#include "fmt/format.h"

namespace asyra::cpu {
namespace {

// The least work for an additional thread: waking and joining it takes as long.
constexpr double kFlopsOfThread = 4e6;

int ThreadsFor(const GemmShape& shape) {
  double flops = 2.0 * static_cast<double>(shape.m) *
                 static_cast<double>(shape.n) * static_cast<double>(shape.k);
  double worth = std::min(flops / kFlopsOfThread, 1e3);
  return std::clamp(static_cast<int>(worth), 1, ComputeThreads());
}

class OneDnnGemm : public Gemm {
 public:
  OneDnnGemm(std::unique_ptr<OneDnnPrimitive> primitive, int threads)
      : primitive_(std::move(primitive)), threads_(threads) {}
  int64_t workspace_bytes() const override {
    return primitive_->workspace_bytes();
  }
  absl::Status Run(const void* a, const void* b, void* c,
                   void* workspace) override {
    UseThreads(threads_);
    void* addresses[] = {const_cast<void*>(a), const_cast<void*>(b), c};
    return primitive_->Run(addresses, workspace);
  }

 private:
  std::unique_ptr<OneDnnPrimitive> primitive_;
  int threads_;
};

std::unique_ptr<OneDnnPrimitive> MakePrimitive(const GemmShape& s) {
  auto matrix = [](int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::dims{row, column});
  };
  dnnl::memory::desc a = matrix(s.m, s.k, s.a_row, s.a_column);
  dnnl::memory::desc b = matrix(s.k, s.n, s.b_row, s.b_column);
  dnnl::memory::desc c = matrix(s.m, s.n, s.c_row, 1);
  dnnl::primitive_attr attributes = OwnScratchpad();
  if (s.accumulates) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    attributes.set_post_ops(sum);
  }
  dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attributes,
                                    OneDnnEngine());
  return std::make_unique<OneDnnPrimitive>(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      std::vector<std::pair<int, dnnl::memory::desc>>{
          {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(const GemmShape& shape) {
  bool empty = shape.m == 0 || shape.n == 0 || shape.k == 0;
  if (shape.dtype == DType::kF64 || empty) return MakeLoopGemm(shape);
  int threads = ThreadsFor(shape);
  UseThreads(threads);
  auto primitive =
      OneDnnPrimitive::Create([&] { return MakePrimitive(shape); });
  if (!primitive.ok()) return MakeLoopGemm(shape);
  return std::make_unique<OneDnnGemm>(*std::move(primitive), threads);
}

std::string GemmLibrary() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor,
                     version.patch);
}

}  // namespace asyra::cpu
#endif
