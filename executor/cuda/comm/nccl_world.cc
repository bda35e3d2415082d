#include "executor/cuda/comm/nccl_world.h"

#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "executor/comm/rank_error.h"
#include "executor/comm/rank_places.h"
#include "executor/cuda/comm/abort_comms.h"
#include "executor/cuda/comm/copy_collective.h"
#include "executor/cuda/comm/copy_plan.h"
#include "executor/cuda/comm/first_exchanges.h"
#include "executor/cuda/comm/fused_reduction_kernel.h"
#include "executor/cuda/comm/joint_teardown.h"
#include "executor/cuda/comm/nccl_collective.h"
#include "executor/cuda/comm/peer_access.h"
#include "executor/cuda/comm/watched_call.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/scratch.h"
#include "ir/copy_engine.h"
#include "ir/gpu/copy_engine_reach.h"
#include "ir/plans/plan_exchanges.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using cuda::OnGpu;
using cuda::ToStatus;

// Time for the ranks of a process to notice that one of them has failed.
constexpr double kNoticeSeconds = 5;

class NcclWorld : public Communicator {
 public:
  NcclWorld(Communicator& control, const NcclWorldOptions& options)
      : control_(control), options_(options) {}

  ~NcclWorld() override {
    OnGpu gpu(options_.ordinal);
    Drain();
    if (aborted_) {
      EndAborted();
      return;
    }
    if (teardown_ != nullptr) {
      teardown_->Leave();
      teardown_->Rest();
    }
    for (auto& [key, comm] : groups_) ncclCommDestroy(comm);
    if (world_ != nullptr) ncclCommDestroy(world_);
  }

  // Connects when the first collective is prepared: programs without any need
  // no NCCL.
  absl::Status Connect() {
    if (world_ != nullptr) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(JoinOthers());
    ncclUniqueId id = {};
    if (rank() == 0) {
      ASYRA_RETURN_IF_ERROR(ToStatus(ncclGetUniqueId(&id), "ncclGetUniqueId"));
    }
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<std::string> said,
        Exchange({reinterpret_cast<const char*>(&id), sizeof(id)}));
    if (said[0].size() != sizeof(id)) {
      return Invalid("rank 0 gives {} bytes of an NCCL id, {} are expected",
                     said[0].size(), sizeof(id));
    }
    std::memcpy(&id, said[0].data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    // Only the parent of the groups, which are split from it. It has few
    // channels: each of 32 would take 6 MiB of the GPU.
    config.maxCTAs = 1;
    int ranks = static_cast<int>(size()), mine = static_cast<int>(rank());
    return MakeComm(
        "ncclCommInitRankConfig",
        [=](ncclComm_t* made) mutable {
          return ncclCommInitRankConfig(made, ranks, id, mine, &config);
        },
        &world_);
  }

