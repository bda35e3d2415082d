// What a run has used of the cache, in a file for other devices of its kind.
#include "executor/tuning/tuning_file.h"

#include <unistd.h>

#include <filesystem>
#include <random>

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using testing::HasSubstr;

TuningFile Example() {
  return {"a GPU, driver 12.8, cuDNN 9.1",
          {{"tuning", "gemm\n2x3", "4.5\tfast"},
           {"cubin", "", std::string("\0\n\xff", 3)},
           {"gate", "two", ""}}};
}

TEST(TuningFile, ReadsWhatWasWritten) {
  for (TuningFile file : {Example(), TuningFile{"cpu", {}}}) {
    TuningFile read = ASYRA_VALUE(ParseTuningFile(ToBytes(file)));
    EXPECT_EQ(read.identity, file.identity);
    ASSERT_EQ(read.entries.size(), file.entries.size());
    for (size_t i = 0; i < read.entries.size(); ++i) {
      EXPECT_EQ(read.entries[i].kind, file.entries[i].kind);
      EXPECT_EQ(read.entries[i].key, file.entries[i].key);
      EXPECT_EQ(read.entries[i].value, file.entries[i].value);
    }
  }
}

TEST(TuningFile, RefusesWhatIsNotWhole) {
  std::string bytes = ToBytes(Example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseTuningFile(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseTuningFile(bytes + "x").ok());
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string changed = bytes;
    // Of the identity only the comparison with the device's knows.
    size_t at = bytes.find(" entries") + random() % 100;
    if (at >= changed.size()) continue;
    changed[at] = static_cast<char>(changed[at] ^ (1 + random() % 255));
    EXPECT_FALSE(ParseTuningFile(changed).ok()) << at;
  }
  EXPECT_EQ(ParseTuningFile("asyra tuning 2\n").status().message(),
            "it begins with 'asyra tuning 2', not with 'asyra tuning 1'");
  EXPECT_EQ(ParseTuningFile("asyra tuning 1\ncpu\n").status().message(),
            "it is cut short");
  EXPECT_THAT(
      std::string(ParseTuningFile(
                      "asyra tuning 1\ncpu\n0 entries, 9 bytes, 0\nx 1 99\n")
                      .status()
                      .message()),
      HasSubstr("it should have 0 entries, 9 bytes, 0"));
}

TEST(TuningFile, IsForDevicesThatAreTheSame) {
  EXPECT_TRUE(CheckServes(Example(), "a GPU, driver 12.8, cuDNN 9.1").ok());
  EXPECT_EQ(CheckServes(Example(), "a GPU, driver 12.9, cuDNN 9.1").message(),
            "it is for 'a GPU, driver 12.8, cuDNN 9.1', the device is 'a GPU, "
            "driver 12.9, cuDNN 9.1'");
}

class Recorded : public testing::Test {
 protected:
  ~Recorded() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ =
      fmt::format("{}asyra_recorded_{}", testing::TempDir(), getpid());
};

TEST_F(Recorded, IsWhatWasFoundAndKept) {
  DiskCache(folder_).Keep("tuning", "old", "1");
  DiskCache(folder_).Keep("tuning", "unused", "2");
  DiskCache cache(folder_);
  cache.Keep("tuning", "before", "3");
  cache.Record();
  EXPECT_TRUE(cache.Find("tuning", "old").has_value());
  EXPECT_FALSE(cache.Find("tuning", "none").has_value());
  cache.Keep("gate", "new", "4");
  cache.Keep("gate", "new", "5");
  std::vector<CacheEntry> entries = cache.recorded();
  ASSERT_EQ(entries.size(), 2);
  EXPECT_EQ(entries[0].key + entries[0].value, "new5");
  EXPECT_EQ(entries[1].key + entries[1].value, "old1");
}

TEST_F(Recorded, IsFoundWithoutAFolder) {
  DiskCache cache("");
  cache.Preload({{"tuning", "a", "1"}, {"gate", "a", "2"}});
  EXPECT_EQ(cache.Find("tuning", "a"), "1");
  EXPECT_EQ(cache.Find("gate", "a"), "2");
  EXPECT_EQ(cache.Find("gate", "b"), std::nullopt);
}

TEST_F(Recorded, GivesWayToWhatIsKept) {
  DiskCache(folder_).Keep("gate", "a", "on disk");
  DiskCache cache(folder_);
  cache.Preload({{"gate", "a", "of the file"}});
  EXPECT_EQ(cache.Find("gate", "a"), "of the file");
  cache.Keep("gate", "a", "measured");
  EXPECT_EQ(cache.Find("gate", "a"), "measured");
}

}  // namespace
}  // namespace asyra
