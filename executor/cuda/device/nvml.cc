#include "executor/cuda/device/nvml.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "fmt/format.h"

namespace asyra::cuda {
namespace {

constexpr char kLibraryName[] = "libnvidia-ml.so.1";
constexpr int kSuccess = 0;
constexpr unsigned kSmClock = 1;
constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS
constexpr unsigned kNvlinkCaps = 2;  // NVML_P2P_CAPS_INDEX_NVLINK

}  // namespace

Nvml::Nvml() {
  library_ = dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    error_ = fmt::format("{} is not there", kLibraryName);
    return;
  }
  auto* begin = Function<int()>("nvmlInit_v2");
  int result = begin == nullptr ? -1 : begin();
  if (result == kSuccess) return;
  error_ = fmt::format("nvmlInit gives {}", result);
  dlclose(std::exchange(library_, nullptr));
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (auto* end = Function<int()>("nvmlShutdown")) end();
  dlclose(library_);
}

template <typename F>
F* Nvml::Function(const char* name) const {
  if (library_ == nullptr) return nullptr;
  return reinterpret_cast<F*>(dlsym(library_, name));
}

std::string Nvml::DriverVersion() const {
  char version[96] = {};
  auto* get = Function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (get == nullptr || get(version, sizeof(version) - 1) != kSuccess) {
    return "";
  }
  return version;
}

Nvml::Device Nvml::Find(const std::string& bus) const {
  Device device = nullptr;
  auto* get =
      Function<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (get == nullptr || get(bus.c_str(), &device) != kSuccess) return nullptr;
  return device;
}

// Calls a function that gives the mode now, and the one after the next start.
int Nvml::Mode(const char* name, Device device) const {
  unsigned current = 0, pending = 0;
  auto* get = Function<int(Device, unsigned*, unsigned*)>(name);
  if (device == nullptr || get == nullptr) return -1;
  return get(device, &current, &pending) == kSuccess ? static_cast<int>(current)
                                                     : -1;
}

int Nvml::EccMode(Device device) const {
  return Mode("nvmlDeviceGetEccMode", device);
}

int Nvml::MigMode(Device device) const {
  return Mode("nvmlDeviceGetMigMode", device);
}

int Nvml::PersistenceMode(Device device) const {
  unsigned mode = 0;
  auto* get = Function<int(Device, unsigned*)>("nvmlDeviceGetPersistenceMode");
  if (device == nullptr || get == nullptr) return -1;
  return get(device, &mode) == kSuccess ? static_cast<int>(mode) : -1;
}

int Nvml::NvLinksUp(Device device) const {
  auto* get =
      Function<int(Device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
  if (device == nullptr || get == nullptr) return -1;
  int up = 0;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned active = 0;
    if (get(device, link, &active) == kSuccess && active == 1) ++up;
  }
  return up;
}

int Nvml::ClockMhz(const char* name, Device device) const {
  unsigned mhz = 0;
  auto* get = Function<int(Device, unsigned, unsigned*)>(name);
  if (device == nullptr || get == nullptr) return -1;
  return get(device, kSmClock, &mhz) == kSuccess ? static_cast<int>(mhz) : -1;
}

int Nvml::SmClockMhz(Device device) const {
  return ClockMhz("nvmlDeviceGetClockInfo", device);
}

int Nvml::MostSmClockMhz(Device device) const {
  return ClockMhz("nvmlDeviceGetMaxClockInfo", device);
}

double Nvml::WattsOf(const char* name, Device device) const {
  unsigned milliwatts = 0;
  auto* get = Function<int(Device, unsigned*)>(name);
  if (device == nullptr || get == nullptr) return -1;
  return get(device, &milliwatts) == kSuccess ? milliwatts / 1e3 : -1;
}

double Nvml::Watts(Device device) const {
  return WattsOf("nvmlDeviceGetPowerUsage", device);
}

double Nvml::MostWatts(Device device) const {
  return WattsOf("nvmlDeviceGetEnforcedPowerLimit", device);
}

Meter::Meter(int ordinal) {
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal) == cudaSuccess) {
    device_ = nvml_.Find(bus);
  }
}

PowerState Meter::Read() const {
  auto known = [](double value) { return std::max(value, 0.0); };
  return {.mhz = known(nvml_.SmClockMhz(device_)),
          .most_mhz = known(nvml_.MostSmClockMhz(device_)),
          .watts = known(nvml_.Watts(device_)),
          .limit_w = known(nvml_.MostWatts(device_))};
}

std::string Nvml::SlowedBy(Device device) const {
  using Bits = unsigned long long;  // NOLINT(google-runtime-int): NVML's
  Bits bits = 0;
  auto* get =
      Function<int(Device, Bits*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (device == nullptr || get == nullptr || get(device, &bits) != kSuccess) {
    return "";
  }
  constexpr std::pair<Bits, const char*> kReasons[] = {
      {0x2, "clocks set by hand"},       {0x4, "power cap"},
      {0x8, "slowdown of the hardware"}, {0x20, "hot, by the driver"},
      {0x40, "hot, by the hardware"},    {0x80, "power brake"}};
  std::vector<std::string> found;
  for (auto [bit, reason] : kReasons) {
    if ((bits & bit) != 0) found.emplace_back(reason);
  }
  return absl::StrJoin(found, ", ");
}

std::string Nvml::LinkBetween(Device a, Device b) const {
  if (a == nullptr || b == nullptr) return "";
  unsigned status = 1;
  auto* caps = Function<int(Device, Device, unsigned, unsigned*)>(
      "nvmlDeviceGetP2PStatus");
  if (caps != nullptr && caps(a, b, kNvlinkCaps, &status) == kSuccess &&
      status == 0) {
    return "NVLink";
  }
  unsigned level = 0;
  auto* topology = Function<int(Device, Device, unsigned*)>(
      "nvmlDeviceGetTopologyCommonAncestor");
  if (topology == nullptr || topology(a, b, &level) != kSuccess) return "";
  if (level <= 10) return "PCIe, one switch";
  if (level <= 20) return "PCIe, several switches";
  if (level <= 30) return "PCIe, one host bridge";
  return level <= 40 ? "PCIe, one NUMA node" : "PCIe, across sockets";
}

}  // namespace asyra::cuda
