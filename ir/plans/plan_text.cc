#include "ir/plans/plan_text.h"

#include <bit>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/plans/piece_reads.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra {
namespace {

constexpr size_t kLineWidth = 72;
constexpr char kRankHere = '\1';

// A text with a mark for each rank in it: ranks that do the same have equal
// texts.
struct RankText {
  std::string text;
  std::vector<int> ranks;

  RankText& operator<<(std::string_view more) {
    text += more;
    return *this;
  }
  RankText& operator<<(int rank) {
    text += kRankHere;
    ranks.push_back(rank);
    return *this;
  }
};

// Puts `words` in the place of the marks.
std::string Filled(const RankText& text, absl::Span<const std::string> words) {
  std::string filled;
  size_t next = 0;
  for (char c : text.text) {
    if (c == kRankHere) {
      filled += words[next++];
    } else {
      filled += c;
    }
  }
  return filled;
}

std::string Absolute(const RankText& text) {
  std::vector<std::string> words;
  for (int rank : text.ranks) words.push_back(fmt::format("{}", rank));
  return Filled(text, words);
}

// The text of all ranks in terms of `r`, if there is one. `texts` by rank.
std::optional<std::string> Symbolic(absl::Span<const RankText> texts) {
  auto n = static_cast<int>(texts.size());
  const RankText& first = texts[0];
  std::vector<std::string> words;
  for (size_t i = 0; i < first.ranks.size(); ++i) {
    bool fixed = true, moves = true;
    for (int r = 0; r < n; ++r) {
      if (texts[r].text != first.text) return std::nullopt;
      fixed &= texts[r].ranks[i] == first.ranks[i];
      moves &= texts[r].ranks[i] == (first.ranks[i] + r) % n;
    }
    int k = first.ranks[i];
    if (fixed) {
      words.push_back(fmt::format("{}", k));
    } else if (!moves) {
      return std::nullopt;
    } else if (k == 0) {
      words.emplace_back("r");
    } else {
      words.push_back(2 * k <= n ? fmt::format("r+{}", k)
                                 : fmt::format("r-{}", n - k));
    }
  }
  for (const RankText& text : texts) {
    if (text.text != first.text) return std::nullopt;
  }
  return Filled(first, words);
}

// One line or step of a rank.
struct Item {
  int queue = -1;  // none: of scratch memory
  RankText text;
  // The same of a sum in the order of ranks.
  std::optional<RankText> by_rank = std::nullopt;
};

class RankPrinter {
 public:
  RankPrinter(const ChunkPlan& plan, const PieceReads& reads,
              const std::vector<std::string>& signals, int rank)
      : plan_(plan),
        reads_(reads),
        signals_(signals),
        rank_(rank),
        awaited_(plan.signals.size(), 0) {}

  std::vector<Item> Items() {
    std::vector<Item> items;
    const std::vector<PlanBuffer>& buffers = plan_.buffers[rank_];
    int64_t used = 0;
    for (size_t b = 0; b < buffers.size(); ++b) {
      if (static_cast<int>(b) >= plan_.body.num_values()) {
        items.push_back({-1, Scratch(static_cast<int>(b), used)});
      }
      if (buffers[b].offset == used) {
        used += RoundUp(BytesOf(plan_, buffers[b]), kWorkspaceAlignment);
      }
    }
    for (size_t queue = 0; queue < plan_.queues.size(); ++queue) {
      for (const PlanStep& step : plan_.steps[rank_]) {
        if (step.queue == static_cast<int>(queue)) items.push_back(Step(step));
      }
    }
    return items;
  }

 private:
  std::string Name(int buffer) const {
    int values = plan_.body.num_values();
    return buffer < values ? fmt::format("%{}", buffer)
                           : fmt::format("s{}", buffer - values);
  }
  int FromHere(int rank) const {
    return (rank - rank_ + plan_.ranks) % plan_.ranks;
  }
  RankSet SummandsOf(const PlanRegion& region) const {
    return plan_.buffer(region).summands;
  }

  RankText Scratch(int index, int64_t used) const {
    const std::vector<PlanBuffer>& buffers = plan_.buffers[rank_];
    const PlanBuffer& buffer = buffers[index];
    RankText text;
    text << "scratch " << Name(index) << ": "
         << fmt::format("%{}", buffer.value);
    AddBox(buffer.box, buffer.value, &text);
    bool partial = !plan_.types[buffer.value].partial.empty();
    if (buffer.summands !=
        (partial ? OnlyRank(rank_) : AllRanks(plan_.ranks))) {
      AddSummands(buffer.summands, &text);
    }
    if (buffer.offset == used) return text;
    for (int b = 0; b < index; ++b) {
      if (buffers[b].role != PlanBuffer::kScratch ||
          buffers[b].offset != buffer.offset) {
        continue;
      }
      text << " over " << Name(b);
      return text;
    }
    text << fmt::format(" at {}", buffer.offset);
    return text;
  }

