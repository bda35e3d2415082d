#include "ir/plans/plan_parser.h"

#include <charconv>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr size_t kMaxQueues = 16;
constexpr int64_t kMostCount = 1 << 20;
// Words that come where the name of scratch memory may come.
constexpr std::string_view kWords[] = {"all", "at",   "from", "in", "of",
                                       "on",  "over", "plus", "r",  "to"};

class PlanParser {
 public:
  explicit PlanParser(Lexer* lexer) : lexer_(*lexer) {}

  absl::StatusOr<PlanSyntax> Parse() {
    ASYRA_RETURN_IF_ERROR(Expect("{"));
    ASYRA_RETURN_IF_ERROR(ParseQueues());
    while (lexer_.TryWord("rank")) ASYRA_RETURN_IF_ERROR(ParseBlock());
    plan_.end = lexer_.peek();
    if (!lexer_.TryPunct("}")) {
      return lexer_.Error("expected 'on', 'scratch', 'rank' or '}'");
    }
    return std::move(plan_);
  }

 private:
  absl::Status Expect(std::string_view punct) {
    if (lexer_.TryPunct(punct)) return absl::OkStatus();
    return lexer_.Error(fmt::format("expected '{}'", punct));
  }
  absl::Status ExpectWord(std::string_view word) {
    if (lexer_.TryWord(word)) return absl::OkStatus();
    return lexer_.Error(fmt::format("expected '{}'", word));
  }

  absl::StatusOr<Token> Name(std::string_view what) {
    if (lexer_.peek().kind == Token::kName) return lexer_.Take();
    return lexer_.Error(fmt::format("expected {}", what));
  }

  absl::StatusOr<int64_t> Int(bool negative = false) {
    const Token& token = lexer_.peek();
    int64_t value = 0;
    const char* end = token.text.data() + token.text.size();
    auto [at, error] = std::from_chars(token.text.data(), end, value);
    if (token.kind != Token::kNumber || error != std::errc() || at != end ||
        (value < 0 && !negative)) {
      return lexer_.Error("expected an integer that is not negative");
    }
    lexer_.Take();
    return value;
  }

  absl::Status ParseQueues() {
    ASYRA_RETURN_IF_ERROR(ExpectWord("queues"));
    do {
      Token at = lexer_.peek();
      ASYRA_ASSIGN_OR_RETURN(std::string name, QueueName());
      auto same = [&](const PlanQueue& queue) { return queue.name == name; };
      if (absl::c_any_of(plan_.queues, same)) {
        return lexer_.ErrorAt(at, fmt::format("queue {} is there twice", name));
      }
      bool computes = name.starts_with("compute");
      plan_.queues.push_back({std::move(name), computes});
      if (plan_.queues.size() > kMaxQueues) {
        return lexer_.ErrorAt(at,
                              fmt::format("more than {} queues", kMaxQueues));
      }
    } while (lexer_.TryPunct(","));
    return absl::OkStatus();
  }

  // A word, and maybe a number.
  absl::StatusOr<std::string> QueueName() {
    ASYRA_ASSIGN_OR_RETURN(Token word, Name("the name of a queue"));
    if (lexer_.peek().kind != Token::kNumber) return word.text;
    ASYRA_ASSIGN_OR_RETURN(int64_t number, Int());
    return fmt::format("{} {}", word.text, number);
  }

  absl::StatusOr<int> Queue() {
    Token at = lexer_.peek();
    ASYRA_ASSIGN_OR_RETURN(std::string name, QueueName());
    std::string known;
    for (size_t q = 0; q < plan_.queues.size(); ++q) {
      if (plan_.queues[q].name == name) return static_cast<int>(q);
      known += (q == 0 ? "" : ", ") + plan_.queues[q].name;
    }
    return lexer_.ErrorAt(
        at, fmt::format("there is no queue {}, there are {}", name, known));
  }

