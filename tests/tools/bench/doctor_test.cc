#include "tools/bench/doctor.h"

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kGib = int64_t{1} << 30;

HostFacts GoodHost() {
  return {.cpu = {"a cpu", 8, 2},
          .system = "Linux",
          .memory_bytes = 64 * kGib,
          .shm_bytes = 8 * kGib,
          .memlock_bytes = -1,
          .traces = true,
          .realtime = true,
          .mpi = true,
          .gemm = "oneDNN 3.0.0",
          .cache = "/cache"};
}

GpuSystem GoodGpus() {
  GpuState gpu{.name = "NVIDIA H200",
               .bus = "0000:1B:00.0",
               .memory_bytes = 141 * kGib,
               .sms = 132,
               .copy_engines = 3,
               .multicast = true,
               .exports_descriptors = true,
               .ecc = 1,
               .mig = 0,
               .persistence = 1,
               .nvlinks = 18,
               .sm_clock_mhz = 1980,
               .sm_clock_most_mhz = 1980};
  return {.driver = "580.65.06, CUDA 13.0",
          .libraries = "CUDA 13.0, NCCL 2.28.9",
          .gpus = {gpu, gpu, gpu},
          .pairs = {{0, 1, true, "NVLink"},
                    {0, 2, true, "NVLink"},
                    {1, 2, true, "NVLink"}}};
}

const Finding& Find(const std::vector<Finding>& findings,
                    const std::string& name) {
  auto found = absl::c_find_if(
      findings, [&](const auto& one) { return one.name == name; });
  ASYRA_CHECK(found != findings.end());
  return *found;
}

TEST(Doctor, FindsNothingMissingOnAGoodMachine) {
  std::vector<Finding> findings = Diagnose(GoodHost(), GoodGpus());
  std::string text = DoctorText(findings);
  EXPECT_THAT(text, HasSubstr("nothing is missing"));
  EXPECT_THAT(text, Not(HasSubstr("!")));
  EXPECT_THAT(text, HasSubstr("a cpu: 8 cores in 2 sockets"));
  EXPECT_THAT(text, HasSubstr("GPU 2: NVIDIA H200 at 0000:1B:00.0: 132 SMs"));
  EXPECT_THAT(text, HasSubstr("ECC on, 18 NVLinks"));
  EXPECT_THAT(text, HasSubstr("link: NVLink: all pairs"));
  EXPECT_THAT(text, HasSubstr("peer access: all pairs"));
}

// Each fault is told once, with a way out.
TEST(Doctor, SaysWhatIsMissingAndHowToGetIt) {
  struct Fault {
    void (*make)(HostFacts& host, GpuSystem& gpus);
    std::string name, value, advice;
  };
  const Fault faults[] = {
      {[](HostFacts& host, GpuSystem&) { host.shm_bytes = 64 << 20; },
       "shared memory", "64.00 MiB of /dev/shm are free", "--shm-size=8g"},
      {[](HostFacts& host, GpuSystem&) { host.shm_bytes = 0; }, "shared memory",
       "there is no /dev/shm", "--ipc=host"},
      {[](HostFacts& host, GpuSystem&) { host.traces = false; },
       "reading the memory of another process", "not allowed", "SYS_PTRACE"},
      {[](HostFacts& host, GpuSystem&) { host.memlock_bytes = 8 << 20; },
       "locked memory", "at most 8.00 MiB", "memlock=-1"},
      {[](HostFacts& host, GpuSystem&) { host.realtime = false; },
       "real-time priority of collectives on cpus", "not allowed", "SYS_NICE"},
      {[](HostFacts& host, GpuSystem&) { host.mpi = false; }, "MPI",
       "not built in", "-DASYRA_MPI=ON"},
      {[](HostFacts& host, GpuSystem&) { host.gemm = "own loops"; },
       "matmuls on cpus", "own loops", "-DASYRA_ONEDNN=ON"},
      {[](HostFacts& host, GpuSystem&) { host.cache.clear(); },
       "cache of tuning results", "nothing is kept", "ASYRA_CACHE_DIR"},
      {[](HostFacts& host, GpuSystem&) {
         host.environment = {{"NCCL_P2P_DISABLE", "1"}};
       },
       "NCCL_P2P_DISABLE", "1", "unset it"},
      {[](HostFacts&, GpuSystem& gpus) { gpus.pairs[1].peer = false; },
       "peer access", "not GPU 0 and 2", "nvidia-smi topo"},
      {[](HostFacts&, GpuSystem& gpus) { gpus.gpus[1].mig = 1; }, "GPU 1: MIG",
       "on", "nvidia-smi -mig 0"},
      {[](HostFacts&, GpuSystem& gpus) { gpus.gpus[0].persistence = 0; },
       "GPU 0: persistence", "off", "nvidia-smi -pm 1"},
      {[](HostFacts&, GpuSystem& gpus) {
         gpus.gpus[2].sm_clock_mhz = 1200;
         gpus.gpus[2].slowed = "power cap";
       },
       "GPU 2: clock", "1200 of 1980 MHz, held back: power cap", "nvidia-smi"},
      {[](HostFacts&, GpuSystem& gpus) {
         gpus.gpus[1].exports_descriptors = false;
       },
       "memory exported to other processes", "not supported by the driver",
       "one process"},
      {[](HostFacts&, GpuSystem& gpus) { gpus.nvml = "it is not there"; },
       "NVML", "it is not there", "utility"},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.name);
    HostFacts host = GoodHost();
    GpuSystem gpus = GoodGpus();
    fault.make(host, gpus);
    std::vector<Finding> findings = Diagnose(host, gpus);
    const Finding& found = Find(findings, fault.name);
    EXPECT_EQ(found.state, Finding::State::kMissing);
    EXPECT_EQ(found.value, fault.value);
    EXPECT_THAT(found.advice, HasSubstr(fault.advice));
    EXPECT_EQ(absl::c_count_if(findings,
                               [](const Finding& one) {
                                 return one.state == Finding::State::kMissing;
                               }),
              1);
    EXPECT_THAT(DoctorText(findings), HasSubstr("1 missing, and how to get"));
  }
}

