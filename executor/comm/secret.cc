#include "executor/comm/secret.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr size_t kMostBytes = 4096;

absl::StatusOr<std::string> FromFile(const std::string& path) {
  std::error_code error;
  // A pipe would be waited for.
  if (std::filesystem::exists(path, error) &&
      !std::filesystem::is_regular_file(path, error)) {
    return Invalid("{}: not a regular file", path);
  }
  uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    return Invalid("{}: a secret of {} bytes, it has {} at most", path, bytes,
                   kMostBytes);
  }
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::string secret(absl::StripAsciiWhitespace(text));
  if (secret.empty()) return Invalid("{}: there is no secret in it", path);
  return secret;
}

// The names that launchers give their jobs, a second one behind a dot.
struct JobName {
  const char *name, *second;
};
constexpr JobName kJobNames[] = {{"TORCHELASTIC_RUN_ID", nullptr},
                                 {"SLURM_HET_JOB_ID", "SLURM_STEP_ID"},
                                 {"SLURM_JOB_ID", "SLURM_STEP_ID"},
                                 {"PMIX_NAMESPACE", nullptr}};

}  // namespace

absl::StatusOr<std::string> FindSecret(const std::string& file,
                                       const Environment& environment) {
  if (!file.empty()) return FromFile(file);
  if (const char* named = environment("ASYRA_SECRET_FILE"); named != nullptr) {
    absl::StatusOr<std::string> secret = FromFile(named);
    if (secret.ok()) return secret;
    return Annotate(secret.status(), "ASYRA_SECRET_FILE");
  }
  if (const char* given = environment("ASYRA_SECRET"); given != nullptr) {
    std::string secret(absl::StripAsciiWhitespace(given));
    if (secret.empty()) return Invalid("ASYRA_SECRET is blank");
    return secret;
  }
  for (const JobName& job : kJobNames) {
    const char* name = environment(job.name);
    const char* second =
        job.second == nullptr ? nullptr : environment(job.second);
    if (name == nullptr || (job.second != nullptr && second == nullptr)) {
      continue;
    }
    return second == nullptr ? std::string(name)
                             : fmt::format("{}.{}", name, second);
  }
  return "";
}

}  // namespace asyra
