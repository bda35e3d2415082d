#include "executor/cuda/cudnn/graph.h"

#include <map>
#include <mutex>

#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/device/fill.h"
#include "executor/cuda/device/gpu_tuning.h"
#include "executor/cuda/device/per_gpu.h"
#include "executor/cuda/device/scratch.h"
#include "executor/cuda/device/timed_runs.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {

std::string CudnnVersion() {
  size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100,
                     version % 100);
}

namespace {

// Plans of the heuristics that are timed.
constexpr int64_t kCandidates = 4;

// cuDNN's handles are bound to a GPU and used by one thread at a time.
struct GpuHandle {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

absl::StatusOr<GpuHandle*> HandleOfGpu() {
  static auto* handles = new PerGpu<GpuHandle>();
  return handles->Get([](GpuHandle* made) {
    cudnnStatus_t error = cudnnCreate(&made->handle);
    if (error == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
    return Unimplemented("cudnnCreate: {}", cudnnGetErrorString(error));
  });
}

// A use that cuDNN refuses goes to another kernel.
absl::Status Refused(const fe::error_t& error) {
  if (error.is_good()) return absl::OkStatus();
  return Unimplemented("cuDNN: {}", error.err_msg);
}

int64_t BytesOf(const GraphValue& value) {
  return value.elements * SizeOf(DTypeOf(value.element));
}

}  // namespace

// Memory to run a graph on once, and to time it.
class CudnnGraph::Trial {
 public:
  absl::Status Prepare(absl::Span<const GraphValue> values,
                       int64_t workspace_bytes) {
    ASYRA_RETURN_IF_ERROR(runs_.Prepare());
    for (const GraphValue& value : values) {
      Scratch& scratch = memory_.emplace_back();
      ASYRA_RETURN_IF_ERROR(scratch.Allocate(BytesOf(value)));
      pointers_[value.uid] = scratch.data();
      ASYRA_RETURN_IF_ERROR(Fill(value, scratch.data()));
    }
    return workspace_.Allocate(workspace_bytes);
  }

  // The first run loads modules of cuDNN and CUDA.
  absl::Status Once(const CudnnGraph& graph, int64_t plan) const {
    return runs_.Once([&] { return Enqueue(graph, plan); });
  }
  absl::StatusOr<double> TimeMs(const CudnnGraph& graph, int64_t plan) const {
    return runs_.MedianMs([&] { return Enqueue(graph, plan); });
  }

 private:
  absl::Status Enqueue(const CudnnGraph& graph, int64_t plan) const {
    return graph.Run(plan, pointers_, workspace_.data(), runs_.stream());
  }

  absl::Status Fill(const GraphValue& value, void* data) {
    if (!value.all.has_value()) {
      ASYRA_CUDA(FillRandom(value.element, data, value.elements, ++seed_,
                            runs_.stream()));
      return absl::OkStatus();
    }
    std::vector<int32_t> host(value.elements, *value.all);
    ASYRA_CUDA(
        cudaMemcpy(data, host.data(), BytesOf(value), cudaMemcpyHostToDevice));
    return absl::OkStatus();
  }

