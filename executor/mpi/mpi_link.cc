#ifdef ASYRA_MPI
#include "executor/mpi/mpi_link.h"

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <thread>

#include "executor/comm/rank_error.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using std::chrono::milliseconds;

// Time in which a waiting rank notices that another has failed.
constexpr auto kNoticeEvery = milliseconds(20);
// Time that the cause of a failure may take from one rank to another, and after
// the end of its process.
constexpr auto kCauseWithin = milliseconds(500);
constexpr auto kLastWords = milliseconds(50);
// Polls without sleep, for messages that are about to arrive. Few, since on the
// cpu there are usually more processes than cores.
constexpr int kLooks = 20;
constexpr auto kSleep = std::chrono::microseconds(20);
// Seconds that MPI has to begin on busy hosts, where the timeout is shorter.
constexpr double kLeastStart = 20;
// Texts of failures are truncated: short messages are sent without a receiver.
constexpr size_t kAbortBytes = 2048;
constexpr int kExchangeTag = 1, kAbortTag = 2;  // on the control communicator

absl::Status Check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return absl::InternalError(fmt::format("{}: {}", what, text.data()));
}

// Calls that wait for all ranks, and for ever for one that is stopped. After
// the timeout `call` is left alone: the process must end with an error.
absl::Status WithinTime(std::string_view what, double timeout_s,
                        std::function<absl::Status()> call) {
  auto done = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> status = done->get_future();
  std::thread([done, call = std::move(call)] {
    done->set_value(call());
  }).detach();
  if (status.wait_for(std::chrono::duration<double>(timeout_s)) ==
      std::future_status::ready) {
    return status.get();
  }
  return absl::DeadlineExceededError(
      fmt::format("{} has not returned within {:g} s: some rank has not come",
                  what, timeout_s));
}

// Two communicators of all ranks.
struct Joined {
  absl::Status Join() {
    int provided = 0;
    ASYRA_RETURN_IF_ERROR(Check(
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
        "MPI_Init_thread"));
    if (provided < MPI_THREAD_SERIALIZED) {
      return Unimplemented("this MPI is for one thread only");
    }
    for (MPI_Comm* comm : {&data, &control}) {
      ASYRA_RETURN_IF_ERROR(
          Check(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup"));
      MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    }
    return absl::OkStatus();
  }
  MPI_Comm data = MPI_COMM_NULL, control = MPI_COMM_NULL;
};

}  // namespace

void MpiMessages::Reserve(size_t messages) {
  requests_.reserve(messages);
  ranks_.reserve(messages);
  finished_.resize(messages);
}

void MpiMessages::Clear() {
  requests_.clear();
  ranks_.clear();
  left_ = 0;
}

std::vector<int64_t> MpiMessages::PendingRanks() const {
  std::vector<int64_t> pending;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) pending.push_back(ranks_[i]);
  }
  std::sort(pending.begin(), pending.end());
  pending.erase(std::unique(pending.begin(), pending.end()), pending.end());
  return pending;
}

absl::StatusOr<std::shared_ptr<MpiLink>> MpiLink::Connect(
    const MpiWorldOptions& options) {
  std::shared_ptr<MpiLink> link(new MpiLink(options));
  ASYRA_RETURN_IF_ERROR(link->Initialize());
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> processes,
                         link->Exchange(ProcessWatch::Me()));
  link->watch_ = std::make_unique<ProcessWatch>(processes);
  return link;
}

absl::Status MpiLink::Initialize() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return Invalid("MPI is initialized already");
  auto joined = std::make_shared<Joined>();
  ASYRA_RETURN_IF_ERROR(WithinTime("MPI_Init_thread",
                                   std::max(options_.timeout_s, kLeastStart),
                                   [joined] { return joined->Join(); }));
  data_ = joined->data;
  control_ = joined->control;
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  rank_ = rank;
  size_ = size;
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(data_, MPI_TAG_UB, &value, &found);
  last_tag_ = found != 0 ? *static_cast<int*>(value) : 32767;
  abort_text_.resize(kAbortBytes);
  return Check(
      MPI_Irecv(abort_text_.data(), static_cast<int>(kAbortBytes), MPI_BYTE,
                MPI_ANY_SOURCE, kAbortTag, control_, &abort_request_),
      "MPI_Irecv");
}

MpiLink::~MpiLink() {
  if (data_ == MPI_COMM_NULL) return;
  // Finalizing waits for all ranks, and knows no timeout: not without knowing
  // that all have come.
  if (ended_.load() || !Exchange("end").ok()) return;
  std::lock_guard lock(mutex_);
  MPI_Cancel(&abort_request_);
  MPI_Wait(&abort_request_, MPI_STATUS_IGNORE);
  MPI_Comm_free(&data_);
  MPI_Comm_free(&control_);
  WithinTime("MPI_Finalize", options_.timeout_s, [] {
    MPI_Finalize();
    return absl::OkStatus();
  }).IgnoreError();
}

