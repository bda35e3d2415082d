// Exchanges of chunk plans between ranks that are threads: a rank copies what
// is sent to it, and goes on when its own messages have been copied.
#pragma once

#include <memory>
#include <vector>

#include "executor/comm/thread_action.h"

namespace asyra {

// Makes the part of member `self`. `seats` are those of the exchange, by
// member, and `members` their ranks. `context`, `seats` and `members` outlive
// it.
std::unique_ptr<PlanAction> MakeThreadExchange(
    const PlanContext& context, std::vector<ExchangeSeat>& seats, int self,
    const std::vector<int64_t>& members, const ExchangeCall& call,
    Jitter jitter);

}  // namespace asyra
