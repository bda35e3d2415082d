// CUDA C++ of an expression over a loop. Three forms, by where memory is dense:
//
// elements  no reductions: a thread has one vector of up to 16 bytes of each
// operand rows      a group of threads has a row, whose elements stay in
// registers from
//           the one read to the one write, as far as they fit; reductions go
//           through shuffles and shared memory
// stripes   rows are adjacent in memory: neighbouring threads have
//           neighbouring rows, and several of them share one
//
// Reductions have a fixed order, so equal inputs give equal bits. Results may
// overwrite operands of the same layout.
//
// A kernel may also reach the memory of other GPUs (peer_code.h).
#pragma once

#include <cstdint>
#include <string>

#include "executor/cuda/codegen/expression.h"
#include "executor/cuda/codegen/loop.h"
#include "executor/cuda/codegen/peer_code.h"

namespace asyra::cuda {

inline constexpr char kGeneratedName[] = "generated";  // of the kernel

struct GeneratedSource {
  std::string text;
  int64_t blocks = 0;  // 0: there is nothing to compute
  int threads = 0;     // of a block
  // Division may be approximate in its last bits: no result is stored in single
  // precision.
  bool approximate_division = false;
};

// Addresses are arguments of the kernel: operands, then results; each aligned
// to 16 bytes. At most 64 of them.
// With `peers`, any number of blocks does the work of all `blocks`.
GeneratedSource Generate(const Expression& expression, const Loop& loop,
                         const PeerCode* peers = nullptr);
// Returns whether `peers` can be part of the kernel: what is summed, and what
// is gathered, differs within a row.
bool CanReachPeers(const Expression& expression, const Loop& loop,
                   const PeerCode& peers);

}  // namespace asyra::cuda
