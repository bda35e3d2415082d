// Calls that asyra-bench measures besides those of programs, so that others are
// near to something measured.
#pragma once

#include <string>
#include <vector>

#include "executor/bench/collective_timer.h"

namespace asyra {

// Sizes of the grid, by what a device does in a millisecond or so.
struct GridScale {
  DType dtype = DType::kBF16;
  // Sizes of matmuls: rows, and columns and depth of square ones; of attention:
  // rows and keys; bytes that memory-bound ops read.
  std::vector<int64_t> rows, widths, sequences, bytes;
  std::vector<int64_t> payloads;  // of collectives, bytes
  double settle_s = 0;            // PairCall::settle_s
};
GridScale GridOfGpu();
GridScale GridOfCpu();

// The most telling first: of each kind the largest, then the others.
std::vector<std::string> LocalGrid(const GridScale& scale);

// Over every group size from 2 to `ranks` that divides them; gathers and
// exchanges of a MiB and more by copy engines too.
std::vector<CollectiveCall> CollectiveGrid(const GridScale& scale, int ranks);

// A long gather by one CTA.
CollectiveCall OneCtaGather(const GridScale& scale, int ranks);

// A matmul beside each kind of collective, both long, over all ranks.
absl::StatusOr<std::vector<PairCall>> PairGrid(const GridScale& scale,
                                               int ranks);

}  // namespace asyra
