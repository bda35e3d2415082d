#include "executor/tcp/tcp_world.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "executor/comm/rank_error.h"
#include "executor/tcp/rendezvous.h"
#include "executor/tcp/sender.h"
#include "executor/tcp/socket.h"
#include "executor/tcp/tcp_collective.h"
#include "executor/tcp/wire.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Time that it may take to be told who has failed.
constexpr auto kCauseWithin = std::chrono::milliseconds(500);
// A process that was not heard of for so long, and for half of the timeout, is
// stopped or cut off: all of them give a sign of life every second at least.
constexpr double kLeastSilence = 1;

std::string Pack(const std::vector<std::string>& parts) {
  std::string bytes;
  for (const std::string& part : parts) {
    Append(static_cast<int64_t>(part.size()), &bytes);
    bytes += part;
  }
  return bytes;
}

std::vector<std::string> Unpack(std::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    auto size = static_cast<size_t>(TakeNumber(&bytes));
    parts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return parts;
}

class TcpWorld : public Communicator, public TcpMail {
 public:
  explicit TcpWorld(const TcpWorldOptions& options)
      : options_(options),
        peers_(options.size),
        gathered_(options.size),
        steps_(options.size) {}

  ~TcpWorld() override {
    if (sender_ != nullptr && !Failed()) {
      ForPeers([this](int64_t peer) { sender_->Send(peer, kBye, ""); });
      sender_->Flush(options_.timeout_s);
      // Rank 0 forwards until the others are done.
      if (rank() != 0) peers_[0]->EndSending();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, Timeout(),
                        [this] { return failed_ >= 0 || listening_ == 0; });
    }
    closing_.store(true);
    // Messages about a failure are still sent.
    if (sender_ != nullptr) {
      sender_->Flush(std::min(options_.timeout_s, kLeastSilence));
    }
    ForPeers([this](int64_t peer) { peers_[peer]->EndReceiving(); });
    for (std::thread& thread : threads_) thread.join();
    if (sender_ != nullptr) sender_->Stop();
  }

  absl::Status Connect() {
    if (rank() == 0) {
      ASYRA_ASSIGN_OR_RETURN(peers_, AcceptRanks(options_));
    } else {
      ASYRA_ASSIGN_OR_RETURN(peers_[0], JoinRanks(options_));
    }
    sender_ = std::make_unique<Sender>(
        peers_, options_.timeout_s,
        [this](int64_t peer, const absl::Status& why) { Lose(peer, why); });
    ForPeers([this](int64_t peer) {
      {
        std::lock_guard lock(mutex_);
        ++listening_;
      }
      threads_.emplace_back([this, peer] { Listen(peer); });
    });
    return Exchange("").status();
  }

  std::string_view name() const override { return "tcp"; }
  std::string_view device() const override { return "cpu"; }
  int64_t rank() const override { return options_.rank; }
  int64_t size() const override { return options_.size; }

  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return rank() == 0 ? GatherAll(mine) : Bring(mine);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    return PrepareTcpCollective(*this, next_tag_.fetch_add(1), rank(), use);
  }

  absl::Status Post(int64_t to, int64_t tag, std::string_view data) override {
    std::string bytes;
    bytes.reserve(3 * sizeof(int64_t) + data.size());
    for (int64_t number : {rank(), to, tag}) Append(number, &bytes);
    bytes += data;
    ASYRA_RETURN_IF_ERROR(Check(0));
    // The listening thread notices the end of the connection.
    sender_->Send(rank() == 0 ? to : 0, kData, std::move(bytes));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Collect(int64_t from, int64_t tag,
                                      std::string_view what) override {
    std::unique_lock lock(mutex_);
    std::deque<std::string>& arrived = mail_[{from, tag}];
    bool done = changed_.wait_for(
        lock, Timeout(), [&] { return failed_ >= 0 || !arrived.empty(); });
    if (!done) FindStopped(&lock);
    if (failed_ >= 0) return Cause();
    if (!done) return DidNotCome(what, {from}, options_.timeout_s);
    std::string data = std::move(arrived.front());
    arrived.pop_front();
    return data;
  }

  void BeginStep() override {
    if (rank() == 0) {
      std::lock_guard lock(mutex_);
      ++steps_[0];
    } else {
      sender_->Send(0, kStep, "");
    }
  }
  // Rank 0 knows.
  std::vector<int64_t> RanksBehind() const override {
    std::lock_guard lock(mutex_);
    std::vector<int64_t> behind;
    for (int64_t r = 0; rank() == 0 && r < size(); ++r) {
      if (steps_[r] < steps_[0]) behind.push_back(r);
    }
    return behind;
  }

  absl::Status Check(double) override {
    std::lock_guard lock(mutex_);
    return failed_ < 0 ? absl::OkStatus() : Cause();
  }

  void Abort(const absl::Status& cause) override { Lose(rank(), cause); }

 private:
  std::chrono::duration<double> Timeout() const {
    return std::chrono::duration<double>(options_.timeout_s);
  }
  bool Failed() const {
    std::lock_guard lock(mutex_);
    return failed_ >= 0;
  }

  template <typename F>
  void ForPeers(F call) {
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peers_[peer] != nullptr) call(static_cast<int64_t>(peer));
    }
  }

  // Receives the messages of a rank until its connection ends.
  void Listen(int64_t peer) {
    bool bye = false;
    absl::Status taken;
    while (taken.ok()) {
      taken = WithinMemory([&]() -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(Message message,
                               peers_[peer]->Receive(0, options_.timeout_s));
        bye |= message.kind == kBye;
        return Take(peer, std::move(message));
      });
    }
    if (absl::IsResourceExhausted(taken)) Abort(taken);
    bool ended = absl::IsCancelled(taken) || absl::IsAborted(taken);
    if (ended) taken = absl::AbortedError("its process has ended");
    if (!(bye && ended) && !closing_.load()) Lose(peer, taken);
    std::lock_guard lock(mutex_);
    --listening_;
    changed_.notify_all();
  }

  // Errors: a message that the peer should not send.
  absl::Status Take(int64_t peer, Message message) {
    std::string_view bytes = message.bytes;
    switch (message.kind) {
      case kAbort: {
        int64_t failed = TakeNumber(&bytes);
        bool known = failed >= 0 && failed < size();
        // Rank 0 knows best how it is itself.
        if (!known || (rank() == 0 && failed == 0)) failed = peer;
        if (rank() == 0 && LoseStopped(failed)) break;
        Lose(failed, absl::AbortedError(std::string(bytes)));
        break;
      }
      case kData:
        return Deliver(peer, std::move(message.bytes));
      case kWho:
        if (rank() == 0) LoseStopped(peer);
        break;
      case kAll: {
        std::vector<std::string> all = Unpack(bytes);
        if (rank() == 0 || static_cast<int64_t>(all.size()) != size()) {
          return Invalid("it sends {} parts of an exchange of {} ranks",
                         all.size(), size());
        }
        std::lock_guard lock(mutex_);
        all_ = std::move(all);
        changed_.notify_all();
        break;
      }
      case kGather: {
        std::lock_guard lock(mutex_);
        gathered_[peer] = std::move(message.bytes);
        changed_.notify_all();
        break;
      }
      case kStep: {
        std::lock_guard lock(mutex_);
        ++steps_[peer];
        break;
      }
      case kBye:
      case kAlive:
        break;
      default:
        return Invalid("it sends a message of kind {}", message.kind);
    }
    return absl::OkStatus();
  }

  // Here, or to the rank that it is for.
  absl::Status Deliver(int64_t peer, std::string bytes) {
    std::string_view data = bytes;
    int64_t from = TakeNumber(&data), to = TakeNumber(&data);
    int64_t tag = TakeNumber(&data);
    bool known = rank() == 0 ? from == peer && to >= 0 && to < size()
                             : from >= 0 && from < size() && to == rank();
    if (!known) return Invalid("it sends data of rank {} to {}", from, to);
    if (to != rank()) {
      sender_->Send(to, kData, std::move(bytes));
      return absl::OkStatus();
    }
    std::lock_guard lock(mutex_);
    mail_[{from, tag}].emplace_back(data);
    changed_.notify_all();
    return absl::OkStatus();
  }

  // A rank that waits in vain is not always waiting for the rank that is the
  // cause. With the lock held: has the failure of one that is stopped found.
  void FindStopped(std::unique_lock<std::mutex>* lock) {
    lock->unlock();
    LoseStopped(rank());
    if (rank() != 0) sender_->Send(0, kWho, "");
    lock->lock();
    if (rank() == 0) return;
    changed_.wait_for(*lock, kCauseWithin, [this] { return failed_ >= 0; });
  }

  // Loses a peer that is stopped, other than `except`; false: there is none.
  bool LoseStopped(int64_t except) {
    double silent_s = std::max(kLeastSilence, options_.timeout_s / 2);
    bool found = false;
    ForPeers([&](int64_t peer) {
      double silence = peers_[peer]->silent_s();
      if (found || peer == except || silence < silent_s) return;
      found = true;
      Lose(peer,
           absl::DeadlineExceededError(fmt::format(
               "its process gives no sign of life for {:.1f} s", silence)));
    });
    return found;
  }

  void Lose(int64_t failed, const absl::Status& cause) {
    if (Fail(failed, cause)) Tell(failed, MessageOf(cause));
  }

  // Records a failure; returns whether it is the first.
  bool Fail(int64_t rank, const absl::Status& cause) {
    std::lock_guard lock(mutex_);
    if (failed_ >= 0) return false;
    failed_ = rank;
    cause_ = cause;
    changed_.notify_all();
    return true;
  }

  // Rank 0 tells all, the others tell rank 0.
  void Tell(int64_t failed, std::string_view cause) {
    std::string bytes;
    Append(failed, &bytes);
    bytes += cause.substr(0, kMostTextBytes);
    ForPeers([&](int64_t peer) {
      if (peer != failed) sender_->Send(peer, kAbort, bytes);
    });
  }

  absl::Status Cause() const {
    return failed_ == rank() ? cause_ : RankFailed(failed_, cause_);
  }

  absl::StatusOr<std::vector<std::string>> GatherAll(std::string_view mine) {
    std::vector<std::string> all(size());
    {
      std::unique_lock lock(mutex_);
      gathered_[0] = std::string(mine);
      bool done = changed_.wait_for(
          lock, Timeout(), [this] { return failed_ >= 0 || HaveAll(); });
      if (!done) FindStopped(&lock);
      if (failed_ >= 0) return Cause();
      if (!done) return NothingHeard(Unheard(), options_.timeout_s);
      for (int64_t r = 0; r < size(); ++r) {
        all[r] = *std::move(gathered_[r]);
        gathered_[r].reset();
      }
    }
    std::string packed = Pack(all);
    // The listening thread notices a closed connection.
    ForPeers([&](int64_t peer) { sender_->Send(peer, kAll, packed); });
    return all;
  }

  bool HaveAll() const {
    for (const auto& part : gathered_) {
      if (!part.has_value()) return false;
    }
    return true;
  }

  std::vector<int64_t> Unheard() const {
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < size(); ++r) {
      if (!gathered_[r].has_value()) ranks.push_back(r);
    }
    return ranks;
  }

  absl::StatusOr<std::vector<std::string>> Bring(std::string_view mine) {
    ASYRA_RETURN_IF_ERROR(Check(0));
    // The listening thread notices the end of rank 0.
    sender_->Send(0, kGather, std::string(mine));
    std::unique_lock lock(mutex_);
    bool done = changed_.wait_for(
        lock, Timeout(), [this] { return failed_ >= 0 || all_.has_value(); });
    if (!done) FindStopped(&lock);
    if (failed_ >= 0) return Cause();
    if (!done) {
      return absl::DeadlineExceededError(
          fmt::format("rank 0 has not heard from all ranks within {:g} s",
                      options_.timeout_s));
    }
    std::vector<std::string> all = *std::move(all_);
    all_.reset();
    return all;
  }

  const TcpWorldOptions options_;
  // Sockets by rank; rank 0 has all others, the others have rank 0.
  std::vector<std::unique_ptr<Socket>> peers_;
  std::unique_ptr<Sender> sender_;
  std::vector<std::thread> threads_;
  std::atomic<bool> closing_ = false;
  std::atomic<int64_t> next_tag_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  int listening_ = 0;  // threads that do
  int64_t failed_ = -1;
  absl::Status cause_;
  std::vector<std::optional<std::string>> gathered_;  // of rank 0
  std::optional<std::vector<std::string>> all_;       // of the others
  std::vector<int64_t> steps_;
  // Data of collectives that nobody has asked for yet, by rank and tag.
  std::map<std::pair<int64_t, int64_t>, std::deque<std::string>> mail_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectTcp(
    const TcpWorldOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Invalid("rank {} of {} ranks", options.rank, options.size);
  }
  auto world = std::make_unique<TcpWorld>(options);
  ASYRA_RETURN_IF_ERROR(world->Connect());
  return world;
}

}  // namespace asyra
