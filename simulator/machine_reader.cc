// Reads the JSON of a *.machine file against its schema: every key is known
// and present, every number in its range.
#include <nlohmann/json.hpp>
#include <set>

#include "ir/support/status.h"
#include "ir/type.h"
#include "simulator/machine.h"

namespace asyra {
namespace {

using Json = nlohmann::json;

struct Range {
  double low;   // inclusive
  double high;  // inclusive
};
constexpr Range kPositive = {1e-9, 1e12};
constexpr Range kNotNegative = {0, 1e12};
constexpr Range kFraction = {1e-3, 1};

// The fields of one JSON object. The first error sticks, so that a reader is
// a plain list of fields; Finish reports it, or a key that nobody asked for.
class Fields {
 public:
  Fields(const Json& json, std::string path, absl::Status* status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json.is_object()) Fail(path_, "should be an object");
  }

  double Number(const char* key, Range range) {
    const Json* value = Find(key);
    if (value == nullptr) return 0;
    if (!value->is_number()) return Fail(Path(key), "should be a number");
    return CheckRange(key, value->get<double>(), range);
  }

  int Count(const char* key, int low, int high) {
    const Json* value = Find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_integer()) {
      Fail(Path(key), "should be a whole number");
      return 0;
    }
    return static_cast<int>(
        CheckRange(key, value->get<double>(), {double(low), double(high)}));
  }

  std::string Text(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr) return "";
    if (!value->is_string()) Fail(Path(key), "should be a string");
    return value->is_string() ? value->get<std::string>() : "";
  }

  // What `read` makes of the object under `key`.
  template <typename Read>
  auto Object(const char* key, Read read) {
    using Result = decltype(read(std::declval<Fields&>()));
    const Json* value = Find(key);
    if (value == nullptr) return Result();
    Fields fields(*value, Path(key), status_);
    if (!status_->ok()) return Result();
    Result result = read(fields);
    fields.Finish();
    return result;
  }

  // {"peak": 4800, "achievable": 4260}
  Rate RateOf(const char* key) {
    return Object(key, [&](Fields& fields) {
      Rate rate = {fields.Number("peak", kPositive),
                   fields.Number("achievable", kPositive)};
      if (status_->ok() && rate.achievable > rate.peak) {
        Fail(Path(key), fmt::format("achievable {} is above peak {}",
                                    rate.achievable, rate.peak));
      }
      return rate;
    });
  }

  // Calls `read` with the fields of each object of the list under `key`.
  template <typename Read>
  void EachOf(const char* key, Read read) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array() || value->empty()) {
      Fail(Path(key), "should be a list that is not empty");
      return;
    }
    for (size_t i = 0; i < value->size() && status_->ok(); ++i) {
      Fields fields((*value)[i], fmt::format("{}[{}]", Path(key), i), status_);
      if (!status_->ok()) return;
      read(fields);
      fields.Finish();
    }
  }

  bool Has(const char* key) const { return json_.contains(key); }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : json_.items()) keys.push_back(key);
    return keys;
  }
  std::string Path(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }
  double Fail(std::string_view path, std::string_view what) {
    if (status_->ok()) *status_ = Invalid("{}: {}", path, what);
    return 0;
  }
  bool ok() const { return status_->ok(); }

  void Finish() {
    if (!status_->ok()) return;
    for (const auto& [key, value] : json_.items()) {
      if (!seen_.contains(key)) Fail(Path(key), "is not a known key");
    }
  }

 private:
  const Json* Find(const char* key) {
    if (!status_->ok()) return nullptr;
    seen_.insert(key);
    auto at = json_.find(key);
    if (at != json_.end()) return &*at;
    Fail(Path(key), "is missing");
    return nullptr;
  }

  double CheckRange(const char* key, double value, Range range) {
    if (value >= range.low && value <= range.high) return value;
    return Fail(Path(key), fmt::format("is {}, it should lie in [{}, {}]",
                                       value, range.low, range.high));
  }

  const Json& json_;
  std::string path_;
  absl::Status* status_;
  std::set<std::string> seen_;
};

std::map<std::string, Rate, std::less<>> ReadMatrixRates(Fields& fields) {
  std::map<std::string, Rate, std::less<>> rates;
  for (const std::string& key : fields.Keys()) {
    DType dtype;
    if (!ParseDType(key, &dtype)) {
      fields.Fail(fields.Path(key), "is not an element type");
    }
    rates[key] = fields.RateOf(key.c_str());
  }
  if (fields.ok() && !rates.contains("bf16")) {
    fields.Fail(fields.Path("bf16"), "is missing");
  }
  return rates;
}

