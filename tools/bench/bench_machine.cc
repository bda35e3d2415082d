#include <algorithm>
#include <cmath>
#include <map>

#include "ir/copy_engine.h"
#include "ir/parser.h"
#include "ir/support/status.h"
#include "nlohmann/json.hpp"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/energy.h"
#include "tools/bench/bench_report.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

// Shorter transfers say more of latencies than of rates.
constexpr double kLongBytes = 1 << 20;
// A call that moves fewer bytes than so many caches, or if none moves more,
// than so much of the most bytes that a call moves, may find them in caches.
constexpr double kManyCaches = 4;
constexpr double kLongPart = 0.25;

// The best rates that some call reached.
struct Rates {
  std::map<std::string, double> matrix_tflops;  // by element type
  double memory_gbps = 0;  // of calls that move the most bytes
  double link_gbps = 0;    // bus bandwidth of the library
  double copy_gbps = 0;    // and of copy engines
  double least_collective_us = 0;
};

Work WorkOf(const KernelUse& use) {
  return WorkOf(
      {use.def(), use.attrs(), use.global_operands(), use.global_results()},
      Mesh());
}

// Returns the bytes that a call without matmuls moves, each byte once: what it
// reads again, like a row of a table, may come from a cache.
double MovedBytes(const KernelUse& use, const Work& work) {
  if (work.matrix) return 0;
  double bytes = 0;
  for (const Type& type : use.global_operands()) bytes += type.bytes();
  for (const Type& type : use.global_results()) bytes += type.bytes();
  return std::min(bytes, work.read_bytes + work.write_bytes);
}

// Returns the bytes that calls move at least that tell the memory's rate.
absl::StatusOr<double> LongBytes(const BenchResult& result) {
  double most = kLongBytes;
  for (const MeasuredCall& measured : result.calls) {
    if (measured.ranks > 1) continue;
    ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall(measured.text));
    most = std::max(most, MovedBytes(call.use, WorkOf(call.use)));
  }
  double uncached = kManyCaches * static_cast<double>(result.cache_bytes);
  if (result.cache_bytes > 0 && uncached <= most) return uncached;
  return std::max(kLongBytes, kLongPart * most);
}

// `power`: of the GPU, or null: rates are those at its `measured_mhz`.
absl::Status AddLocal(const MeasuredCall& measured, double long_bytes,
                      const GpuPower* power, Rates* rates) {
  ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall(measured.text));
  const KernelUse& use = call.use;
  Work work = WorkOf(use);
  double bytes = MovedBytes(use, work);
  if (work.matrix) {
    double& best =
        rates->matrix_tflops[std::string(ToString(use.operand(0).dtype))];
    double us = measured.timing.us;
    bool scales = power != nullptr && measured.timing.mhz > 0;
    if (scales) us /= MathFactor(*power, measured.timing.mhz);
    best = std::max(best, work.flops / us * 1e-6);
  } else if (bytes >= long_bytes) {
    rates->memory_gbps =
        std::max(rates->memory_gbps, bytes / measured.timing.us * 1e-3);
  }
  return absl::OkStatus();
}

absl::Status AddCollective(const MeasuredCall& measured, Rates* rates) {
  ASYRA_ASSIGN_OR_RETURN(int64_t payload,
                         PayloadOf({measured.text, measured.ranks}));
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({{"x", measured.ranks}}));
  ASYRA_ASSIGN_OR_RETURN(ParsedCall call, ParseCall(measured.text, mesh));
  double us = measured.timing.us;
  bool by_copy_engine = AsksForCopyEngine(call.attrs);
  double& least = rates->least_collective_us;
  if (!by_copy_engine) least = least == 0 ? us : std::min(least, us);
  if (static_cast<double>(payload) < kLongBytes) return absl::OkStatus();
  CollectiveKind kind = call.def->collective;
  if (by_copy_engine) {
    // The estimate adds it to what the rate gives.
    us -= CopyLatencyUs(kind, measured.ranks);
    if (us <= 0) return absl::OkStatus();
  }
  double& best = by_copy_engine ? rates->copy_gbps : rates->link_gbps;
  best = std::max(best, BusGbps(kind, payload, measured.ranks, us));
  return absl::OkStatus();
}

absl::StatusOr<Rates> RatesOf(const BenchResult& result) {
  const GpuPower* power = result.power.has_value() ? &*result.power : nullptr;
  Rates rates;
  ASYRA_ASSIGN_OR_RETURN(double long_bytes, LongBytes(result));
  for (const MeasuredCall& call : result.calls) {
    ASYRA_RETURN_IF_ERROR(call.ranks > 1
                              ? AddCollective(call, &rates)
                              : AddLocal(call, long_bytes, power, &rates));
  }
  return rates;
}

