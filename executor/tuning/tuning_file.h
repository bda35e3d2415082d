// Tuning results and compiled kernels of one run in a file, to ship beside its
// program: what a run has used of the cache (disk_cache.h), for devices that
// are the same.
//
//   asyra tuning 1
//   NVIDIA H200, 132 multiprocessors, driver 12.8, ...      Device::identity
//   2 entries, 812 bytes, 00f1e2d3c4b5a697                  and their checksum
//   tuning 211 34                                           kind, key, value
//   ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/tuning/disk_cache.h"

namespace asyra {

struct TuningFile {
  std::string identity;  // Device::identity of the device it was made on
  std::vector<CacheEntry> entries;
};

std::string ToBytes(const TuningFile& file);

// Errors: no such file, another version, cut short, changed.
absl::StatusOr<TuningFile> ParseTuningFile(std::string_view bytes);

// Returns an error that names both unless `identity`, of the device at hand, is
// the file's: model, driver and library versions.
absl::Status CheckServes(const TuningFile& file, std::string_view identity);

}  // namespace asyra
