// What the cost model knows of a machine: rates of one GPU, of the links that
// join the GPUs of a host, and of the network between hosts. A machine is
// data, read from a *.machine file (schema in simulator/README.md).
//
// Units are in the names: 1 gbps here is 1e9 bytes per second, as in busbw of
// nccl-tests; tflops are 1e12 per second of dense arithmetic.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/op_def.h"

namespace asyra {

// What the vendor's sheet says, and what long kernels reach. Only
// `achievable` prices anything; `peak` bounds it.
struct Rate {
  double peak = 0;
  double achievable = 0;
};

struct Gpu {
  std::string name;
  int sms = 0;
  double clock_mhz = 0;  // at which the peaks below are reached
  double hbm_gib = 0;
  Rate hbm_gbps;    // reads and writes together
  int hbm_sms = 0;  // this many SMs saturate the memory
  // Dense matrix products by the element type's name; achievable is the limit
  // for large tiles, before quantisation into tiles and waves.
  std::map<std::string, Rate, std::less<>> matrix_tflops;
  Rate vector_tflops;    // everything else
  double kernel_us = 0;  // shortest kernel, on the device
  // A tile of r x c runs at h / (h + half_tile) of the achievable rate, h =
  // r c / (r + c), and costs extra_k steps of k on top of its own.
  double gemm_half_tile = 0;
  double gemm_extra_k = 0;
  double gemm_hbm_gbps = 0;  // of a product that memory bounds
  // Ops whose matrix products reach only a fraction of what a plain product
  // of their shape does, by name.
  std::map<std::string, double, std::less<>> op_rate;
};

// One way of running a collective: alpha_us + bytes / busbw_gbps.
struct Protocol {
  double alpha_us = 0;
  double busbw_gbps = 0;  // bus bandwidth as nccl-tests defines it
};

// The protocols among which the library picks the fastest, on so many GPUs of
// one host.
struct CollectiveFit {
  int ranks = 2;
  std::vector<Protocol> protocols;
};

struct CollectiveParams {
  std::vector<CollectiveFit> fits;  // ascending by ranks, never empty
  // SMs that computation running beside it loses, and the fraction of its
  // speed that the collective keeps beside computation that fills the GPU.
  int sms = 0;
  double beside_compute = 1;
  // Payloads for which the fits were measured; 0 and 0 when they were not.
  double measured_from_bytes = 0;
  double measured_to_bytes = 0;
};

struct Machine {
  std::string name;
  Gpu gpu;
  double launch_us = 0;  // host time to issue one op eagerly
  int gpus_per_host = 1;
  int nodes = 0;   // hosts there are; 0: as many as a mesh takes
  Rate link_gbps;  // of one GPU to the others of its host, one direction
  std::map<CollectiveKind, CollectiveParams> collectives;  // all four
  Rate network_gbps;  // of one GPU's share of the network, one direction
  double network_alpha_us = 0;
  // Where the numbers of each section come from, for people.
  std::map<std::string, std::string, std::less<>> sources;
};

// A machine by the name of an embedded file, or from disk when the argument
// ends in ".machine", with `edits` made to it in order (machine_edit.h):
// {"gpu.hbm_gbps=4000", "nodes=4"}. Errors name the file, the key and what is
// wrong.
absl::StatusOr<Machine> LoadMachine(std::string_view name_or_path,
                                    absl::Span<const std::string> edits = {});

// Every number of the file, as edits name it.
struct MachineNumber {
  std::string key;  // "gpu.hbm_gbps"
  double value;     // of a {peak, achievable} pair the peak
};
absl::StatusOr<std::vector<MachineNumber>> MachineNumbers(
    std::string_view name_or_path);

// An error when the machine's nodes hold fewer devices than the mesh has.
absl::Status CheckFits(const Mesh& mesh, const Machine& machine);

// The text of a *.machine file; `origin` names it in errors.
absl::StatusOr<Machine> ParseMachine(std::string_view text,
                                     std::string_view origin);

// Names of the embedded machines.
std::vector<std::string> ListMachines();

}  // namespace asyra
