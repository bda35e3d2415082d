// The plan that a text means for the body of one overlap (ParsePlan).
#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/plans/piece_reads.h"
#include "ir/plans/plan_builder.h"
#include "ir/plans/plan_issue.h"
#include "ir/plans/plan_names.h"
#include "ir/plans/plan_parser.h"
#include "ir/plans/plan_text.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Limits of what is proven in reasonable time and memory: steps of all ranks,
// numbers of their clocks, scratch of a rank, bytes of a buffer.
constexpr int64_t kMostSteps = int64_t{1} << 19;
constexpr int64_t kMostTicks = int64_t{1} << 26;
constexpr size_t kMostScratch = 4096;
constexpr int64_t kMostBytes = int64_t{1} << 48;

class PlanBinder : public PlanNames {
 public:
  PlanBinder(const GroupBody& group, const PlanSyntax& syntax,
             const Lexer& lexer)
      : PlanNames(group, lexer), syntax_(syntax), reads_(group) {}

  absl::StatusOr<ChunkPlan> Bind() {
    int n = group_.ranks;
    if (n < 2 || n > kMaxPlanRanks) {
      return lexer_.ErrorAt(
          syntax_.end, fmt::format("the group has {} ranks, a plan has from 2 "
                                   "to {}",
                                   n, kMaxPlanRanks));
    }
    ASYRA_RETURN_IF_ERROR(CheckSize());
    plan_.ranks = n;
    plan_.body = group_.body;
    plan_.types = group_.types;
    plan_.queues = syntax_.queues;
    plan_.buffers.resize(n);
    plan_.steps.resize(n);
    scratch_.resize(n);
    used_.assign(n, 0);
    for (rank_ = 0; rank_ < n; ++rank_) {
      for (int v = 0; v < group_.body.num_values(); ++v) {
        ASYRA_RETURN_IF_ERROR(
            AddBuffer(BufferOfValue(group_, v, rank_), syntax_.end).status());
      }
    }
    ASYRA_RETURN_IF_ERROR(ForBlocks([&](const BlockSyntax& block) {
      return ForAll(block.scratch, [&](const auto& s) { return Scratch(s); });
    }));
    ASYRA_RETURN_IF_ERROR(ForBlocks([&](const BlockSyntax& block) {
      return ForAll(block.steps, [&](const auto& s) { return Step(s); });
    }));
    OrderOfIssue(&plan_);
    return std::move(plan_);
  }

 private:
  // Calls `bind` for each block and each of its ranks.
  template <typename Bind>
  absl::Status ForBlocks(Bind bind) {
    for (const BlockSyntax& block : syntax_.blocks) {
      is_one_ = block.rank.has_value();
      int first = 0, last = group_.ranks - 1;
      rank_ = 0;
      if (is_one_) {
        ASYRA_ASSIGN_OR_RETURN(first, RankOf(*block.rank));
        last = first;
      }
      for (rank_ = first; rank_ <= last; ++rank_) {
        ASYRA_RETURN_IF_ERROR(bind(block));
      }
    }
    return absl::OkStatus();
  }

  template <typename List, typename Bind>
  static absl::Status ForAll(const List& list, Bind bind) {
    for (const auto& item : list) ASYRA_RETURN_IF_ERROR(bind(item));
    return absl::OkStatus();
  }

  absl::Status CheckSize() const {
    int64_t steps = 0;
    for (const BlockSyntax& block : syntax_.blocks) {
      int64_t ranks = block.rank.has_value() ? 1 : group_.ranks;
      steps += static_cast<int64_t>(block.steps.size()) * ranks;
    }
    auto queues = static_cast<int64_t>(syntax_.queues.size());
    int64_t most = std::min(kMostSteps, kMostTicks / (group_.ranks * queues));
    if (steps <= most) return absl::OkStatus();
    return lexer_.ErrorAt(syntax_.end,
                          fmt::format("the plan has {} steps, at most {} are "
                                      "proven",
                                      steps, most));
  }

  absl::StatusOr<int> AddBuffer(PlanBuffer buffer, const Token& at) {
    int64_t bytes = BytesOf(plan_, buffer);
    if (std::max(bytes, used_[rank_]) > kMostBytes) {
      return Error(at, fmt::format("a buffer of {} bytes behind {}, at most {}",
                                   bytes, used_[rank_], kMostBytes));
    }
    if (buffer.offset >= 0) {
      plan_.workspace_bytes =
          std::max(plan_.workspace_bytes,
                   RoundUp(buffer.offset + bytes, kWorkspaceAlignment));
    }
    return AddPlanBuffer(rank_, std::move(buffer), &used_[rank_], &plan_);
  }

