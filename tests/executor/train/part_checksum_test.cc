#include "executor/train/part_checksum.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace asyra {
namespace {

TEST(PartChecksum, IsTheCrc32OfZlib) {
  EXPECT_EQ(ChecksumOf("123456789"),
            0xcbf43926);  // the catalogue's check value
  EXPECT_EQ(ChecksumOf(""), 0u);
  EXPECT_EQ(WholeChecksum(0, 0), 0u);
}

TEST(PartChecksum, PartsAddUpToTheWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string whole(random() % 500, '\0');
    for (char& c : whole) c = static_cast<char>(random() % 3);
    // Runs of random length, each to a random one of the ranks.
    std::vector<PartChecksum> ranks(1 + random() % 5);
    for (size_t at = 0; at < whole.size();) {
      size_t run = std::min<size_t>(1 + random() % 40, whole.size() - at);
      ranks[random() % ranks.size()].Add(
          static_cast<int64_t>(at), std::string_view(whole).substr(at, run));
      at += run;
    }
    auto bytes = static_cast<int64_t>(whole.size());
    uint32_t parts = 0;
    for (PartChecksum& rank : ranks) parts ^= rank.Finish(bytes);
    ASSERT_EQ(WholeChecksum(parts, bytes), ChecksumOf(whole)) << round;
  }
}

}  // namespace
}  // namespace asyra