  absl::StatusOr<RankSyntax> Rank() {
    RankSyntax rank{.at = lexer_.peek()};
    rank.moves = lexer_.TryWord("r");
    if (!rank.moves) {
      if (lexer_.peek().kind != Token::kNumber) {
        return lexer_.Error("expected a rank: a number, r, r+1, ...");
      }
      ASYRA_ASSIGN_OR_RETURN(rank.number, Int());
      return rank;
    }
    if (lexer_.TryPunct("+")) {
      ASYRA_ASSIGN_OR_RETURN(rank.number, Int());
    } else if (lexer_.TryPunct("-")) {
      ASYRA_ASSIGN_OR_RETURN(rank.number, Int());
      rank.number = -rank.number;
    } else if (lexer_.peek().kind == Token::kNumber &&
               lexer_.peek().text.starts_with('-')) {
      ASYRA_ASSIGN_OR_RETURN(rank.number, Int(/*negative=*/true));
    }
    return rank;
  }

  absl::StatusOr<std::optional<RankSyntax>> OfRank() {
    if (!lexer_.TryWord("of")) return std::nullopt;
    ASYRA_ASSIGN_OR_RETURN(RankSyntax rank, Rank());
    return rank;
  }

  absl::StatusOr<RangeSyntax> Range() {
    RangeSyntax range;
    if (lexer_.TryPunct(":")) return range;
    if (!lexer_.TryPunct("#")) {
      range.kind = RangeSyntax::kElements;
      if (lexer_.peek().kind != Token::kNumber) {
        return lexer_.Error("expected ':', a shard '#r', or elements '0:4'");
      }
      ASYRA_ASSIGN_OR_RETURN(range.first, Int());
      ASYRA_RETURN_IF_ERROR(Expect(":"));
      ASYRA_ASSIGN_OR_RETURN(range.end, Int());
      return range;
    }
    range.kind = RangeSyntax::kShard;
    ASYRA_ASSIGN_OR_RETURN(range.shard, Rank());
    if (!lexer_.TryPunct("(")) return range;
    ASYRA_ASSIGN_OR_RETURN(range.first, Int());
    if (lexer_.TryPunct(":")) {
      ASYRA_ASSIGN_OR_RETURN(range.end, Int());
    } else {
      range.end = range.first + 1;
    }
    ASYRA_RETURN_IF_ERROR(Expect("/"));
    ASYRA_ASSIGN_OR_RETURN(range.parts, Int());
    ASYRA_RETURN_IF_ERROR(Expect(")"));
    return range;
  }

  absl::StatusOr<BoxSyntax> Box() {
    BoxSyntax box{.at = lexer_.peek()};
    ASYRA_RETURN_IF_ERROR(Expect("["));
    if (lexer_.TryPunct("]")) return box;
    do {
      ASYRA_ASSIGN_OR_RETURN(RangeSyntax range, Range());
      box.ranges.push_back(std::move(range));
    } while (lexer_.TryPunct(","));
    ASYRA_RETURN_IF_ERROR(Expect("]"));
    return box;
  }

  absl::StatusOr<RegionSyntax> Region() {
    RegionSyntax region;
    Token::Kind kind = lexer_.peek().kind;
    if (kind != Token::kValue && kind != Token::kName) {
      return lexer_.Error("expected a value of the body, %number, or scratch");
    }
    region.buffer = lexer_.Take();
    if (lexer_.peek().kind == Token::kPunct && lexer_.peek().text == "[") {
      ASYRA_ASSIGN_OR_RETURN(region.box, Box());
    }
    return region;
  }

  absl::Status Regions(std::vector<RegionSyntax>* regions) {
    do {
      ASYRA_ASSIGN_OR_RETURN(RegionSyntax region, Region());
      regions->push_back(std::move(region));
    } while (lexer_.TryPunct(","));
    return absl::OkStatus();
  }

