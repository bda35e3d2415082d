#include "tests/attacks/attack.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "tests/attacks/damage.h"

namespace asyra {
namespace {

constexpr unsigned kSeconds = 60;  // of one input
constexpr rlim_t kMostMemory = rlim_t{4} << 30;
constexpr int kTaken = 10, kRefused = 11;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// In the child.
[[noreturn]] void Use(const std::function<bool()>& use) {
  ::alarm(kSeconds);
  // Address sanitizers map terabytes.
  rlimit memory = {kMostMemory, kMostMemory};
  if (!kSanitized) ::setrlimit(RLIMIT_AS, &memory);
  rlimit core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &core);
  ::_exit(use() ? kTaken : kRefused);
}

int StatusOf(const std::function<bool()>& use) {
  pid_t child = ::fork();
  if (child == 0) Use(use);
  int status = 0;
  ASYRA_CHECK(::waitpid(child, &status, 0) == child);
  return status;
}

// How an input ended that did not end well; empty: it did.
std::string EndOf(int status, Outcome* outcome) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTaken) {
    ++outcome->taken;
    return "";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) {
    ++outcome->refused;
    return "";
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    ++outcome->hung;
    return fmt::format("took more than {} s", kSeconds);
  }
  ++outcome->crashed;
  return WIFSIGNALED(status)
             ? fmt::format("ended by signal {}", WTERMSIG(status))
             : fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

int64_t Attacks(int64_t otherwise) {
  const char* text = std::getenv("ASYRA_ATTACKS");
  int64_t count = 0;
  return text != nullptr && absl::SimpleAtoi(text, &count) ? count : otherwise;
}

std::vector<GoodFile> FilesBelow(const std::string& folder,
                                 const std::string& suffix,
                                 int64_t most_bytes) {
  std::vector<GoodFile> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    std::string path = entry.path().string();
    if (!entry.is_regular_file() || !path.ends_with(suffix)) continue;
    if (static_cast<int64_t>(entry.file_size()) > most_bytes) continue;
    files.push_back({path, ASYRA_VALUE(ReadFile(path))});
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

Outcome Attack(const std::string& kind, const std::vector<GoodFile>& files,
               int64_t count, const std::string& path,
               const std::function<bool()>& use) {
  Outcome outcome, undamaged;
  ASYRA_CHECK(!files.empty());
  size_t looked_at = std::min<size_t>(files.size(), 8);
  for (size_t i = 0; i < looked_at; ++i) {
    const GoodFile& file = files[i * files.size() / looked_at];
    std::ofstream(path, std::ios::binary) << file.bytes;
    EXPECT_EQ(EndOf(StatusOf(use), &undamaged), "") << file.path;
  }
  // Or the damage shows nothing.
  EXPECT_GT(2 * undamaged.taken, undamaged.refused) << kind;
  // To see one again: its seed.
  const char* only = std::getenv("ASYRA_ATTACK_SEED");
  int64_t first = 0;
  if (only != nullptr && absl::SimpleAtoi(only, &first)) count = first + 1;
  for (int64_t seed = first; seed < count; ++seed) {
    const GoodFile& file = files[seed % files.size()];
    std::ofstream(path, std::ios::binary) << Damage(file.bytes, seed);
    std::string end = EndOf(StatusOf(use), &outcome);
    if (!end.empty()) {
      ADD_FAILURE() << kind << ": seed " << seed << " of " << file.path << " "
                    << end;
    }
  }
  fmt::print(
      "{}: {} of {} files are good; {} inputs: {} taken, {} refused, "
      "{} crashed, {} hung\n",
      kind, undamaged.taken, looked_at,
      outcome.taken + outcome.refused + outcome.crashed + outcome.hung,
      outcome.taken, outcome.refused, outcome.crashed, outcome.hung);
  return outcome;
}

}  // namespace asyra
