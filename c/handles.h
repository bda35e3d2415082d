// The handles of asyra.h, and the conversion of a Status to a code.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "c/asyra.h"
#include "executor/executor.h"
#include "executor/run.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "ir/dim_names.h"
#include "ir/support/check.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"

struct asyra_program {
  asyra::Program program;
  asyra::DimNames dim_names;
};

struct asyra_rank {
  std::unique_ptr<asyra::Platform> platform;  // null: asyra_run_ranks has it
  std::shared_ptr<asyra::Device> device;
  // Communicators of the processes and of the device's memory; null where there
  // is one rank, or the first does both.
  std::unique_ptr<asyra::Communicator> control, connected;
  asyra::Communicator* world = nullptr;
  int64_t sharing = 1;  // ranks of the device's memory
};

struct asyra_states {
  std::shared_ptr<asyra::StateSet> states;
};

struct asyra_executor {
  std::unique_ptr<asyra::Executor> executor;
  std::vector<asyra::Executor::NamedInput> inputs;
};

struct asyra_trainer {
  std::unique_ptr<asyra::Trainer> trainer;
  std::unique_ptr<asyra::TokenBatches> tokens;  // null before open_tokens
  std::vector<asyra::Executor::NamedInput> inputs, evaluate_inputs;
  asyra::Communicator* world = nullptr;  // of the rank
  int64_t rank = 0, seed = 1;
  std::optional<int64_t> document_end;  // of files of tokens
};

namespace asyra::c {

// Keeps the message of an error for asyra_last_error; memory for it that is not
// there is an error too.
asyra_status Code(const absl::Status& status) noexcept;
// The same of the exception that is being handled.
asyra_status CodeOfException() noexcept;

// A pointer argument that must not be NULL.
struct Argument {
  const char* name;
  const void* value;
};

// Error: the first that is NULL, by name.
absl::Status CheckArguments(std::initializer_list<Argument> needed);
// Checks the argument of a function that returns a number: false sets the
// error.
bool IsGiven(const char* name, const void* value) noexcept;

// The Status of `body` as a code; it is not called unless all of `needed` are
// given. An exception, which C cannot catch, is a code too, and so is a failed
// check: of all functions that may allocate.
template <typename F>
asyra_status Guarded(std::initializer_list<Argument> needed, F body) noexcept {
  try {
    FailedChecksThrow checks;
    absl::Status given = CheckArguments(needed);
    return Code(given.ok() ? WithinMemory(body) : given);
  } catch (...) {
    return CodeOfException();
  }
}

// Gives the caller what `make` makes; NULL after an error.
template <typename T, typename F>
asyra_status Make(std::initializer_list<Argument> needed, T** to,
                  F make) noexcept {
  if (to != nullptr) *to = nullptr;
  return Guarded(needed, [&]() -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<T> made, make());
    *to = made.release();
    return absl::OkStatus();
  });
}

// Error: a `size` of a struct that has no room for a field.
absl::Status CheckSize(const char* type, size_t size);

// Fills a struct of the caller's, whose `size` says how many bytes of it the
// caller's header knows: fields behind them are not written. Error: CheckSize.
template <typename T>
absl::Status FillStruct(const char* type, T from, T* to) {
  ASYRA_RETURN_IF_ERROR(CheckSize(type, to->size));
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof(from)));
  return absl::OkStatus();
}

// Host tensors over the caller's buffers, which outlive them.
absl::StatusOr<std::vector<Tensor>> TensorsOf(
    absl::Span<const Executor::NamedInput> inputs, const void* const* buffers);

absl::Status FillInfo(std::string_view name, const Type& local,
                      asyra_tensor_info* info);
// Number `index` of them. Error: OutOfRange.
absl::Status FillInfo(absl::Span<const Executor::NamedInput> inputs,
                      int32_t index, asyra_tensor_info* info);

// Copies a tensor out. Errors: that of `tensor`; another size.
absl::Status CopyOut(const absl::StatusOr<Tensor>& tensor, void* to,
                     int64_t bytes);

}  // namespace asyra::c