  uint64_t seed_ = 0;
  std::vector<Scratch> memory_;
  Scratch workspace_;
  Pointers pointers_;
  TimedRuns runs_;
};

fe::DataType_t CudnnType(Element element) {
  switch (element) {
    case Element::kF16:
      return fe::DataType_t::HALF;
    case Element::kBF16:
      return fe::DataType_t::BFLOAT16;
    case Element::kF64:
      return fe::DataType_t::DOUBLE;
    default:
      return fe::DataType_t::FLOAT;
  }
}

absl::StatusOr<std::shared_ptr<CudnnGraph>> CudnnGraph::Create(
    const GraphSpec& spec) {
  static std::mutex mutex;
  static auto* made =
      new std::map<std::pair<int, std::string>, std::shared_ptr<CudnnGraph>>();
  std::pair<int, std::string> place(0, spec.key);
  ASYRA_CUDA(cudaGetDevice(&place.first));
  {
    std::lock_guard lock(mutex);
    auto found = made->find(place);
    if (found != made->end() &&
        GpuTuningCache().Holds(found->second->tuning_key_,
                               found->second->tuned_)) {
      return found->second;
    }
  }
  std::shared_ptr<CudnnGraph> graph(new CudnnGraph());
  ASYRA_RETURN_IF_ERROR(graph->Build(spec));
  ASYRA_RETURN_IF_ERROR(graph->Choose(spec));
  std::lock_guard lock(mutex);
  (*made)[place] = graph;
  return graph;
}

absl::Status CudnnGraph::Build(const GraphSpec& spec) {
  ASYRA_ASSIGN_OR_RETURN(GpuHandle * gpu, HandleOfGpu());
  std::lock_guard lock(gpu->mutex);
  graph_ = spec.describe();
  ASYRA_RETURN_IF_ERROR(Refused(graph_->validate()));
  ASYRA_RETURN_IF_ERROR(Refused(graph_->build_operation_graph(gpu->handle)));
  ASYRA_RETURN_IF_ERROR(Refused(graph_->create_execution_plans(
      {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK})));
  graph_->deselect_workspace_greater_than(spec.most_workspace_bytes);
  graph_->deselect_numeric_notes(spec.barred);
  return absl::OkStatus();
}

int64_t CudnnGraph::PlanNamed(const std::string& name) const {
  for (int64_t plan = 0; plan < graph_->get_execution_plan_count(); ++plan) {
    std::string its;
    if (graph_->get_plan_name_at_index(plan, its).is_good() && its == name) {
      return plan;
    }
  }
  return -1;
}

// Builds the first candidates and gives the fastest.
absl::StatusOr<TuningResult> CudnnGraph::Fastest(const Trial& trial) {
  int64_t built = 0;
  TuningResult best;
  for (int64_t plan = 0;
       plan < graph_->get_execution_plan_count() && built < kCandidates;
       ++plan) {
    std::string name;
    if (graph_->get_plan_name_at_index(plan, name).is_bad() ||
        graph_->build_plan_at_index(plan).is_bad()) {
      continue;
    }
    ++built;
    absl::StatusOr<double> ms = trial.TimeMs(*this, plan);
    if (!ms.ok()) continue;  // not a candidate if it fails to run
    if (!best.value.empty() && *ms * 1e3 >= best.us) continue;
    best = {name, *ms * 1e3};
  }
  if (best.value.empty()) return Unimplemented("cuDNN has no plan that runs");
  return best;
}

absl::Status CudnnGraph::Choose(const GraphSpec& spec) {
  Trial trial;
  absl::Status ready = trial.Prepare(spec.values, spec.most_workspace_bytes);
  if (absl::IsResourceExhausted(ready)) {
    return Unimplemented("no memory to choose a plan of cuDNN's with");
  }
  ASYRA_RETURN_IF_ERROR(ready);
  ASYRA_ASSIGN_OR_RETURN(std::string gpu, GpuModel());
  tuning_key_ = fmt::format("{}, workspace {}, cuDNN {}, {}", spec.key,
                            spec.most_workspace_bytes, cudnnGetVersion(), gpu);
  bool built = false, ran = false;
  auto serves = [&](const TuningResult& result) {
    int64_t plan = PlanNamed(result.value);
    return built = plan >= 0 && graph_->build_plan_at_index(plan).is_good();
  };
  auto measure = [&] {
    built = ran = true;
    return Fastest(trial);
  };
  ASYRA_ASSIGN_OR_RETURN(tuned_,
                         GpuTuningCache().Get(tuning_key_, serves, measure));
  plan_ = PlanNamed(tuned_.value);
  if (plan_ < 0) return Unimplemented("cuDNN has no plan {}", tuned_.value);
  if (!built) {
    ASYRA_RETURN_IF_ERROR(Refused(graph_->build_plan_at_index(plan_)));
  }
  if (!ran) ASYRA_RETURN_IF_ERROR(trial.Once(*this, plan_));
  workspace_bytes_ =
      graph_->get_workspace_size_plan_at_index(plan_) + kWorkspaceAlignment;
  return absl::OkStatus();
}

absl::Status CudnnGraph::Run(int64_t plan, const Pointers& pointers,
                             void* workspace, cudaStream_t stream) const {
  ASYRA_ASSIGN_OR_RETURN(GpuHandle * gpu, HandleOfGpu());
  std::lock_guard lock(gpu->mutex);
  cudnnStatus_t set = cudnnSetStream(gpu->handle, stream);
  if (set != CUDNN_STATUS_SUCCESS) {
    return absl::InternalError(
        fmt::format("cudnnSetStream: {}", cudnnGetErrorString(set)));
  }
  Pointers all = pointers;  // it adds its own
  fe::error_t error =
      graph_->execute_plan_at_index(gpu->handle, all, workspace, plan);
  if (error.is_good()) return absl::OkStatus();
  return absl::InternalError(fmt::format("cuDNN: {}", error.err_msg));
}

absl::Status CudnnGraph::Enqueue(const Pointers& pointers, void* workspace,
                                 cudaStream_t stream) const {
  // Ours are aligned within their memory only.
  auto at = RoundUp(reinterpret_cast<intptr_t>(workspace), kWorkspaceAlignment);
  return Run(plan_, pointers, reinterpret_cast<void*>(at), stream);
}

}  // namespace asyra::cuda
