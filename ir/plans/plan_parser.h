// The syntax of the text of a chunk plan (ir/plans/plan_text.h): blocks of
// ranks as written, without what their names mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/lexer.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

// "3", "r", "r+1", "r-1".
struct RankSyntax {
  bool moves = false;  // with the number of the rank
  int64_t number = 0;
  Token at;
};

// A dimension of a box: ":", "#r", "#r(1/4)", "#r(1:3/4)", "2:6".
struct RangeSyntax {
  enum Kind : uint8_t { kWhole, kShard, kElements } kind = kWhole;
  RankSyntax shard;
  int64_t first = 0, end = 1, parts = 1;
};

struct BoxSyntax {
  std::vector<RangeSyntax> ranges;
  Token at;
};

// "%2[#r, :]", "s0".
struct RegionSyntax {
  Token buffer;  // kValue: of a value; kName: scratch
  std::optional<BoxSyntax> box;
};

struct StepSyntax {
  PlanStep::Kind kind = PlanStep::kPiece;
  Token at;
  int queue = 0;
  std::vector<RegionSyntax> reads;   // of a piece: what it says
  std::vector<RegionSyntax> writes;  // of an exchange, and who has them
  std::vector<RankSyntax> peers;
  RegionSyntax write;  // of a piece: its result's value and box
  std::optional<RegionSyntax> plus, to;
  // The rank that is read or written, or has the other queue of a signal.
  std::optional<RankSyntax> peer;
  bool gets = false;     // a copy that reads from `peer`
  bool by_rank = false;  // a sum in the order of ranks
  std::string signal;    // its name
  int peer_queue = 0;    // of the signal
  int64_t count = 1;     // posts that are awaited, or the exchange's number
};

struct ScratchSyntax {
  Token name, value;
  BoxSyntax box;
  bool of_all = false;
  std::vector<RankSyntax> summands;
  std::optional<Token> over;
  int64_t at = -1;
};

struct BlockSyntax {
  std::optional<RankSyntax> rank;  // none: all
  std::vector<ScratchSyntax> scratch;
  std::vector<StepSyntax> steps;
};

struct PlanSyntax {
  std::vector<PlanQueue> queues;
  std::vector<BlockSyntax> blocks;
  Token end;
};

// Parses from "{" to "}". Errors name line and column.
absl::StatusOr<PlanSyntax> ParsePlanSyntax(Lexer* lexer);

}  // namespace asyra
