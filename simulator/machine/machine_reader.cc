// Reads the JSON of a *.machine file against its schema: every key is known
// and present, every number in its range.
#include "ir/support/status.h"
#include "ir/type.h"
#include "simulator/machine/json_fields.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/nccl.h"

namespace asyra {
namespace {

using Json = nlohmann::json;

// Wide enough for any machine, and narrow enough to catch a wrong unit (GB for
// MB, GFLOP for TFLOP).
constexpr Range kMemoryGbps = {1, 100000};
constexpr Range kLinkGbps = {0.1, 10000};
constexpr Range kTflops = {0.01, 100000};

// The schema in which hosts had `beside_copies`, the share of its speed that
// arithmetic kept beside copies.
constexpr int kBesideCopies = 3;

// {"peak": 4800, "achievable": 4260}
Rate ReadRate(JsonFields& fields, const char* key, Range range) {
  return fields.Object(key, [&](JsonFields& pair) {
    Rate rate = {pair.Number("peak", range), pair.Number("achievable", range)};
    if (pair.ok() && rate.achievable > rate.peak) {
      fields.Fail(fields.Path(key),
                  fmt::format("achievable {} is above peak {}", rate.achievable,
                              rate.peak));
    }
    return rate;
  });
}

std::map<std::string, Rate, std::less<>> ReadMatrixRates(JsonFields& fields) {
  std::map<std::string, Rate, std::less<>> rates;
  for (const std::string& key : fields.Keys()) {
    DType dtype;
    if (!ParseDType(key, &dtype)) {
      fields.Fail(fields.Path(key), "is not an element type");
    }
    rates[key] = ReadRate(fields, key.c_str(), kTflops);
  }
  if (!rates.contains("bf16")) fields.Missing("bf16");
  return rates;
}

LibraryMemory ReadLibraryMemory(JsonFields& fields) {
  constexpr Range kMib = {0, 65536};
  return {.context = fields.Number("context", kMib),
          .op = fields.Number("op", kMib),
          .collectives = fields.Number("collectives", kMib),
          .exchanges = fields.Number("exchanges", kMib),
          .communicator = fields.Number("communicator", kMib),
          .rings = fields.Number("rings", kMib),
          .trees = fields.Number("trees", kMib),
          .peer = fields.Number("peer", kMib),
          .workspace = fields.Number("workspace", kMib)};
}

// `types`: of the GPU's matmuls.
GpuPower ReadPower(JsonFields& fields,
                   const std::map<std::string, Rate, std::less<>>& types) {
  constexpr Range kWatts = {1, 10000};
  constexpr Range kMhz = {100, 10000};
  constexpr Range kPicojoules = {0, 100000};
  GpuPower power;
  power.cap_w = fields.Number("cap_w", kWatts);
  power.idle_w = fields.Number("idle_w", kWatts);
  power.most_mhz = fields.Number("most_mhz", kMhz);
  power.measured_mhz = fields.Number("measured_mhz", kMhz);
  power.clock_share = fields.Number("clock_share", {0, 1});
  power.exponent = fields.Number("exponent", {0, 4});
  power.pj_matrix = fields.Object("pj_matrix", [&](JsonFields& matrix) {
    std::map<std::string, double, std::less<>> energies;
    for (const auto& [type, rate] : types) {
      energies[type] = matrix.Number(type.c_str(), kPicojoules);
    }
    return energies;
  });
  power.pj_vector = fields.Number("pj_vector", kPicojoules);
  power.pj_hbm = fields.Number("pj_hbm", kPicojoules);
  power.pj_link = fields.Number("pj_link", kPicojoules);
  auto above = [&](const char* key, double value, const char* limit,
                   double most) {
    if (!fields.ok() || value <= most) return;
    fields.Fail(fields.Path(key),
                fmt::format("is {}, above {} {}", value, limit, most));
  };
  above("measured_mhz", power.measured_mhz, "most_mhz", power.most_mhz);
  above("idle_w", power.idle_w, "cap_w", power.cap_w);
  return power;
}

Gpu ReadGpu(JsonFields& fields) {
  Gpu gpu;
  gpu.name = fields.Text("name");
  gpu.sms = fields.Count("sms", 1, 1024);
  gpu.clock_mhz = fields.Number("clock_mhz", {100, 10000});
  gpu.hbm_gib = fields.Number("hbm_gib", {0.001, 4096});
  gpu.hbm_gbps = ReadRate(fields, "hbm_gbps", kMemoryGbps);
  gpu.hbm_sms = fields.Count("hbm_sms", 1, 1024);
  gpu.matrix_tflops = fields.Object("matrix_tflops", ReadMatrixRates);
  gpu.vector_tflops = ReadRate(fields, "vector_tflops", kTflops);
  gpu.kernel_us = fields.Number("kernel_us", kNotNegative);
  gpu.gemm_half_tile = fields.Number("gemm_half_tile", kNotNegative);
  gpu.gemm_extra_k = fields.Number("gemm_extra_k", kNotNegative);
  gpu.gemm_hbm_fraction = fields.Number("gemm_hbm_fraction", kFraction);
  gpu.gemm_persistent =
      fields.Has("gemm_persistent") && fields.Bool("gemm_persistent");
  gpu.library_mib = fields.Object("library_mib", ReadLibraryMemory);
  if (fields.Has("power")) {
    gpu.power = fields.Object("power", [&](JsonFields& power) {
      return ReadPower(power, gpu.matrix_tflops);
    });
  }
  // Sheets quote twice the dense rate for sparse operands; the arithmetic of
  // one SM tells them apart.
  double per_clock = fields.Number("bf16_flops_per_sm_clock", {1, 1e6});
  if (!fields.ok()) return gpu;
  double dense = gpu.sms * gpu.clock_mhz * 1e6 * per_clock / 1e12;
  double peak = gpu.matrix_tflops["bf16"].peak;
  if (peak > 1.05 * dense || peak < 0.95 * dense) {
    fields.Fail(fields.Path("matrix_tflops.bf16.peak"),
                fmt::format("is {}, but {} SMs at {} MHz do {:.0f} dense", peak,
                            gpu.sms, gpu.clock_mhz, dense));
  }
  return gpu;
}

CollectiveParams ReadCollective(JsonFields& fields) {
  return {fields.Count("ctas", 1, 1024),
          fields.Number("beside_compute", kFraction)};
}

std::map<CollectiveKind, CollectiveParams> ReadCollectives(JsonFields& fields) {
  CollectiveParams exchange = fields.Object("all_to_all", ReadCollective);
  return {
      {CollectiveKind::kAllReduce, fields.Object("all_reduce", ReadCollective)},
      {CollectiveKind::kAllGather, fields.Object("all_gather", ReadCollective)},
      {CollectiveKind::kReduceScatter,
       fields.Object("reduce_scatter", ReadCollective)},
      {CollectiveKind::kAllToAll, exchange},
      // Sends and receives too.
      {CollectiveKind::kShift, exchange},
  };
}

// The library's protocols, or those of the file.
std::vector<Protocol> ReadProtocols(JsonFields& host, LinkKind link) {
  double ll_gbps = host.Number("ll_gbps", kPositive);
  if (!host.Has("protocols")) return NcclProtocols(link, ll_gbps);
  std::vector<Protocol> protocols;
  host.EachOf("protocols", [&](JsonFields& fields) {
    Protocol protocol;
    protocol.name = fields.Text("name");
    protocol.ring_base_us = protocol.tree_base_us =
        fields.Number("base_us", kNotNegative);
    protocol.ring_hop_us = protocol.tree_hop_us =
        fields.Number("hop_us", kNotNegative);
    protocol.ring_network_hop_us = protocol.tree_network_hop_us =
        fields.Number("network_hop_us", kNotNegative);
    protocol.fraction = fields.Number("fraction", kFraction);
    protocols.push_back(std::move(protocol));
  });
  return protocols;
}

LinkKind ReadLinkKind(JsonFields& host) {
  std::string link = host.Text("link");
  if (host.ok() && link != "nvlink" && link != "pcie") {
    host.Fail(host.Path("link"),
              fmt::format("is {}, it should be nvlink or pcie", link));
  }
  return link == "pcie" ? LinkKind::kPcie : LinkKind::kNvlink;
}

void ReadHost(JsonFields& host, int schema, Machine* machine) {
  machine->gpus_per_host = host.Count("gpus", 1, 4096);
  machine->link = ReadLinkKind(host);
  machine->link_gbps = ReadRate(host, "link_gbps", kLinkGbps);
  machine->p2p = host.Bool("p2p");
  if (host.Has("p2p") && !machine->p2p) {
    machine->host_memory_gbps = ReadRate(host, "memory_gbps", kMemoryGbps);
  }
  machine->cta_gbps = host.Number("cta_gbps", kPositive);
  machine->protocols = ReadProtocols(host, machine->link);
  machine->collectives = host.Object("collectives", ReadCollectives);
  machine->copy_engines = host.Count("copy_engines", 0, 64);
  machine->process_copies =
      host.Has("process_copies") && host.Bool("process_copies");
  // With copy_engines=0 the rate may stay.
  if (machine->copy_engines > 0 || host.Has("copy_gbps")) {
    machine->copy_gbps = ReadRate(host, "copy_gbps", kLinkGbps);
  }
  // Power says it since.
  if (schema == kBesideCopies && host.Has("beside_copies")) {
    host.Number("beside_copies", kFraction);
  }
}

Machine ReadMachine(JsonFields& fields, std::string* table_file) {
  Machine machine;
  const int schema = fields.Count("schema", kBesideCopies, 4);
  machine.name = fields.Text("name");
  if (fields.Has("nodes")) machine.nodes = fields.Count("nodes", 1, 1 << 20);
  machine.gpu = fields.Object("gpu", ReadGpu);
  machine.launch_us = fields.Number("launch_us", {0, 1000});
  machine.graph_launch_us = fields.Number("graph_launch_us", {0, 1000});
  fields.Object("host", [&](JsonFields& host) {
    ReadHost(host, schema, &machine);
    return true;
  });
  fields.Object("network", [&](JsonFields& network) {
    machine.nics = network.Count("nics", 1, 4096);
    machine.network_gbps = ReadRate(network, "gbps", kLinkGbps);
    machine.network_alpha_us = network.Number("alpha_us", kNotNegative);
    return true;
  });
  machine.sources = fields.Object("sources", [](JsonFields& sources) {
    std::map<std::string, std::string, std::less<>> result;
    for (const char* key : {"gpu", "host", "network"}) {
      result[key] = sources.Text(key);
    }
    return result;
  });
  if (fields.Has("measurements")) {
    std::string file = fields.Text("measurements");
    if (table_file != nullptr) *table_file = std::move(file);
  }
  fields.Finish();
  return machine;
}

}  // namespace

absl::StatusOr<Machine> ParseMachine(std::string_view text,
                                     std::string_view origin,
                                     std::string* table_file) {
  ASYRA_RETURN_IF_ERROR(CheckJson(text, origin));
  Json json = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  if (!json.is_object()) return Invalid("{}: should be an object", origin);
  JsonErrors errors;
  JsonFields fields(json, "", &errors);
  Machine machine = ReadMachine(fields, table_file);
  if (!errors.ok()) return Annotate(errors.status(), origin);
  return machine;
}

}  // namespace asyra
