#include "executor/comm/rank_places.h"

#include <unistd.h>

#include <filesystem>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "ir/support/file.h"
#include "ir/support/host_name.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Names may be equal on two hosts, and differ between containers of one.
constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
constexpr char kPidNamespace[] = "/proc/self/ns/pid";

std::string Host() {
  std::string boot = ReadSystemFile(kBootId);
  return boot.empty() ? HostName() : boot;
}

// Containers number their processes from 1, each its own.
std::string Process() {
  std::error_code error;
  std::filesystem::path space =
      std::filesystem::read_symlink(kPidNamespace, error);
  return fmt::format("{} {}", error ? "" : space.string(), getpid());
}

}  // namespace

RankPlace OwnPlace() { return {Host(), Process()}; }

absl::StatusOr<std::vector<RankPlace>> ExchangePlaces(Communicator& world) {
  RankPlace mine = OwnPlace();
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                         world.Exchange(mine.host + "\n" + mine.process));
  std::vector<RankPlace> places;
  for (size_t rank = 0; rank < said.size(); ++rank) {
    std::vector<std::string> lines = absl::StrSplit(said[rank], '\n');
    if (lines.size() != 2) {
      return Invalid("rank {} tells {} lines of its place, 2 are expected",
                     rank, lines.size());
    }
    places.push_back({lines[0], lines[1]});
  }
  return places;
}

bool InOneProcess(absl::Span<const RankPlace> places) {
  return absl::c_all_of(places,
                        [&](const RankPlace& one) { return one == places[0]; });
}

std::string ToString(absl::Span<const RankPlace> places) {
  std::map<std::string, size_t> hosts;
  std::map<std::pair<std::string, std::string>, size_t> processes;
  std::vector<std::string> numbers;
  for (const RankPlace& one : places) {
    size_t host = hosts.emplace(one.host, hosts.size()).first->second;
    size_t process =
        processes.emplace(std::pair(one.host, one.process), processes.size())
            .first->second;
    numbers.push_back(fmt::format("{}.{}", host, process));
  }
  return absl::StrJoin(numbers, " ");
}

}  // namespace asyra
