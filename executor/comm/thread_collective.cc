#include "executor/comm/thread_collective.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/algorithm/container.h"
#include "executor/cpu/cpu_kernel.h"
#include "executor/cpu/sum.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Smaller reductions are computed by every member separately, since another
// barrier costs more. Not if they overwrite the operands, which other members
// still read; of a shared reduction each part is read by one member.
constexpr int64_t kSharedSumBytes = 16 << 10;

}  // namespace

class ThreadCollective : public CpuKernel {
 public:
  ThreadCollective(std::shared_ptr<SharedWorld> world, ThreadGroup* group,
                   int64_t rank, const CollectiveUse& use,
                   std::vector<CollectiveGeometry> geometries)
      : world_(std::move(world)),
        group_(group),
        rank_(rank),
        op_(use.op),
        label_(use.label),
        geometries_(std::move(geometries)),
        summands_(group->members.size()) {
    me_ = std::find(group->members.begin(), group->members.end(), rank) -
          group->members.begin();
  }

  std::string_view transport() const override { return kSharedMemory; }

  absl::Status Run(const KernelArgs& args) override {
    ThreadGroup::Seat& seat = group_->seats[me_];
    seat.operands = args.operands;
    seat.results = args.results;
    seat.collective = this;
    absl::Status status = Meet();
    if (status.ok()) status = Inject();
    if (status.ok()) status = Move();
    // Nobody reads this rank's memory after the last barrier.
    if (status.ok()) status = Meet();
    if (!status.ok()) Leave(status);
    return status;
  }

 private:
  // Returns when all members have come as often as this one.
  absl::Status Meet() {
    uint32_t meetings = group_->seats[me_].meetings.fetch_add(1) + 1;
    uint32_t all = meetings * static_cast<uint32_t>(members());
    group_->arrivals.Add();
    if (group_->arrivals.Reached(all)) return absl::OkStatus();
    auto lost = CpuClock::now() + Seconds(world_->options().timeout_s);
    while (!group_->arrivals.WaitFor(
        all, std::min(lost, CpuClock::now() + kNoticeEvery))) {
      if (world_->aborted()) return world_->CauseFor(rank_);
      if (CpuClock::now() >= lost) return Missing(meetings);
    }
    return absl::OkStatus();
  }

  absl::Status Missing(uint32_t meetings) const {
    std::vector<int64_t> ranks;
    for (size_t i = 0; i < members(); ++i) {
      uint32_t theirs = group_->seats[i].meetings.load();
      if (static_cast<int32_t>(theirs - meetings) >= 0) continue;
      ranks.push_back(group_->members[i]);
    }
    return world_->WaitedTooLong(rank_, label_, ranks);
  }

  absl::Status Inject() const {
    double us = world_->options().inject_comm_us;
    if (us > 0) std::this_thread::sleep_for(Seconds(us / 1e6));
    return absl::OkStatus();
  }

  absl::Status Move() {
    bool any_shared = false;
    ASYRA_RETURN_IF_ERROR(Look([&] {
      ASYRA_RETURN_IF_ERROR(CheckSameOp());
      for (size_t p = 0; p < geometries_.size(); ++p) {
        if (IsShared(p)) {
          SumShare(p);
          any_shared = true;
        } else {
          geometries_[p].sums ? SumChunks(p) : GatherChunks(p);
        }
      }
      return absl::OkStatus();
    }));
    if (!any_shared) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(Meet());
    return Look([&] {
      for (size_t p = 0; p < geometries_.size(); ++p) {
        if (IsShared(p)) GatherShares(p);
      }
      return absl::OkStatus();
    });
  }

  // Returns whether each member reduces a part of operand `p`. A result that
  // overwrites its operand does so on all members, since their programs are
  // equal.
  bool IsShared(size_t p) const {
    const CollectiveGeometry& geometry = geometries_[p];
    return geometry.sums && geometry.outer == 1 && geometry.read_member == 0 &&
           (Operand(me_, p) == Result(p) ||
            geometry.run_elements * ElementBytes(p) >= kSharedSumBytes);
  }

  // Calls `look`, which reads other members' memory. They free it only when no
  // member reads it (Leave).
  template <typename F>
  absl::Status Look(F look) {
    group_->reading.fetch_add(1);
    absl::Status status = world_->aborted() ? world_->CauseFor(rank_) : look();
    group_->reading.fetch_sub(1);
    return status;
  }

