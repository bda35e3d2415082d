#include "ir/verify_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A step of a rank, by number over all ranks.
struct StepId {
  int rank = 0;
  int step = 0;
};

struct Access {
  int node = 0;
  Box box;
};

class PlanVerifier {
 public:
  PlanVerifier(const ChunkPlan& plan, const VerifyPlanOptions& options)
      : plan_(plan), options_(options), same_(SameValues(plan.body)) {}

  absl::Status Verify() {
    ASYRA_RETURN_IF_ERROR(CheckSizes());
    for (int r = 0; r < plan_.ranks; ++r) {
      for (size_t i = 0; i < plan_.steps[r].size(); ++i) {
        int step = static_cast<int>(i);
        ASYRA_RETURN_IF_ERROR(At(r, step, CheckNames(r, plan_.steps[r][i])));
        nodes_.push_back({r, step});
      }
    }
    ASYRA_RETURN_IF_ERROR(CheckMeanings());
    ASYRA_RETURN_IF_ERROR(CheckCounts());
    ASYRA_RETURN_IF_ERROR(FindOrder());
    CollectAccesses();
    ASYRA_RETURN_IF_ERROR(CheckWrites());
    ASYRA_RETURN_IF_ERROR(CheckReads());
    ASYRA_RETURN_IF_ERROR(CheckResults());
    ASYRA_RETURN_IF_ERROR(CheckPeers());
    ASYRA_RETURN_IF_ERROR(CheckMemory());
    return CheckEqualBytes();
  }

 private:
  absl::Status At(int rank, int step, const absl::Status& status) const {
    if (status.ok()) return status;
    return Annotate(status, Describe(plan_, rank, step));
  }
  absl::Status AtNode(int node, const absl::Status& status) const {
    return At(nodes_[node].rank, nodes_[node].step, status);
  }
  std::string Name(int node) const {
    return Describe(plan_, nodes_[node].rank, nodes_[node].step);
  }
  const PlanStep& StepOf(int node) const {
    return plan_.steps[nodes_[node].rank][nodes_[node].step];
  }

  // Names --------------------------------------------------------------------

