#ifdef ASYRA_ONEDNN
#include "executor/cpu/onednn.h"

#include "ir/support/status.h"

namespace asyra::cpu {

const dnnl::engine& OneDnnEngine() {
  static const auto* const engine =
      new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::primitive_attr OwnScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

absl::StatusOr<std::unique_ptr<OneDnnPrimitive>> OneDnnPrimitive::Create(
    const std::function<std::unique_ptr<OneDnnPrimitive>()>& make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    return Unimplemented("oneDNN: {}", error.what());
  }
}

OneDnnPrimitive::OneDnnPrimitive(
    const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
    const std::vector<std::pair<int, dnnl::memory::desc>>& arguments)
    : primitive_(primitive),
      stream_(OneDnnEngine()),
      workspace_bytes_(static_cast<int64_t>(scratchpad.get_size())) {
  auto add = [this](int number, const dnnl::memory::desc& desc) {
    memory_.push_back(dnnl::memory(desc, OneDnnEngine(), DNNL_MEMORY_NONE));
    arguments_.push_back({number, memory_.back().get()});
  };
  for (const auto& [number, desc] : arguments) add(number, desc);
  add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

absl::Status OneDnnPrimitive::Run(absl::Span<void* const> addresses,
                                  void* workspace) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    dnnl_memory_set_data_handle(memory_[i].get(), addresses[i]);
  }
  dnnl_memory_set_data_handle(memory_.back().get(), workspace);
  dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
      arguments_.data());
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("oneDNN gives status {}", static_cast<int>(status)));
}

}  // namespace asyra::cpu
#endif
