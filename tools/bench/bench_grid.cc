#include "tools/bench/bench_grid.h"

#include <algorithm>

#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr CollectiveKind kKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll};

// Smaller ones take copy engines longer than the library.
constexpr int64_t kLeastCopied = 1 << 20;

std::string Matmul(std::string_view dtype, int64_t m, int64_t n, int64_t k) {
  return fmt::format("matmul({0}[{1},{2}], {0}[{2},{3}])", dtype, m, k, n);
}

// One of a kind per size, the sizes from large to small in turn.
std::vector<std::string> InTurn(
    const std::vector<std::vector<std::string>>& kinds) {
  std::vector<std::string> calls;
  size_t most = 0;
  for (const auto& kind : kinds) most = std::max(most, kind.size());
  for (size_t i = 1; i <= most; ++i) {
    for (const auto& kind : kinds) {
      if (i <= kind.size()) calls.push_back(kind[kind.size() - i]);
    }
  }
  return calls;
}

std::vector<std::string> Matmuls(const GridScale& scale,
                                 std::string_view dtype) {
  std::vector<std::string> calls;
  for (int64_t rows : scale.rows) {
    for (int64_t width : scale.widths) {
      calls.push_back(Matmul(dtype, rows, width, width));
      calls.push_back(Matmul(dtype, rows, 2 * width, width));
      calls.push_back(Matmul(dtype, rows, width, 2 * width));
    }
  }
  return calls;
}

std::vector<std::string> Attentions(const GridScale& scale,
                                    std::string_view dtype) {
  constexpr int64_t kHead = 128;
  std::vector<std::string> calls;
  for (int64_t rows : scale.sequences) {
    for (bool causal : {false, true}) {
      calls.push_back(fmt::format(
          "attention({0}[1,{1},8,{2}], {0}[1,{1},2,{2}], {0}[1,{1},2,{2}]) "
          "{{{3}scale=0.0884}}",
          dtype, rows, kHead, causal ? "causal=true, " : ""));
    }
  }
  return calls;
}

// Ops that move bytes, over rows of 4096 and `bytes` of their first operand.
std::vector<std::vector<std::string>> MemoryBound(const GridScale& scale,
                                                  DType dtype) {
  constexpr int64_t kRow = 4096;
  std::string name(ToString(dtype));
  std::vector<std::vector<std::string>> kinds(8);
  for (int64_t bytes : scale.bytes) {
    int64_t rows = std::max<int64_t>(1, bytes / kRow / SizeOf(dtype));
    std::string x = fmt::format("{}[{},{}]", name, rows, kRow);
    kinds[0].push_back(fmt::format("add({0}, {0})", x));
    kinds[1].push_back(
        fmt::format("rms_norm({}, {}[{}]) {{eps=1e-05}}", x, name, kRow));
    kinds[2].push_back(fmt::format("swiglu({0}, {0})", x));
    kinds[3].push_back(fmt::format("softmax({}) {{dim=1}}", x));
    kinds[4].push_back(fmt::format("transpose({}) {{perm=[1, 0]}}", x));
    // Kernels of training.
    kinds[5].push_back(fmt::format(
        "rms_norm_grad({0}, {1}[{2}], {0}) {{eps=1e-05}}", x, name, kRow));
    std::string sums = fmt::format("f32[{},1]", rows);
    kinds[6].push_back(
        fmt::format("cross_entropy_parts_grad({0}, i64[{1}], {2}, {2}, {2})", x,
                    rows, sums));
    std::string state = fmt::format("f32[{},{}]", rows, kRow);
    kinds[7].push_back(
        fmt::format("adamw({0}, {0}, {0}, {0}, f32[], i64[], f32[])", state));
  }
  return kinds;
}

}  // namespace

GridScale GridOfGpu() {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  return {.dtype = DType::kBF16,
          .rows = {64, 512, 1024, 2048, 4096, 8192},
          .widths = {1024, 2048, 4096},
          .sequences = {1024, 2048, 4096, 8192},
          .bytes = {kMiB, 8 * kMiB, 64 * kMiB, 256 * kMiB},
          .payloads = {16 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB,
                       64 * kMiB, 256 * kMiB},
          .settle_s = 1};
}

GridScale GridOfCpu() {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  return {.dtype = DType::kF32,
          .rows = {16, 64, 256},
          .widths = {128, 256, 512},
          .sequences = {64, 256},
          .bytes = {64 * kKiB, kMiB, 8 * kMiB},
          .payloads = {4 * kKiB, 64 * kKiB, kMiB, 4 * kMiB}};
}

std::vector<std::string> LocalGrid(const GridScale& scale) {
  std::string_view dtype = ToString(scale.dtype);
  std::vector<std::vector<std::string>> kinds = MemoryBound(scale, scale.dtype);
  kinds.push_back(Matmuls(scale, dtype));
  kinds.push_back(Attentions(scale, dtype));
  return InTurn(kinds);
}

std::vector<CollectiveCall> CollectiveGrid(const GridScale& scale, int ranks) {
  std::vector<CollectiveCall> calls;
  for (int group = ranks; group >= 2; --group) {
    if (ranks % group != 0) continue;
    for (int64_t payload : scale.payloads) {
      for (CollectiveKind kind : kKinds) {
        calls.push_back(CollectiveOf(kind, scale.dtype, payload, group));
      }
    }
    for (int64_t payload : scale.payloads) {
      if (payload < kLeastCopied) continue;
      for (CollectiveKind kind :
           {CollectiveKind::kAllGather, CollectiveKind::kAllToAll}) {
        calls.push_back(
            CollectiveOf(kind, scale.dtype, payload, group, kByCopyEngine));
      }
    }
  }
  return calls;
}

CollectiveCall OneCtaGather(const GridScale& scale, int ranks) {
  return CollectiveOf(CollectiveKind::kAllGather, scale.dtype,
                      scale.payloads[scale.payloads.size() - 2], ranks,
                      "ctas=1");
}

absl::StatusOr<std::vector<PairCall>> PairGrid(const GridScale& scale,
                                               int ranks) {
  std::vector<PairCall> pairs;
  if (ranks < 2) return pairs;
  int64_t width = scale.widths.back();
  ASYRA_ASSIGN_OR_RETURN(
      LocalCall matmul,
      ParseLocalCall(
          Matmul(ToString(scale.dtype), scale.rows.back(), width, width)));
  int64_t payload = scale.payloads[scale.payloads.size() - 2];
  for (CollectiveKind kind : kKinds) {
    pairs.push_back({matmul, CollectiveOf(kind, scale.dtype, payload, ranks),
                     kind, scale.settle_s});
  }
  return pairs;
}

}  // namespace asyra
