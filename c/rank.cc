// Ranks of C programs: threads, or this process.
#include "c/handles.h"
#include "executor/comm/thread_world.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/launched_world.h"
#include "ir/support/status.h"

namespace asyra::c {
namespace {

constexpr int64_t kMostThreads = 4096;

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(std::string_view device) {
  if (device == "cpu") return CreateCpuPlatform();
  if (device == "cuda") return CreateCudaPlatform();
  return Invalid("device is '{}', it should be cpu or cuda", device);
}

// Fills `rank` on `control`, which is null where there is one rank.
absl::Status Fill(Platform& platform, Communicator* control, int64_t local_rank,
                  int64_t ranks_on_host, asyra_rank* rank) {
  ASYRA_ASSIGN_OR_RETURN(rank->device,
                         platform.MakeDevice(local_rank, ranks_on_host));
  // GPUs have memory of their own.
  rank->sharing = rank->device->name() == "cpu" ? ranks_on_host : 1;
  if (control == nullptr) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(rank->connected,
                         platform.Connect(*control, *rank->device));
  rank->world = rank->connected == nullptr ? control : rank->connected.get();
  return absl::OkStatus();
}

absl::Status RunRanks(const char* device, int64_t ranks, asyra_body body,
                      void* data) {
  if (ranks < 1 || ranks > kMostThreads) {
    return Invalid("ranks is {}, it should be 1 to {}", ranks, kMostThreads);
  }
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform,
                         PlatformOf(device));
  ASYRA_RETURN_IF_ERROR(platform->CheckRanks(ranks));
  auto run = [&](Communicator& control) -> absl::Status {
    asyra_rank rank;
    asyra_status code = Guarded({}, [&] {
      return Fill(*platform, &control, control.rank(), ranks, &rank);
    });
    if (code == ASYRA_OK) code = body(&rank, data);
    if (code == ASYRA_OK) return absl::OkStatus();
    std::string why = asyra_last_error();
    return absl::Status(static_cast<absl::StatusCode>(code),
                        why.empty() ? "its body has failed" : why);
  };
  return RunLocalRanks(ranks, {}, run);
}

absl::StatusOr<std::unique_ptr<asyra_rank>> Connect(const char* device) {
  auto rank = std::make_unique<asyra_rank>();
  ASYRA_ASSIGN_OR_RETURN(rank->platform, PlatformOf(device));
  ASYRA_ASSIGN_OR_RETURN(LaunchedWorld launched,
                         ConnectLaunched({.device = device}));
  rank->control = std::move(launched.world);
  int64_t ranks = rank->control == nullptr ? 1 : rank->control->size();
  int64_t here = launched.ranks_on_host > 0 ? launched.ranks_on_host : ranks;
  ASYRA_RETURN_IF_ERROR(rank->platform->CheckRanks(here));
  ASYRA_RETURN_IF_ERROR(Fill(*rank->platform, rank->control.get(),
                             launched.local_rank, here, rank.get()));
  return rank;
}

}  // namespace
}  // namespace asyra::c

using asyra::c::Guarded;
using asyra::c::IsGiven;
using asyra::c::Make;

asyra_status asyra_run_ranks(const char* device, int64_t ranks, asyra_body body,
                             void* data) {
  return Guarded(
      {{"device", device}, {"body", reinterpret_cast<const void*>(body)}},
      [&] { return asyra::c::RunRanks(device, ranks, body, data); });
}

asyra_status asyra_rank_connect(const char* device, asyra_rank** rank) {
  return Make({{"device", device}, {"rank", rank}}, rank,
              [&] { return asyra::c::Connect(device); });
}

int64_t asyra_rank_number(const asyra_rank* rank) {
  if (!IsGiven("rank", rank)) return -1;
  return rank->world == nullptr ? 0 : rank->world->rank();
}

int64_t asyra_rank_count(const asyra_rank* rank) {
  if (!IsGiven("rank", rank)) return -1;
  return rank->world == nullptr ? 1 : rank->world->size();
}

void asyra_rank_free(asyra_rank* rank) {
  // A rank of asyra_run_ranks has no platform, and is not the caller's.
  if (rank != nullptr && rank->platform != nullptr) delete rank;
}
