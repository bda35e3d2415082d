// The boxes of the steps of a chunk plan (ir/plans/chunk_plan.h) that kernels
// take where they are, and those that are packed: copied to dense memory before
// a kernel reads them, or from there after it wrote them. A matmul also reads
// rows that are further apart than they are long, as the columns of a gradient
// are. The one rule of executors, which copy, and of costs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/plans/chunk_plan.h"
#include "ir/plans/plan_exchanges.h"

namespace asyra {

// The packing of one step that computes.
struct StepPacking {
  // The place where each box is dense: bytes into a part of the workspace that
  // steps share, or -1: in its buffer.
  std::vector<int64_t> reads;
  // By read: elements from one row (of the last dimension) to the next, where
  // it is read in its buffer and not dense; 0: dense.
  std::vector<int64_t> row_strides;
  int64_t write = -1;
  int64_t workspace_bytes = 0;
  // Bytes that each copy moves. A view, which has no kernel, is a copy of what
  // it reads.
  std::vector<int64_t> copies;
};

// A box is dense in its buffer where it is one run of bytes that begins at a
// multiple of `alignment`. Nothing for steps that do not compute.
StepPacking StepPackingOf(const ChunkPlan& plan, const PlanStep& step,
                          int64_t alignment);

// The packing of the messages of one rank in an exchange: libraries send and
// receive dense memory.
struct MessagePacking {
  // The place where each message is dense, as in StepPacking; parts of the
  // workspace that exchanges of the rank share.
  std::vector<int64_t> sent, received;
  int64_t workspace_bytes = 0;
  std::vector<int64_t> copies;  // bytes of each
};

// `incoming` comes to the rank of `exchange`.
MessagePacking MessagePackingOf(
    const ChunkPlan& plan, const PlanStep& exchange,
    absl::Span<const PlanExchanges::Message> incoming);

}  // namespace asyra
