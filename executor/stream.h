// Streams and events of a device, with the meaning that CUDA gives them: work
// of one stream runs in the order it was enqueued, work of different streams
// is ordered by events alone. Enqueueing never waits for work to finish, and
// allocates nothing.
#pragma once

#include "absl/status/status.h"

namespace asyra {

// A point on a stream. Waiting for an event refers to its latest Record at the
// time of the call; one that was never recorded has happened.
class Event {
 public:
  virtual ~Event() = default;
  // When the work before the event had finished, in us from an origin that
  // all events of a device share. Only of an event created with `timed`, after
  // its stream was synchronized.
  virtual double TimeUs() const = 0;
};

// Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void Record(Event& event) = 0;
  // What is enqueued from here on begins after `event`.
  virtual void Wait(Event& event) = 0;
  // Returns when all that was enqueued is done. Errors of the work itself are
  // in the Failure that the stream was created with; the status is that of
  // waiting.
  virtual absl::Status Synchronize() = 0;

  // From BeginCapture to EndCapture, Record, Wait and what else is enqueued
  // are kept instead of run, and replace what was kept before. Each Replay
  // enqueues all of it, at the cost of one enqueued function. Streams whose
  // captured work meets in events are captured together and replayed equally
  // often; such an event is recorded once in all that is captured, and used
  // nowhere else.
  virtual void BeginCapture() = 0;
  virtual void EndCapture() = 0;
  virtual void Replay() = 0;
};

}  // namespace asyra
