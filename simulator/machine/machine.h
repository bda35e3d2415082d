// The machine as the cost model sees it: rates of one GPU, of the links between
// the GPUs of a host, and of the network between hosts. A machine is data, read
// from a *.machine file (schema in simulator/README.md).
//
// Units are in the names: 1 gbps here is 1e9 bytes per second, as in busbw of
// nccl-tests; tflops are 1e12 per second of dense arithmetic.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/op_def.h"

namespace asyra {

class CostTable;

// The rate of the data sheet, and the rate that long kernels reach. Costs are
// computed from `achievable`; `peak` bounds it.
struct Rate {
  double peak = 0;
  double achievable = 0;
};

// Memory of a GPU that a process uses besides its values, in MiB: the context
// with the compute libraries; each op of a captured step; the collective
// library once it is used, and more with all_to_all; each communicator, and
// more for its rings (collectives other than all_to_all), its trees
// (all_reduce) and each peer (all_to_all); the matmul workspace of a stream.
struct LibraryMemory {
  double context = 0, op = 0, collectives = 0, exchanges = 0;
  double communicator = 0, rings = 0, trees = 0, peer = 0;
  double workspace = 0;
};

// The power of a GPU, and what follows from its limit: the clock of a long step
// is the highest at which it draws no more (simulator/replay/step_clock.h).
// Energies are those of data that is not zeros.
struct GpuPower {
  double cap_w = 0;         // on average, as long steps draw at the limit
  double idle_w = 0;        // with a context, at the highest clock
  double most_mhz = 0;      // the highest clock
  double measured_mhz = 0;  // at which rates and times were measured, where
                            // these say nothing else
  // The share of the time of arithmetic, at measured_mhz, that is inversely
  // proportional to the clock; the rest stays.
  double clock_share = 1;
  // The energy of arithmetic is proportional to the clock raised to this.
  double exponent = 0;
  // At the highest clock: a flop of matmuls by the name of the element type,
  // of all types that matrix_tflops has; any other flop.
  std::map<std::string, double, std::less<>> pj_matrix;
  double pj_vector = 0;
  double pj_hbm = 0;   // a byte of device memory
  double pj_link = 0;  // a byte sent, another received, memory included
};

struct Gpu {
  std::string name;
  int sms = 0;
  double clock_mhz = 0;  // at which the peaks below are reached
  double hbm_gib = 0;
  Rate hbm_gbps;    // reads and writes together
  int hbm_sms = 0;  // this many SMs saturate the memory
  // Dense matmuls by the element type's name; achievable is the limit
  // for large tiles, before quantisation into tiles and waves.
  std::map<std::string, Rate, std::less<>> matrix_tflops;
  Rate vector_tflops;    // everything else
  double kernel_us = 0;  // shortest kernel, on the device
  // A tile of r x c runs at h / (h + half_tile) of the achievable rate, h =
  // r c / (r + c), and costs extra_k steps of k on top of its own.
  double gemm_half_tile = 0;
  double gemm_extra_k = 0;
  double gemm_hbm_fraction = 1;  // of hbm_gbps, what matmuls reach
  // GEMM kernels are persistent: their CTAs fetch tile after tile until none is
  // left, so that a later kernel of any priority begins when the matmul is
  // done.
  bool gemm_persistent = false;
  LibraryMemory library_mib;
  std::optional<GpuPower> power;  // none: clocks are not known to change
};

enum class LinkKind : uint8_t { kNvlink, kPcie };

// A protocol of the collective library. Latencies are those of its ring and
// its tree: a base for each collective, and hops inside a host and between
// hosts.
struct Protocol {
  std::string name;  // "LL"
  double ring_base_us = 0, ring_hop_us = 0, ring_network_hop_us = 0;
  double tree_base_us = 0, tree_hop_us = 0, tree_network_hop_us = 0;
  double fraction = 1;  // of the bandwidth there is, what is payload
  double cap_gbps = 0;  // bus bandwidth it never passes; 0: none
};

// Resources that a collective uses of its GPU.
struct CollectiveParams {
  int ctas = 0;  // SMs it holds while it runs
  // The fraction of its speed next to computation that uses the whole GPU.
  double beside_compute = 1;
};

struct Machine {
  std::string name;
  int nodes = 0;  // hosts there are; 0: as many as a mesh takes
  Gpu gpu;
  double launch_us = 0;        // host time to issue one op eagerly
  double graph_launch_us = 0;  // and as part of a captured graph

  int gpus_per_host = 1;
  LinkKind link = LinkKind::kNvlink;
  // From one GPU to the others of its host, one direction; achievable is the
  // bus bandwidth of long collectives.
  Rate link_gbps;
  // False: GPUs have no peer access and communicate through host memory.
  bool p2p = true;
  Rate host_memory_gbps;  // of a whole host; used without p2p
  double cta_gbps = 0;    // bus bandwidth that one CTA of a collective moves
  std::vector<Protocol> protocols;                         // never empty
  std::map<CollectiveKind, CollectiveParams> collectives;  // of all kinds
  int copy_engines = 0;
  Rate copy_gbps;  // of copy engines to the other GPUs, one direction
  // Processes of a host can open each other's device memory, so that copy
  // engines connect them too. False unless the file says so.
  bool process_copies = false;
  // True if each rank is a process, else a thread of its host's only one. No
  // file says it (CostOptions).
  bool ranks_are_processes = false;

  int nics = 1;                 // of a host, shared evenly by its GPUs
  Rate network_gbps;            // of one NIC, one direction
  double network_alpha_us = 0;  // a crossing, beyond the protocol's hop

  // The source of the numbers of each section, for people.
  std::map<std::string, std::string, std::less<>> sources;
  // Measurements that correct the formulas, or null; and whether fields were
  // edited, so that the measurements are of another machine.
  std::shared_ptr<const CostTable> table;
  bool edited = false;

  // The share of one GPU in its host's network.
  double network_share_gbps() const {
    return network_gbps.achievable * nics / gpus_per_host;
  }
};

// The text of a machine file (machine_file.h), merged with its base. Errors: no
// such machine.
absl::StatusOr<std::string> MachineText(std::string_view name_or_path);

// Every number of the file, as edits name it.
struct MachineNumber {
  std::string key;  // "gpu.hbm_gbps"
  double value;     // of a {peak, achievable} pair the peak
};
absl::StatusOr<std::vector<MachineNumber>> MachineNumbers(
    std::string_view name_or_path, absl::Span<const std::string> edits = {});

// An error if the machine has fewer devices than the mesh.
absl::Status CheckFits(const Mesh& mesh, const Machine& machine);

// The text of a *.machine file; `origin` names it in errors. The name of its
// file of measurements goes to `table_file`, empty when there is none.
absl::StatusOr<Machine> ParseMachine(std::string_view text,
                                     std::string_view origin,
                                     std::string* table_file = nullptr);

}  // namespace asyra
