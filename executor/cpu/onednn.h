// oneDNN as the kernels use it: primitives made once, run without allocating,
// their scratch memory ours. Only in builds that have it (ASYRA_ONEDNN).
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace asyra::cpu {

// Returns the one engine of the process.
const dnnl::engine& OneDnnEngine();

// A primitive with its memory objects, whose addresses are set at each run.
// Used by one thread at a time.
class OneDnnPrimitive {
 public:
  // Runs `make`; what oneDNN throws becomes Unimplemented.
  static absl::StatusOr<std::unique_ptr<OneDnnPrimitive>> Create(
      const std::function<std::unique_ptr<OneDnnPrimitive>()>& make);

  // `arguments`: the number of each argument (DNNL_ARG_...), and its layout
  // in memory.
  OneDnnPrimitive(
      const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
      const std::vector<std::pair<int, dnnl::memory::desc>>& arguments);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // `addresses` in the order of the arguments.
  absl::Status Run(absl::Span<void* const> addresses, void* workspace);

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memory_;  // the last one is the scratchpad
  std::vector<dnnl_exec_arg_t> arguments_;
  int64_t workspace_bytes_;
};

// Attributes that leave the scratch memory to the caller.
dnnl::primitive_attr OwnScratchpad();

}  // namespace asyra::cpu
