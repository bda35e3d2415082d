#include "tools/bench/bench_memory.h"

#include <algorithm>
#include <cmath>

#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr double kMiB = 1 << 20;
// MiB that programs take besides, with streams and kernels that are compiled
// for them: 4 to 14 MiB were seen on H200.
constexpr double kProgramMib = 16;
// Numbers of CTAs that NCCL takes for no limit, so that there are
// communicators as large as those without one.
constexpr int kMany = 64, kAlmostAsMany = 63;
constexpr int64_t kPayload = 4 << 20, kSmallPayload = 4096;

double Mib(double bytes) { return std::max(0.0, std::ceil(bytes / kMiB)); }

std::string Ctas(int ctas) { return fmt::format("ctas={}", ctas); }

}  // namespace

absl::StatusOr<double> ContextMib(Device& device) {
  if (device.BytesInUse() == 0) return 0;
  for (const char* text :
       {"matmul(bf16[256,256], bf16[256,256])",
        "attention(bf16[1,256,8,128], bf16[1,256,2,128], bf16[1,256,2,128]) "
        "{causal=true, scale=0.0884}"}) {
    ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall(text));
    absl::StatusOr<Timing> timing = TimeKernel(device, call.use);
    if (!timing.ok()) return Annotate(timing.status(), text);
  }
  return Mib(static_cast<double>(device.BytesInUse())) + kProgramMib;
}

absl::StatusOr<LibraryMemory> MeasureCollectiveMemory(RankTimer& timer,
                                                      int ranks) {
  absl::Status status;
  auto bytes = [&](CollectiveKind kind, int64_t payload,
                   std::string_view more) {
    if (!status.ok()) return 0.0;
    CollectiveCall call =
        CollectiveOf(kind, DType::kBF16, payload, ranks, more);
    absl::StatusOr<int64_t> found = timer.BytesToCarry(call);
    if (!found.ok()) status = Annotate(found.status(), call.text);
    return found.ok() ? static_cast<double>(*found) : 0.0;
  };
  constexpr CollectiveKind kGather = CollectiveKind::kAllGather,
                           kReduce = CollectiveKind::kAllReduce,
                           kExchange = CollectiveKind::kAllToAll;
  // In this order: each takes what those before have not taken already.
  double first_rings = bytes(kGather, kPayload, "");
  double rings = bytes(kGather, kPayload, Ctas(kMany));
  double trees = bytes(kReduce, kSmallPayload, Ctas(kMany));
  double first_peers = bytes(kExchange, kPayload, "");
  double peers = bytes(kExchange, kPayload, Ctas(kMany));
  double only_peers = bytes(kExchange, kPayload, Ctas(kAlmostAsMany));
  ASYRA_RETURN_IF_ERROR(status);
  double communicator = std::max(0.0, only_peers - peers);
  return LibraryMemory{.collectives = Mib(first_rings - rings),
                       .exchanges = Mib(first_peers - peers),
                       .communicator = Mib(communicator),
                       .rings = Mib(rings - communicator),
                       .trees = Mib(trees),
                       .peer = Mib(peers / (ranks - 1))};
}

}  // namespace asyra
