// --tuning and --save-tuning of asyra-run and asyra-train: tuning results,
// compiled kernels and decisions of a gate in a file beside the program
// (executor/tuning/tuning_file.h).
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/run.h"
#include "executor/tuning/tuning_file.h"

namespace asyra {

struct TuningFlags {
  std::string load, save;  // files; empty: none
};
void AddTuningFlags(CLI::App& app, TuningFlags* flags);

// The session of one process. Thread-safe.
class TuningSession {
 public:
  // Reads the file, and has `cache`, which outlives this, record where one is
  // to be saved. Errors name the flag and the file.
  static absl::StatusOr<std::shared_ptr<TuningSession>> Begin(
      const TuningFlags& flags, DiskCache& cache);

  // The cache has the file's entries from here on. Error: it is for another
  // device than one of this identity; it names both.
  absl::Status Use(std::string_view identity);
  // Writes what was used since. Error: no device was; the system's.
  absl::Status Save() const;

 private:
  TuningSession(const TuningFlags& flags, DiskCache& cache)
      : flags_(flags), cache_(cache) {}

  const TuningFlags flags_;
  DiskCache& cache_;
  std::optional<TuningFile> file_;
  mutable std::mutex mutex_;
  std::string identity_;  // of the first device
};

// `platform`, each of whose devices the session uses; `session` may be null.
std::unique_ptr<Platform> WithTuning(std::unique_ptr<Platform> platform,
                                     std::shared_ptr<TuningSession> session);

}  // namespace asyra
