// Streams and events of a device, with the meaning that CUDA gives them: work
// of one stream runs in the order it was enqueued, work of different streams
// is ordered by events alone. Enqueueing never waits for work to finish, and
// allocates nothing.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace asyra {

// A point on a stream. Waiting for an event refers to its latest Record at the
// time of the call; one that was never recorded has happened.
class Event {
 public:
  virtual ~Event() = default;
  // Returns the time from the end of the work before `earlier` to the end of
  // the work before this event. Only between events created with `timed`, after
  // their streams were synchronized.
  virtual double UsSince(const Event& earlier) const = 0;
};

// The purpose of a stream, by ascending priority: other ranks wait for
// collectives, and nothing waits for self-copies soon (Kernel::LaunchSelfCopy).
enum class StreamUse : uint8_t { kSelfCopies, kCompute, kCollectives };

using WaitCheck = std::function<absl::Status(double waited_s)>;

// Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void Record(Event& event) = 0;
  // Work enqueued from here on begins after `event`.
  virtual void Wait(Event& event) = 0;
  // Returns when all enqueued work is done. Errors of the work itself are in
  // the Failure that the stream was created with; the status is that of
  // waiting. `check`, if any, may be called during the wait with the seconds
  // waited so far: its error ends the wait, though the work may still run.
  virtual absl::Status Synchronize(const WaitCheck& check = nullptr) = 0;
  // The same up to the latest Record of `event`, which this stream made.
  virtual absl::Status SynchronizeUpTo(Event& event,
                                       const WaitCheck& check = nullptr) = 0;
};

// A recording of work on several streams of a device, to be enqueued again.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void Replay() = 0;
};

}  // namespace asyra