  absl::Status ParseBlock() {
    BlockSyntax block;
    ASYRA_ASSIGN_OR_RETURN(RankSyntax rank, Rank());
    if (rank.moves && rank.number != 0) {
      return lexer_.ErrorAt(rank.at, "a block is of 'rank r', all, or of one");
    }
    if (!rank.moves) block.rank = rank;
    ASYRA_RETURN_IF_ERROR(Expect(":"));
    while (true) {
      if (lexer_.TryWord("scratch")) {
        ASYRA_ASSIGN_OR_RETURN(ScratchSyntax scratch, Scratch());
        block.scratch.push_back(std::move(scratch));
      } else if (lexer_.TryWord("on")) {
        ASYRA_RETURN_IF_ERROR(Steps(&block));
      } else {
        break;
      }
    }
    plan_.blocks.push_back(std::move(block));
    return absl::OkStatus();
  }

  absl::StatusOr<ScratchSyntax> Scratch() {
    ScratchSyntax scratch;
    ASYRA_ASSIGN_OR_RETURN(scratch.name, Name("a name"));
    if (absl::c_linear_search(kWords, scratch.name.text)) {
      return lexer_.ErrorAt(
          scratch.name,
          fmt::format("'{}' is no name of scratch", scratch.name.text));
    }
    ASYRA_RETURN_IF_ERROR(Expect(":"));
    if (lexer_.peek().kind != Token::kValue) {
      return lexer_.Error("expected a value of the body, %number");
    }
    scratch.value = lexer_.Take();
    ASYRA_ASSIGN_OR_RETURN(scratch.box, Box());
    if (lexer_.TryWord("of")) {
      scratch.of_all = lexer_.TryWord("all");
      if (!scratch.of_all) {
        do {
          ASYRA_ASSIGN_OR_RETURN(RankSyntax rank, Rank());
          scratch.summands.push_back(std::move(rank));
        } while (lexer_.TryPunct(","));
      }
    }
    if (lexer_.TryWord("over")) {
      Token::Kind kind = lexer_.peek().kind;
      if (kind != Token::kValue && kind != Token::kName) {
        return lexer_.Error("expected the name of scratch");
      }
      scratch.over = lexer_.Take();
    } else if (lexer_.TryWord("at")) {
      ASYRA_ASSIGN_OR_RETURN(scratch.at, Int());
    }
    return scratch;
  }

  absl::Status Steps(BlockSyntax* block) {
    ASYRA_ASSIGN_OR_RETURN(int queue, Queue());
    ASYRA_RETURN_IF_ERROR(Expect(":"));
    do {
      ASYRA_ASSIGN_OR_RETURN(StepSyntax step, Step());
      step.queue = queue;
      block->steps.push_back(std::move(step));
    } while (lexer_.TryPunct(";"));
    return absl::OkStatus();
  }

  absl::StatusOr<StepSyntax> Step() {
    StepSyntax step{.at = lexer_.peek()};
    absl::Status status;
    if (lexer_.TryWord("piece")) {
      status = Piece(&step);
    } else if (lexer_.TryWord("sum")) {
      status = Sum(&step);
    } else if (lexer_.TryWord("put")) {
      status = Copy(/*puts=*/true, /*gets=*/false, &step);
    } else if (lexer_.TryWord("get")) {
      status = Copy(/*puts=*/false, /*gets=*/true, &step);
    } else if (lexer_.TryWord("copy")) {
      status = Copy(/*puts=*/false, /*gets=*/false, &step);
    } else if (lexer_.TryWord("post")) {
      status = Post(&step);
    } else if (lexer_.TryWord("await")) {
      status = Await(&step);
    } else if (lexer_.TryWord("exchange")) {
      status = Exchange(&step);
    } else {
      status = lexer_.Error(
          "expected a step: piece, sum, put, get, copy, post, await or "
          "exchange");
    }
    if (!status.ok()) return status;
    return step;
  }

  absl::Status Piece(StepSyntax* step) {
    step->kind = PlanStep::kPiece;
    if (lexer_.peek().kind != Token::kValue) {
      return lexer_.Error("expected a value of the body, %number");
    }
    ASYRA_ASSIGN_OR_RETURN(step->write, Region());
    if (lexer_.TryWord("from")) {
      ASYRA_RETURN_IF_ERROR(Regions(&step->reads));
    }
    if (lexer_.TryWord("plus")) {
      ASYRA_ASSIGN_OR_RETURN(step->plus, Region());
    }
    if (!lexer_.TryWord("to")) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(step->to, Region());
    return absl::OkStatus();
  }