// Without descriptors neither memory of GPUs goes to other processes.
TEST(Doctor, WhatFollowsFromAFaultIsToldToo) {
  HostFacts host = GoodHost();
  host.no_descriptors = "no Unix sockets: denied";
  std::vector<Finding> findings = Diagnose(host, GoodGpus());
  EXPECT_EQ(Find(findings, "memory exported to other processes").value,
            "not handed over: no Unix sockets: denied");
}

TEST(Doctor, AMachineWithoutGpusHasItsCpuSide) {
  std::vector<Finding> findings =
      Diagnose(GoodHost(), absl::FailedPreconditionError("no CUDA device"));
  const Finding& cuda = Find(findings, "CUDA");
  EXPECT_EQ(cuda.value, "no CUDA device");
  EXPECT_THAT(cuda.advice, HasSubstr("--device cpu"));
  EXPECT_THAT(Find(findings, "cpu").value, HasSubstr("8 cores"));
  auto json = nlohmann::json::parse(DoctorJson(findings));
  EXPECT_EQ(json["missing"], 1);
  EXPECT_EQ(json["findings"].size(), findings.size());
  EXPECT_EQ(json["findings"][0]["state"], "fact");
}

TEST(Doctor, WhatIsTurnedOffIsNamed) {
  HostFacts host = GoodHost();
  EXPECT_THAT(Find(Diagnose(host, GoodGpus()), "NVLink multicast (NVLS)").value,
              HasSubstr("NCCL decides"));
  host.environment = {{"NCCL_NVLS_ENABLE", "0"}};
  EXPECT_THAT(Find(Diagnose(host, GoodGpus()), "NVLink multicast (NVLS)").value,
              HasSubstr("turned off by NCCL_NVLS_ENABLE=0"));
}

TEST(Doctor, ThisHostCanBeDescribed) {
  setenv("ASYRA_DOCTOR_TEST", "yes", 1);
  HostFacts host = DescribeHost();
  unsetenv("ASYRA_DOCTOR_TEST");
  EXPECT_GE(host.cpu.cores, 1);
  EXPECT_GE(host.cpu.sockets, 1);
  EXPECT_GT(host.memory_bytes, 0);
  EXPECT_THAT(host.no_descriptors, IsEmpty());
  EXPECT_THAT(host.environment,
              testing::Contains(std::pair<std::string, std::string>(
                  "ASYRA_DOCTOR_TEST", "yes")));
}

}  // namespace
}  // namespace asyra
