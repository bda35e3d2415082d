#include "executor/comm/thread_world.h"

#include <thread>

#include "executor/comm/collective_geometry.h"
#include "executor/comm/rank_error.h"
#include "executor/comm/shared_world.h"
#include "executor/comm/thread_collective.h"
#include "executor/comm/thread_plan.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<SharedWorld> world, int64_t rank)
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
    ThreadGroup* group =
        world_->FindGroup(AxesToString(axes, use.use.mesh()), use.members);
    return MakeThreadCollective(world_, group, rank_, use,
                                std::move(geometries));
  }

  absl::StatusOr<bool> CarriesPlans(std::string_view) override { return true; }
  absl::StatusOr<std::unique_ptr<PlanLink>> LinkPlan(
      const PlanUse& use) override {
    return MakeThreadPlan(world_, rank_, use);
  }

  void BeginStep() override { world_->BeginStep(rank_); }
  std::vector<int64_t> RanksBehind() const override {
    return world_->RanksBehind(rank_);
  }

  // Notices failures, for communicators of devices whose kernels cannot.
  absl::Status Check(double) override {
    return world_->aborted() ? world_->CauseFor(rank_) : absl::OkStatus();
  }

  void Drain() override { world_->Drain(); }

  void Abort(const absl::Status& cause) override {
    world_->Abort(rank_, cause);
  }

  SharedWorld& world() { return *world_; }

 private:
  std::shared_ptr<SharedWorld> world_;
  int64_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateThreadWorld(
    int64_t ranks, const ThreadWorldOptions& options) {
  auto world = std::make_shared<SharedWorld>(ranks, options);
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
  threads.reserve(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    absl::Status begun = WithinMemory([&] {
      threads.emplace_back([&, rank] {
        results[rank] = WithinMemory([&] { return body(*world[rank]); });
        if (!results[rank].ok()) world[rank]->Abort(results[rank]);
      });
      return absl::OkStatus();
    });
    if (begun.ok()) continue;
    // Ranks that have begun are joined, and end with its error.
    results[rank] = begun;
    world[rank]->Abort(begun);
    break;
  }
  for (std::thread& thread : threads) thread.join();
  auto& any = static_cast<LocalCommunicator&>(*world[0]);
  int64_t failed = any.world().failed_rank();
  if (failed < 0) return absl::OkStatus();
  // A rank may be the first to end because another one told it of its error.
  for (int64_t rank = 0; rank < ranks && absl::IsAborted(results[failed]);
       ++rank) {
    if (!results[rank].ok() && !absl::IsAborted(results[rank])) failed = rank;
  }
  return NameRank(failed, results[failed].ok() ? any.world().CauseFor(failed)
                                               : results[failed]);
}

}  // namespace asyra