  absl::Status Scratch(const ScratchSyntax& syntax) {
    PlanBuffer buffer;
    ASYRA_ASSIGN_OR_RETURN(buffer.value, ValueOf(syntax.value));
    ASYRA_ASSIGN_OR_RETURN(buffer.box, BoxIn(syntax.box, buffer.value));
    bool partial = !group_.types[buffer.value].partial.empty();
    for (const RankSyntax& of : syntax.summands) {
      ASYRA_ASSIGN_OR_RETURN(int rank, RankOf(of));
      buffer.summands |= OnlyRank(rank);
    }
    if (syntax.of_all || (!partial && syntax.summands.empty())) {
      buffer.summands = AllRanks(group_.ranks);
    } else if (syntax.summands.empty()) {
      buffer.summands = OnlyRank(rank_);
    }
    ASYRA_RETURN_IF_ERROR(SetOffset(syntax, &buffer));
    if (scratch_[rank_].size() == kMostScratch) {
      return Error(syntax.name,
                   fmt::format("more than {} scratch buffers", kMostScratch));
    }
    ASYRA_ASSIGN_OR_RETURN(int made, AddBuffer(std::move(buffer), syntax.name));
    if (scratch_[rank_].emplace(syntax.name.text, made).second) {
      return absl::OkStatus();
    }
    return Error(syntax.name,
                 fmt::format("scratch {} of rank {} is there twice",
                             syntax.name.text, rank_));
  }

  absl::Status SetOffset(const ScratchSyntax& syntax, PlanBuffer* buffer) {
    if (syntax.at >= 0) {
      buffer->offset = syntax.at;
      if (syntax.at % kWorkspaceAlignment == 0 && syntax.at <= kMostBytes) {
        return absl::OkStatus();
      }
      return Error(syntax.name,
                   fmt::format("it is at {}, offsets are multiples of {}, at "
                               "most {}",
                               syntax.at, kWorkspaceAlignment, kMostBytes));
    }
    if (!syntax.over.has_value()) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(int over, BufferOf(*syntax.over, rank_));
    buffer->offset = plan_.buffers[rank_][over].offset;
    if (buffer->offset >= 0) return absl::OkStatus();
    return Error(
        *syntax.over,
        fmt::format(
            "%{} is {} of the op, not scratch", syntax.over->text,
            over < group_.body.num_operands ? "an operand" : "a result"));
  }

  absl::Status Step(const StepSyntax& syntax) {
    PlanStep step{.kind = syntax.kind,
                  .queue = syntax.queue,
                  .line = syntax.at.line,
                  .column = syntax.at.column};
    switch (syntax.kind) {
      case PlanStep::kPiece:
        ASYRA_RETURN_IF_ERROR(Piece(syntax, &step));
        break;
      case PlanStep::kSum:
        ASYRA_RETURN_IF_ERROR(Sum(syntax, &step));
        break;
      case PlanStep::kCopy:
        ASYRA_RETURN_IF_ERROR(Copy(syntax, &step));
        break;
      case PlanStep::kWait:
      case PlanStep::kPost:
        ASYRA_RETURN_IF_ERROR(Signal(syntax, &step));
        break;
      case PlanStep::kExchange:
        ASYRA_RETURN_IF_ERROR(Exchange(syntax, &step));
        break;
    }
    plan_.steps[rank_].push_back(std::move(step));
    return absl::OkStatus();
  }

  absl::Status Piece(const StepSyntax& syntax, PlanStep* step) {
    const Token& at = syntax.write.buffer;
    const Body& body = group_.body;
    ASYRA_ASSIGN_OR_RETURN(int value, ValueOf(at));
    step->op = value - body.num_operands;
    if (step->op < 0) {
      return Error(at, fmt::format("%{} is an operand, no result", value));
    }
    const BodyOp& op = body.ops[step->op];
    if (op.def->collective != CollectiveKind::kNone) {
      return Error(at, fmt::format("%{} is the result of {}, which has no "
                                   "pieces",
                                   value, op.def->name));
    }
    Box box = BoxOf(group_.types[value], rank_, group_.ranks);
    if (syntax.write.box.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(box, BoxIn(*syntax.write.box, value));
    }
    size_t reads = op.operands.size();
    if (!syntax.reads.empty() && syntax.reads.size() != reads) {
      return Error(at, fmt::format("it reads {} operands, {} has {}",
                                   syntax.reads.size(), op.def->name, reads));
    }
    for (size_t k = 0; k < reads; ++k) {
      ASYRA_RETURN_IF_ERROR(ReadOf(syntax, k, box, step));
    }
    if (syntax.plus.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(PlanRegion added,
                             RegionOf(*syntax.plus, rank_, &box));
      step->reads.push_back(std::move(added));
    }
    RegionSyntax to = syntax.to.value_or(RegionSyntax{at, std::nullopt});
    ASYRA_ASSIGN_OR_RETURN(step->write, RegionOf(to, rank_, &box));
    return absl::OkStatus();
  }

  // Adds what a piece with this result reads of operand `k`.
  absl::Status ReadOf(const StepSyntax& syntax, size_t k, const Box& result,
                      PlanStep* step) {
    RegionSyntax read{syntax.write.buffer, std::nullopt};
    read.buffer.text = fmt::format("{}", group_.body.ops[step->op].operands[k]);
    if (!syntax.reads.empty()) read = syntax.reads[k];
    Box box;
    if (!read.box.has_value()) {
      auto known = reads_.Of(step->op, static_cast<int>(k), rank_, result);
      if (!known.ok()) {
        return Error(read.buffer,
                     fmt::format("which part of operand {} does it read? {}", k,
                                 MessageOf(known.status())));
      }
      box = *std::move(known);
    }
    ASYRA_ASSIGN_OR_RETURN(PlanRegion region, RegionOf(read, rank_, &box));
    step->reads.push_back(std::move(region));
    return absl::OkStatus();
  }

