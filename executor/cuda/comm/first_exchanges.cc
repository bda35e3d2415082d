#include "executor/cuda/comm/first_exchanges.h"

#include <algorithm>

#include "executor/cuda/comm/copy_plan.h"
#include "ir/plans/plan_exchanges.h"

namespace asyra::cuda {

absl::StatusOr<std::shared_ptr<FirstExchanges>> FirstExchanges::Create(
    const PlanUse& use, ncclComm_t comm, int ordinal) {
  std::shared_ptr<FirstExchanges> made(new FirstExchanges(comm));
  PlanExchanges exchanges(use.plan);
  int64_t largest = 0;
  auto bytes_of = [&](const PlanRegion& region) {
    int64_t bytes = BytesOf(use.plan, region);
    largest = std::max(largest, bytes);
    return bytes;
  };
  for (const PlanStep& step : use.plan.steps[use.self]) {
    if (step.kind != PlanStep::kExchange) continue;
    ExchangeCall& call = made->calls_.emplace_back();
    for (size_t i = 0; i < step.reads.size(); ++i) {
      call.sends.push_back(
          {step.writes[i].rank, nullptr, bytes_of(step.reads[i])});
    }
    for (const PlanExchanges::Message& message :
         exchanges.Incoming(use.self, step.count)) {
      call.receives.push_back(
          {message.read.rank, nullptr, bytes_of(message.write)});
    }
  }
  ASYRA_RETURN_IF_ERROR(made->sent_.Allocate(largest));
  ASYRA_RETURN_IF_ERROR(made->received_.Allocate(largest));
  for (ExchangeCall& call : made->calls_) {
    for (auto& send : call.sends) send.data = made->sent_.data();
    for (auto& receive : call.receives) receive.data = made->received_.data();
  }
  ASYRA_ASSIGN_OR_RETURN(made->stream_,
                         CudaStream::Create(ordinal, StreamUse::kCollectives,
                                            nullptr, &made->failure_));
  return made;
}

absl::Status FirstExchanges::Launch() {
  for (const ExchangeCall& call : calls_) {
    ASYRA_RETURN_IF_ERROR(ExchangeMessages(call, comm_, stream_->handle()));
  }
  return absl::OkStatus();
}

}  // namespace asyra::cuda
