// The ranks, boxes and memory that names in the text of a chunk plan mean, for
// one rank after the other: part of ParsePlan (ir/plans/plan_text.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/lexer.h"
#include "ir/overlap.h"
#include "ir/plans/chunk_plan.h"
#include "ir/plans/plan_parser.h"

namespace asyra {

// Errors name line and column, and the rank if the block is of all.
class PlanNames {
 protected:
  // Both outlive it.
  PlanNames(const GroupBody& group, const Lexer& lexer)
      : group_(group), lexer_(lexer) {}

  absl::Status Error(const Token& at, std::string_view what) const;
  absl::StatusOr<int> RankOf(const RankSyntax& rank) const;
  // Returns a box of a value, within the value.
  absl::StatusOr<Box> BoxIn(const BoxSyntax& syntax, int value) const;
  // Returns the number of a value of the body.
  absl::StatusOr<int> ValueOf(const Token& name) const;
  // Returns the buffer of a rank that has this name.
  absl::StatusOr<int> BufferOf(const Token& name, int rank) const;
  // Returns a region of a rank: the box that is written, or else this one, or
  // else, for null, all of the buffer.
  absl::StatusOr<PlanRegion> RegionOf(const RegionSyntax& syntax, int rank,
                                      const Box* box = nullptr) const;

  const GroupBody& group_;
  const Lexer& lexer_;
  ChunkPlan plan_;
  int rank_ = 0;        // whose names are meant
  bool is_one_ = true;  // the block is of this rank alone
  std::vector<std::map<std::string, int>> scratch_;  // by rank, buffers

 private:
  // Sets dimension `d` of a box of a value.
  absl::Status SetRange(const RangeSyntax& range, const Token& at, int value,
                        int d, Box* box) const;
};

}  // namespace asyra
