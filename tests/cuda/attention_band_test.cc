// What cuDNN is told of a mask against what the op's definition says; no GPU.
#include <cmath>

#include "executor/cuda/kernels/attention_problem.h"
#include "gmock/gmock.h"

namespace asyra::cuda {
namespace {

AttentionProblem Problem(int64_t rows, int64_t keys) {
  return {.b = 1,
          .s = rows,
          .h = 1,
          .d = 8,
          .t = keys,
          .g = 1,
          .e = 8,
          .keys = keys,
          .hidden = -INFINITY};
}

bool Sees(const AttentionProblem& p, int64_t row, int64_t key) {
  int64_t at = p.first_row + row;
  return key < p.keys && (p.window == 0 || key > at - p.window) &&
         (p.window_after == 0 || key < at + p.window_after);
}

// As the band's definition has it, over all keys.
bool InBand(const AttentionProblem& p, const AttentionBand& band, int64_t row,
            int64_t key) {
  int64_t column = key - band.first_key;
  if (column < 0 || column >= band.keys) return false;
  int64_t at = row + (band.bottom_right ? band.keys - p.s : 0);
  return (!band.left || column > at - *band.left) &&
         (!band.right || column <= at + *band.right);
}

TEST(AttentionBand, SaysWhatRowsSee) {
  int bands = 0;
  for (int64_t rows : {1, 3, 6}) {
    for (int64_t keys : {1, 4, 6, 9}) {
      for (int64_t first : {-2, 0, 1, 3, 5}) {
        for (int64_t window : {0, 1, 2, 5}) {
          for (int64_t after : {0, 1, 3}) {
            // One key is seen by no row.
            AttentionProblem p = Problem(rows, keys + 1);
            p.keys = keys;
            p.first_row = first;
            p.window = window;
            p.window_after = after;
            bool all_see = true, equal = true;
            auto band = BandOf(p, false);
            for (int64_t row = 0; row < rows; ++row) {
              bool any = false;
              for (int64_t key = 0; key <= keys; ++key) {
                bool sees = Sees(p, row, key);
                any |= sees;
                equal &= !band || sees == InBand(p, *band, row, key);
              }
              all_see &= any;
            }
            SCOPED_TRACE(testing::Message()
                         << rows << " rows from " << first << ", " << keys
                         << " keys, window " << window << " and " << after);
            EXPECT_EQ(band.has_value(), all_see);
            EXPECT_TRUE(equal);
            bands += band.has_value();
          }
        }
      }
    }
  }
  EXPECT_GT(bands, 200);
}

TEST(AttentionBand, IsPlainCausalWhereRowsStartAtTheFirstKey) {
  AttentionProblem p = Problem(8, 8);
  p.window_after = 1;
  auto band = BandOf(p, false);
  ASSERT_TRUE(band.has_value());
  EXPECT_FALSE(band->bottom_right);
  EXPECT_EQ(band->right, 0);
  EXPECT_EQ(band->left, std::nullopt);
}

TEST(AttentionBand, OfLaterRowsEndsOnTheirLastKey) {
  AttentionProblem p = Problem(4, 16);
  p.window_after = 1;
  p.first_row = 8;
  auto band = BandOf(p, false);
  ASSERT_TRUE(band.has_value());
  EXPECT_TRUE(band->bottom_right);
  EXPECT_EQ(band->keys, 12);
  EXPECT_EQ(band->right, 0);
}

TEST(AttentionBand, OfWindowsLeavesOutWhatNoRowSees) {
  AttentionProblem p = Problem(4, 16);
  p.window_after = 1;
  p.window = 3;
  p.first_row = 8;
  auto band = BandOf(p, false);
  ASSERT_TRUE(band.has_value());
  EXPECT_EQ(band->first_key, 6);
  EXPECT_EQ(band->keys, 6);
}

TEST(AttentionBand, IsNoneWhereHiddenKeysHaveWeight) {
  AttentionProblem p = Problem(4, 4);
  p.window_after = 1;
  p.hidden = -4;
  EXPECT_FALSE(BandOf(p, false).has_value());
  p.hidden = -3.4e38;
  EXPECT_TRUE(BandOf(p, false).has_value());
}

TEST(AttentionBand, WithLengthsLeavesAloneWhatMayLieBehindThem) {
  AttentionProblem p = Problem(4, 16);
  EXPECT_TRUE(BandOf(p, true).has_value());
  p.window_after = 1;
  EXPECT_TRUE(BandOf(p, true).has_value());
  p.window = 2;
  EXPECT_FALSE(BandOf(p, true).has_value());
  p.at_end = true;
  p.first_row = -p.s;
  EXPECT_FALSE(BandOf(p, true).has_value());
  p.s = 1;
  p.first_row = -1;
  auto band = BandOf(p, true);
  ASSERT_TRUE(band.has_value());
  EXPECT_TRUE(band->bottom_right);
  EXPECT_EQ(band->left, 2);
}

}  // namespace
}  // namespace asyra::cuda
