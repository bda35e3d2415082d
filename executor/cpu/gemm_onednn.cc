#ifdef ASYRA_ONEDNN
#include "executor/cpu/gemm.h"
#include "executor/cpu/onednn.h"

namespace asyra::cpu {
namespace {

class OneDnnGemm : public Gemm {
 public:
  explicit OneDnnGemm(std::unique_ptr<OneDnnPrimitive> primitive)
      : primitive_(std::move(primitive)) {}
  int64_t workspace_bytes() const override {
    return primitive_->workspace_bytes();
  }
  absl::Status Run(const void* a, const void* b, void* c,
                   void* workspace) override {
    void* addresses[] = {const_cast<void*>(a), const_cast<void*>(b), c};
    return primitive_->Run(addresses, workspace);
  }

 private:
  std::unique_ptr<OneDnnPrimitive> primitive_;
};

std::unique_ptr<OneDnnPrimitive> MakePrimitive(const GemmShape& s) {
  auto matrix = [](int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::dims{row, column});
  };
  dnnl::memory::desc a = matrix(s.m, s.k, s.a_row, s.a_column);
  dnnl::memory::desc b = matrix(s.k, s.n, s.b_row, s.b_column);
  dnnl::memory::desc c = matrix(s.m, s.n, s.c_row, 1);
  dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c),
                                    OwnScratchpad(), OneDnnEngine());
  return std::make_unique<OneDnnPrimitive>(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      std::vector<std::pair<int, dnnl::memory::desc>>{
          {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(const GemmShape& shape) {
  bool empty = shape.m == 0 || shape.n == 0 || shape.k == 0;
  if (shape.dtype == DType::kF64 || empty) return MakeLoopGemm(shape);
  auto primitive =
      OneDnnPrimitive::Create([&] { return MakePrimitive(shape); });
  if (!primitive.ok()) return MakeLoopGemm(shape);
  return std::make_unique<OneDnnGemm>(*std::move(primitive));
}

}  // namespace asyra::cpu
#endif
