#include "ir/plans/plan_memory_check.h"

#include <map>
#include <vector>

#include "ir/support/status.h"

namespace asyra {
namespace {

struct Access {
  int node = 0;
  Box box;
};

class MemoryCheck {
 public:
  MemoryCheck(const ChunkPlan& plan, const PlanExchanges& exchanges,
              const PlanClocks& clocks, int64_t most_workspace_bytes)
      : plan_(plan),
        exchanges_(exchanges),
        clocks_(clocks),
        most_workspace_bytes_(most_workspace_bytes) {}

  absl::Status Check() {
    CollectAccesses();
    ASYRA_RETURN_IF_ERROR(CheckWrites());
    ASYRA_RETURN_IF_ERROR(CheckReads());
    ASYRA_RETURN_IF_ERROR(CheckResults());
    ASYRA_RETURN_IF_ERROR(CheckPeers());
    ASYRA_RETURN_IF_ERROR(CheckMemory());
    return CheckEqualBytes();
  }

 private:
  void CollectAccesses() {
    for (int r = 0; r < plan_.ranks; ++r) {
      reads_.emplace_back(plan_.buffers[r].size());
      writes_.emplace_back(plan_.buffers[r].size());
    }
    for (int n = 0; n < clocks_.size(); ++n) {
      const PlanStep& step = clocks_.StepOf(n);
      if (step.kind == PlanStep::kWait || step.kind == PlanStep::kPost) {
        continue;
      }
      for (const PlanRegion& region : step.reads) {
        reads_[region.rank][region.buffer].push_back({n, region.box});
      }
      if (step.kind == PlanStep::kExchange) {
        AddIncoming(n, step.count);
        continue;
      }
      writes_[step.write.rank][step.write.buffer].push_back(
          {n, step.write.box});
    }
  }

  // The receiver's step writes what comes.
  void AddIncoming(int node, int number) {
    for (const PlanExchanges::Message& message :
         exchanges_.Incoming(clocks_.RankOf(node), number)) {
      const PlanRegion& write = message.write;
      writes_[write.rank][write.buffer].push_back({node, write.box});
    }
  }

  absl::Status CheckWrites() const {
    for (const auto& of_rank : writes_) {
      for (const std::vector<Access>& writes : of_rank) {
        for (size_t i = 0; i < writes.size(); ++i) {
          for (size_t j = 0; j < i; ++j) {
            if (!Overlap(writes[i].box, writes[j].box)) continue;
            Box both = Intersection(writes[i].box, writes[j].box);
            return clocks_.At(
                writes[i].node,
                Invalid("{} is also written by {}", ToString(both),
                        clocks_.Name(writes[j].node)));
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
      clocks_.Before(write.node, read.node) ? covered += both
                                            : early = write.node;
    }
    if (covered == read.box.elements()) return absl::OkStatus();
    if (early >= 0) {
      return clocks_.At(
          read.node,
          Invalid("it may come before what it reads, {}", clocks_.Name(early)));
    }
    return clocks_.At(read.node,
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
            if (!clocks_.BegunBefore(r, access.node)) {
              return clocks_.At(access.node,
                                Invalid("rank {} may not have come yet", r));
            }
            if (clocks_.EndsAfter(r, access.node)) continue;
            return clocks_.At(
                access.node,
                Invalid("rank {} may have gone on: it gets no acknowledgement",
                        r));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckMemory() const {
    int64_t most = most_workspace_bytes_;
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
    return clocks_.At(late,
                      Invalid("it may come before {}, which uses the same "
                              "memory: there is no acknowledgement",
                              clocks_.Name(early)));
  }

  // Every access of buffer `a` is before every one of `b`; else a pair that is
  // not.
  bool AllBefore(int rank, size_t a, size_t b, int* late, int* early) const {
    for (const auto* first : {&reads_[rank][a], &writes_[rank][a]}) {
      for (const Access& x : *first) {
        for (const auto* second : {&writes_[rank][b], &reads_[rank][b]}) {
          for (const Access& y : *second) {
            if (clocks_.Before(x.node, y.node)) continue;
            if (late != nullptr) *late = y.node;
            if (early != nullptr) *early = x.node;
            return false;
          }
        }
      }
    }
    return true;
  }

  // Checks that several ranks compute complete values with equal pieces and
  // sums.
  absl::Status CheckEqualBytes() const {
    struct Made {
      int node;
      Box box;
      std::vector<RankSet> added;
    };
    std::map<int, std::vector<Made>> made;  // by value
    for (int n = 0; n < clocks_.size(); ++n) {
      const PlanStep& step = clocks_.StepOf(n);
      if (step.kind != PlanStep::kPiece && step.kind != PlanStep::kSum) {
        continue;
      }
      bool is_view =
          step.kind == PlanStep::kPiece && plan_.body.ops[step.op].def->is_view;
      const PlanBuffer& to = plan_.buffer(step.write);
      // A view's bytes are those that it reads.
      if (is_view || to.summands != AllRanks(plan_.ranks)) continue;
      Made mine{n, step.write.box, {}};
      if (step.kind == PlanStep::kSum) {
        for (const PlanRegion& read : step.reads) {
          mine.added.push_back(plan_.buffer(read).summands);
        }
      } else if (AddsToResult(plan_, step)) {
        mine.added.push_back(plan_.buffer(step.reads.back()).summands);
      }
      for (const Made& other : made[to.value]) {
        if (clocks_.RankOf(other.node) == clocks_.RankOf(n)) continue;
        if (!Overlap(other.box, mine.box)) continue;
        if (other.box == mine.box && other.added == mine.added) continue;
        return clocks_.At(mine.node,
                          Invalid("its bytes may differ from those of {}",
                                  clocks_.Name(other.node)));
      }
      made[to.value].push_back(std::move(mine));
    }
    return absl::OkStatus();
  }

  const ChunkPlan& plan_;
  const PlanExchanges& exchanges_;
  const PlanClocks& clocks_;
  const int64_t most_workspace_bytes_;
  // By rank and buffer.
  std::vector<std::vector<std::vector<Access>>> reads_, writes_;
};

}  // namespace

absl::Status CheckPlanMemory(const ChunkPlan& plan,
                             const PlanExchanges& exchanges,
                             const PlanClocks& clocks,
                             int64_t most_workspace_bytes) {
  return MemoryCheck(plan, exchanges, clocks, most_workspace_bytes).Check();
}

}  // namespace asyra
