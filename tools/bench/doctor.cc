#include "tools/bench/doctor.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using State = Finding::State;

// Bytes that NCCL and MPI take of /dev/shm for some ranks.
constexpr int64_t kEnoughShm = int64_t{1} << 30;
// Clocks below this part of the highest are told beside their cause.
constexpr double kFullClock = 0.9;

class Doctor {
 public:
  void Fact(const char* topic, std::string name, std::string value) {
    findings_.push_back(
        {topic, std::move(name), State::kFact, std::move(value), ""});
  }
  // Good, or what is missing and how to get it.
  void Check(const char* topic, std::string name, bool good, std::string value,
             std::string advice) {
    findings_.push_back({topic, std::move(name),
                         good ? State::kGood : State::kMissing,
                         std::move(value), good ? "" : std::move(advice)});
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

void DiagnoseHost(const HostFacts& host, Doctor* doctor) {
  constexpr char kTopic[] = "host";
  doctor->Fact(kTopic, "system",
               host.system + (host.container ? ", in a container" : ""));
  doctor->Fact(
      kTopic, "cpu",
      fmt::format("{}: {} {} in {} {}", host.cpu.name, host.cpu.cores,
                  host.cpu.cores == 1 ? "core" : "cores", host.cpu.sockets,
                  host.cpu.sockets == 1 ? "socket" : "sockets"));
  doctor->Fact(kTopic, "memory", BytesText(host.memory_bytes));
  doctor->Check(kTopic, "matmuls on cpus", host.gemm.starts_with("oneDNN"),
                host.gemm,
                "install oneDNN (libdnnl-dev) and build with "
                "-DASYRA_ONEDNN=ON");
  doctor->Check(kTopic, "real-time priority of collectives on cpus",
                host.realtime, host.realtime ? "allowed" : "not allowed",
                "give the process CAP_SYS_NICE (docker run --cap-add=SYS_NICE) "
                "or a limit above 0 (ulimit -r)");
  doctor->Check(kTopic, "cache of tuning results", !host.cache.empty(),
                host.cache.empty() ? "nothing is kept" : host.cache,
                "set ASYRA_CACHE_DIR to a folder");
}

void DiagnoseProcesses(const HostFacts& host, Doctor* doctor) {
  constexpr char kTopic[] = "processes";
  doctor->Check(kTopic, "shared memory", host.shm_bytes >= kEnoughShm,
                host.shm_bytes == 0
                    ? "there is no /dev/shm"
                    : BytesText(host.shm_bytes) + " of /dev/shm are free",
                "docker run --shm-size=8g, or --ipc=host");
  doctor->Check(
      kTopic, "descriptors handed to another process",
      host.no_descriptors.empty(),
      host.no_descriptors.empty() ? "as they should" : host.no_descriptors,
      "device memory cannot be opened by other processes without: "
      "allow Unix sockets between them (one container, or a volume "
      "that they share)");
  doctor->Check(kTopic, "reading the memory of another process", host.traces,
                host.traces ? "allowed" : "not allowed",
                "MPI copies twice without: docker run --cap-add=SYS_PTRACE, or "
                "sysctl kernel.yama.ptrace_scope=0");
  doctor->Check(kTopic, "locked memory",
                host.memlock_bytes < 0 || host.memlock_bytes >= kEnoughShm,
                host.memlock_bytes < 0
                    ? "no limit"
                    : "at most " + BytesText(host.memlock_bytes),
                "networks with RDMA need it: ulimit -l unlimited, or docker "
                "run --ulimit memlock=-1");
  doctor->Check(kTopic, "MPI", host.mpi, host.mpi ? "built in" : "not built in",
                "ranks as processes on cpus need it: install Open MPI and "
                "build with -DASYRA_MPI=ON");
}

std::string OnOff(int mode) {
  return mode < 0 ? "not known" : mode == 0 ? "off" : "on";
}

void DiagnoseGpu(const std::string& name, const GpuState& gpu, Doctor* doctor) {
  constexpr char kTopic[] = "GPUs";
  doctor->Fact(
      kTopic, name,
      fmt::format(
          "{} at {}: {} SMs, {}, {} copy engines, ECC {}{}", gpu.name, gpu.bus,
          gpu.sms, BytesText(gpu.memory_bytes), gpu.copy_engines,
          OnOff(gpu.ecc),
          gpu.nvlinks < 0 ? "" : fmt::format(", {} NVLinks", gpu.nvlinks)));
  if (gpu.mig > 0) {
    doctor->Check(kTopic, name + ": MIG", false, "on",
                  "parts of a GPU have no peer access: nvidia-smi -mig 0");
  }
  if (gpu.persistence == 0) {
    doctor->Check(kTopic, name + ": persistence", false, "off",
                  "the first program waits for the driver: nvidia-smi -pm 1");
  }
  if (gpu.sm_clock_mhz < 0) return;
  // An idle GPU lowers its clock by itself.
  bool full = gpu.sm_clock_mhz >= kFullClock * gpu.sm_clock_most_mhz;
  doctor->Check(
      kTopic, name + ": clock", full || gpu.slowed.empty(),
      fmt::format("{} of {} MHz{}{}", gpu.sm_clock_mhz, gpu.sm_clock_most_mhz,
                  gpu.slowed.empty() ? "" : ", held back: ", gpu.slowed),
      "times are not those of a GPU at full clock: see "
      "nvidia-smi -q -d CLOCK,POWER,TEMPERATURE");
}

// "GPU 0 and 1, GPU 2 and 3".
std::string NamesOf(const std::vector<GpuPair>& pairs) {
  std::vector<std::string> names;
  for (const GpuPair& pair : pairs) {
    names.push_back(fmt::format("GPU {} and {}", pair.a, pair.b));
  }
  return absl::StrJoin(names, ", ");
}

void DiagnosePairs(const GpuSystem& system, Doctor* doctor) {
  constexpr char kTopic[] = "GPUs";
  std::map<std::string, std::vector<GpuPair>> links;
  std::vector<GpuPair> apart;
  for (const GpuPair& pair : system.pairs) {
    links[pair.link.empty() ? "not known" : pair.link].push_back(pair);
    if (!pair.peer) apart.push_back(pair);
  }
  for (const auto& [link, pairs] : links) {
    doctor->Fact(
        kTopic, "link: " + link,
        pairs.size() == system.pairs.size() ? "all pairs" : NamesOf(pairs));
  }
  if (system.pairs.empty()) return;
  doctor->Check(kTopic, "peer access", apart.empty(),
                apart.empty() ? "all pairs" : "not " + NamesOf(apart),
                "copy engines do not connect them, and NCCL goes through host "
                "memory: turn off MIG and the IOMMU's ACS, and see "
                "nvidia-smi topo -p2p r");
}

void DiagnoseGpus(const HostFacts& host, const GpuSystem& system,
                  Doctor* doctor) {
  constexpr char kTopic[] = "GPUs";
  doctor->Fact(kTopic, "driver", system.driver);
  doctor->Fact(kTopic, "libraries", system.libraries);
  if (!system.nvml.empty()) {
    doctor->Check(kTopic, "NVML", false, system.nvml,
                  "clocks and links are not known without: give the container "
                  "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  }
  for (size_t i = 0; i < system.gpus.size(); ++i) {
    DiagnoseGpu(fmt::format("GPU {}", i), system.gpus[i], doctor);
  }
  DiagnosePairs(system, doctor);
  auto all = [&](bool GpuState::*field) {
    return absl::c_all_of(system.gpus,
                          [&](const GpuState& gpu) { return gpu.*field; });
  };
  bool exported = all(&GpuState::exports_descriptors);
  doctor->Check(kTopic, "memory exported to other processes",
                exported && host.no_descriptors.empty(),
                exported ? host.no_descriptors.empty()
                               ? "as descriptors"
                               : "not handed over: " + host.no_descriptors
                         : "not supported by the driver",
                "copy engines connect only threads of one process without: "
                "use one process for the GPUs of a host, or a newer driver");
  auto nvls = absl::c_find_if(host.environment, [](const auto& one) {
    return one.first == "NCCL_NVLS_ENABLE";
  });
  bool off = nvls != host.environment.end() && nvls->second == "0";
  doctor->Fact(kTopic, "NVLink multicast (NVLS)",
               !all(&GpuState::multicast) ? "not supported"
               : off ? "supported, turned off by NCCL_NVLS_ENABLE=0"
                     : "supported; NCCL decides, no kernel of ASYRA uses it");
}

void DiagnoseEnvironment(const HostFacts& host, Doctor* doctor) {
  for (const auto& [name, value] : host.environment) {
    // This turns off what schedules count on.
    if (name == "NCCL_P2P_DISABLE" && value != "0") {
      doctor->Check("environment", name, false, value,
                    "neither NCCL nor copy engines use peer access: unset it");
    } else {
      doctor->Fact("environment", name, value);
    }
  }
}

std::string_view WordOf(State state) {
  constexpr std::string_view kWords[] = {"fact", "good", "missing"};
  return kWords[static_cast<size_t>(state)];
}

}  // namespace

std::vector<Finding> Diagnose(const HostFacts& host,
                              const absl::StatusOr<GpuSystem>& gpus) {
  Doctor doctor;
  DiagnoseHost(host, &doctor);
  DiagnoseProcesses(host, &doctor);
  if (gpus.ok()) {
    DiagnoseGpus(host, *gpus, &doctor);
  } else {
    doctor.Check("GPUs", "CUDA", false, std::string(MessageOf(gpus.status())),
                 "programs run on cpus, with --device cpu; for GPUs install "
                 "NVIDIA's driver and a build with CUDA, and give a container "
                 "its GPUs (docker run --gpus all)");
  }
  DiagnoseEnvironment(host, &doctor);
  return doctor.Take();
}

std::string DoctorText(const std::vector<Finding>& findings) {
  std::string text, topic;
  std::vector<std::string> missing;
  for (const Finding& one : findings) {
    if (one.topic != topic) {
      text += fmt::format("{}{}\n", topic.empty() ? "" : "\n", one.topic);
      topic = one.topic;
    }
    text +=
        fmt::format("  {} {}: {}\n", one.state == State::kMissing ? "!" : " ",
                    one.name, one.value);
    if (one.state != State::kMissing) continue;
    missing.push_back(
        fmt::format("  {}, {}: {}\n", one.topic, one.name, one.advice));
  }
  if (missing.empty()) return text + "\nnothing is missing\n";
  return text + fmt::format("\n{} missing, and how to get it:\n{}",
                            missing.size(), absl::StrJoin(missing, ""));
}

std::string DoctorJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  int missing = 0;
  for (const Finding& one : findings) {
    nlohmann::ordered_json json = {{"topic", one.topic},
                                   {"name", one.name},
                                   {"state", WordOf(one.state)},
                                   {"value", one.value}};
    if (!one.advice.empty()) json["advice"] = one.advice;
    missing += one.state == State::kMissing;
    list.push_back(std::move(json));
  }
  nlohmann::ordered_json json = {{"findings", std::move(list)},
                                 {"missing", missing}};
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace asyra
