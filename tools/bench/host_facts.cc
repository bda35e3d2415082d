#include "tools/bench/host_facts.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_split.h"
#include "executor/comm/pass_descriptor.h"
#include "executor/cpu/gemm.h"
#include "executor/mpi/mpi_world.h"
#include "executor/tuning/disk_cache.h"
#include "ir/support/file.h"
#include "ir/support/path.h"
#include "ir/support/status.h"

extern char** environ;

namespace asyra {
namespace {

constexpr int kCapSysPtrace = 19, kCapSysNice = 23;  // linux/capability.h
constexpr double kChildSeconds = 10;
constexpr char kToken[] = "asyra";

// The value of a line "NAME:\tVALUE" of /proc/self/status.
std::string StatusLine(const std::string& name) {
  std::string text = ReadSystemFile("/proc/self/status");
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return "";
}

bool HasCapability(int number) {
  uint64_t bits = std::strtoull(StatusLine("CapEff").c_str(), nullptr, 16);
  return (bits >> number & 1) != 0;
}

int64_t LimitOf(__rlimit_resource_t resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? -1
                                         : static_cast<int64_t>(limit.rlim_cur);
}

// In the child: memory of its own, whose descriptor it hands over.
void HandOver(int socket) {
  int fd = memfd_create("asyra-doctor", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, kToken, sizeof(kToken)) != sizeof(kToken)) return;
  SendDescriptor(socket, fd, "").IgnoreError();
}

absl::Status Take(int socket) {
  ASYRA_ASSIGN_OR_RETURN(ReceivedDescriptor received,
                         ReceiveDescriptor(socket, kChildSeconds));
  char token[sizeof(kToken)] = {};
  ssize_t got =
      ::pread(received.descriptor.get(), token, sizeof(token), /*offset=*/0);
  if (got == sizeof(token) && std::strcmp(token, kToken) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("memory of another process cannot be read");
}

std::string WhyNoDescriptors() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fmt::format("no Unix sockets: {}", std::strerror(errno));
  }
  Descriptor ours(ends[0]), theirs(ends[1]);
  pid_t child = fork();
  if (child < 0) return fmt::format("no fork: {}", std::strerror(errno));
  if (child == 0) {
    HandOver(theirs.get());
    _exit(0);
  }
  theirs = Descriptor();
  absl::Status status = Take(ours.get());
  waitpid(child, nullptr, 0);
  return std::string(MessageOf(status));
}

std::string SystemName() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

int64_t FreeBytes(const char* path) {
  struct statvfs found;
  if (statvfs(path, &found) != 0) return 0;
  return static_cast<int64_t>(found.f_bavail) *
         static_cast<int64_t>(found.f_frsize);
}

bool LooksLikeContainer() {
  for (const char* mark : {"/.dockerenv", "/run/.containerenv"}) {
    if (IsThere(mark)) return true;
  }
  return std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
}

}  // namespace

HostFacts DescribeHost() {
  HostFacts facts;
  facts.cpu = DescribeCpu();
  facts.system = SystemName();
  facts.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  facts.container = LooksLikeContainer();
  facts.shm_bytes = FreeBytes("/dev/shm");
  facts.memlock_bytes = LimitOf(RLIMIT_MEMLOCK);
  std::string scope = ReadSystemFile("/proc/sys/kernel/yama/ptrace_scope");
  facts.traces = HasCapability(kCapSysPtrace) || scope.empty() || scope == "0";
  facts.realtime = HasCapability(kCapSysNice) || LimitOf(RLIMIT_RTPRIO) != 0;
  facts.no_descriptors = WhyNoDescriptors();
  facts.mpi = HasMpi();
  facts.gemm = cpu::GemmLibrary();
  facts.cache = DiskCache::OfProcess().folder();
  for (char** at = environ; *at != nullptr; ++at) {
    std::string line = *at;
    size_t equal = line.find('=');
    if (equal == std::string::npos) continue;
    for (const char* prefix : {"NCCL_", "CUDA_", "ASYRA_"}) {
      if (!line.starts_with(prefix)) continue;
      facts.environment.emplace_back(line.substr(0, equal),
                                     line.substr(equal + 1));
    }
  }
  std::sort(facts.environment.begin(), facts.environment.end());
  return facts;
}

}  // namespace asyra
