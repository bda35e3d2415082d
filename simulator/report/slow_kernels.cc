#include "simulator/report/slow_kernels.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "ir/body.h"
#include "ir/gpu/attention_kernel.h"
#include "simulator/report/text.h"

namespace asyra {
namespace {

constexpr double kSlow = 1.0 / 3;      // of the machine's rate
constexpr double kLeastOfStep = 0.02;  // of the step, to be told
constexpr double kFewWaves = 0.5;      // tiles over the SMs of the device
constexpr size_t kMostNotes = 3;
constexpr double kFewRows = 64;  // of a matmul

// The least time by arithmetic and by bytes, at the rates of long kernels.
double BoundUs(const Gpu& gpu, const Work& work, DType dtype) {
  double vector_us = gpu.vector_tflops.achievable * 1e6;
  auto matrix = gpu.matrix_tflops.find(ToString(dtype));
  bool on_matrix = work.matrix && matrix != gpu.matrix_tflops.end();
  double flops_us =
      work.flops / (on_matrix ? matrix->second.achievable * 1e6 : vector_us);
  double bytes_us =
      (work.read_bytes + work.write_bytes) / (gpu.hbm_gbps.achievable * 1e3);
  return std::max(flops_us + work.vector_flops / vector_us, bytes_us);
}

std::string WhyAttention(const OpCall& call) {
  AttentionChoice choice = AttentionKernelOf(call);
  if (choice.kernel != AttentionKernel::kPlain) return "";
  return fmt::format("not on tensor cores, because of {}", choice.obstacle);
}

std::string WhyOf(const OpCall& call, const Work& work, const OpCost& cost) {
  if (IsAttention(call.def)) {
    if (std::string why = WhyAttention(call); !why.empty()) return why;
  }
  if (work.odd_rows) return "rows of a matrix begin at odd elements";
  if (cost.limit == OpCost::kLatency) return "too little work for a kernel";
  if (work.matrix && work.rows > 0 && work.rows < kFewRows) {
    return "few rows for a tile";
  }
  if (work.matrix && cost.waves < kFewWaves) {
    return "fewer tiles than half of the SMs";
  }
  return cost.source < OpCost::kFormula ? "as it was measured"
                                        : "as its formula says";
}

}  // namespace

std::vector<SlowKernels> FindSlowKernels(const Program& program,
                                         const SimResult& result,
                                         const CostModel& costs) {
  struct Group {
    int count = 0;
    double us = 0, bound_us = 0;
  };
  std::map<std::pair<std::string_view, std::string>, Group> groups;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const OpCost& cost = result.op_costs[i];
    OpUse use(program, program.ops[i]);
    OpCall call = use.call();
    if (!cost.is_compute || cost.time_us <= 0 || call.def.body_communicates) {
      continue;
    }
    Work work = WorkOf(call, program.mesh);
    double bound_us = BoundUs(costs.machine().gpu, work, ComputeDType(call));
    if (bound_us >= kSlow * cost.time_us) continue;
    Group& group = groups[{call.def.name, WhyOf(call, work, cost)}];
    ++group.count;
    group.us += cost.time_us;
    group.bound_us += bound_us;
  }
  std::vector<SlowKernels> kernels;
  for (const auto& [key, group] : groups) {
    if (group.us < kLeastOfStep * result.makespan_us) continue;
    kernels.push_back({.op = key.first,
                       .count = group.count,
                       .us = group.us,
                       .rate = group.bound_us / group.us,
                       .why = key.second});
  }
  std::stable_sort(
      kernels.begin(), kernels.end(),
      [](const SlowKernels& a, const SlowKernels& b) { return a.us > b.us; });
  return kernels;
}

std::vector<std::string> SlowKernelNotes(const Program& program,
                                         const SimResult& result,
                                         const CostModel& costs) {
  std::vector<std::string> notes;
  for (const SlowKernels& slow : FindSlowKernels(program, result, costs)) {
    if (notes.size() == kMostNotes) break;
    notes.push_back(fmt::format(
        "{} {} op{} {:.1f} % of the step at {:.1f} % of the machine's rate: "
        "{}",
        slow.count, slow.op, slow.count == 1 ? " takes" : "s take",
        Percent(slow.us, result.makespan_us), 100 * slow.rate, slow.why));
  }
  return notes;
}

}  // namespace asyra
