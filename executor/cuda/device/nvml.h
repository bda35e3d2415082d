// NVIDIA's management library, found at run time: the toolkit need not have its
// header, and hosts need not have the library. Declarations are those of
// nvml.h, whose interface does not change.
#pragma once

#include <string>

#include "executor/device.h"

namespace asyra::cuda {

class Nvml {
 public:
  // Loads and begins it.
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;

  using Device = void*;

  // Returns the reason why it cannot be asked; empty: it can.
  const std::string& error() const { return error_; }
  // "580.65.06", or empty.
  std::string DriverVersion() const;
  // Null if it does not know the GPU. `bus` as "0000:1B:00.0".
  Device Find(const std::string& bus) const;

  // -1: not known. Modes are 0 or 1.
  int EccMode(Device device) const;
  int MigMode(Device device) const;
  int PersistenceMode(Device device) const;
  int NvLinksUp(Device device) const;
  int SmClockMhz(Device device) const;
  int MostSmClockMhz(Device device) const;
  // In the mean over about a second.
  double Watts(Device device) const;
  double MostWatts(Device device) const;  // the limit
  // "power cap, hot"; empty: nothing, or not known.
  std::string SlowedBy(Device device) const;
  // "NVLink", "PCIe, one switch"; empty: not known.
  std::string LinkBetween(Device a, Device b) const;

 private:
  template <typename F>
  F* Function(const char* name) const;
  // Returns what a function gives of the SMs' clock.
  int ClockMhz(const char* name, Device device) const;
  double WattsOf(const char* name, Device device) const;
  int Mode(const char* name, Device device) const;

  void* library_ = nullptr;
  std::string error_;
};

// The clock and the power of one GPU.
class Meter {
 public:
  // `ordinal`: the runtime's.
  explicit Meter(int ordinal);
  PowerState Read() const;

 private:
  Nvml nvml_;
  Nvml::Device device_ = nullptr;
};

}  // namespace asyra::cuda