Gpu ReadGpu(Fields& fields) {
  Gpu gpu;
  gpu.name = fields.Text("name");
  gpu.sms = fields.Count("sms", 1, 1024);
  gpu.clock_mhz = fields.Number("clock_mhz", {100, 10000});
  gpu.hbm_gib = fields.Number("hbm_gib", {0.001, 4096});
  gpu.hbm_gbps = fields.RateOf("hbm_gbps");
  gpu.hbm_sms = fields.Count("hbm_sms", 1, 1024);
  gpu.matrix_tflops = fields.Object("matrix_tflops", ReadMatrixRates);
  gpu.vector_tflops = fields.RateOf("vector_tflops");
  gpu.kernel_us = fields.Number("kernel_us", kNotNegative);
  gpu.gemm_half_tile = fields.Number("gemm_half_tile", kNotNegative);
  gpu.gemm_extra_k = fields.Number("gemm_extra_k", kNotNegative);
  gpu.gemm_hbm_gbps = fields.Number("gemm_hbm_gbps", kPositive);
  gpu.op_rate = fields.Object("op_rate", [](Fields& rates) {
    std::map<std::string, double, std::less<>> result;
    for (const std::string& key : rates.Keys()) {
      result[key] = rates.Number(key.c_str(), kFraction);
    }
    return result;
  });
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

CollectiveFit ReadFit(Fields& fields) {
  CollectiveFit fit;
  fit.ranks = fields.Count("ranks", 2, 1 << 20);
  fields.EachOf("protocols", [&](Fields& protocol) {
    fit.protocols.push_back({protocol.Number("alpha_us", kNotNegative),
                             protocol.Number("busbw_gbps", kPositive)});
  });
  return fit;
}

CollectiveParams ReadCollective(Fields& fields) {
  CollectiveParams params;
  params.sms = fields.Count("sms", 0, 1024);
  params.beside_compute = fields.Number("beside_compute", kFraction);
  if (fields.Has("measured_from_bytes") || fields.Has("measured_to_bytes")) {
    params.measured_from_bytes =
        fields.Number("measured_from_bytes", kPositive);
    params.measured_to_bytes = fields.Number(
        "measured_to_bytes", {params.measured_from_bytes, kPositive.high});
  }
  fields.EachOf("fits", [&](Fields& fit_fields) {
    CollectiveFit fit = ReadFit(fit_fields);
    if (!params.fits.empty() && fit.ranks <= params.fits.back().ranks) {
      fit_fields.Fail(fit_fields.Path("ranks"),
                      fmt::format("is {}, it should be above the {} before it",
                                  fit.ranks, params.fits.back().ranks));
    }
    params.fits.push_back(std::move(fit));
  });
  return params;
}

std::map<CollectiveKind, CollectiveParams> ReadCollectives(Fields& fields) {
  return {
      {CollectiveKind::kAllReduce, fields.Object("all_reduce", ReadCollective)},
      {CollectiveKind::kAllGather, fields.Object("all_gather", ReadCollective)},
      {CollectiveKind::kReduceScatter,
       fields.Object("reduce_scatter", ReadCollective)},
      {CollectiveKind::kAllToAll, fields.Object("all_to_all", ReadCollective)},
  };
}

// A fit faster than the link is a mistyped unit.
void CheckBusBandwidth(const Machine& machine, Fields& fields) {
  for (const auto& [kind, params] : machine.collectives) {
    for (const CollectiveFit& fit : params.fits) {
      for (const Protocol& protocol : fit.protocols) {
        if (protocol.busbw_gbps <= machine.link_gbps.peak) continue;
        fields.Fail("host.collectives",
                    fmt::format("busbw_gbps {} for {} ranks is above the "
                                "link's peak {}",
                                protocol.busbw_gbps, fit.ranks,
                                machine.link_gbps.peak));
      }
    }
  }
}

Machine ReadMachine(Fields& fields) {
  Machine machine;
  fields.Count("schema", 1, 1);
  machine.name = fields.Text("name");
  if (fields.Has("nodes")) machine.nodes = fields.Count("nodes", 1, 1 << 20);
  machine.gpu = fields.Object("gpu", ReadGpu);
  machine.launch_us = fields.Number("launch_us", {0, 1000});
  fields.Object("host", [&](Fields& host) {
    machine.gpus_per_host = host.Count("gpus", 1, 4096);
    machine.link_gbps = host.RateOf("link_gbps");
    machine.collectives = host.Object("collectives", ReadCollectives);
    return true;
  });
  fields.Object("network", [&](Fields& network) {
    machine.network_gbps = network.RateOf("gbps");
    machine.network_alpha_us = network.Number("alpha_us", kNotNegative);
    return true;
  });
  machine.sources = fields.Object("sources", [](Fields& sources) {
    std::map<std::string, std::string, std::less<>> result;
    for (const char* key : {"gpu", "host", "network"}) {
      result[key] = sources.Text(key);
    }
    return result;
  });
  fields.Finish();
  if (fields.ok()) CheckBusBandwidth(machine, fields);
  return machine;
}

}  // namespace

absl::StatusOr<Machine> ParseMachine(std::string_view text,
                                     std::string_view origin) {
  Json json = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  if (json.is_discarded()) return Invalid("{}: is not JSON", origin);
  if (!json.is_object()) return Invalid("{}: should be an object", origin);
  absl::Status status;
  Fields fields(json, "", &status);
  Machine machine = ReadMachine(fields);
  if (!status.ok()) return Annotate(status, origin);
  return machine;
}

}  // namespace asyra
