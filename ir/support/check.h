// Broken invariants: a failed check is a bug in ASYRA, never a user's error.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "absl/status/statusor.h"

namespace asyra {

// A failed check where FailedChecksThrow is alive.
class CheckFailure : public std::logic_error {
  using std::logic_error::logic_error;
};

// Within its life a failed check of this thread throws CheckFailure: for the C
// interface, whose callers outlive our bugs. Everywhere else it ends the
// process.
class FailedChecksThrow {
 public:
  FailedChecksThrow() { ++depth_; }
  ~FailedChecksThrow() { --depth_; }
  FailedChecksThrow(const FailedChecksThrow&) = delete;
  FailedChecksThrow& operator=(const FailedChecksThrow&) = delete;
  static bool alive() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* what,
                                     const std::string& detail = "") {
  if (FailedChecksThrow::alive()) {
    throw CheckFailure(std::string(file) + ":" + std::to_string(line) +
                       ": check failed: " + what + " " + detail);
  }
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, what,
               detail.c_str());
  std::abort();
}

// The value of a StatusOr that cannot fail by construction.
template <typename T>
T ValueOrDie(absl::StatusOr<T> value, const char* file, int line) {
  if (!value.ok()) {
    CheckFailed(file, line, "status is ok", value.status().ToString());
  }
  return *std::move(value);
}

}  // namespace asyra

#define ASYRA_CHECK(cond)                                         \
  do {                                                            \
    if (!(cond)) ::asyra::CheckFailed(__FILE__, __LINE__, #cond); \
  } while (false)
#define ASYRA_CHECK_OK(expr)                                   \
  do {                                                         \
    absl::Status asyra_check = (expr);                         \
    if (!asyra_check.ok())                                     \
      ::asyra::CheckFailed(__FILE__, __LINE__, #expr " is ok", \
                           asyra_check.ToString());            \
  } while (false)
#define ASYRA_VALUE(expr) ::asyra::ValueOrDie((expr), __FILE__, __LINE__)