  absl::Status Sum(const StepSyntax& syntax, PlanStep* step) {
    ASYRA_ASSIGN_OR_RETURN(step->write, RegionOf(syntax.write, rank_));
    for (const RegionSyntax& read : syntax.reads) {
      ASYRA_ASSIGN_OR_RETURN(PlanRegion region,
                             RegionOf(read, rank_, &step->write.box));
      step->reads.push_back(std::move(region));
    }
    if (!syntax.by_rank) return absl::OkStatus();
    auto first = [&](const PlanRegion& region) {
      return std::countr_zero(plan_.buffer(region).summands);
    };
    absl::c_stable_sort(step->reads, [&](const auto& a, const auto& b) {
      return first(a) < first(b);
    });
    return absl::OkStatus();
  }

  absl::Status Copy(const StepSyntax& syntax, PlanStep* step) {
    int peer = rank_;
    if (syntax.peer.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(peer, RankOf(*syntax.peer));
    }
    ASYRA_ASSIGN_OR_RETURN(
        PlanRegion read, RegionOf(syntax.reads[0], syntax.gets ? peer : rank_));
    ASYRA_ASSIGN_OR_RETURN(
        step->write,
        RegionOf(syntax.write, syntax.gets ? rank_ : peer, &read.box));
    step->reads.push_back(std::move(read));
    return absl::OkStatus();
  }

  absl::Status Exchange(const StepSyntax& syntax, PlanStep* step) {
    step->count = static_cast<int>(syntax.count);
    for (size_t i = 0; i < syntax.reads.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(int peer, RankOf(syntax.peers[i]));
      ASYRA_ASSIGN_OR_RETURN(PlanRegion read, RegionOf(syntax.reads[i], rank_));
      ASYRA_ASSIGN_OR_RETURN(PlanRegion write,
                             RegionOf(syntax.writes[i], peer, &read.box));
      step->reads.push_back(std::move(read));
      step->writes.push_back(std::move(write));
    }
    return absl::OkStatus();
  }

  absl::Status Signal(const StepSyntax& syntax, PlanStep* step) {
    int peer = rank_;
    if (syntax.peer.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(peer, RankOf(*syntax.peer));
    }
    if (peer == rank_ && syntax.peer_queue == syntax.queue) {
      return Error(syntax.at, fmt::format("queue {} runs its steps in order, "
                                          "it needs no signal to itself",
                                          plan_.queues[syntax.queue].name));
    }
    PlanSignal signal{rank_, syntax.queue, peer, syntax.peer_queue,
                      syntax.signal};
    bool posts = syntax.kind == PlanStep::kPost;
    if (!posts) {
      std::swap(signal.from_rank, signal.to_rank);
      std::swap(signal.from_queue, signal.to_queue);
    }
    auto [at, added] =
        signals_.try_emplace({signal.name, signal.from_rank, signal.from_queue,
                              signal.to_rank, signal.to_queue},
                             static_cast<int>(plan_.signals.size()));
    if (added) {
      plan_.signals.push_back(std::move(signal));
      counts_.emplace_back();
    }
    Counts& counts = counts_[at->second];
    step->signal = at->second;
    int64_t count = posts ? ++counts.posts : counts.awaits += syntax.count;
    step->count = static_cast<int>(std::min<int64_t>(count, kMostTicks));
    return absl::OkStatus();
  }

  struct Counts {
    int64_t posts = 0, awaits = 0;
  };

  const PlanSyntax& syntax_;
  PieceReads reads_;
  std::vector<int64_t> used_;  // of the workspace
  std::map<std::tuple<std::string, int, int, int, int>, int> signals_;
  std::vector<Counts> counts_;  // by signal
};

}  // namespace

absl::StatusOr<PlanRef> ParsePlan(const GroupBody& group, Lexer* lexer) {
  ASYRA_ASSIGN_OR_RETURN(PlanSyntax syntax, ParsePlanSyntax(lexer));
  ASYRA_ASSIGN_OR_RETURN(ChunkPlan plan,
                         PlanBinder(group, syntax, *lexer).Bind());
  absl::StatusOr<PlanRef> proven = ProvenPlan(std::move(plan));
  if (proven.ok()) return proven;
  std::string_view why = MessageOf(proven.status());
  // Steps have their places.
  if (why.find("(line ") != std::string_view::npos) return proven.status();
  return lexer->ErrorAt(syntax.end, why);
}

absl::StatusOr<PlanRef> ParsePlan(std::string_view text,
                                  const GroupBody& group) {
  Lexer lexer(text);
  if (!lexer.TryWord("plan")) return lexer.Error("expected 'plan'");
  ASYRA_ASSIGN_OR_RETURN(PlanRef plan, ParsePlan(group, &lexer));
  if (lexer.peek().kind == Token::kEnd) return plan;
  return lexer.Error("expected the end");
}

}  // namespace asyra