absl::StatusOr<int> MpiLink::NewTag() {
  std::lock_guard lock(mutex_);
  if (next_tag_ == last_tag_) {
    return absl::ResourceExhaustedError(fmt::format(
        "more than {} collectives, for which this MPI has no tags", last_tag_));
  }
  return next_tag_++;
}

absl::Status MpiLink::Send(const void* from, int count, MPI_Datatype type,
                           int64_t rank, int tag, MpiMessages* messages) {
  std::lock_guard lock(mutex_);
  if (ended_.load()) return Cause();
  MPI_Request request = MPI_REQUEST_NULL;
  ASYRA_RETURN_IF_ERROR(
      Check(MPI_Isend(from, count, type, static_cast<int>(rank), tag, data_,
                      &request),
            "MPI_Isend"));
  messages->requests_.push_back(request);
  messages->ranks_.push_back(rank);
  ++messages->left_;
  return absl::OkStatus();
}

absl::Status MpiLink::Receive(void* to, int count, MPI_Datatype type,
                              int64_t rank, int tag, MpiMessages* messages) {
  std::lock_guard lock(mutex_);
  if (ended_.load()) return Cause();
  MPI_Request request = MPI_REQUEST_NULL;
  ASYRA_RETURN_IF_ERROR(Check(
      MPI_Irecv(to, count, type, static_cast<int>(rank), tag, data_, &request),
      "MPI_Irecv"));
  messages->requests_.push_back(request);
  messages->ranks_.push_back(rank);
  ++messages->left_;
  return absl::OkStatus();
}

absl::Status MpiLink::Progress(MpiMessages* messages) {
  std::lock_guard lock(mutex_);
  if (ended_.load()) return Cause();
  int finished = 0;
  ASYRA_RETURN_IF_ERROR(
      Check(MPI_Testsome(static_cast<int>(messages->requests_.size()),
                         messages->requests_.data(), &finished,
                         messages->finished_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome"));
  messages->left_ -= finished == MPI_UNDEFINED ? messages->left_ : finished;
  return absl::OkStatus();
}

absl::Status MpiLink::Await(std::string_view what, MpiMessages* messages) {
  Patience patience = BeginToWait();
  absl::Status status = Progress(messages);
  while (status.ok() && !messages->done()) {
    status = Pause(&patience);
    if (status.ok()) status = Progress(messages);
    if (!status.ok() || messages->done() || Clock::now() < patience.lost) {
      continue;
    }
    status =
        Lost(DidNotCome(what, messages->PendingRanks(), options_.timeout_s));
  }
  if (!status.ok()) {
    Abort(status);
    Cancel(messages);
  }
  return status;
}

// A rank that is waited for may be waiting itself, for one that is stopped.
absl::Status MpiLink::Lost(const absl::Status& cause) {
  int64_t stopped = watch_ == nullptr ? -1 : watch_->Stopped();
  absl::Status why =
      stopped < 0
          ? cause
          : RankFailed(stopped,
                       absl::DeadlineExceededError(fmt::format(
                           "its process is stopped; {}", MessageOf(cause))));
  Abort(why);
  return why;
}

// The memory of pending receives may be freed soon.
void MpiLink::Cancel(MpiMessages* messages) {
  std::lock_guard lock(mutex_);
  for (MPI_Request& request : messages->requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  messages->Clear();
}

MpiLink::Patience MpiLink::BeginToWait() const {
  auto now = Clock::now();
  return {now + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(options_.timeout_s)),
          now + kNoticeEvery};
}

absl::Status MpiLink::Pause(Patience* patience) {
  if (++patience->looks < kLooks) {
    std::this_thread::yield();
    return absl::OkStatus();
  }
  std::this_thread::sleep_for(kSleep);
  auto now = Clock::now();
  if (now < patience->notice) return absl::OkStatus();
  patience->notice = now + kNoticeEvery;
  return Notice();
}

// Ends the world if there is a reason: an abort of another rank, the end of its
// process, or a request to end this process. A launcher sends that request to
// all when one process ends, so aborts of other ranks are awaited first.
absl::Status MpiLink::Notice() {
  if (HeardOfAbort()) return LockedCause();
  int64_t gone = watch_ == nullptr ? -1 : watch_->Ended();
  bool asked =
      options_.asked_to_end != nullptr && options_.asked_to_end->load();
  if (gone < 0 && !asked) return absl::OkStatus();
  auto until = Clock::now() + (gone < 0 ? kCauseWithin : kLastWords);
  while (Clock::now() < until) {
    if (HeardOfAbort()) return LockedCause();
    if (gone < 0 && watch_ != nullptr) gone = watch_->Ended();
    std::this_thread::sleep_for(milliseconds(5));
  }
  if (gone < 0) Abort(absl::CancelledError("the process was asked to end"));
  std::lock_guard lock(mutex_);
  End(gone, absl::AbortedError("its process has ended"));
  return Cause();
}

bool MpiLink::HeardOfAbort() {
  std::lock_guard lock(mutex_);
  if (ended_.load()) return true;
  int heard = 0, length = 0;
  MPI_Status status;
  MPI_Test(&abort_request_, &heard, &status);
  if (heard == 0) return false;
  MPI_Get_count(&status, MPI_BYTE, &length);
  abort_text_.resize(static_cast<size_t>(std::max(length, 0)));
  End(status.MPI_SOURCE, absl::AbortedError(abort_text_));
  return true;
}

// Ends the world, with the lock held; the first call counts.
void MpiLink::End(int64_t rank, const absl::Status& cause) {
  if (ended_.load()) return;
  failed_rank_ = rank;
  cause_ = cause;
  ended_.store(true);
}

// Returns the cause, with the lock held.
absl::Status MpiLink::Cause() const {
  if (failed_rank_ == rank_) return cause_;
  return RankFailed(failed_rank_, cause_);
}

absl::Status MpiLink::LockedCause() const {
  std::lock_guard lock(mutex_);
  return Cause();
}

void MpiLink::Abort(const absl::Status& cause) {
  if (HeardOfAbort()) return;
  std::lock_guard lock(mutex_);
  if (ended_.load()) return;
  End(rank_, cause);
  std::string text(MessageOf(cause).substr(0, kAbortBytes));
  std::vector<MPI_Request> requests;
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE,
              static_cast<int>(rank), kAbortTag, control_,
              &requests.emplace_back(MPI_REQUEST_NULL));
  }
  auto until = Clock::now() + kCauseWithin;
  int sent = 0;
  while (sent == 0 && Clock::now() < until) {
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &sent,
                MPI_STATUSES_IGNORE);
    if (sent == 0) std::this_thread::sleep_for(kSleep);
  }
}

