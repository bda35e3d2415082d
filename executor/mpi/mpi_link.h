// Messages between the ranks of an MPI world, and the end of that world when a
// rank fails. Only in builds with MPI (ASYRA_MPI).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "absl/status/statusor.h"
#include "executor/mpi/mpi_world.h"
#include "executor/mpi/process_watch.h"

namespace asyra {

// Messages in flight, with the rank at the other end of each. Keeps its memory
// from use to use.
class MpiMessages {
 public:
  void Reserve(size_t messages);
  void Clear();
  bool done() const { return left_ == 0; }
  // Ranks whose messages are not done, each once.
  std::vector<int64_t> PendingRanks() const;

 private:
  friend class MpiLink;
  std::vector<MPI_Request> requests_;
  std::vector<int64_t> ranks_;
  std::vector<int> finished_;  // what MPI_Testsome writes
  int left_ = 0;
};

// Thread-safe: MPI is called by one thread at a time and never blocks in it,
// so that MPI_THREAD_SERIALIZED is enough.
class MpiLink {
 public:
  static absl::StatusOr<std::shared_ptr<MpiLink>> Connect(
      const MpiWorldOptions& options);
  ~MpiLink();
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;

  const MpiWorldOptions& options() const { return options_; }
  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  // Returns a tag of its own for the messages of one collective: the same on
  // all ranks, since they prepare collectives in one order.
  absl::StatusOr<int> NewTag();

  // Locks MPI for calls other than messages: one thread at a time calls it.
  template <typename F>
  void Locked(F call) {
    std::lock_guard lock(mutex_);
    call();
  }

  // Begin a message of `count` elements. Memory stays as it is until Await.
  absl::Status Send(const void* from, int count, MPI_Datatype type,
                    int64_t rank, int tag, MpiMessages* messages);
  absl::Status Receive(void* to, int count, MPI_Datatype type, int64_t rank,
                       int tag, MpiMessages* messages);
  // Returns when all are done. Errors: the timeout, naming `what` and the
  // missing ranks; the end of the world. After an error nothing more is
  // received.
  absl::Status Await(std::string_view what, MpiMessages* messages);

  // Implements Communicator::Exchange and Communicator::Abort.
  absl::StatusOr<std::vector<std::string>> Exchange(std::string_view mine);
  void Abort(const absl::Status& cause);
  // Returns an error once this world has ended, as far as can be known without
  // waiting.
  absl::Status Notice();

 private:
  using Clock = std::chrono::steady_clock;

  // State of a thread that waits for messages: it polls, at first without
  // sleeping.
  struct Patience {
    Clock::time_point lost, notice;
    int looks = 0;
  };

  explicit MpiLink(const MpiWorldOptions& options) : options_(options) {}
  absl::Status Initialize();
  Patience BeginToWait() const;
  // Sleeps, and checks from time to time whether the world has ended.
  absl::Status Pause(Patience* patience);
  absl::Status Progress(MpiMessages* messages);
  // The two halves of Exchange.
  absl::Status SendToAll(std::string_view bytes, MpiMessages* messages);
  absl::StatusOr<bool> Hear(int64_t rank, std::string* bytes);
  // Returns the error of a wait that has lasted too long: one that ends the
  // world.
  absl::Status Lost(const absl::Status& cause);
  void Cancel(MpiMessages* messages);
  bool HeardOfAbort();
  void End(int64_t rank, const absl::Status& cause);
  absl::Status Cause() const;
  absl::Status LockedCause() const;

  const MpiWorldOptions options_;
  int64_t rank_ = 0, size_ = 1;
  mutable std::mutex mutex_;          // of all calls of MPI and of what follows
  MPI_Comm data_ = MPI_COMM_NULL;     // collectives
  MPI_Comm control_ = MPI_COMM_NULL;  // everything else
  int next_tag_ = 0, last_tag_ = 0;
  MPI_Request abort_request_ = MPI_REQUEST_NULL;
  std::string abort_text_;  // as another rank sends it
  std::unique_ptr<ProcessWatch> watch_;
  std::atomic<bool> ended_ = false;
  int64_t failed_rank_ = -1;
  absl::Status cause_;
};

}  // namespace asyra
