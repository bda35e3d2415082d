#include "executor/tcp/tcp_world.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "executor/tcp/socket.h"
#include "executor/tcp/tcp_collective.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

enum Kind : uint32_t {
  kHello,   // to rank 0: rank, size
  kRefuse,  // from rank 0: why the rank may not join
  kGather,  // to rank 0: what the rank brings to an exchange
  kAll,     // from rank 0: what all have brought
  kStep,    // to rank 0: the rank begins a step
  kAbort,   // both ways: the failed rank and the cause
  kBye,     // the rank is done
  kData,    // both ways: from, to, tag, and the data of a collective
};

void Append(int64_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Takes a number from the front; 0 where there is none.
int64_t TakeNumber(std::string_view* bytes) {
  int64_t number = 0;
  if (bytes->size() < sizeof(number)) return 0;
  std::memcpy(&number, bytes->data(), sizeof(number));
  bytes->remove_prefix(sizeof(number));
  return number;
}

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
    if (!Failed()) {
      for (auto& peer : peers_) {
        if (peer == nullptr) continue;
        peer->Send(kBye, "").IgnoreError();
        // Rank 0 forwards until the others are done.
        if (rank() != 0) peer->EndSending();
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, Timeout(),
                        [this] { return failed_ >= 0 || listening_ == 0; });
    }
    closing_.store(true);
    // What is being told of a failure still goes out.
    for (auto& peer : peers_) {
      if (peer != nullptr) peer->EndReceiving();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Connect() {
    ASYRA_RETURN_IF_ERROR(rank() == 0 ? AcceptAll() : Join());
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peers_[peer] == nullptr) continue;
      {
        std::lock_guard lock(mutex_);
        ++listening_;
      }
      threads_.emplace_back(
          [this, peer] { Listen(static_cast<int64_t>(peer)); });
    }
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
    peers_[rank() == 0 ? to : 0]->Send(kData, bytes).IgnoreError();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Collect(int64_t from, int64_t tag,
                                      std::string_view what) override {
    std::unique_lock lock(mutex_);
    std::deque<std::string>& arrived = mail_[{from, tag}];
    bool done = changed_.wait_for(
        lock, Timeout(), [&] { return failed_ >= 0 || !arrived.empty(); });
    if (failed_ >= 0) return Cause();
    if (!done) {
      return absl::DeadlineExceededError(
          fmt::format("{}: of its group, rank {} did not come within {:g} s",
                      what, from, options_.timeout_s));
    }
    std::string data = std::move(arrived.front());
    arrived.pop_front();
    return data;
  }

  void BeginStep() override {
    if (rank() == 0) {
      std::lock_guard lock(mutex_);
      ++steps_[0];
    } else {
      peers_[0]->Send(kStep, "").IgnoreError();
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

  void Abort(const absl::Status& cause) override {
    if (Fail(rank(), cause)) Tell(rank(), std::string(MessageOf(cause)));
  }

 private:
  std::chrono::duration<double> Timeout() const {
    return std::chrono::duration<double>(options_.timeout_s);
  }
  bool Failed() const {
    std::lock_guard lock(mutex_);
    return failed_ >= 0;
  }

  // On rank 0: until all others have connected.
  absl::Status AcceptAll() {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                           Listener::Create(options_.port));
    auto until = Clock::now() + Timeout();
    int64_t missing = size() - 1;
    while (missing > 0) {
      std::chrono::duration<double> left = until - Clock::now();
      if (left.count() <= 0) return Missing();
      absl::StatusOr<std::unique_ptr<Socket>> socket =
          listener->Accept(left.count());
      if (!socket.ok()) continue;  // asks again, until the time is over
      absl::StatusOr<Message> hello = (*socket)->Receive(left.count());
      // A peer with another protocol is not a rank.
      if (!hello.ok() || hello->kind != kHello) continue;
      std::string_view bytes = hello->bytes;
      int64_t who = TakeNumber(&bytes), ranks = TakeNumber(&bytes);
      if (who < 1 || who >= size() || ranks != size() ||
          peers_[who] != nullptr) {
        std::string why = fmt::format(
            "rank {} of {} wants to join a world of {}{}", who, ranks, size(),
            ranks == size() ? ", which has it or no room for it" : "");
        (*socket)->Send(kRefuse, why).IgnoreError();
        return Invalid("{}", why);
      }
      peers_[who] = *std::move(socket);
      --missing;
    }
    return absl::OkStatus();
  }

  absl::Status Missing() const {
    std::string ranks;
    for (int64_t r = 1; r < size(); ++r) {
      if (peers_[r] == nullptr) ranks += fmt::format(" {}", r);
    }
    return absl::DeadlineExceededError(
        fmt::format("ranks{} have not come to port {} within {:g} s", ranks,
                    options_.port, options_.timeout_s));
  }

  absl::Status Join() {
    ASYRA_ASSIGN_OR_RETURN(
        peers_[0],
        Socket::Connect(options_.host, options_.port, options_.timeout_s));
    std::string hello;
    Append(rank(), &hello);
    Append(size(), &hello);
    return peers_[0]->Send(kHello, hello);
  }

  // Receives the messages of a rank until its connection ends.
  void Listen(int64_t peer) {
    bool bye = false;
    while (true) {
      absl::Status taken = WithinMemory([&]() -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(Message message, peers_[peer]->Receive());
        bye |= message.kind == kBye;
        Take(peer, std::move(message));
        return absl::OkStatus();
      });
      if (absl::IsResourceExhausted(taken)) Abort(taken);
      if (!taken.ok()) break;
    }
    if (!bye && !closing_.load() &&
        Fail(peer, absl::AbortedError("its process has ended"))) {
      Tell(peer, "its process has ended");
    }
    std::lock_guard lock(mutex_);
    --listening_;
    changed_.notify_all();
  }

  void Take(int64_t peer, Message message) {
    if (message.kind == kAbort || message.kind == kRefuse) {
      std::string_view bytes = message.bytes;
      int64_t failed = message.kind == kAbort ? TakeNumber(&bytes) : 0;
      if (Fail(failed, absl::AbortedError(std::string(bytes))))
        Tell(failed, bytes);
      return;
    }
    if (message.kind == kData) {
      Deliver(message.bytes);
      return;
    }
    std::lock_guard lock(mutex_);
    if (message.kind == kGather) gathered_[peer] = std::move(message.bytes);
    if (message.kind == kAll) all_ = Unpack(message.bytes);
    if (message.kind == kStep) ++steps_[peer];
    changed_.notify_all();
  }

  // Here, or to the rank that it is for.
  void Deliver(std::string_view bytes) {
    std::string_view data = bytes;
    int64_t from = TakeNumber(&data), to = TakeNumber(&data);
    int64_t tag = TakeNumber(&data);
    if (to != rank()) {
      bool known = rank() == 0 && to > 0 && to < size();
      if (known) peers_[to]->Send(kData, bytes).IgnoreError();
      return;
    }
    std::lock_guard lock(mutex_);
    mail_[{from, tag}].emplace_back(data);
    changed_.notify_all();
  }

  // Whether this is the first failure.
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
    bytes += cause;
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peers_[peer] == nullptr || static_cast<int64_t>(peer) == failed) {
        continue;
      }
      peers_[peer]->Send(kAbort, bytes).IgnoreError();
    }
  }

  absl::Status Cause() const {
    if (failed_ == rank()) return cause_;
    return absl::AbortedError(
        fmt::format("rank {} failed: {}", failed_, MessageOf(cause_)));
  }

  absl::StatusOr<std::vector<std::string>> GatherAll(std::string_view mine) {
    std::vector<std::string> all(size());
    {
      std::unique_lock lock(mutex_);
      gathered_[0] = std::string(mine);
      bool done = changed_.wait_for(
          lock, Timeout(), [this] { return failed_ >= 0 || HaveAll(); });
      if (failed_ >= 0) return Cause();
      if (!done) return Unheard();
      for (int64_t r = 0; r < size(); ++r) {
        all[r] = *std::move(gathered_[r]);
        gathered_[r].reset();
      }
    }
    std::string packed = Pack(all);
    for (auto& peer : peers_) {
      // The listening thread notices a closed connection.
      if (peer != nullptr) peer->Send(kAll, packed).IgnoreError();
    }
    return all;
  }

  bool HaveAll() const {
    for (const auto& part : gathered_) {
      if (!part.has_value()) return false;
    }
    return true;
  }

  absl::Status Unheard() const {
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < size(); ++r) {
      if (!gathered_[r].has_value()) ranks.push_back(r);
    }
    return absl::DeadlineExceededError(
        fmt::format("rank {}: nothing was heard from rank{} {} within {:g} s",
                    rank(), ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "),
                    options_.timeout_s));
  }

  absl::StatusOr<std::vector<std::string>> Bring(std::string_view mine) {
    ASYRA_RETURN_IF_ERROR(Check(0));
    // The listening thread notices the end of rank 0.
    peers_[0]->Send(kGather, mine).IgnoreError();
    std::unique_lock lock(mutex_);
    bool done = changed_.wait_for(
        lock, Timeout(), [this] { return failed_ >= 0 || all_.has_value(); });
    if (failed_ >= 0) return Cause();
    if (!done) {
      return absl::DeadlineExceededError(
          fmt::format("rank {}: rank 0 has not heard from all ranks within "
                      "{:g} s",
                      rank(), options_.timeout_s));
    }
    std::vector<std::string> all = *std::move(all_);
    all_.reset();
    return all;
  }

  const TcpWorldOptions options_;
  // By rank; rank 0 has all others, the others have rank 0.
  std::vector<std::unique_ptr<Socket>> peers_;
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