absl::Status MpiLink::SendToAll(std::string_view bytes, MpiMessages* messages) {
  messages->Reserve(static_cast<size_t>(size_));
  std::lock_guard lock(mutex_);
  if (ended_.load()) return Cause();
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    ASYRA_RETURN_IF_ERROR(
        Check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE,
                        static_cast<int>(rank), kExchangeTag, control_,
                        &messages->requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend"));
    messages->ranks_.push_back(rank);
    ++messages->left_;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MpiLink::Hear(int64_t rank, std::string* bytes) {
  std::lock_guard lock(mutex_);
  if (ended_.load()) return Cause();
  int arrived = 0, size = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  ASYRA_RETURN_IF_ERROR(
      Check(MPI_Improbe(static_cast<int>(rank), kExchangeTag, control_,
                        &arrived, &message, &status),
            "MPI_Improbe"));
  if (arrived == 0) return false;
  MPI_Get_count(&status, MPI_BYTE, &size);
  bytes->resize(static_cast<size_t>(size));
  ASYRA_RETURN_IF_ERROR(Check(
      MPI_Mrecv(bytes->data(), size, MPI_BYTE, &message, MPI_STATUS_IGNORE),
      "MPI_Mrecv"));
  return true;
}

absl::StatusOr<std::vector<std::string>> MpiLink::Exchange(
    std::string_view mine) {
  std::vector<std::string> given(size_);
  given[rank_] = std::string(mine);
  std::vector<int64_t> silent;
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (rank != rank_) silent.push_back(rank);
  }
  MpiMessages sends;
  ASYRA_RETURN_IF_ERROR(SendToAll(given[rank_], &sends));
  Patience patience = BeginToWait();
  while (true) {
    std::vector<int64_t> still;
    for (int64_t rank : silent) {
      ASYRA_ASSIGN_OR_RETURN(bool heard, Hear(rank, &given[rank]));
      if (!heard) still.push_back(rank);
    }
    silent = std::move(still);
    if (silent.empty()) break;
    // Long messages progress only while MPI is called.
    ASYRA_RETURN_IF_ERROR(Progress(&sends));
    ASYRA_RETURN_IF_ERROR(Pause(&patience));
    if (Clock::now() < patience.lost) continue;
    return Lost(NothingHeard(silent, options_.timeout_s));
  }
  ASYRA_RETURN_IF_ERROR(Await("exchange between all ranks", &sends));
  return given;
}

}  // namespace asyra
#endif
