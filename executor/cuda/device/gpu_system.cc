#include "executor/cuda/device/gpu_system.h"

#include <cuda.h>

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/device_info.h"
#include "executor/cuda/device/driver_function.h"
#include "executor/cuda/device/nvml.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using cuda::Nvml;

// An attribute that only the driver has; false where it does not know it.
bool Has(int ordinal, CUdevice_attribute attribute) {
  absl::StatusOr<void*> address =
      cuda::DriverFunction("cuDeviceGetAttribute", 2000);
  if (!address.ok() || *address == nullptr) return false;
  int value = 0;
  // A runtime's ordinal is the driver's device.
  auto get = reinterpret_cast<decltype(&cuDeviceGetAttribute)>(*address);
  return get(&value, attribute, ordinal) == CUDA_SUCCESS && value != 0;
}

absl::StatusOr<GpuState> StateOf(int ordinal, const Nvml& nvml) {
  cudaDeviceProp properties;
  ASYRA_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  char bus[32] = {};
  ASYRA_CUDA(cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal));
  int clock_khz = 0;
  ASYRA_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, ordinal));
  Nvml::Device device = nvml.Find(bus);
  GpuState state{
      .name = properties.name,
      .bus = bus,
      .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
      .sms = properties.multiProcessorCount,
      .copy_engines = properties.asyncEngineCount,
      .multicast = Has(ordinal, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED),
      .exports_descriptors =
          Has(ordinal,
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
      .exports_handles = Has(ordinal, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED),
      .ecc = nvml.EccMode(device),
      .mig = nvml.MigMode(device),
      .persistence = nvml.PersistenceMode(device),
      .nvlinks = nvml.NvLinksUp(device),
      .sm_clock_mhz = nvml.SmClockMhz(device),
      .sm_clock_most_mhz = nvml.MostSmClockMhz(device),
      .slowed = nvml.SlowedBy(device)};
  if (state.ecc < 0) state.ecc = properties.ECCEnabled;
  if (state.sm_clock_most_mhz < 0) state.sm_clock_most_mhz = clock_khz / 1000;
  return state;
}

}  // namespace

absl::StatusOr<GpuSystem> DescribeGpus() {
  ASYRA_ASSIGN_OR_RETURN(int count, CountCudaDevices());
  ASYRA_ASSIGN_OR_RETURN(CudaDeviceInfo info, DescribeCuda());
  Nvml nvml;
  std::string version = nvml.DriverVersion();
  GpuSystem system{
      .driver = version.empty() ? info.driver : version + ", " + info.driver,
      .libraries = info.libraries,
      .nvml = nvml.error()};
  for (int i = 0; i < count; ++i) {
    ASYRA_ASSIGN_OR_RETURN(system.gpus.emplace_back(), StateOf(i, nvml));
  }
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      int there = 0, back = 0;
      ASYRA_CUDA(cudaDeviceCanAccessPeer(&there, a, b));
      ASYRA_CUDA(cudaDeviceCanAccessPeer(&back, b, a));
      system.pairs.push_back({a, b, there != 0 && back != 0,
                              nvml.LinkBetween(nvml.Find(system.gpus[a].bus),
                                               nvml.Find(system.gpus[b].bus))});
    }
  }
  return system;
}

}  // namespace asyra