  absl::Status CheckSizes() const {
    auto ranks = static_cast<size_t>(plan_.ranks);
    if (plan_.ranks < 1 || plan_.ranks > kMaxPlanRanks ||
        plan_.steps.size() != ranks || plan_.buffers.size() != ranks) {
      return Invalid("the plan has {} ranks, steps of {} and buffers of {}",
                     plan_.ranks, plan_.steps.size(), plan_.buffers.size());
    }
    for (size_t r = 0; r < ranks; ++r) {
      for (const PlanBuffer& buffer : plan_.buffers[r]) {
        if (buffer.value < 0 || buffer.value >= plan_.body.num_values() ||
            buffer.box.rank() != plan_.types[buffer.value].rank()) {
          return Invalid("a buffer of rank {} holds %{}, which is no value", r,
                         buffer.value);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRegion(const PlanRegion& region) const {
    if (region.rank < 0 || region.rank >= plan_.ranks || region.buffer < 0 ||
        region.buffer >= static_cast<int>(plan_.buffers[region.rank].size())) {
      return Invalid("there is no buffer {} of rank {}", region.buffer,
                     region.rank);
    }
    const Box& box = plan_.buffer(region).box;
    if (region.box.rank() == box.rank() && box.Contains(region.box) &&
        region.box.elements() > 0) {
      return absl::OkStatus();
    }
    return Invalid("{} is not in {}, which the buffer holds",
                   ToString(region.box), ToString(box));
  }

  absl::Status CheckNames(int rank, const PlanStep& step) const {
    if (step.lane < 0 || step.lane >= static_cast<int>(plan_.lanes.size())) {
      return Invalid("there is no lane {}", step.lane);
    }
    if (step.kind == PlanStep::kWait || step.kind == PlanStep::kPost) {
      return CheckSignal(rank, step);
    }
    for (const PlanRegion& region : step.reads) {
      ASYRA_RETURN_IF_ERROR(CheckRegion(region));
    }
    ASYRA_RETURN_IF_ERROR(CheckRegion(step.write));
    if (plan_.buffer(step.write).role == PlanBuffer::kOperand) {
      return Invalid("it overwrites an operand");
    }
    bool copies = step.kind == PlanStep::kCopy;
    if (!copies && !plan_.lanes[step.lane].computes) {
      return Invalid("lane {} does not compute", plan_.lanes[step.lane].name);
    }
    auto is_own = [&](const PlanRegion& region) { return region.rank == rank; };
    bool own_reads = absl::c_all_of(step.reads, is_own);
    bool local = own_reads && is_own(step.write);
    bool reaches =
        copies && step.reads.size() == 1 && (own_reads || is_own(step.write));
    if (local || reaches) return absl::OkStatus();
    return Invalid("it uses memory of ranks that it is not on");
  }

  absl::Status CheckSignal(int rank, const PlanStep& step) const {
    if (step.signal < 0 ||
        step.signal >= static_cast<int>(plan_.signals.size())) {
      return Invalid("there is no signal {}", step.signal);
    }
    const PlanSignal& signal = plan_.signals[step.signal];
    bool posts = step.kind == PlanStep::kPost;
    int its = posts ? signal.from_rank : signal.to_rank;
    int lane = posts ? signal.from_lane : signal.to_lane;
    if (its == rank && lane == step.lane) return absl::OkStatus();
    return Invalid("the signal is {} by rank {} on lane {}",
                   posts ? "posted" : "awaited", its, lane);
  }

  // Meanings -----------------------------------------------------------------

  absl::Status CheckMeanings() const {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const PlanStep& step = StepOf(static_cast<int>(n));
      absl::Status status = step.kind == PlanStep::kPiece  ? CheckPiece(step)
                            : step.kind == PlanStep::kCopy ? CheckCopy(step)
                            : step.kind == PlanStep::kSum  ? CheckSum(step)
                                                           : absl::OkStatus();
      ASYRA_RETURN_IF_ERROR(AtNode(static_cast<int>(n), status));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSame(const PlanRegion& read, const PlanStep& step) const {
    int from = plan_.buffer(read).value, to = plan_.buffer(step.write).value;
    if (same_[from] != same_[to]) {
      return Invalid("%{} is another value than %{}", from, to);
    }
    if (read.box == step.write.box) return absl::OkStatus();
    return Invalid("it reads {} and writes {}", ToString(read.box),
                   ToString(step.write.box));
  }

  absl::Status CheckCopy(const PlanStep& step) const {
    ASYRA_RETURN_IF_ERROR(CheckSame(step.reads[0], step));
    if (plan_.buffer(step.reads[0]).summands ==
        plan_.buffer(step.write).summands) {
      return absl::OkStatus();
    }
    return Invalid("it moves the summands of ranks {:#x} to those of {:#x}",
                   plan_.buffer(step.reads[0]).summands,
                   plan_.buffer(step.write).summands);
  }

  absl::Status CheckSum(const PlanStep& step) const {
    RankSet added = 0;
    for (const PlanRegion& read : step.reads) {
      ASYRA_RETURN_IF_ERROR(CheckSame(read, step));
      RankSet summands = plan_.buffer(read).summands;
      if ((added & summands) != 0) {
        return Invalid("it adds summands of ranks {:#x} twice",
                       added & summands);
      }
      added |= summands;
    }
    if (added == plan_.buffer(step.write).summands) return absl::OkStatus();
    return Invalid("it adds the summands of ranks {:#x}, not of {:#x}", added,
                   plan_.buffer(step.write).summands);
  }

  // The boxes of operands and result are one part of each factor of the op: in
  // a factor that the result lacks, all that the rank holds.
  absl::Status CheckPiece(const PlanStep& step) const {
    if (step.op < 0 || step.op >= static_cast<int>(plan_.body.ops.size())) {
      return Invalid("there is no op {}", step.op);
    }
    const BodyOp& op = plan_.body.ops[step.op];
    if (op.def->collective != CollectiveKind::kNone ||
        step.reads.size() != op.operands.size()) {
      return Invalid("it cannot be computed from {} boxes", step.reads.size());
    }
    int result = plan_.body.num_operands + step.op;
    std::vector<Type> types;
    for (const Type& type : plan_.types) types.push_back(type.Global());
    ASYRA_ASSIGN_OR_RETURN(
        AxisRule rule, AxisRuleOf(BodyCall(plan_.body, step.op, types).call()));
    std::map<FactorId, std::pair<int64_t, int64_t>> part;
    for (size_t k = 0; k < step.reads.size(); ++k) {
      const PlanRegion& read = step.reads[k];
      if (same_[plan_.buffer(read).value] != same_[op.operands[k]]) {
        return Invalid("operand {} is %{}, not %{}", k, op.operands[k],
                       plan_.buffer(read).value);
      }
      ASYRA_RETURN_IF_ERROR(
          CheckSummands(read, op.operands[k], fmt::format("operand {}", k)));
      ASYRA_RETURN_IF_ERROR(CheckPart(rule, rule.operands[k], read,
                                      op.operands[k], rule.results[0], &part));
    }
    if (plan_.buffer(step.write).value != result) {
      return Invalid("it writes %{}, its result is %{}",
                     plan_.buffer(step.write).value, result);
    }
    ASYRA_RETURN_IF_ERROR(CheckSummands(step.write, result, "the result"));
    return CheckPart(rule, rule.results[0], step.write, result, rule.results[0],
                     &part);
  }

  absl::Status CheckSummands(const PlanRegion& region, int value,
                             std::string_view what) const {
    RankSet want = plan_.types[value].partial.empty() ? AllRanks(plan_.ranks)
                                                      : OnlyRank(region.rank);
    if (plan_.buffer(region).summands == want) return absl::OkStatus();
    return Invalid("{} has the summands of ranks {:#x}, not of {:#x}", what,
                   plan_.buffer(region).summands, want);
  }

  absl::Status CheckPart(
      const AxisRule& rule, const OperandFactors& dims,
      const PlanRegion& region, int value, const OperandFactors& result,
      std::map<FactorId, std::pair<int64_t, int64_t>>* part) const {
    Box held = BoxOf(plan_.types[value], region.rank, plan_.ranks);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) continue;
      int64_t inner = 1;
      for (size_t i = 1; i < dims[d].size(); ++i) {
        inner *= rule.factors[dims[d][i]].size;
      }
      int64_t start = region.box.start[d], size = region.box.size[d];
      FactorId id = dims[d][0];
      const Factor& factor = rule.factors[id];
      bool parallel = factor.kind == FactorKind::kParallel &&
                      absl::c_any_of(result, [&](const DimFactors& of) {
                        return absl::c_linear_search(of, id);
                      });
      if (!parallel && (start != held.start[d] || size != held.size[d])) {
        return Invalid(
            "dim {} of %{} is {}:{}, an op that does not compute its parts "
            "separately needs {}:{}",
            d, value, start, start + size, held.start[d],
            held.start[d] + held.size[d]);
      }
      if (inner == 0 || start % inner != 0 || size % inner != 0) {
        return Invalid("dim {} of %{} is cut inside its outermost factor", d,
                       value);
      }
      std::pair<int64_t, int64_t> mine = {start / inner, size / inner};
      auto [at, fresh] = part->try_emplace(id, mine);
      if (fresh || at->second == mine || factor.size == 1) continue;
      return Invalid("dim {} of %{} is part {}:{} of a factor, elsewhere {}:{}",
                     d, value, mine.first, mine.first + mine.second,
                     at->second.first, at->second.first + at->second.second);
    }
    return absl::OkStatus();
  }

  // Signals and order --------------------------------------------------------

  absl::Status CheckCounts() {
    std::vector<int> posted(plan_.signals.size(), 0), awaited = posted;
    std::vector<int> last_post(plan_.signals.size(), -1);
    post_of_.resize(plan_.signals.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const PlanStep& step = StepOf(static_cast<int>(n));
      bool posts = step.kind == PlanStep::kPost;
      if (!posts && step.kind != PlanStep::kWait) continue;
      int& count = (posts ? posted : awaited)[step.signal];
      bool follows = posts ? step.count == count + 1 : step.count > count;
      if (!follows) {
        return AtNode(
            static_cast<int>(n),
            Invalid("count {} comes after count {}", step.count, count));
      }
      count = step.count;
      if (!posts) continue;
      post_of_[step.signal].push_back(static_cast<int>(n));
      last_post[step.signal] = static_cast<int>(n);
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const PlanStep& step = StepOf(static_cast<int>(n));
      if (step.kind != PlanStep::kWait || step.count <= posted[step.signal]) {
        continue;
      }
      return AtNode(static_cast<int>(n),
                    Invalid("it is posted {} times only", posted[step.signal]));
    }
    for (size_t s = 0; s < posted.size(); ++s) {
      if (posted[s] == awaited[s]) continue;
      return AtNode(
          last_post[s],
          Invalid("nobody waits for it, only for count {}", awaited[s]));
    }
    return absl::OkStatus();
  }

  int QueueOf(int lane) const {
    return options_.queues > 0 ? lane % options_.queues : lane;
  }
  int num_lanes() const { return static_cast<int>(plan_.lanes.size()); }
  int Slot(int node) const {
    return nodes_[node].rank * num_lanes() + StepOf(node).lane;
  }

  // Vector clocks, in an order in which the steps can run.
  absl::Status FindOrder() {
    int slots = plan_.ranks * num_lanes();
    clock_.assign(nodes_.size(), std::vector<int>(slots, 0));
    position_.assign(nodes_.size(), 0);
    passed_.assign(slots, 0);
    last_of_lane_.assign(slots, -1);
    std::vector<bool> done(nodes_.size(), false);
    // By rank and queue, its steps in order of issue.
    std::map<std::pair<int, int>, std::vector<int>> queues;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      int node = static_cast<int>(n);
      queues[{nodes_[n].rank, QueueOf(StepOf(node).lane)}].push_back(node);
    }
    std::map<std::pair<int, int>, size_t> next;
    size_t finished = 0;
    for (bool progress = true; progress;) {
      progress = false;
      for (auto& [key, queue] : queues) {
        size_t& at = next[key];
        while (at < queue.size() && CanRun(queue[at], done)) {
          int node = queue[at++];
          Run(node);
          done[node] = true;
          ++finished;
          progress = true;
        }
      }
    }
    if (finished == nodes_.size()) return absl::OkStatus();
    for (auto& [key, queue] : queues) {
      if (next[key] == queue.size()) continue;
      int node = queue[next[key]];
      int post = post_of_[StepOf(node).signal][StepOf(node).count - 1];
      return AtNode(node, Invalid("a deadlock: it waits for {}, which waits "
                                  "for this in the end",
                                  Name(post)));
    }
    return absl::OkStatus();
  }

  bool CanRun(int node, const std::vector<bool>& done) const {
    const PlanStep& step = StepOf(node);
    return step.kind != PlanStep::kWait ||
           done[post_of_[step.signal][step.count - 1]];
  }

  void Run(int node) {
    auto join = [&](int earlier) {
      for (size_t s = 0; s < clock_[node].size(); ++s) {
        clock_[node][s] = std::max(clock_[node][s], clock_[earlier][s]);
      }
    };
    const PlanStep& step = StepOf(node);
    int slot = Slot(node);
    if (last_of_lane_[slot] >= 0) join(last_of_lane_[slot]);
    if (step.kind == PlanStep::kWait) {
      join(post_of_[step.signal][step.count - 1]);
    }
    position_[node] = ++passed_[slot];
    clock_[node][slot] = position_[node];
    last_of_lane_[slot] = node;
  }

  bool Before(int a, int b) const {
    return a != b && clock_[b][Slot(a)] >= position_[a];
  }
  // The op of the rank has begun before the step.
  bool BegunBefore(int rank, int node) const {
    if (nodes_[node].rank == rank) return true;
    for (int lane = 0; lane < num_lanes(); ++lane) {
      if (clock_[node][rank * num_lanes() + lane] > 0) return true;
    }
    return false;
  }
  // It ends only after the step.
  bool EndsAfter(int rank, int node) const {
    if (nodes_[node].rank == rank) return true;
    for (int lane = 0; lane < num_lanes(); ++lane) {
      int end = last_of_lane_[rank * num_lanes() + lane];
      if (end >= 0 && Before(node, end)) return true;
    }
    return false;
  }

  // Accesses -----------------------------------------------------------------

  void CollectAccesses() {
    for (int r = 0; r < plan_.ranks; ++r) {
      reads_.emplace_back(plan_.buffers[r].size());
      writes_.emplace_back(plan_.buffers[r].size());
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const PlanStep& step = StepOf(static_cast<int>(n));
      if (step.kind == PlanStep::kWait || step.kind == PlanStep::kPost) {
        continue;
      }
      for (const PlanRegion& region : step.reads) {
        reads_[region.rank][region.buffer].push_back(
            {static_cast<int>(n), region.box});
      }
      writes_[step.write.rank][step.write.buffer].push_back(
          {static_cast<int>(n), step.write.box});
    }
  }

  absl::Status CheckWrites() const {
    for (const auto& of_rank : writes_) {
      for (const std::vector<Access>& writes : of_rank) {
        for (size_t i = 0; i < writes.size(); ++i) {
          for (size_t j = 0; j < i; ++j) {
            Box both = Intersection(writes[i].box, writes[j].box);
            if (both.elements() == 0) continue;
            return AtNode(writes[i].node,
                          Invalid("{} is also written by {}", ToString(both),
                                  Name(writes[j].node)));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckReads() const {
    for (int r = 0; r < plan_.ranks; ++r) {
      for (size_t b = 0; b < reads_[r].size(); ++b) {
        if (plan_.buffers[r][b].role == PlanBuffer::kOperand) continue;
        for (const Access& read : reads_[r][b]) {
          ASYRA_RETURN_IF_ERROR(CheckRead(read, writes_[r][b]));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRead(const Access& read,
                         const std::vector<Access>& writes) const {
    int64_t covered = 0;
    int early = -1;
    for (const Access& write : writes) {
      int64_t both = Intersection(read.box, write.box).elements();
      if (both == 0) continue;
      Before(write.node, read.node) ? covered += both : early = write.node;
    }
    if (covered == read.box.elements()) return absl::OkStatus();
    if (early >= 0) {
      return AtNode(read.node, Invalid("it may come before what it reads, {}",
                                       Name(early)));
    }
    return AtNode(read.node,
                  Invalid("of {} elements that it reads, {} are written",
                          read.box.elements(), covered));
  }

  absl::Status CheckResults() const {
    for (int r = 0; r < plan_.ranks; ++r) {
      for (size_t b = 0; b < writes_[r].size(); ++b) {
        const PlanBuffer& buffer = plan_.buffers[r][b];
        if (buffer.role != PlanBuffer::kResult) continue;
        int64_t written = 0;
        for (const Access& write : writes_[r][b]) {
          written += write.box.elements();
        }
        if (written == buffer.box.elements()) continue;
        return Invalid("rank {}: of {} elements of %{}, {} are computed", r,
                       buffer.box.elements(), buffer.value, written);
      }
    }
    return absl::OkStatus();
  }

  // Others use a rank's memory while its op runs.
  absl::Status CheckPeers() const {
    for (int r = 0; r < plan_.ranks; ++r) {
      for (const auto* accesses : {&reads_[r], &writes_[r]}) {
        for (const std::vector<Access>& of_buffer : *accesses) {
          for (const Access& access : of_buffer) {
            if (!BegunBefore(r, access.node)) {
              return AtNode(access.node,
                            Invalid("rank {} may not have come yet", r));
            }
            if (EndsAfter(r, access.node)) continue;
            return AtNode(
                access.node,
                Invalid("rank {} may have gone on: it gets no acknowledgement",
                        r));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Memory -------------------------------------------------------------------

  absl::Status CheckMemory() const {
    int64_t most = options_.most_workspace_bytes;
    if (most > 0 && plan_.workspace_bytes > most) {
      return Invalid("the workspace has {} bytes, {} are allowed",
                     plan_.workspace_bytes, most);
    }
    for (int r = 0; r < plan_.ranks; ++r) {
      const std::vector<PlanBuffer>& buffers = plan_.buffers[r];
      for (size_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].role != PlanBuffer::kScratch) continue;
        int64_t end = buffers[b].offset + BytesOf(plan_, buffers[b]);
        if (buffers[b].offset < 0 || end > plan_.workspace_bytes) {
          return Invalid(
              "rank {}: buffer {} ends at byte {} of a workspace of {}", r, b,
              end, plan_.workspace_bytes);
        }
        for (size_t c = 0; c < b; ++c) {
          ASYRA_RETURN_IF_ERROR(CheckReuse(r, c, b));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckReuse(int rank, size_t a, size_t b) const {
    const PlanBuffer& one = plan_.buffers[rank][a];
    const PlanBuffer& two = plan_.buffers[rank][b];
    if (one.role != PlanBuffer::kScratch ||
        one.offset >= two.offset + BytesOf(plan_, two) ||
        two.offset >= one.offset + BytesOf(plan_, one)) {
      return absl::OkStatus();
    }
    int late = -1, early = -1;
    if (AllBefore(rank, a, b, &late, &early) ||
        AllBefore(rank, b, a, nullptr, nullptr)) {
      return absl::OkStatus();
    }
    return AtNode(late, Invalid("it may come before {}, which uses the same "
                                "memory: there is no acknowledgement",
                                Name(early)));
  }

  // Every access of buffer `a` is before every one of `b`; else a pair that is
  // not.
  bool AllBefore(int rank, size_t a, size_t b, int* late, int* early) const {
    for (const auto* first : {&reads_[rank][a], &writes_[rank][a]}) {
      for (const Access& x : *first) {
        for (const auto* second : {&writes_[rank][b], &reads_[rank][b]}) {
          for (const Access& y : *second) {
            if (Before(x.node, y.node)) continue;
            if (late != nullptr) *late = y.node;
            if (early != nullptr) *early = x.node;
            return false;
          }
        }
      }
    }
    return true;
  }

  // Equal bytes --------------------------------------------------------------

  // What pieces and sums of complete values compute on several ranks.
  absl::Status CheckEqualBytes() const {
    struct Made {
      int node;
      Box box;
      std::vector<RankSet> added;
    };
    std::map<int, std::vector<Made>> made;  // by value
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const PlanStep& step = StepOf(static_cast<int>(n));
      if (step.kind != PlanStep::kPiece && step.kind != PlanStep::kSum) {
        continue;
      }
      const PlanBuffer& to = plan_.buffer(step.write);
      if (to.summands != AllRanks(plan_.ranks)) continue;
      Made mine{static_cast<int>(n), step.write.box, {}};
      if (step.kind == PlanStep::kSum) {
        for (const PlanRegion& read : step.reads) {
          mine.added.push_back(plan_.buffer(read).summands);
        }
      }
      for (const Made& other : made[to.value]) {
        if (nodes_[other.node].rank == nodes_[n].rank) continue;
        if (Intersection(other.box, mine.box).elements() == 0) continue;
        if (other.box == mine.box && other.added == mine.added) continue;
        return AtNode(
            mine.node,
            Invalid("its bytes may differ from those of {}", Name(other.node)));
      }
      made[to.value].push_back(std::move(mine));
    }
    return absl::OkStatus();
  }

  const ChunkPlan& plan_;
  const VerifyPlanOptions& options_;
  std::vector<int> same_;  // SameValues
  std::vector<StepId> nodes_;
  std::vector<std::vector<int>> post_of_;   // by signal, nodes by count
  std::vector<std::vector<int>> clock_;     // by node and slot
  std::vector<int> position_;               // by node, on its lane, from 1
  std::vector<int> passed_, last_of_lane_;  // by slot, while they run
  // By rank and buffer.
  std::vector<std::vector<std::vector<Access>>> reads_, writes_;
};

}  // namespace

absl::Status VerifyPlan(const ChunkPlan& plan,
                        const VerifyPlanOptions& options) {
  return PlanVerifier(plan, options).Verify();
}

}  // namespace asyra