  absl::Status Sum(StepSyntax* step) {
    step->kind = PlanStep::kSum;
    if (lexer_.TryWord("in")) {
      ASYRA_RETURN_IF_ERROR(ExpectWord("rank"));
      ASYRA_RETURN_IF_ERROR(ExpectWord("order"));
      step->by_rank = true;
    }
    ASYRA_RETURN_IF_ERROR(Regions(&step->reads));
    ASYRA_RETURN_IF_ERROR(ExpectWord("to"));
    ASYRA_ASSIGN_OR_RETURN(step->write, Region());
    return absl::OkStatus();
  }

  absl::Status Copy(bool puts, bool gets, StepSyntax* step) {
    step->kind = PlanStep::kCopy;
    step->gets = gets;
    ASYRA_ASSIGN_OR_RETURN(RegionSyntax read, Region());
    step->reads.push_back(std::move(read));
    if (gets) ASYRA_RETURN_IF_ERROR(Peer(step));
    ASYRA_RETURN_IF_ERROR(ExpectWord("to"));
    ASYRA_ASSIGN_OR_RETURN(step->write, Region());
    return puts ? Peer(step) : absl::OkStatus();
  }

  absl::Status Peer(StepSyntax* step) {
    ASYRA_RETURN_IF_ERROR(ExpectWord("of"));
    ASYRA_ASSIGN_OR_RETURN(step->peer, Rank());
    return absl::OkStatus();
  }

  absl::Status Post(StepSyntax* step) {
    step->kind = PlanStep::kPost;
    return Signal("to", step);
  }

  absl::Status Await(StepSyntax* step) {
    step->kind = PlanStep::kWait;
    if (lexer_.peek().kind == Token::kNumber) {
      Token at = lexer_.peek();
      ASYRA_ASSIGN_OR_RETURN(step->count, Int());
      if (step->count < 1 || step->count > kMostCount) {
        return lexer_.ErrorAt(at, fmt::format("{} posts, it awaits 1 to {}",
                                              step->count, kMostCount));
      }
    }
    return Signal("from", step);
  }

  absl::Status Exchange(StepSyntax* step) {
    step->kind = PlanStep::kExchange;
    Token at = lexer_.peek();
    ASYRA_ASSIGN_OR_RETURN(step->count, Int());
    if (step->count < 1 || step->count > kMostCount) {
      return lexer_.ErrorAt(at, fmt::format("exchange {}, numbers are 1 to {}",
                                            step->count, kMostCount));
    }
    if (!lexer_.TryWord("send")) return absl::OkStatus();
    do {
      ASYRA_ASSIGN_OR_RETURN(RegionSyntax read, Region());
      ASYRA_RETURN_IF_ERROR(ExpectWord("to"));
      ASYRA_ASSIGN_OR_RETURN(RegionSyntax write, Region());
      ASYRA_RETURN_IF_ERROR(ExpectWord("of"));
      ASYRA_ASSIGN_OR_RETURN(RankSyntax peer, Rank());
      step->reads.push_back(std::move(read));
      step->writes.push_back(std::move(write));
      step->peers.push_back(std::move(peer));
      if (!lexer_.TryPunct(",")) return absl::OkStatus();
    } while (lexer_.TryWord("send"));
    return lexer_.Error("expected 'send'");
  }

  absl::Status Signal(std::string_view word, StepSyntax* step) {
    ASYRA_ASSIGN_OR_RETURN(Token name, Name("the name of a signal"));
    step->signal = name.text;
    ASYRA_RETURN_IF_ERROR(ExpectWord(word));
    ASYRA_ASSIGN_OR_RETURN(step->peer_queue, Queue());
    ASYRA_ASSIGN_OR_RETURN(step->peer, OfRank());
    return absl::OkStatus();
  }

  Lexer& lexer_;
  PlanSyntax plan_;
};

}  // namespace

absl::StatusOr<PlanSyntax> ParsePlanSyntax(Lexer* lexer) {
  return PlanParser(lexer).Parse();
}

}  // namespace asyra