  std::string_view name() const override { return "nccl"; }
  std::string_view device() const override { return "cuda"; }
  int64_t rank() const override { return control_.rank(); }
  int64_t size() const override { return control_.size(); }

  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return control_.Exchange(mine);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    OnGpu gpu(options_.ordinal);
    if (AsksForCopyEngine(use.use.attrs())) {
      ASYRA_ASSIGN_OR_RETURN(std::string obstacle, CopyEngineObstacle(use));
      if (obstacle.empty()) return PrepareCopyEngine(use);
    }
    ASYRA_RETURN_IF_ERROR(Connect());
    ASYRA_ASSIGN_OR_RETURN(ncclComm_t comm,
                           GroupOf({use.members, CtasOf(use)}));
    ASYRA_ASSIGN_OR_RETURN(
        std::unique_ptr<CudaKernel> kernel,
        cuda::PrepareNcclCollective(use, MemberOf(use.members), comm));
    return WarmUp(use.use, comm, std::move(kernel));
  }

  absl::StatusOr<std::string> CopyEngineObstacle(
      const CollectiveUse& use) override {
    OnGpu gpu(options_.ordinal);
    ASYRA_ASSIGN_OR_RETURN(GroupReach reach, ReachOf(use.members));
    return asyra::CopyEngineObstacle(use.use.call(), use.use.mesh(), reach);
  }

  absl::StatusOr<bool> CarriesPlans(std::string_view transport) override {
    if (!options_.chunk_plans) return false;
    if (transport == kLibrary) return true;
    OnGpu gpu(options_.ordinal);
    ASYRA_RETURN_IF_ERROR(ExploreWorld());
    return ReachObstacle(*reach_).empty();
  }
  absl::StatusOr<std::unique_ptr<PlanLink>> LinkPlan(
      const PlanUse& use) override {
    OnGpu gpu(options_.ordinal);
    if (!HasExchanges(use.plan)) {
      return cuda::MakeCopyPlan(use, {.ordinal = options_.ordinal,
                                      .memory = &*memory_,
                                      .flags = flags_.get()});
    }
    ASYRA_RETURN_IF_ERROR(Connect());
    ASYRA_ASSIGN_OR_RETURN(ncclComm_t comm,
                           GroupOf({use.members, use.ctas, /*of_plans=*/true}));
    ASYRA_RETURN_IF_ERROR(WarmUp(use, comm));
    return cuda::MakeCopyPlan(use, {.ordinal = options_.ordinal, .comm = comm});
  }

  absl::StatusOr<std::string> OneKernelObstacle(
      const CollectiveUse& use) override {
    OnGpu gpu(options_.ordinal);
    ASYRA_ASSIGN_OR_RETURN(GroupReach reach, ReachOf(use.members));
    std::string obstacle = ReachObstacle(reach);
    if (!obstacle.empty()) return obstacle;
    return cuda::FusedReductionObstacle(use);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneKernel(
      const CollectiveUse& use) override {
    OnGpu gpu(options_.ordinal);
    return cuda::PrepareFusedReduction(use, {.self = MemberOf(use.members),
                                             .memory = &*memory_,
                                             .flags = flags_.get()});
  }

  void BeginStep() override { control_.BeginStep(); }
  std::vector<int64_t> RanksBehind() const override {
    return control_.RanksBehind();
  }

  absl::Status Check(double waited_s) override {
    absl::Status status = CheckAll(waited_s);
    if (status.ok()) return status;
    // The other ranks learn of the failure before their kernels end early.
    control_.Abort(status);
    AbortAll();
    return status;
  }

  void Drain() override {
    if (!control_.Check(0).ok()) AbortAll();
  }

  // May run in a host function of a stream, where CUDA calls are not allowed:
  // the next Check ends kernels that wait.
  void Abort(const absl::Status& cause) override { control_.Abort(cause); }

 private:
  absl::Status JoinOthers() {
    if (teardown_ != nullptr) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(teardown_, cuda::JointTeardown::Join(control_));
    return absl::OkStatus();
  }

  absl::StatusOr<GroupReach> ReachOf(const std::vector<int64_t>& members) {
    ASYRA_RETURN_IF_ERROR(ExploreWorld());
    GroupReach reach = *reach_;
    reach.one_host = absl::c_all_of(members, [&](int64_t rank) {
      return memory_->places()[rank].host == memory_->places()[members[0]].host;
    });
    return reach;
  }

  // Asked by all ranks when the first of them asks.
  absl::Status ExploreWorld() {
    if (reach_.has_value()) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(JoinOthers());
    ASYRA_ASSIGN_OR_RETURN(std::vector<RankPlace> places,
                           ExchangePlaces(control_));
    memory_.emplace(control_, std::move(places), options_.ordinal);
    GroupReach reach;
    reach.one_process = InOneProcess(memory_->places());
    ASYRA_ASSIGN_OR_RETURN(bool reaches, cuda::ReachAllPeers(control_, *memory_,
                                                             options_.ordinal));
    (reach.one_process ? reach.peer_access : reach.process_copies) = reaches;
    if (ReachObstacle(reach).empty()) {
      ASYRA_ASSIGN_OR_RETURN(flags_, cuda::PeerFlags::Create());
    }
    reach_ = reach;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCopyEngine(
      const CollectiveUse& use) {
    return cuda::PrepareCopyCollective(use, {.self = MemberOf(use.members),
                                             .memory = &*memory_,
                                             .flags = flags_.get()});
  }

  int MemberOf(const std::vector<int64_t>& members) const {
    return static_cast<int>(absl::c_find(members, rank()) - members.begin());
  }

  // Resources of the run of a collective before the first step.
  struct FirstRun {
    std::unique_ptr<CudaKernel> kernel;
    std::vector<cuda::Scratch> memory;  // operands, results, workspace
    Failure failure;
    std::unique_ptr<cuda::CudaStream> stream;

    absl::Status Launch(int count) {
      std::vector<void*> places;
      for (const cuda::Scratch& scratch : memory) {
        places.push_back(scratch.data());
      }
      absl::Span<void* const> all = places;
      kernel->Launch({all.first(count), all.subspan(count, count), all.back()},
                     *stream);
      return failure.status();
    }
  };

  // NCCL connects when a collective first needs it, which is not possible
  // during graph capture and unwanted in a step: each kind and size runs once
  // beforehand.
  absl::StatusOr<std::unique_ptr<Kernel>> WarmUp(
      const KernelUse& use, ncclComm_t comm,
      std::unique_ptr<CudaKernel> kernel) {
    int count = use.num_operands();
    std::vector<int64_t> bytes;  // of operands, then of results
    for (int i = 0; i < count; ++i) bytes.push_back(use.operand(i).bytes());
    if (!warm_.insert({comm, use.def().collective, bytes}).second) {
      return kernel;
    }
    for (int i = 0; i < count; ++i) bytes.push_back(use.result(i).bytes());
    bytes.push_back(kernel->workspace_bytes());
    auto run = std::make_shared<FirstRun>();
    run->kernel = std::move(kernel);
    run->memory.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(run->memory[i].Allocate(bytes[i]));
    }
    ASYRA_ASSIGN_OR_RETURN(
        run->stream,
        cuda::CudaStream::Create(options_.ordinal, StreamUse::kCollectives,
                                 nullptr, &run->failure));
    ASYRA_RETURN_IF_ERROR(RunOnce(
        "the first collective of a kind", [=] { return run->Launch(count); },
        *run->stream));
    ASYRA_RETURN_IF_ERROR(run->failure.status());
    return std::move(run->kernel);
  }

  // The same of the exchanges of a plan.
  absl::Status WarmUp(const PlanUse& use, ncclComm_t comm) {
    ASYRA_ASSIGN_OR_RETURN(
        std::shared_ptr<cuda::FirstExchanges> run,
        cuda::FirstExchanges::Create(use, comm, options_.ordinal));
    ASYRA_RETURN_IF_ERROR(RunOnce(
        "the first exchange", [=] { return run->Launch(); }, run->stream()));
    return run->status();
  }

  // Launches work on a stream on all ranks, and waits for it. Freeing memory on
  // one GPU waits for kernels on its peers: no kernel may wait for a rank that
  // is still preparing an earlier collective.
  absl::Status RunOnce(std::string_view what,
                       std::function<absl::Status()> launch,
                       cuda::CudaStream& stream) {
    ASYRA_RETURN_IF_ERROR(Exchange("").status());
    ASYRA_RETURN_IF_ERROR(Watched(what, std::move(launch)));
    return stream.Synchronize(
        [this](double waited_s) { return Check(waited_s); });
  }

  // A call that waits for other ranks (watched_call.h).
  absl::Status Watched(std::string_view what,
                       std::function<absl::Status()> call) {
    auto check = [&](double waited_s) -> absl::Status {
      ASYRA_RETURN_IF_ERROR(control_.Check(waited_s));
      if (waited_s <= options_.timeout_s) return absl::OkStatus();
      absl::Status late = absl::DeadlineExceededError(fmt::format(
          "{} has not returned within {:g} s", what, options_.timeout_s));
      control_.Abort(late);
      return late;
    };
    return cuda::WatchedCall(options_.ordinal, std::move(call), check);
  }

  template <typename Make>
  absl::Status MakeComm(const char* what, Make make, ncclComm_t* comm) {
    auto made = std::make_shared<ncclComm_t>(nullptr);
    ASYRA_RETURN_IF_ERROR(Watched(
        what, [=]() mutable { return ToStatus(make(made.get()), what); }));
    *comm = *made;
    return absl::OkStatus();
  }

  absl::Status CheckAll(double waited_s) const {
    ASYRA_RETURN_IF_ERROR(control_.Check(waited_s));
    if (aborted_) return absl::AbortedError("the world was aborted");
    if (world_ == nullptr && flags_ == nullptr) return absl::OkStatus();
    if (world_ != nullptr) ASYRA_RETURN_IF_ERROR(CheckComm(world_));
    for (auto& [key, comm] : groups_) ASYRA_RETURN_IF_ERROR(CheckComm(comm));
    if (waited_s <= options_.timeout_s) return absl::OkStatus();
    std::vector<int64_t> behind = RanksBehind();
    return absl::DeadlineExceededError(
        fmt::format("the step has not ended within {:g} s{}{}",
                    options_.timeout_s, behind.empty() ? "" : ", not begun on ",
                    behind.empty() ? "" : ListRanks(behind)));
  }

  void AbortAll() {
    if (aborted_) return;
    aborted_ = true;
    OnGpu gpu(options_.ordinal);
    // Before any rank frees memory, which could block this call.
    if (flags_ != nullptr) flags_->RaiseAll();
    bool all_left = false;
    if (teardown_ != nullptr) {
      teardown_->Leave();
      all_left = teardown_->Wait(kNoticeSeconds);
    }
    for (auto& [key, comm] : groups_) aborts_.Begin(comm);
    if (teardown_ == nullptr) return;
    AwaitOwnKernels();
    teardown_->Rest();
    if (all_left) teardown_->WaitForRest(kNoticeSeconds);
  }

  // Awaits this rank's kernels after a failure. They wait for nothing any more,
  // but may be behind others. An error of the GPU ends them too.
  void AwaitOwnKernels() const {
    if (flags_ == nullptr) return;  // they access no memory of other ranks
    cuda::WatchedCall(
        options_.ordinal,
        [] {
          cudaDeviceSynchronize();
          return absl::OkStatus();
        },
        [](double waited_s) -> absl::Status {
          if (waited_s <= kNoticeSeconds) return absl::OkStatus();
          return absl::DeadlineExceededError("the GPU is not idle");
        })
        .IgnoreError();
  }

  // The executors that used this world are gone. A communicator that does not
  // end is left alone.
  void EndAborted() {
    if (!aborts_.Wait(kNoticeSeconds) || world_ == nullptr) return;
    aborts_.Begin(world_);
    aborts_.Wait(kNoticeSeconds);
  }

  absl::Status CheckComm(ncclComm_t comm) const {
    ncclResult_t error = ncclSuccess;
    ASYRA_RETURN_IF_ERROR(
        ToStatus(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError"));
    if (error == ncclInProgress) return absl::OkStatus();
    return ToStatus(error, "a collective");
  }

  // Members that share a communicator: one for each number of CTAs, and one
  // for exchanges of plans, beside which collectives may run.
  struct CommKey {
    std::vector<int64_t> members;
    int64_t ctas = 0;
    bool of_plans = false;
    auto operator<=>(const CommKey&) const = default;
  };

  // All ranks prepare the same collectives, each in its own group, so that all
  // take part in a split.
  absl::StatusOr<ncclComm_t> GroupOf(const CommKey& key) {
    auto found = groups_.find(key);
    if (found != groups_.end()) return found->second;
    // NCCL would wait forever for a rank that has failed.
    ASYRA_RETURN_IF_ERROR(Exchange("").status());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    if (key.ctas > 0) {
      config.minCTAs = 1;
      config.maxCTAs = static_cast<int>(key.ctas);
      // CTAs of a cluster begin together, on neighbouring SMs. Clusters of
      // four, NCCL's default, do not fit into the SM margin of matmuls: an
      // all_gather with 16 CTAs then took 770 us instead of 220. With clusters
      // of two it is not slower alone.
      config.cgaClusterSize = 2;
    }
    ncclComm_t comm = nullptr;
    ASYRA_RETURN_IF_ERROR(MakeComm(
        "ncclCommSplit",
        [world = world_, group = static_cast<int>(key.members[0]),
         member = MemberOf(key.members), config](ncclComm_t* made) mutable {
          return ncclCommSplit(world, group, member, made, &config);
        },
        &comm));
    groups_[key] = comm;
    return comm;
  }

  static int64_t CtasOf(const CollectiveUse& use) {
    const AttrValue* value = use.use.attrs().Find("ctas");
    return value == nullptr ? 0 : std::get<int64_t>(*value);
  }

  Communicator& control_;
  NcclWorldOptions options_;
  ncclComm_t world_ = nullptr;
  std::map<CommKey, ncclComm_t> groups_;
  // Collectives that have run once: kind and bytes of the operands.
  std::set<std::tuple<ncclComm_t, CollectiveKind, std::vector<int64_t>>> warm_;
  bool aborted_ = false;
  cuda::CommAborts aborts_;
  std::shared_ptr<cuda::JointTeardown> teardown_;
  // Reach of all ranks together; none before a collective asks for copy
  // engines.
  std::optional<GroupReach> reach_;
  std::optional<cuda::PeerMemory> memory_;
  std::unique_ptr<cuda::PeerFlags> flags_;  // of copy engines
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclWorld(
    Communicator& control, const NcclWorldOptions& options) {
  return std::make_unique<NcclWorld>(control, options);
}

}  // namespace asyra
