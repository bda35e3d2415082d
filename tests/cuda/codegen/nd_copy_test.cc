#include "executor/cuda/kernels/nd_copy.h"

#include "gmock/gmock.h"

namespace asyra::cuda {
namespace {

using Way = NdCopy::Way;

Access Dense(const Shape& shape) { return {DenseStrides(shape)}; }

TEST(NdCopy, OnePieceIsCopiedAsOne) {
  // Tile 1 of 2 of the first dimension.
  Access from = Dense({4, 6, 8});
  from.first = 2 * 6 * 8;
  EXPECT_EQ(NdCopy::WayOf({2, 6, 8}, from, Dense({2, 6, 8})), Way::kPlain);
  EXPECT_EQ(NdCopy::WayOf({}, {}, {}), Way::kPlain);
  EXPECT_EQ(NdCopy::WayOf({1, 1}, {{5, 7}}, {{1, 1}}), Way::kPlain);
}

TEST(NdCopy, NothingIsNotCopied) {
  EXPECT_EQ(NdCopy::WayOf({3, 0}, Dense({3, 0}), Dense({3, 0})), Way::kNothing);
}

TEST(NdCopy, RunsStayRuns) {
  // Half of the middle dimension, and heads before the sequence.
  EXPECT_EQ(NdCopy::WayOf({4, 3, 8}, {{48, 8, 1}}, Dense({4, 3, 8})),
            Way::kStrided);
  EXPECT_EQ(NdCopy::WayOf({2, 4, 16, 64}, {{4096, 64, 256, 1}},
                          Dense({2, 4, 16, 64})),
            Way::kStrided);
}

TEST(NdCopy, ColumnsThatBecomeRowsGoThroughTiles) {
  EXPECT_EQ(NdCopy::WayOf({64, 32}, {{1, 64}}, Dense({64, 32})),
            Way::kTranspose);
  EXPECT_EQ(NdCopy::WayOf({5, 64, 32}, {{2048, 1, 64}}, Dense({5, 64, 32})),
            Way::kTranspose);
}

TEST(NdCopy, WhatIsLeftIsGenerated) {
  // Too narrow for tiles, every second element, one element everywhere.
  EXPECT_EQ(NdCopy::WayOf({64, 2}, {{1, 64}}, Dense({64, 2})), Way::kGenerated);
  EXPECT_EQ(NdCopy::WayOf({4, 8}, {{16, 2}}, Dense({4, 8})), Way::kGenerated);
  EXPECT_EQ(NdCopy::WayOf({4, 8}, {{1, 0}}, Dense({4, 8})), Way::kGenerated);
}

}  // namespace
}  // namespace asyra::cuda
