#include "executor/comm/secret.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::string> Found(
    const std::map<std::string, std::string>& environment,
    const std::string& file = "") {
  return FindSecret(file, [&](const char* name) -> const char* {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

class Secret : public testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  ~Secret() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ = [] {
    std::string made = testing::TempDir() + "secret_XXXXXX";
    return std::filesystem::path(mkdtemp(made.data()));
  }();
};

TEST_F(Secret, IsWhatIsMeantMost) {
  std::map<std::string, std::string> all = {
      {"SLURM_JOB_ID", "17"},      {"SLURM_STEP_ID", "2"},
      {"PMIX_NAMESPACE", "space"}, {"TORCHELASTIC_RUN_ID", "run"},
      {"ASYRA_SECRET", " word\n"}, {"ASYRA_SECRET_FILE", File("a", "filed\n")}};
  EXPECT_EQ(Found(all, File("b", "  of a flag \n")).value(), "of a flag");
  EXPECT_EQ(Found(all).value(), "filed");
  all.erase("ASYRA_SECRET_FILE");
  EXPECT_EQ(Found(all).value(), "word");
  all.erase("ASYRA_SECRET");
  EXPECT_EQ(Found(all).value(), "run");
  all.erase("TORCHELASTIC_RUN_ID");
  EXPECT_EQ(Found(all).value(), "17.2");
  all["SLURM_HET_JOB_ID"] = "16";
  EXPECT_EQ(Found(all).value(), "16.2");
  all.erase("SLURM_STEP_ID");  // a batch script is no step
  EXPECT_EQ(Found(all).value(), "space");
  EXPECT_EQ(Found({}).value(), "");
}

TEST_F(Secret, ThatIsNoneIsAnError) {
  auto error = [](absl::StatusOr<std::string> found) {
    return found.status().ToString();
  };
  EXPECT_THAT(error(Found({}, "/no/such/file")), HasSubstr("/no/such/file"));
  EXPECT_THAT(error(Found({}, folder_)), HasSubstr(folder_.string()));
  EXPECT_THAT(error(Found({{"ASYRA_SECRET_FILE", File("a", " \n")}})),
              HasSubstr("/a: there is no secret in it"));
  EXPECT_THAT(error(Found({}, File("b", std::string(5000, 'x')))),
              HasSubstr("a secret of 5000 bytes, it has 4096 at most"));
  EXPECT_THAT(error(Found({{"ASYRA_SECRET", ""}})),
              HasSubstr("ASYRA_SECRET is blank"));
  std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error(Found({}, pipe)), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace asyra
