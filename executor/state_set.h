// Values that one rank keeps from step to step: params, states and weights by
// name, in memory of its device that several executors share.
//
//   auto states = StateSet::Create(device).value();
//   step->Prepare(device, world, weights, {.states = states});
//   evaluate->Prepare(device, world, nullptr, {.states = states});
//
// The first program that has a value of a name brings its type and its memory;
// the others read and write the same bytes, and nothing is copied. A value that
// has been set is left alone by later executors: they need no data for it.
//
// Besides it may have an arena, which executors use in turn for what they
// compute within a step.
//
// Executors of a set take their steps in the order in which they were started.
// One thread at a time uses the set and its executors. The device outlives it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/device_view.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

class StateSet {
 public:
  struct State {
    std::string program;  // that brought it
    Type type;            // global
    InputRole role = InputRole::kState;
    void* data = nullptr;  // this rank's part, on the device
    // True: the device stores it in halves (ir/halves.h); Get and Set take
    // plain values.
    bool in_halves = false;
    bool is_set = false;  // it has had its first value
  };

  // Errors: those of the device.
  static absl::StatusOr<std::shared_ptr<StateSet>> Create(Device& device);
  StateSet(const StateSet&) = delete;
  ~StateSet();

  Device& device() const { return device_; }
  // Returns the mesh of all programs that joined.
  const Mesh& mesh() const { return mesh_; }
  // Bytes that are reserved, with the arena.
  int64_t bytes() const;

  const std::map<std::string, State, std::less<>>& states() const {
    return states_;
  }
  // Null if there is none.
  const State* Find(std::string_view name) const;

  // Returns the value as it is after all steps that were started; this rank's
  // part.
  // Errors: no such name (NotFound, it lists those there are), those of a step
  // that failed are its executor's.
  absl::StatusOr<Tensor> Get(std::string_view name);
  // Replaces it for all steps that start from here on. Error also: another type
  // or shape than this rank's part has.
  absl::Status Set(std::string_view name, const Tensor& local);
  // The same from memory of the device, which stays valid until it returns.
  absl::Status Set(std::string_view name, const DeviceView& local);

  // Sets zeros for all steps that start from here on; does not wait. Error: no
  // such name.
  absl::Status Clear(absl::Span<const std::string> names);

  // Reserves memory for the values of a step: executors that are prepared from
  // here on use it one after the other if it has the bytes that they need,
  // instead of memory of their own. It grows to what the first of them needs.
  // Outputs of a step, but those that replace states, are then valid until
  // another executor of the set begins one. Errors: memory; it is called twice.
  absl::Status ReserveArena(int64_t bytes);

  // For executors -----------------------------------------------------------

  // Reserves memory for what the program keeps and the set does not have yet,
  // zeros, in one piece. Errors: a value of another type, stored in halves or
  // not, or another mesh, than an earlier program has, naming both; memory.
  absl::Status Join(const Program& program);
  void MarkSet(std::string_view name);
  // Returns the arena, for an executor that needs so many bytes; null if there
  // is none, or it is smaller and in use. Errors: memory.
  absl::StatusOr<std::byte*> TakeArena(int64_t bytes);
  // 0 if there is none.
  int64_t arena_bytes() const {
    return arena_ == nullptr ? 0 : arena_->bytes();
  }
  // Returns the event after all that was enqueued by executors of the set; each
  // step waits for it and records it.
  Event& last_use() { return *last_use_; }

 private:
  explicit StateSet(Device& device) : device_(device) {}
  absl::StatusOr<State*> FindOrList(std::string_view name);
  template <typename Copy>
  absl::Status Write(std::string_view name, DType dtype, const Shape& shape,
                     Copy copy);
  absl::Status CheckMesh(const Program& program);
  absl::Status Fill(DeviceMemory& memory);
  absl::Status AllocateArena(int64_t bytes);

  Device& device_;
  Failure failure_;
  std::unique_ptr<Event> last_use_;
  std::unique_ptr<Stream> stream_;
  Mesh mesh_;
  std::string first_program_;  // whose mesh it is
  std::map<std::string, State, std::less<>> states_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::unique_ptr<DeviceMemory> arena_;
  bool arena_is_taken_ = false;
};

}  // namespace asyra
