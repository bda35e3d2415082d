// Guards where a thread begins: what the system refuses to it ends as an error
// of the rank, not as the end of the process.
#pragma once

#include <new>
#include <system_error>
#include <type_traits>

#include "absl/status/status.h"

namespace asyra {

// Returns what `body` returns, a Status or StatusOr; ResourceExhausted if an
// allocation in it failed, or a thread that it began, whose stack is memory
// too.
template <typename F>
std::invoke_result_t<F> WithinMemory(F body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "out of memory: the system gives this process no more");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
    return absl::ResourceExhaustedError(
        "out of memory or threads: the system begins no more");
  }
}

}  // namespace asyra
