// Ranks of a test: threads of a local world, each with its own result.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "executor/comm/thread_world.h"
#include "executor/cpu/cpu_device.h"
#include "executor/executor.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "tests/support/parse.h"

namespace asyra {

// What body(world) gave on each rank. A rank that fails aborts the others, as
// the executor does for its own errors.
inline std::vector<absl::Status> OnRanks(
    int64_t ranks, const ThreadWorldOptions& options,
    const std::function<absl::Status(Communicator& world)>& body) {
  auto world = CreateThreadWorld(ranks, options);
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { results[rank] = body(*world[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Ranks that have ended. One that is to be late waits for the others here, not
// for a time, which a busy machine makes too short.
class EndedRanks {
 public:
  void Count() {
    ++count_;
    count_.notify_all();
  }
  void Await(int64_t ranks) {
    for (int64_t seen; (seen = count_.load()) < ranks;) count_.wait(seen);
  }

 private:
  std::atomic<int64_t> count_ = 0;
};

inline void ExpectAll(const std::vector<absl::Status>& results,
                      const std::string& message) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_FALSE(results[rank].ok()) << "rank " << rank;
    EXPECT_NE(results[rank].ToString().find(message), std::string::npos)
        << "rank " << rank << ": " << results[rank];
  }
}

}  // namespace asyra
