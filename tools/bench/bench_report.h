// The measurements of asyra-bench, as text, as a table of costs and as a
// machine (simulator/README.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/bench/collective_timer.h"
#include "simulator/machine/machine.h"
#include "tools/bench/bench_overlaps.h"
#include "tools/bench/bench_power.h"

namespace asyra {

struct MeasuredCall {
  std::string text;
  int ranks = 1;
  Timing timing;
};

struct MeasuredPair {
  std::string compute, collective;
  CollectiveKind kind;
  PairTiming timing;
};

struct BenchResult {
  // For people: what was measured, with what, and when.
  std::string device, driver, libraries;
  std::string date;  // days, if some were kept
  int ranks = 1;
  bool whole_host = false;  // the ranks are all that the host has
  int64_t cache_bytes = 0;  // of the device's largest cache, 0: not known
  std::vector<MeasuredCall> calls;
  size_t kept = 0;          // the first so many were measured before
  std::string kept_method;  // as their table says
  std::vector<MeasuredPair> pairs;
  std::vector<MeasuredOverlap> overlaps;
  std::vector<MeasuredLoad> loads;
  // Told by them, or, without any, by the machine to begin with.
  std::optional<GpuPower> power;
  LaunchTimes launches;
  // Bus bandwidth of a collective by one CTA; 0: not known.
  double cta_gbps = 0;
  double context_mib = 0;  // with libraries that compute; 0: not known
  // The memory of the collective library; `context`, `op` and `workspace` are
  // not.
  std::optional<LibraryMemory> collective_memory;
  std::vector<std::string> left_out;  // and why
  std::string weights_from_inputs;    // a line for each model that has some
  double seconds = 0;                 // it all took
};

// The bus bandwidth of a collective that took so long, as nccl-tests count it.
double BusGbps(CollectiveKind kind, int64_t payload_bytes, int ranks,
               double us);

std::string BenchText(const BenchResult& result);

// A *.table file.
std::string BenchTable(const BenchResult& result);

// A *.machine file that names `table`: `base`, the text of another one, with
// what was measured in its place. Rates are the best that were reached; shares
// that collectives keep beside computation are those of the pairs, and stay
// where there are none; so does what libraries take of the memory.
// Errors: calls that cannot be read; a base that is no JSON.
absl::StatusOr<std::string> BenchMachine(const BenchResult& result,
                                         const std::string& name,
                                         const std::string& table,
                                         std::string_view base);

// The base of a machine whose peaks nobody tells: they are what was measured.
// What a few pairs and ranks may not tell again comes from `before`, the text
// of such a machine, or empty.
std::string PlainMachine(const BenchResult& result, std::string_view before);

}  // namespace asyra
