#include "executor/comm/thread_world.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "absl/algorithm/container.h"
#include "executor/comm/collective_geometry.h"
#include "executor/cpu/counter.h"
#include "executor/cpu/cpu_kernel.h"
#include "executor/cpu/sum.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// How long it may take a waiting rank to notice that another has failed.
constexpr auto kNoticeEvery = std::chrono::milliseconds(20);
// Smaller reductions are computed by every member separately, since another
// barrier costs more. Not if they overwrite the operands, which other members
// still read; of a shared reduction each part is read by one member.
constexpr int64_t kSharedSumBytes = 16 << 10;

CpuClock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<CpuClock::duration>(
      std::chrono::duration<double>(seconds));
}

class LocalCollective;

// Data of one member that the others read.
struct alignas(64) Seat {
  absl::Span<void*const> operands, results;
  const LocalCollective* collective = nullptr;
  std::atomic<uint32_t> meetings{0};
};

struct Group {
  explicit Group(std::vector<int64_t> ranks)
      : members(std::move(ranks)), seats(members.size()) {}
  std::vector<int64_t> members;
  std::vector<Seat> seats;
  Counter arrivals;
  // Members that read the others' memory.
  std::atomic<int> reading{0};
};

class World {
 public:
  World(int64_t ranks, const ThreadWorldOptions& options)
      : options_(options),
        size_(ranks),
        steps_(ranks),
        gathered_(ranks),
        present_(ranks) {}

  int64_t size() const { return size_; }
  const ThreadWorldOptions& options() const { return options_; }
  bool aborted() const { return aborted_.load(); }

  void Abort(int64_t rank, const absl::Status& cause) {
    {
      std::lock_guard lock(mutex_);
      if (failed_rank_ >= 0) return;
      failed_rank_ = rank;
      cause_ = cause;
      aborted_.store(true);
    }
    changed_.notify_all();
  }

  void BeginStep(int64_t rank) { steps_[rank].fetch_add(1); }
  std::vector<int64_t> RanksBehind(int64_t rank) const {
    std::vector<int64_t> behind;
    for (int64_t r = 0; r < size_; ++r) {
      if (steps_[r].load() < steps_[rank].load()) behind.push_back(r);
    }
    return behind;
  }

  // The error of `rank` after an abort of the world.
  absl::Status CauseFor(int64_t rank) const {
    std::lock_guard lock(mutex_);
    return CauseLocked(rank);
  }
  int64_t failed_rank() const {
    std::lock_guard lock(mutex_);
    return failed_rank_;
  }

  absl::StatusOr<std::vector<std::string>> Exchange(int64_t rank,
                                                    std::string_view mine) {
    std::unique_lock lock(mutex_);
    uint64_t round = round_;
    gathered_[rank] = std::string(mine);
    present_[rank] = true;
    if (std::count(present_.begin(), present_.end(), true) == size_) {
      result_ = gathered_;
      present_.assign(size_, false);
      ++round_;
      changed_.notify_all();
      return result_;
    }
    bool done = changed_.wait_for(lock, Seconds(options_.timeout_s), [&] {
      return round_ != round || failed_rank_ >= 0;
    });
    if (round_ != round) return result_;
    if (done) return CauseLocked(rank);
    std::string missing;
    for (int64_t r = 0; r < size_; ++r) {
      if (!present_[r]) missing += fmt::format(" {}", r);
    }
    return absl::DeadlineExceededError(
        fmt::format("rank {}: before the first step, nothing was heard from "
                    "ranks{} within {:g} s",
                    rank, missing, options_.timeout_s));
  }

  Group* FindGroup(const std::string& axes,
                   const std::vector<int64_t>& members) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Group>& group = groups_[{axes, members}];
    if (group == nullptr) group = std::make_unique<Group>(members);
    return group.get();
  }

 private:
  absl::Status CauseLocked(int64_t rank) const {
    if (rank == failed_rank_) return cause_;
    return absl::Status(
        absl::StatusCode::kAborted,
        fmt::format("rank {} failed: {}", failed_rank_, MessageOf(cause_)));
  }

  const ThreadWorldOptions options_;
  const int64_t size_;
  std::atomic<bool> aborted_ = false;
  std::vector<std::atomic<int64_t>> steps_;  // begun, by rank
  mutable std::mutex mutex_;                 // of what follows
  std::condition_variable changed_;
  int64_t failed_rank_ = -1;
  absl::Status cause_;
  uint64_t round_ = 0;
  std::vector<std::string> gathered_, result_;
  std::vector<bool> present_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::unique_ptr<Group>>
      groups_;
};