  // Leaves after a failure: then no member begins to read, and none still does.
  void Leave(const absl::Status& cause) {
    world_->Abort(rank_, cause);
    while (group_->reading.load() > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  absl::Status CheckSameOp() const {
    auto same_chunks = [](const CollectiveGeometry& a,
                          const CollectiveGeometry& b) {
      return a.chunk_elements() == b.chunk_elements();
    };
    for (size_t i = 0; i < members(); ++i) {
      const ThreadCollective& other = *group_->seats[i].collective;
      if (other.op_ == op_ &&
          absl::c_equal(other.geometries_, geometries_, same_chunks)) {
        continue;
      }
      return absl::InternalError(
          fmt::format("rank {} has come to {}, while rank {} is at {}",
                      group_->members[i], other.label_, rank_, label_));
    }
    return absl::OkStatus();
  }

  size_t members() const { return summands_.size(); }
  int64_t ElementBytes(size_t p) const { return SizeOf(geometries_[p].dtype); }
  const std::byte* Operand(size_t member, size_t p) const {
    return static_cast<const std::byte*>(group_->seats[member].operands[p]);
  }
  std::byte* ResultOf(size_t member, size_t p) const {
    return static_cast<std::byte*>(group_->seats[member].results[p]);
  }
  std::byte* Result(size_t p) const { return ResultOf(me_, p); }

  void GatherChunks(size_t p) {
    const CollectiveGeometry& geometry = geometries_[p];
    int64_t size = ElementBytes(p), run = geometry.run_elements * size;
    if (run == 0) return;
    auto me = static_cast<int64_t>(me_), n = static_cast<int64_t>(members());
    for (size_t j = 0; j < members(); ++j) {
      // Each member begins with its neighbour, so that they do not all read
      // from the same one.
      size_t from = (me_ + j) % members();
      if (!geometry.Moves(static_cast<int64_t>(from), me, n)) continue;
      for (int64_t r = 0; r < geometry.runs(); ++r) {
        std::memcpy(
            Result(p) + geometry.WriteAt(static_cast<int64_t>(from), r) * size,
            Operand(from, p) + geometry.ReadAt(me, r) * size, run);
      }
    }
  }

  void SumChunks(size_t p) {
    const CollectiveGeometry& geometry = geometries_[p];
    int64_t size = ElementBytes(p);
    auto me = static_cast<int64_t>(me_);
    for (int64_t r = 0; r < geometry.runs(); ++r) {
      for (size_t j = 0; j < members(); ++j) {
        summands_[j] = Operand(j, p) + geometry.ReadAt(me, r) * size;
      }
      SumParts(geometry.dtype, summands_, geometry.run_elements,
               Result(p) + geometry.WriteAt(0, r) * size);
    }
  }

  // The elements that member `i` reduces for all.
  std::pair<int64_t, int64_t> ShareOf(size_t i, size_t p) const {
    auto n = static_cast<int64_t>(members()), at = static_cast<int64_t>(i);
    int64_t elements = geometries_[p].run_elements;
    int64_t begin = elements * at / n;
    return {begin, elements * (at + 1) / n - begin};
  }

  void SumShare(size_t p) {
    auto share = ShareOf(me_, p);
    int64_t at = share.first * ElementBytes(p);
    for (size_t j = 0; j < members(); ++j) summands_[j] = Operand(j, p) + at;
    SumParts(geometries_[p].dtype, summands_, share.second, Result(p) + at);
  }

  void GatherShares(size_t p) {
    for (size_t j = 1; j < members(); ++j) {
      size_t from = (me_ + j) % members();
      auto share = ShareOf(from, p);
      int64_t at = share.first * ElementBytes(p);
      std::memcpy(Result(p) + at, ResultOf(from, p) + at,
                  share.second * ElementBytes(p));
    }
  }

  std::shared_ptr<SharedWorld> world_;
  ThreadGroup* group_;
  int64_t rank_;
  size_t me_ = 0;  // among the members
  int op_;
  std::string label_;
  std::vector<CollectiveGeometry> geometries_;  // by operand
  std::vector<const std::byte*> summands_;      // scratch, by member
};

std::unique_ptr<Kernel> MakeThreadCollective(
    std::shared_ptr<SharedWorld> world, ThreadGroup* group, int64_t rank,
    const CollectiveUse& use, std::vector<CollectiveGeometry> geometries) {
  return std::make_unique<ThreadCollective>(std::move(world), group, rank, use,
                                            std::move(geometries));
}

}  // namespace asyra
