// The cost of one use of an op: its time alone, and the resources it uses.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "simulator/cost/collective_cost.h"

namespace asyra {

// Resources that concurrent ops share.
enum Resource {
  kSms,
  kHbm,
  kLink,
  kNetwork,
  kCopyEngines,
  kCtaSlots,  // CTA slots
  kNumResources
};
std::string_view ToString(Resource resource);

// The energy that an op takes of its GPU, beyond what idling takes.
struct OpEnergy {
  double math_uj = 0;   // of arithmetic, at the highest clock
  double bytes_uj = 0;  // of memory and links, at any clock

  void Add(const OpEnergy& other) {
    math_uj += other.math_uj;
    bytes_uj += other.bytes_uj;
  }
};

struct OpCost {
  // The source of the estimate, best first.
  enum Source : uint8_t { kMeasured, kInterpolated, kExtrapolated, kFormula };
  static constexpr int kNumSources = 4;
  // The resource that limits the op.
  enum Limit : uint8_t {
    kNothing,    // it takes no time
    kLatency,    // the fixed part of a kernel or a collective
    kMath,       // arithmetic
    kMemory,     // bytes of device memory
    kLinkBytes,  // bytes over the links of the host
    kNetworkBytes,
  };

  double time_us = 0;    // on the device, alone
  double launch_us = 0;  // on the host
  // Times of arithmetic and of memory, each without the other: the longer of
  // them counts.
  double math_us = 0, memory_us = 0;
  OpEnergy energy;
  bool is_compute = false;
  int sms = 0;  // held by a collective
  // The SMs held while its kernel runs, as a fraction of the GPU's: its CTAs',
  // or what the sums of copy engines take.
  double held_sms = 0;
  double waves = 0;         // ComputeEstimate::waves
  bool persistent = false;  // holds its SMs until it is done
  double sm_margin = 0;     // fraction of the SMs that it leaves to others
  double kernel_start_fraction = 0;  // of a collective: CollectiveEstimate
  double required_sms = 0;  // of a collective: fraction that its kernel needs
  // Fraction of each resource the op uses while it runs at full speed. SMs that
  // a collective holds are not included: they are not shared.
  std::array<double, kNumResources> load = {};
  // The fraction of a collective's speed next to computation that uses all SMs.
  double beside_compute = 1;
  Algorithm algorithm = Algorithm::kNone;  // of a collective
  int protocol = -1;                       // of machine.protocols
  Source source = kFormula;
  Limit limit = kNothing;

  // Takes so many times as long: what it moves loads memory and links less;
  // its SMs and CTA slots are held for the whole time.
  void Stretch(double times);

  // Views, waits and constants.
  bool is_free() const { return time_us == 0 && launch_us == 0; }
};
std::string_view ToString(OpCost::Source source);
std::string_view ToString(OpCost::Limit limit);

}  // namespace asyra