class LocalCollective : public CpuKernel {
 public:
  LocalCollective(std::shared_ptr<World> world, Group* group, int64_t rank,
                  const CollectiveUse& use,
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

  absl::Status Run(const KernelArgs& args) override {
    Seat& seat = group_->seats[me_];
    seat.operands = args.operands;
    seat.results = args.results;
    seat.collective = this;
    absl::Status status = Meet();
    if (status.ok()) status = Inject();
    if (status.ok()) status = Move();
    // Nobody reads this rank's memory after the last meeting.
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
    std::string ranks;
    for (size_t i = 0; i < members(); ++i) {
      uint32_t theirs = group_->seats[i].meetings.load();
      if (static_cast<int32_t>(theirs - meetings) >= 0) continue;
      ranks += fmt::format(" {}", group_->members[i]);
    }
    return absl::DeadlineExceededError(
        fmt::format("{}: of its group, rank{} did not come within {:g} s",
                    label_, ranks, world_->options().timeout_s));
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

  // Whether each member reduces a part of operand `p`. A result that overwrites
  // its operand does so on all members, since their programs are equal.
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

  // After this no member begins to read, and none still does.
  void Leave(const absl::Status& cause) {
    world_->Abort(rank_, cause);
    while (group_->reading.load() > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  absl::Status CheckSameOp() const {
    auto alike = [](const CollectiveGeometry& a, const CollectiveGeometry& b) {
      return a.chunk_elements() == b.chunk_elements();
    };
    for (size_t i = 0; i < members(); ++i) {
      const LocalCollective& other = *group_->seats[i].collective;
      if (other.op_ == op_ &&
          absl::c_equal(other.geometries_, geometries_, alike)) {
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
    auto me = static_cast<int64_t>(me_);
    for (size_t j = 0; j < members(); ++j) {
      // Each member begins with its neighbour, so that they do not all read
      // from the same one.
      size_t from = (me_ + j) % members();
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

  std::shared_ptr<World> world_;
  Group* group_;
  int64_t rank_;
  size_t me_ = 0;  // among the members
  int op_;
  std::string label_;
  std::vector<CollectiveGeometry> geometries_;  // by operand
  std::vector<const std::byte*> summands_;      // scratch, by member
};

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<World> world, int64_t rank)
      : world_(std::move(world)), rank_(rank) {}

  std::string_view name() const override { return "local"; }
  std::string_view device() const override { return "cpu"; }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return world_->size(); }

  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return world_->Exchange(rank_, mine);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    ASYRA_ASSIGN_OR_RETURN(std::vector<CollectiveGeometry> geometries,
                           GeometriesOf(use));
    const auto& axes = use.use.attrs().Get<AxisList>("axes");
    Group* group =
        world_->FindGroup(AxesToString(axes, use.use.mesh()), use.members);
    return std::make_unique<LocalCollective>(world_, group, rank_, use,
                                             std::move(geometries));
  }

  void BeginStep() override { world_->BeginStep(rank_); }
  std::vector<int64_t> RanksBehind() const override {
    return world_->RanksBehind(rank_);
  }

  // For communicators of devices whose kernels cannot notice.
  absl::Status Check(double) override {
    return world_->aborted() ? world_->CauseFor(rank_) : absl::OkStatus();
  }

  void Abort(const absl::Status& cause) override {
    world_->Abort(rank_, cause);
  }

  World& world() { return *world_; }

 private:
  std::shared_ptr<World> world_;
  int64_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateThreadWorld(
    int64_t ranks, const ThreadWorldOptions& options) {
  auto world = std::make_shared<World>(ranks, options);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    ends.push_back(std::make_unique<LocalCommunicator>(world, rank));
  }
  return ends;
}

absl::Status RunLocalRanks(
    int64_t ranks, const ThreadWorldOptions& options,
    const std::function<absl::Status(Communicator& world)>& body) {
  auto world = CreateThreadWorld(ranks, options);
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = body(*world[rank]);
      if (!results[rank].ok()) world[rank]->Abort(results[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto& any = static_cast<LocalCommunicator&>(*world[0]);
  int64_t failed = any.world().failed_rank();
  if (failed < 0) return absl::OkStatus();
  return Annotate(
      results[failed].ok() ? any.world().CauseFor(failed) : results[failed],
      fmt::format("rank {}", failed));
}

}  // namespace asyra
