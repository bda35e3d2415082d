// A graph of cuDNN's with the plan that runs it. The first plans that its
// heuristics propose are timed on random data when the graph is prepared,
// unless there is a tuning result (executor/tuning/tuning_results.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/element.h"
#include "executor/tuning/tuning_results.h"
#include "ir/support/status.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

namespace asyra::cuda {

namespace fe = cudnn_frontend;

// A tensor of a graph that its caller gives, and what it is timed on.
struct GraphValue {
  int64_t uid;
  Element element;
  int64_t elements;
  std::optional<int32_t> all;  // every element, instead of random ones; kI32
};

fe::DataType_t CudnnType(Element element);  // of floats

struct GraphSpec {
  std::string key;  // identifies tensors and operations
  // Describes the tensors and operations, with every value's uid.
  std::function<std::shared_ptr<fe::graph::Graph>()> describe;
  std::vector<GraphValue> values;
  // Plans with any of these numerical notes are left out.
  std::vector<fe::NumericalNote_t> barred;
  // Plans with a larger workspace are left out.
  int64_t most_workspace_bytes = int64_t{256} << 20;
};

class CudnnGraph {
 public:
  // Addresses that the graph reads and writes, by uid.
  using Pointers = std::unordered_map<int64_t, void*>;

  // Makes one graph for each GPU, key and plan; it runs the process's tuning
  // result for the key and the model of the GPU. Errors: Unimplemented where
  // cuDNN does not take the graph.
  static absl::StatusOr<std::shared_ptr<CudnnGraph>> Create(
      const GraphSpec& spec);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  void AddTuningResult(TuningResults* results) const {
    results->emplace(tuning_key_, tuned_);
  }
  absl::Status Enqueue(const Pointers& pointers, void* workspace,
                       cudaStream_t stream) const;

 private:
  class Trial;
  absl::Status Build(const GraphSpec& spec);
  absl::Status Choose(const GraphSpec& spec);
  // -1: none of that name.
  int64_t PlanNamed(const std::string& name) const;
  absl::StatusOr<TuningResult> Fastest(const Trial& trial);
  absl::Status Run(int64_t plan, const Pointers& pointers, void* workspace,
                   cudaStream_t stream) const;

  std::shared_ptr<fe::graph::Graph> graph_;
  std::string tuning_key_;
  TuningResult tuned_;  // a plan's name: an engine of cuDNN and its settings
  int64_t plan_ = 0;
  int64_t workspace_bytes_ = 0;
};

}  // namespace asyra::cuda
