#include "executor/cuda/kernels/box_copy.h"

#include "gmock/gmock.h"

namespace asyra::cuda {
namespace {

using Way = BoxCopy::Way;

Access Dense(const Shape& shape) { return {DenseStrides(shape)}; }

TEST(BoxCopy, OnePieceIsCopiedAsOne) {
  // Tile 1 of 2 of the first dimension.
  Access from = Dense({4, 6, 8});
  from.first = 2 * 6 * 8;
  EXPECT_EQ(BoxCopy::WayOf({2, 6, 8}, from, Dense({2, 6, 8})), Way::kPlain);
  EXPECT_EQ(BoxCopy::WayOf({}, {}, {}), Way::kPlain);
  EXPECT_EQ(BoxCopy::WayOf({1, 1}, {{5, 7}}, {{1, 1}}), Way::kPlain);
}

TEST(BoxCopy, NothingIsNotCopied) {
  EXPECT_EQ(BoxCopy::WayOf({3, 0}, Dense({3, 0}), Dense({3, 0})),
            Way::kNothing);
}

TEST(BoxCopy, RunsStayRuns) {
  // Half of the middle dimension, and heads before the sequence.
  EXPECT_EQ(BoxCopy::WayOf({4, 3, 8}, {{48, 8, 1}}, Dense({4, 3, 8})),
            Way::kRows);
  EXPECT_EQ(BoxCopy::WayOf({2, 4, 16, 64}, {{4096, 64, 256, 1}},
                           Dense({2, 4, 16, 64})),
            Way::kRows);
}

TEST(BoxCopy, ColumnsThatBecomeRowsGoThroughTiles) {
  EXPECT_EQ(BoxCopy::WayOf({64, 32}, {{1, 64}}, Dense({64, 32})),
            Way::kTranspose);
  EXPECT_EQ(BoxCopy::WayOf({5, 64, 32}, {{2048, 1, 64}}, Dense({5, 64, 32})),
            Way::kTranspose);
}

TEST(BoxCopy, WhatIsLeftIsGenerated) {
  // Too narrow for tiles, every second element, one element everywhere.
  EXPECT_EQ(BoxCopy::WayOf({64, 2}, {{1, 64}}, Dense({64, 2})),
            Way::kGenerated);
  EXPECT_EQ(BoxCopy::WayOf({4, 8}, {{16, 2}}, Dense({4, 8})), Way::kGenerated);
  EXPECT_EQ(BoxCopy::WayOf({4, 8}, {{1, 0}}, Dense({4, 8})), Way::kGenerated);
}

}  // namespace
}  // namespace asyra::cuda
