// What a program is given beside tokens, by the names of its inputs.
#include "executor/train/token_batches.h"

#include "gmock/gmock.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const Type kTokens(DType::kI64, {2, 3});

std::string Refusal(const std::string& name, const Type& type) {
  return std::string(MessageOf(FixedInput(name, type, kTokens).status()));
}

TEST(FixedInput, FillsMasksOfTokensAndPositions) {
  for (DType dtype : {DType::kI64, DType::kI32}) {
    Tensor mask = *FixedInput("attention_mask", Type(dtype, {2, 3}), kTokens);
    EXPECT_EQ(mask.dtype(), dtype);
    EXPECT_THAT(mask.ToInts(), Each(1));
  }
  for (const Shape& shape : {Shape{3}, Shape{1, 3}}) {
    EXPECT_THAT(
        FixedInput("position_ids", Type(DType::kI64, shape), kTokens)->ToInts(),
        ElementsAre(0, 1, 2));
  }
  EXPECT_THAT(
      FixedInput("position_ids", Type(DType::kI64, {2, 3}), kTokens)->ToInts(),
      ElementsAre(0, 1, 2, 0, 1, 2));
}

// Ones would hide nothing, or everything.
TEST(FixedInput, RefusesOtherTypesAndShapesOfTheNames) {
  for (const Type& type :
       {Type(DType::kF32, {2, 1, 3, 3}), Type(DType::kF32, {2, 3}),
        Type(DType::kBool, {2, 3}), Type(DType::kBool, {2, 1, 3, 3}),
        Type(DType::kI64, {2, 4}), Type(DType::kI64, {2, 1, 3, 3}),
        Type(DType::kI64, {3})}) {
    EXPECT_THAT(Refusal("attention_mask", type),
                HasSubstr(fmt::format(
                    "%attention_mask is {}{}: the data has nothing "
                    "for it",
                    ToString(type.dtype), ShapeToString(type.shape()))));
  }
  EXPECT_THAT(Refusal("attention_mask", Type(DType::kBool, {2, 3})),
              HasSubstr("where it is integers [2, 3]"));
  for (const Type& type : {Type(DType::kF32, {2, 3}), Type(DType::kI64, {2, 4}),
                           Type(DType::kI64, {})}) {
    EXPECT_THAT(Refusal("position_ids", type),
                HasSubstr("where it is integers [..., 3]"));
  }
  EXPECT_THAT(Refusal("token_type_ids", kTokens),
              HasSubstr("%token_type_ids is neither tokens nor labels"));
}

}  // namespace
}  // namespace asyra
