// The calls of a program as tables of costs name them (simulator/README.md):
// one op over the types that one device holds, without the program around it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/kernel.h"
#include "ir/program.h"

namespace asyra {

struct LocalCall {
  std::string text;  // "matmul(bf16[64,32], bf16[32,16])"
  // Use on the last device, which has the most work where work depends on the
  // device's position in the mesh; of attention, where costs take its rows to
  // be.
  KernelUse use;
  int64_t index_limit = 4;  // what its integers stay below
  int count = 1;            // how often AddCalls met it
};

// A collective over neighbouring devices; `text` is over the mesh (x=ranks).
struct CollectiveCall {
  std::string text;
  int ranks = 1;
  // True for an overlap in that form (ir/plans/fused_reduction.h).
  bool one_kernel = false;
  friend auto operator<=>(const CollectiveCall&,
                          const CollectiveCall&) = default;
};

struct ProgramCalls {
  std::vector<LocalCall> local;
  std::vector<CollectiveCall> collectives;
  // Ops that cannot be measured as calls, and why.
  std::vector<std::string> left_out;
};

// Adds the calls of a program of stage local or later that are not yet in
// `calls`. Views, waits and constants take no time and are left out.
void AddCalls(const Program& program, int64_t index_limit, ProgramCalls* calls);

// Parses a call's text, which is then written as AddCalls does. Errors: what
// the op's definition refuses.
absl::StatusOr<LocalCall> ParseLocalCall(std::string_view text,
                                         int64_t index_limit = 4);

inline constexpr std::string_view kByCopyEngine = "transport=copy_engine";

// One of `payload_bytes`, as nccl-tests count them, over `ranks` devices;
// `more` are other attributes, as kByCopyEngine. Payloads are rounded down to
// what divides evenly.
CollectiveCall CollectiveOf(CollectiveKind kind, DType dtype,
                            int64_t payload_bytes, int ranks,
                            std::string_view more = "");
// Bytes that it moves, by the same count. Errors: as ParseLocalCall.
absl::StatusOr<int64_t> PayloadOf(const CollectiveCall& call);

}  // namespace asyra
