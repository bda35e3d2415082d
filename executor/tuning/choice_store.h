// The choices of a process (choices.h), each measured once and kept on disk.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "executor/tuning/choices.h"
#include "executor/tuning/disk_cache.h"

namespace asyra {

// Thread-safe.
class ChoiceStore {
 public:
  // Without a cache nothing is kept longer than the process; it outlives the
  // store.
  explicit ChoiceStore(DiskCache* disk = nullptr) : disk_(disk) {}

  // What was chosen for `key` by this process, by one before it, or else by
  // `measure`. What another process has chosen must `serve` here. Measurements
  // run one at a time: they would disturb each other.
  // Errors: those of `measure`.
  absl::StatusOr<Choice> Get(
      const std::string& key,
      const std::function<bool(const Choice& choice)>& serves,
      const std::function<absl::StatusOr<Choice>()>& measure);
  // These count from now on, and are what is kept on disk.
  void Adopt(const Choices& choices);
  // Whether `choice` is still what counts.
  bool Holds(const std::string& key, const Choice& choice) const;

 private:
  struct Entry {
    Choice choice;
    bool serves;  // it was made here, or tried
  };
  void Keep(const std::string& key, const Choice& choice);

  DiskCache* const disk_;
  mutable std::mutex mutex_;
  absl::btree_map<std::string, Entry> entries_;
};

}  // namespace asyra