  void AddSummands(RankSet summands, RankText* text) const {
    *text << " of ";
    if (summands == AllRanks(plan_.ranks)) {
      *text << "all";
      return;
    }
    bool first = true;
    for (int k = 0; k < plan_.ranks; ++k) {
      int rank = (rank_ + k) % plan_.ranks;
      if ((summands & OnlyRank(rank)) == 0) continue;
      *text << (first ? "" : ", ") << rank;
      first = false;
    }
  }

  void AddBox(const Box& box, int value, RankText* text) const {
    *text << "[";
    for (int d = 0; d < box.rank(); ++d) {
      if (d > 0) *text << ", ";
      AddRange(box.start[d], box.size[d], plan_.types[value].size(d), text);
    }
    *text << "]";
  }

  void AddRange(int64_t start, int64_t size, int64_t total,
                RankText* text) const {
    if (start == 0 && size == total) {
      *text << ":";
      return;
    }
    if (total % plan_.ranks != 0) {
      *text << fmt::format("{}:{}", start, start + size);
      return;
    }
    int64_t shard = total / plan_.ranks, inside = start % shard;
    *text << "#" << static_cast<int>(start / shard);
    if (inside == 0 && size == shard) return;
    int64_t unit = std::gcd(std::gcd(shard, inside), size);
    int64_t first = inside / unit, count = size / unit;
    *text << (count == 1 ? fmt::format("({}/{})", first, shard / unit)
                         : fmt::format("({}:{}/{})", first, first + count,
                                       shard / unit));
  }

  Item Step(const PlanStep& step) {
    Item item{step.queue, TextOf(step)};
    if (step.kind == PlanStep::kSum && IsByRank(step)) {
      item.by_rank = SumByRank(step);
    }
    return item;
  }

  RankText TextOf(const PlanStep& step) {
    switch (step.kind) {
      case PlanStep::kPiece:
        return Piece(step);
      case PlanStep::kCopy:
        return Copy(step);
      case PlanStep::kSum:
        return Sum(step, step.reads, "sum ");
      case PlanStep::kWait:
        return Wait(step);
      case PlanStep::kExchange:
        return Exchange(step);
      case PlanStep::kPost:
        break;
    }
    const PlanSignal& signal = plan_.signals[step.signal];
    RankText text;
    text << "post " << signals_[step.signal] << " to ";
    AddQueue(signal.to_queue, signal.to_rank, &text);
    return text;
  }

  RankText Wait(const PlanStep& step) {
    const PlanSignal& signal = plan_.signals[step.signal];
    int more = step.count - awaited_[step.signal];
    awaited_[step.signal] = step.count;
    RankText text;
    text << "await " << (more == 1 ? "" : fmt::format("{} ", more))
         << signals_[step.signal] << " from ";
    AddQueue(signal.from_queue, signal.from_rank, &text);
    return text;
  }

  void AddQueue(int queue, int rank, RankText* text) const {
    *text << plan_.queues[queue].name;
    if (rank != rank_) *text << " of " << rank;
  }

  RankText Copy(const PlanStep& step) const {
    const PlanRegion& read = step.reads[0];
    bool puts = step.write.rank != rank_, gets = read.rank != rank_;
    RankText text;
    text << (puts ? "put " : gets ? "get " : "copy ") << Name(read.buffer);
    AddBox(read.box, plan_.buffer(read).value, &text);
    if (gets) text << " of " << read.rank;
    text << " to " << Name(step.write.buffer);
    if (puts) text << " of " << step.write.rank;
    return text;
  }

  RankText Exchange(const PlanStep& step) const {
    RankText text;
    text << fmt::format("exchange {}", step.count);
    for (size_t i = 0; i < step.reads.size(); ++i) {
      const PlanRegion& read = step.reads[i];
      text << (i == 0 ? " send " : ", send ") << Name(read.buffer);
      AddBox(read.box, plan_.buffer(read).value, &text);
      text << " to " << Name(step.writes[i].buffer) << " of "
           << step.writes[i].rank;
    }
    return text;
  }

  RankText Piece(const PlanStep& step) const {
    const BodyOp& op = plan_.body.ops[step.op];
    int value = plan_.body.num_operands + step.op;
    RankText text;
    text << fmt::format("piece %{}", value);
    AddBox(step.write.box, value, &text);
    RankText from;
    bool says = false;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const PlanRegion& read = step.reads[k];
      auto known =
          reads_.Of(step.op, static_cast<int>(k), rank_, step.write.box);
      from << (k == 0 ? " from " : ", ") << Name(read.buffer);
      bool same_box = known.ok() && *known == read.box;
      if (!same_box) AddBox(read.box, op.operands[k], &from);
      says |= !same_box || read.buffer != op.operands[k];
    }
    if (says) {
      text.text += from.text;
      text.ranks.insert(text.ranks.end(), from.ranks.begin(), from.ranks.end());
    }
    if (AddsToResult(plan_, step)) {
      text << " plus " << Name(step.reads.back().buffer);
    }
    if (step.write.buffer != value) text << " to " << Name(step.write.buffer);
    return text;
  }

