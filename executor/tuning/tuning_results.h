// Results of autotuning, done when kernels are prepared: which algorithm of a
// library computes a matmul. Measuring again may give another one, and values
// then differ in their last bits: a process measures each once, later ones find
// it on disk (tuning_cache.h), and ranks synchronize them (SyncTuning in
// comm/agreement.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/container/btree_map.h"

namespace asyra {

struct TuningResult {
  std::string value;  // the algorithm, in a format of the device's own
  double us = 0;      // as measured; 0: not measured, for want of memory

  // The algorithm is the same, whatever it took.
  friend bool operator==(const TuningResult& a, const TuningResult& b) {
    return a.value == b.value;
  }
};

// Results by what they depend on: the use, the model of the device, the
// versions of its libraries. Keys and values are printable, without tabs and
// line ends.
using TuningResults = absl::btree_map<std::string, TuningResult>;

// "microseconds, tab, value".
std::string ToText(const TuningResult& result);
std::optional<TuningResult> ParseTuningResult(std::string_view text);

// Writes a line for each: "key, tab, result". Malformed lines are skipped.
std::string ToText(const TuningResults& results);
TuningResults ParseTuningResults(std::string_view text);

}  // namespace asyra
