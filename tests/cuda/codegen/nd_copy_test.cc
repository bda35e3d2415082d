#include "executor/cuda/kernels/nd_copy.h"

#include "gmock/gmock.h"

namespace asyra::cuda {
namespace {

using Kind = NdCopy::Kind;

Access Dense(const Shape& shape) { return {DenseStrides(shape)}; }

TEST(NdCopy, OnePieceIsCopiedAsOne) {
  // Tile 1 of 2 of the first dimension.
  Access from = Dense({4, 6, 8});
  from.first = 2 * 6 * 8;
  EXPECT_EQ(NdCopy::KindOf({2, 6, 8}, from, Dense({2, 6, 8})), Kind::kPlain);
  EXPECT_EQ(NdCopy::KindOf({}, {}, {}), Kind::kPlain);
  EXPECT_EQ(NdCopy::KindOf({1, 1}, {{5, 7}}, {{1, 1}}), Kind::kPlain);
}

TEST(NdCopy, NothingIsNotCopied) {
  EXPECT_EQ(NdCopy::KindOf({3, 0}, Dense({3, 0}), Dense({3, 0})),
            Kind::kNothing);
}

TEST(NdCopy, RunsStayRuns) {
  // Half of the middle dimension, and heads before the sequence.
  EXPECT_EQ(NdCopy::KindOf({4, 3, 8}, {{48, 8, 1}}, Dense({4, 3, 8})),
            Kind::kStrided);
  EXPECT_EQ(NdCopy::KindOf({2, 4, 16, 64}, {{4096, 64, 256, 1}},
                           Dense({2, 4, 16, 64})),
            Kind::kStrided);
}

TEST(NdCopy, ColumnsThatBecomeRowsGoThroughTiles) {
  EXPECT_EQ(NdCopy::KindOf({64, 32}, {{1, 64}}, Dense({64, 32})),
            Kind::kTranspose);
  EXPECT_EQ(NdCopy::KindOf({5, 64, 32}, {{2048, 1, 64}}, Dense({5, 64, 32})),
            Kind::kTranspose);
}

TEST(NdCopy, WhatIsLeftIsGenerated) {
  // Too narrow for tiles, every second element, one element everywhere.
  EXPECT_EQ(NdCopy::KindOf({64, 2}, {{1, 64}}, Dense({64, 2})),
            Kind::kGenerated);
  EXPECT_EQ(NdCopy::KindOf({4, 8}, {{16, 2}}, Dense({4, 8})), Kind::kGenerated);
  EXPECT_EQ(NdCopy::KindOf({4, 8}, {{1, 0}}, Dense({4, 8})), Kind::kGenerated);
}

}  // namespace
}  // namespace asyra::cuda
