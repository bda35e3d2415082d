#include "executor/comm/thread_exchange.h"

#include <cstring>
#include <map>
#include <set>

#include "ir/support/status.h"

namespace asyra {

absl::Status AwaitCounter(const PlanContext& context, Counter& counter,
                          uint32_t target, int64_t from) {
  if (counter.Reached(target)) return absl::OkStatus();
  const SharedWorld& world = *context.world;
  auto lost = CpuClock::now() + Seconds(world.options().timeout_s);
  while (!counter.WaitFor(target,
                          std::min(lost, CpuClock::now() + kNoticeEvery))) {
    if (world.aborted()) return world.CauseFor(context.rank);
    if (CpuClock::now() < lost) continue;
    return world.WaitedTooLong(context.rank, context.label, {from});
  }
  return absl::OkStatus();
}

namespace {

class ThreadExchange : public CpuAction {
 public:
  ThreadExchange(const PlanContext& context, std::vector<ExchangeSeat>& seats,
                 int self, const std::vector<int64_t>& members,
                 const ExchangeCall& call, Jitter jitter)
      : context_(context),
        seats_(seats),
        self_(self),
        members_(members),
        receives_(call.receives),
        jitter_(jitter) {
    for (const ExchangeCall::Message& send : call.sends) {
      seats_[self].sends.push_back({send.member, send.data});
      receivers_.insert(send.member);
    }
  }

 private:
  absl::Status Run() override {
    ++step_;
    jitter_.Sleep();
    seats_[self_].come.Add();
    std::map<int, size_t> next;  // by sender, in its list
    for (const ExchangeCall::Message& receive : receives_) {
      ASYRA_RETURN_IF_ERROR(Receive(receive, &next[receive.member]));
    }
    seats_[self_].read.Add();
    for (int member : receivers_) {
      ASYRA_RETURN_IF_ERROR(
          AwaitCounter(context_, seats_[member].read, step_, members_[member]));
    }
    return absl::OkStatus();
  }

  // Copies the sender's next message to this rank.
  absl::Status Receive(const ExchangeCall::Message& receive, size_t* next) {
    ExchangeSeat& sender = seats_[receive.member];
    ASYRA_RETURN_IF_ERROR(
        AwaitCounter(context_, sender.come, step_, members_[receive.member]));
    while (*next < sender.sends.size() && sender.sends[*next].member != self_) {
      ++*next;
    }
    if (*next == sender.sends.size()) {
      return Invalid("{}: rank {} sends nothing more", context_.label,
                     members_[receive.member]);
    }
    if (!context_.world->BeginReach()) {
      return context_.world->CauseFor(context_.rank);
    }
    std::memcpy(receive.data, sender.sends[(*next)++].data, receive.bytes);
    context_.world->EndReach();
    return absl::OkStatus();
  }

  const PlanContext& context_;
  std::vector<ExchangeSeat>& seats_;
  const int self_;
  const std::vector<int64_t>& members_;
  const std::vector<ExchangeCall::Message> receives_;
  std::set<int> receivers_;  // of what this rank sends
  Jitter jitter_;
  uint32_t step_ = 0;
};

}  // namespace

std::unique_ptr<PlanAction> MakeThreadExchange(
    const PlanContext& context, std::vector<ExchangeSeat>& seats, int self,
    const std::vector<int64_t>& members, const ExchangeCall& call,
    Jitter jitter) {
  return std::make_unique<ThreadExchange>(context, seats, self, members, call,
                                          jitter);
}

}  // namespace asyra
