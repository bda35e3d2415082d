// What is kept is found again, by other processes too; whatever else is in
// the folder is not.
#include "executor/tuning/disk_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Optional;

class Cache : public testing::Test {
 protected:
  Cache() : folder_(fs::path(testing::TempDir()) / Name()) {}
  ~Cache() override { fs::remove_all(folder_); }

  static std::string Name() {
    return fmt::format(
        "asyra_{}_{}",
        testing::UnitTest::GetInstance()->current_test_info()->name(),
        getpid());
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(folder_)) {
      files.push_back(file.path());
    }
    return files;
  }
  std::string OneFile() const {
    std::vector<fs::path> files = Files();
    EXPECT_EQ(files.size(), 1);
    return files[0];
  }
  static void Write(const std::string& path, std::string_view bytes) {
    ASYRA_CHECK_OK(WriteFileAtomically(path, {bytes}));
  }

  const fs::path folder_;
};

TEST_F(Cache, IsTheFolderThatTheEnvironmentNames) {
  auto folder = [](const std::map<std::string, std::string>& variables) {
    return DiskCache::FolderOf([&](const char* name) {
      auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(folder({{"HOME", "/h"}}), "/h/.cache/asyra");
  EXPECT_EQ(folder({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}), "/x/asyra");
  EXPECT_EQ(folder({{"HOME", "/h"}, {"XDG_CACHE_HOME", ""}}),
            "/h/.cache/asyra");
  EXPECT_EQ(folder({{"XDG_CACHE_HOME", "/x"}, {"ASYRA_CACHE_DIR", "/a"}}),
            "/a");
  EXPECT_EQ(folder({{"HOME", "/h"}, {"ASYRA_CACHE_DIR", ""}}), "");
  EXPECT_EQ(folder({}), "");
}

TEST_F(Cache, GivesBackWhatItWasGiven) {
  const std::string keys[] = {"", "a", "a\nb", std::string("\0\n\xff", 3)};
  const std::string values[] = {"", "\n", std::string("x\0y\n", 4),
                                std::string(100000, 'z')};
  for (const std::string& value : values) {
    DiskCache(folder_).Keep("thing", "between", "others");
    for (const std::string& key : keys) {
      SCOPED_TRACE(testing::PrintToString(key));
      DiskCache cache(folder_);
      cache.Keep("thing", key, value);
      EXPECT_THAT(DiskCache(folder_).Find("thing", key), Optional(value));
      EXPECT_EQ(cache.Find("other", key), std::nullopt);
      EXPECT_EQ(cache.problem(), absl::OkStatus());
    }
  }
  EXPECT_EQ(Files().size(), 5);
  EXPECT_EQ(DiskCache(folder_).Find("thing", "b"), std::nullopt);
}

TEST_F(Cache, TheLastValueStays) {
  DiskCache cache(folder_);
  for (const char* value : {"a long one", "b", "another one"}) {
    cache.Keep("thing", "key", value);
    EXPECT_THAT(cache.Find("thing", "key"), Optional(std::string(value)));
  }
  OneFile();
}

TEST_F(Cache, WithoutAFolderIsNone) {
  DiskCache cache("");
  cache.Keep("thing", "key", "value");
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
  EXPECT_EQ(cache.problem(), absl::OkStatus());
}

TEST_F(Cache, FilesCutShortOrChangedAreNone) {
  DiskCache cache(folder_);
  cache.Keep("thing", "key", "value");
  std::string path = OneFile();
  const std::string whole = ASYRA_VALUE(ReadFile(path));
  for (size_t size = 0; size < whole.size(); ++size) {
    Write(path, whole.substr(0, size));
    EXPECT_EQ(cache.Find("thing", "key"), std::nullopt) << size << " bytes";
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 1;
    Write(path, changed);
    EXPECT_EQ(cache.Find("thing", "key"), std::nullopt) << "byte " << at;
  }
  for (const std::string& foreign :
       {whole + "\n", "x" + whole, whole + whole, std::string(1 << 20, '\0')}) {
    Write(path, foreign);
    EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
  }
  cache.Keep("thing", "key", "value");
  EXPECT_EQ(ASYRA_VALUE(ReadFile(path)), whole);
}

TEST_F(Cache, AnotherVersionIsNone) {
  DiskCache cache(folder_);
  cache.Keep("thing", "key", "value");
  std::string path = OneFile(), file = ASYRA_VALUE(ReadFile(path));
  ASSERT_THAT(file, testing::StartsWith("asyra cache 1:"));
  file[12] = '2';
  Write(path, file);
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
}

// As if the hashes of two keys were equal.
TEST_F(Cache, TheFileOfAnotherKeyIsNone) {
  DiskCache cache(folder_);
  cache.Keep("thing", "key", "value");
  fs::path mine = OneFile();
  cache.Keep("thing", "yek", "eulav");
  for (const fs::path& file : Files()) {
    if (file != mine) fs::rename(file, mine);
  }
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
}

TEST_F(Cache, FoldersAndHugeFilesAreNone) {
  DiskCache cache(folder_);
  cache.Keep("thing", "key", "value");
  std::string path = OneFile();
  fs::resize_file(path, uintmax_t{1} << 30);
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
  cache.Keep("thing", "key", "value");
  EXPECT_THAT(std::string(MessageOf(cache.problem())), HasSubstr(path));
}

TEST_F(Cache, AFolderThatCannotBeWrittenIsAProblemAndNoError) {
  std::ofstream(folder_) << "a file";
  DiskCache cache(folder_ / "below");
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
  EXPECT_EQ(cache.problem(), absl::OkStatus());
  cache.Keep("thing", "key", "value");
  cache.Keep("thing", "other", "value");
  EXPECT_EQ(cache.Find("thing", "key"), std::nullopt);
  std::string problem(MessageOf(cache.problem()));
  EXPECT_THAT(problem, HasSubstr("ASYRA_CACHE_DIR"));
  EXPECT_THAT(problem, HasSubstr("Not a directory"));
}

// Values say whose they are, so that one made of two would show.
std::string ValueOf(int key, int writer, std::mt19937_64* random) {
  std::string value = fmt::format("{} of {} ", writer, key);
  value.append((*random)() % 20000, static_cast<char>('a' + writer));
  return value;
}

// Writes and reads the same keys as other writers do; false where it finds
// what nobody has kept.
bool WriteAndRead(const fs::path& folder, int writer, uint64_t seed) {
  DiskCache cache(folder);
  std::mt19937_64 random(seed + writer);
  for (int round = 0; round < 200; ++round) {
    int key = static_cast<int>(random() % 3);
    std::string name = fmt::format("key {}", key);
    if (random() % 2 == 0) {
      cache.Keep("thing", name, ValueOf(key, writer, &random));
    }
    std::optional<std::string> found = cache.Find("thing", name);
    if (!found.has_value()) continue;
    size_t text = found->find_last_of(' ') + 1;
    bool whole = found->substr(0, text).find(fmt::format("of {} ", key)) !=
                     std::string::npos &&
                 found->find_first_not_of(
                     static_cast<char>('a' + std::stoi(found->substr(0, 1))),
                     text) == std::string::npos;
    if (!whole) return false;
  }
  return cache.problem().ok();
}

TEST_F(Cache, ThreadsAndProcessesShareIt) {
  constexpr int kProcesses = 3, kThreads = 3;
  SCOPED_TRACE(fmt::format("ASYRA_SEED={}", Seed()));
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(WriteAndRead(folder_, process, Seed()) ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<int> well = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      well += WriteAndRead(folder_, kProcesses + thread, Seed());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(well, kThreads);
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Files().size(), 3);  // no temporary one is left
}

}  // namespace
}  // namespace asyra
