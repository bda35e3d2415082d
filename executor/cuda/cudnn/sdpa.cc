#include "executor/cuda/cudnn/sdpa.h"

#include <cstddef>

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {

namespace {

// `batch_stride` elements from one batch entry to the next.
fe::graph::Tensor_attributes Heads(const char* name, int64_t uid, int64_t batch,
                                   int64_t rows, int64_t heads, int64_t width,
                                   int64_t batch_stride) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim({batch, heads, rows, width})
      .set_stride({batch_stride, width, heads * width, 1});
}

}  // namespace

std::shared_ptr<fe::graph::Graph> NewSdpaGraph(const AttentionProblem& p) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(CudnnType(p.element))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

fe::graph::Tensor_attributes QueryHeads(const char* name, int64_t uid,
                                        const AttentionProblem& p,
                                        int64_t width) {
  return Heads(name, uid, p.b, p.s, p.h, width, p.s * p.h * width);
}

fe::graph::Tensor_attributes KeyHeads(const char* name, int64_t uid,
                                      const AttentionProblem& p,
                                      const AttentionBand& band,
                                      int64_t width) {
  return Heads(name, uid, p.b, band.keys, p.g, width, p.t * p.g * width);
}

fe::graph::Tensor_attributes LogSums(int64_t uid, const AttentionProblem& p) {
  return fe::graph::Tensor_attributes()
      .set_name("log_sums")
      .set_uid(uid)
      .set_dim({p.b, p.h, p.s, 1})
      .set_stride({p.h * p.s, p.s, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

int64_t SdpaLengths::bytes() const {
  return given() ? RoundUp(2 * problem_.b * 4, kWorkspaceAlignment) : 0;
}

void SdpaLengths::AddTo(std::vector<GraphValue>* values) const {
  if (!given()) return;
  values->push_back({kRowsUid, Element::kI32, problem_.b, problem_.s});
  values->push_back({kKeysUid, Element::kI32, problem_.b, problem_.t});
}

absl::Status SdpaLengths::Write(const KernelArgs& args,
                                CudnnGraph::Pointers* pointers,
                                cudaStream_t stream) const {
  if (!given()) return absl::OkStatus();
  auto* lengths = static_cast<int32_t*>(args.workspace);
  ASYRA_CUDA(WriteLengths(problem_, args.operands[operand_], lengths, stream));
  (*pointers)[kKeysUid] = lengths;
  (*pointers)[kRowsUid] = lengths + problem_.b;
  return absl::OkStatus();
}

fe::graph::Tensor_attributes SdpaLengths::Tensor(const char* name,
                                                 int64_t uid) const {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim({problem_.b, 1, 1, 1})
      .set_stride({1, 1, 1, 1})
      .set_data_type(fe::DataType_t::INT32);
}

void SetOutput(const TensorPtr& result,
               const fe::graph::Tensor_attributes& like) {
  result->set_output(true)
      .set_uid(like.get_uid())
      .set_dim(like.get_dim())
      .set_stride(like.get_stride());
  if (like.get_data_type() != fe::DataType_t::NOT_SET) {
    result->set_data_type(like.get_data_type());
  }
}

std::string SdpaKey(const AttentionProblem& p, const AttentionBand& band) {
  return fmt::format(
      "{} {} {} {} {} {} {} {} scale {} keys {} bottom right {} left {} right "
      "{}",
      static_cast<int>(p.element), p.b, p.s, p.h, p.d, p.t, p.g, p.e, p.scale,
      band.keys, band.bottom_right, band.left.value_or(0),
      band.right.value_or(-1));
}

void* FirstKey(void* keys, const AttentionProblem& p, const AttentionBand& band,
               int64_t width) {
  constexpr int64_t kElementBytes = 2;
  return static_cast<std::byte*>(keys) +
         band.first_key * p.g * width * kElementBytes;
}

}  // namespace asyra::cuda