// Three digits say all that a measurement does.
double Rounded(double value) { return std::stod(fmt::format("{:.3g}", value)); }

// The least rate that a machine file takes.
constexpr double kLeastRate = 0.01;

void SetRate(double reached, Json* rate) {
  if (reached <= 0) return;
  (*rate)["achievable"] =
      Rounded(std::clamp(reached, kLeastRate, (*rate)["peak"].get<double>()));
}

std::string_view NameOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    default:
      return "all_to_all";
  }
}

// Tells what of the host is as the base says.
std::string RestOfHost(const BenchResult& result, const Rates& rates,
                       const Json& host) {
  std::vector<std::string> rest;
  if (!result.whole_host) rest.push_back("its GPUs");
  if (result.pairs.empty()) rest.push_back("shares beside computation");
  if (result.cta_gbps == 0) rest.push_back("a CTA's rate");
  if (rates.copy_gbps == 0 && host.contains("copy_gbps")) {
    rest.push_back("copy engines");
  }
  if (rest.empty()) return "";
  return fmt::format("; {} as before", fmt::join(rest, ", "));
}

// Sets what is measured; the rest stays, as do ops of a step and the workspace.
void SetMemory(const BenchResult& result, Json* library) {
  if (result.context_mib > 0) (*library)["context"] = result.context_mib;
  if (!result.collective_memory.has_value()) return;
  const LibraryMemory& memory = *result.collective_memory;
  (*library)["collectives"] = memory.collectives;
  (*library)["exchanges"] = memory.exchanges;
  (*library)["communicator"] = memory.communicator;
  (*library)["rings"] = memory.rings;
  (*library)["trees"] = memory.trees;
  (*library)["peer"] = memory.peer;
}

void SetPower(const GpuPower& power, Json* gpu) {
  Json before = gpu->value("power", Json::object());
  Json& json = (*gpu)["power"] = Json::object();
  json["cap_w"] = Rounded(power.cap_w);
  json["idle_w"] = Rounded(power.idle_w);
  json["most_mhz"] = power.most_mhz;
  json["measured_mhz"] = std::round(power.measured_mhz);
  json["clock_share"] = Rounded(power.clock_share);
  json["exponent"] = Rounded(power.exponent);
  json["pj_matrix"] = Json::object();
  for (const auto& [dtype, pj] : power.pj_matrix) {
    json["pj_matrix"][dtype] = Rounded(pj);
  }
  json["pj_vector"] = Rounded(power.pj_vector);
  json["pj_hbm"] = Rounded(power.pj_hbm);
  // One rank does not tell it.
  json["pj_link"] = power.pj_link > 0 ? Json(Rounded(power.pj_link))
                                      : before.value("pj_link", Json(0));
}

// Tells what of the GPU is as the base says.
std::string RestOfGpu(const BenchResult& result) {
  bool computes = result.context_mib > 0,
       communicates = result.collective_memory.has_value();
  if (computes && communicates) return "; peaks and memory of ops as before";
  return fmt::format("; peaks and memory of {} as before",
                     computes       ? "collectives"
                     : communicates ? "the context"
                                    : "libraries");
}

Json Even(double rate) { return {{"peak", rate}, {"achievable", rate}}; }

}  // namespace

double BusGbps(CollectiveKind kind, int64_t payload_bytes, int ranks,
               double us) {
  return static_cast<double>(payload_bytes) * BusFactor(kind, ranks) / us *
         1e-3;
}

