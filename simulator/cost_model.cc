#include "simulator/cost_model.h"

#include <algorithm>
#include <cmath>

#include "ir/support/status.h"

namespace asyra {
namespace {

struct Tile {
  double rows, cols;
};
// What product kernels compute per block; the library picks the best.
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128},
                           {128, 64},  {64, 128},  {64, 64}};

double LocalBytes(absl::Span<const Type> types, const Mesh& mesh) {
  int64_t bytes = 0;
  for (const Type& type : types) bytes += LocalBytes(type, mesh);
  return static_cast<double>(bytes);
}

}  // namespace

// The result of a matrix product: leading dimensions count as rows.
struct CostModel::Grid {
  double rows = 0;
  double cols = 0;

  static Grid Of(const Type& local) {
    if (local.rank() == 0) return {1, 1};
    auto cols = static_cast<double>(local.dims.back().size);
    return {static_cast<double>(local.num_elements()) / std::max(cols, 1.0),
            cols};
  }
};

std::string_view ToString(OpCost::Source source) {
  constexpr std::string_view kNames[] = {"measured", "interpolated",
                                         "extrapolated", "formula"};
  return kNames[source];
}

std::string_view ToString(OpCost::Limit limit) {
  constexpr std::string_view kNames[] = {"nothing", "latency", "math",
                                         "memory",  "link",    "network"};
  return kNames[limit];
}

std::string_view ToString(Resource resource) {
  constexpr std::string_view kNames[] = {"sms", "hbm", "link", "network",
                                         "copy engines"};
  static_assert(std::size(kNames) == kNumResources);
  return kNames[resource];
}

bool IsSetUpOnce(const OpDef& def, size_t operand_count) {
  return operand_count == 0 && def.is_pure;
}

int64_t LocalBytes(const Type& type, const Mesh& mesh) {
  int64_t elements = 1;
  for (const Dim& dim : type.dims) elements *= dim.size / mesh.size(dim.axes);
  return elements * SizeOf(type.dtype);
}

CostModel::CostModel(Machine machine, Mesh mesh)
    : machine_(std::move(machine)), mesh_(std::move(mesh)) {}

// Waves of tiles over the SMs, with the fastest of the tile shapes. Each tile
// pays for the fixed part of its loop as extra steps of k.
double CostModel::ProductUs(double flops, const Rate& rate,
                            const Grid& grid) const {
  const Gpu& gpu = machine_.gpu;
  if (grid.rows * grid.cols == 0) return 0;
  double k = flops / (2 * grid.rows * grid.cols) + gpu.gemm_extra_k;
  double sm_flops_per_us = rate.achievable * 1e6 / gpu.sms;
  double best = INFINITY;
  for (const Tile& tile : kTiles) {
    double tiles =
        std::ceil(grid.rows / tile.rows) * std::ceil(grid.cols / tile.cols);
    double waves = std::ceil(tiles / gpu.sms);
    double half = tile.rows * tile.cols / (tile.rows + tile.cols);
    double efficiency = half / (half + gpu.gemm_half_tile);
    best = std::min(best, waves * 2 * tile.rows * tile.cols * k /
                              (sm_flops_per_us * efficiency));
  }
  return best;
}

OpCost CostModel::ComputeCost(const Work& work, DType dtype, const Grid& grid,
                              double rate) const {
  const Gpu& gpu = machine_.gpu;
  double bytes = work.read_bytes + work.write_bytes;
  if (work.flops == 0 && bytes == 0) return {};
  auto matrix = gpu.matrix_tflops.find(ToString(dtype));
  bool product = work.matrix && matrix != gpu.matrix_tflops.end();
  double math_us = product ? ProductUs(work.flops, matrix->second, grid) / rate
                           : work.flops / (gpu.vector_tflops.achievable * 1e6);
  double gbps = product ? gpu.gemm_hbm_gbps : gpu.hbm_gbps.achievable;
  double memory_us = bytes / (gbps * 1e3);

  OpCost cost;
  cost.is_compute = true;
  cost.time_us = gpu.kernel_us + std::max(math_us, memory_us);
  cost.launch_us = machine_.launch_us;
  cost.limit = gpu.kernel_us > std::max(math_us, memory_us) ? OpCost::kLatency
               : math_us > memory_us                        ? OpCost::kMath
                                                            : OpCost::kMemory;
  cost.load[kHbm] = memory_us / cost.time_us;
  // Moving bytes takes SMs too: hbm_sms of them saturate the memory.
  double moving = std::min(1.0, static_cast<double>(gpu.hbm_sms) / gpu.sms);
  cost.load[kSms] = std::max(math_us / cost.time_us, moving * cost.load[kHbm]);
  return cost;
}

double CostModel::ComputeUs(const Work& work, DType dtype) const {
  double elements = work.write_bytes / static_cast<double>(SizeOf(dtype));
  double side = std::max(1.0, std::sqrt(elements));
  return ComputeCost(work, dtype, {side, side}, 1).time_us;
}

OpCost CostModel::Cost(const OpCall& call) const {
  if (call.def.is_view || call.def.is_wait) return {};
  if (call.def.collective != CollectiveKind::kNone) {
    double payload = std::max(LocalBytes(call.operands, mesh_),
                              LocalBytes(call.results, mesh_));
    return CollectiveCost(call.def.collective, payload,
                          call.attrs.Get<AxisList>("axes"));
  }
  if (IsSetUpOnce(call.def, call.operands.size())) return {};
  const Type& result = call.results[0];
  DType dtype = call.operands.empty() ? result.dtype : call.operands[0].dtype;
  auto rate = machine_.gpu.op_rate.find(call.def.name);
  return ComputeCost(WorkOf(call, mesh_), dtype, Grid::Of(result.Local(mesh_)),
                     rate == machine_.gpu.op_rate.end() ? 1 : rate->second);
}

std::vector<OpCost> PriceOps(const Program& program, const CostModel& costs) {
  std::vector<OpCost> prices;
  prices.reserve(program.ops.size());
  for (const Op& op : program.ops) {
    prices.push_back(costs.Cost(OpUse(program, op)));
  }
  return prices;
}

absl::Status CheckMeasured(const Program& program,
                           absl::Span<const OpCost> prices) {
  int first = -1, count = 0;
  double guessed_us = 0, all_us = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    all_us += prices[i].time_us;
    if (prices[i].time_us == 0 || prices[i].source <= OpCost::kInterpolated) {
      continue;
    }
    if (first < 0) first = static_cast<int>(i);
    guessed_us += prices[i].time_us;
    ++count;
  }
  if (first < 0) return absl::OkStatus();
  const Op& op = program.ops[first];
  return Invalid(
      "{} of {} ops, {:.1f} % of the time of all ops, are not measured; the "
      "first is %{} = {}, whose price is {}",
      count, prices.size(), 100 * guessed_us / all_us,
      op.results.empty() ? "" : program.value_name(op.results[0]), op.def->name,
      ToString(prices[first].source));
}

}  // namespace asyra