  RankText Sum(const PlanStep& step, absl::Span<const PlanRegion> reads,
               std::string_view verb) const {
    RankText text;
    text << verb;
    for (size_t k = 0; k < reads.size(); ++k) {
      text << (k == 0 ? "" : ", ") << Name(reads[k].buffer);
    }
    text << " to " << Name(step.write.buffer);
    AddBox(step.write.box, plan_.buffer(step.write).value, &text);
    return text;
  }

  bool IsByRank(const PlanStep& step) const {
    return absl::c_is_sorted(step.reads, [&](const auto& a, const auto& b) {
      return FirstRank(SummandsOf(a)) < FirstRank(SummandsOf(b));
    });
  }
  static int FirstRank(RankSet set) { return std::countr_zero(set); }

  RankText SumByRank(const PlanStep& step) const {
    std::vector<PlanRegion> reads = step.reads;
    absl::c_stable_sort(reads, [&](const auto& a, const auto& b) {
      return FromHere(FirstRank(SummandsOf(a))) <
             FromHere(FirstRank(SummandsOf(b)));
    });
    return Sum(step, reads, "sum in rank order ");
  }

  const ChunkPlan& plan_;
  const PieceReads& reads_;
  const std::vector<std::string>& signals_;  // names
  const int rank_;
  std::vector<int> awaited_;  // by signal
};

// Names of signals, different between the same queues.
std::vector<std::string> SignalNames(const ChunkPlan& plan) {
  std::set<std::tuple<std::string, int, int, int, int>> taken;
  std::vector<std::string> names;
  for (const PlanSignal& s : plan.signals) {
    std::string name = s.name;
    for (int k = 2;
         !taken.emplace(name, s.from_rank, s.from_queue, s.to_rank, s.to_queue)
              .second;
         ++k) {
      name = fmt::format("{}{}", s.name, k);
    }
    names.push_back(std::move(name));
  }
  return names;
}

struct Line {
  int queue;
  std::string text;
};

// The lines of all ranks in terms of `r`; nothing if they differ.
std::vector<Line> SymbolicLines(absl::Span<const std::vector<Item>> ranks) {
  std::vector<Line> lines;
  for (size_t i = 0; i < ranks[0].size(); ++i) {
    std::vector<RankText> texts, by_rank;
    for (const std::vector<Item>& items : ranks) {
      if (items.size() != ranks[0].size() ||
          items[i].queue != ranks[0][i].queue) {
        return {};
      }
      texts.push_back(items[i].text);
      if (items[i].by_rank.has_value()) by_rank.push_back(*items[i].by_rank);
    }
    std::optional<std::string> text = Symbolic(texts);
    if (!text.has_value() && by_rank.size() == ranks.size()) {
      text = Symbolic(by_rank);
    }
    if (!text.has_value()) return {};
    lines.push_back({ranks[0][i].queue, *std::move(text)});
  }
  return lines;
}

// Adds a block: the steps of a queue share lines.
void AddBlock(const ChunkPlan& plan, std::string_view rank,
              const std::vector<Line>& lines, std::vector<std::string>* out) {
  out->push_back(fmt::format("rank {}:", rank));
  int queue = -1;
  for (const Line& line : lines) {
    bool follows = queue >= 0 && line.queue == queue;
    queue = line.queue;
    if (follows) {
      out->back() += ";";
      if (out->back().size() + line.text.size() < kLineWidth) {
        out->back() += " " + line.text;
      } else {
        out->push_back("      " + line.text);
      }
    } else if (queue >= 0) {
      out->push_back(
          fmt::format("  on {}: {}", plan.queues[queue].name, line.text));
    } else {
      out->push_back("  " + line.text);
    }
  }
}

}  // namespace

std::vector<std::string> PlanLines(const ChunkPlan& plan) {
  std::string queues;
  for (const PlanQueue& queue : plan.queues) {
    queues += (queues.empty() ? "queues " : ", ") + queue.name;
  }
  std::vector<std::string> out = {queues};
  GroupBody group{plan.ranks, plan.body, plan.types};
  PieceReads reads(group);
  std::vector<std::string> signals = SignalNames(plan);
  std::vector<std::vector<Item>> ranks;
  for (int r = 0; r < plan.ranks; ++r) {
    ranks.push_back(RankPrinter(plan, reads, signals, r).Items());
  }
  std::vector<Line> symbolic = SymbolicLines(ranks);
  if (!symbolic.empty()) {
    AddBlock(plan, "r", symbolic, &out);
    return out;
  }
  for (int r = 0; r < plan.ranks; ++r) {
    std::vector<Line> lines;
    for (const Item& item : ranks[r]) {
      lines.push_back({item.queue, Absolute(item.text)});
    }
    AddBlock(plan, fmt::format("{}", r), lines, &out);
  }
  return out;
}

std::string PrintPlan(const ChunkPlan& plan) {
  std::string text = "plan {\n";
  for (const std::string& line : PlanLines(plan)) text += "  " + line + "\n";
  return text + "}\n";
}

}  // namespace asyra