absl::StatusOr<std::string> BenchMachine(const BenchResult& result,
                                         const std::string& name,
                                         const std::string& table,
                                         std::string_view base) {
  Json machine = Json::parse(base.begin(), base.end(), nullptr,
                             /*allow_exceptions=*/false);
  if (machine.is_discarded() || !machine.is_object()) {
    return Invalid("the machine to begin with is no JSON object");
  }
  ASYRA_ASSIGN_OR_RETURN(Rates rates, RatesOf(result));
  machine["name"] = name;
  Json &gpu = machine["gpu"], &host = machine["host"];
  for (auto& [dtype, tflops] : rates.matrix_tflops) {
    if (gpu["matrix_tflops"].contains(dtype)) {
      SetRate(tflops, &gpu["matrix_tflops"][dtype]);
    }
  }
  SetRate(rates.memory_gbps, &gpu["hbm_gbps"]);
  SetRate(rates.link_gbps, &host["link_gbps"]);
  if (host.contains("copy_gbps")) SetRate(rates.copy_gbps, &host["copy_gbps"]);
  if (result.cta_gbps > 0) host["cta_gbps"] = Rounded(result.cta_gbps);
  SetMemory(result, &gpu["library_mib"]);
  constexpr double kLeastUs = 0.01;
  const LaunchTimes& launches = result.launches;
  gpu["kernel_us"] = Rounded(std::max(launches.device_us, kLeastUs));
  machine["launch_us"] = Rounded(std::max(launches.eager_us, kLeastUs));
  machine["graph_launch_us"] =
      Rounded(std::max(launches.recorded_us, kLeastUs));
  for (const MeasuredPair& pair : result.pairs) {
    double kept = pair.timing.collective_us / pair.timing.collective_beside_us;
    host["collectives"][std::string(NameOf(pair.kind))]["beside_compute"] =
        Rounded(std::clamp(kept, 0.01, 1.0));
  }
  if (!result.loads.empty()) SetPower(*result.power, &gpu);
  machine["measurements"] = table;
  std::string by = fmt::format("asyra-bench on {}, {}, {}", result.device,
                               result.libraries, result.date);
  machine["sources"]["gpu"] = by + RestOfGpu(result);
  if (rates.least_collective_us > 0) {
    machine["sources"]["host"] = by + RestOfHost(result, rates, host);
  }
  return machine.dump(2) + "\n";
}

std::string PlainMachine(const BenchResult& result, std::string_view before) {
  absl::StatusOr<Rates> found = RatesOf(result);
  Rates rates = found.ok() ? *found : Rates();
  double matrix = kLeastRate;
  for (auto& [dtype, tflops] : rates.matrix_tflops) {
    matrix = std::max(matrix, tflops);
  }
  // Hundredths of the machine, of so many operations in each of 1e8 clocks.
  constexpr int kSms = 100, kClockMhz = 100;
  double per_clock = std::ceil(matrix * 100);
  Json tflops = Even(per_clock / 100);
  double memory = std::max(Rounded(rates.memory_gbps), 1.0);
  double link = std::max(Rounded(rates.link_gbps), 1.0);
  Json collective = {{"ctas", 1}, {"beside_compute", 1}};
  double base_us = std::max(Rounded(rates.least_collective_us), 0.01);
  Json machine = {
      {"schema", 4},
      {"name", ""},
      {"gpu",
       {{"name", result.device},
        {"sms", kSms},
        {"clock_mhz", kClockMhz},
        {"bf16_flops_per_sm_clock", per_clock},
        {"hbm_gib", 16},
        {"hbm_gbps", Even(memory)},
        {"hbm_sms", 1},
        {"matrix_tflops",
         {{"bf16", tflops}, {"f16", tflops}, {"f32", tflops}, {"f64", tflops}}},
        {"vector_tflops", tflops},
        {"kernel_us", 1},
        {"gemm_half_tile", 0},
        {"gemm_extra_k", 0},
        {"gemm_hbm_fraction", 1},
        {"library_mib",
         {{"context", 0},
          {"op", 0},
          {"collectives", 0},
          {"exchanges", 0},
          {"communicator", 0},
          {"rings", 0},
          {"trees", 0},
          {"peer", 0},
          {"workspace", 0}}}}},
      {"launch_us", 1},
      {"graph_launch_us", 1},
      {"host",
       {{"gpus", std::max(result.ranks, 1)},
        {"link", "nvlink"},
        {"link_gbps", Even(link)},
        {"p2p", true},
        {"ll_gbps", link},
        {"cta_gbps", link},
        {"protocols", Json::array({{{"name", "memory"},
                                    {"base_us", base_us},
                                    {"hop_us", 0},
                                    {"network_hop_us", 0},
                                    {"fraction", 1}}})},
        {"collectives",
         {{"all_reduce", collective},
          {"all_gather", collective},
          {"reduce_scatter", collective},
          {"all_to_all", collective}}},
        {"copy_engines", 0}}},
      {"network", {{"nics", 1}, {"gbps", Even(1)}, {"alpha_us", 0}}},
      {"measurements", ""},
      {"sources", {{"gpu", ""}, {"host", "none"}, {"network", "none"}}}};
  Json kept = Json::parse(before.begin(), before.end(), nullptr,
                          /*allow_exceptions=*/false);
  if (kept.is_object()) {
    Json& host = machine["host"];
    host["collectives"] = kept["host"]["collectives"];
    host["gpus"] = std::max(kept["host"]["gpus"].get<int>(), result.ranks);
  }
  return machine.dump();
}

}  // namespace asyra
