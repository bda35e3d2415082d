// Lengths of rows that are ones, then zeros, and the errors of others.
#include <limits>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// The lengths of rows of three, or the error.
std::string LengthsOf(DType dtype, const std::vector<double>& mask,
                      int64_t least = 0) {
  const OpDef& def = *FindOp("mask_lengths");
  AttrMap attrs = {{"input", std::string("m")}, {"least", least}};
  auto rows = static_cast<int64_t>(mask.size()) / 3;
  absl::StatusOr<std::vector<Tensor>> lengths =
      Evaluate(def, attrs, {Tensor::FromDoubles(dtype, {rows, 3}, mask)});
  if (!lengths.ok()) return std::string(MessageOf(lengths.status()));
  return ToString((*lengths)[0]);
}

constexpr char kOthers[] =
    ": with --padding right each row is ones, then zeros; --padding any takes "
    "other masks";

TEST(MaskLengths, CountOnes) {
  EXPECT_EQ(LengthsOf(DType::kI64, {1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0}),
            "i32[4](3, 1, 0, 2)");
  EXPECT_EQ(LengthsOf(DType::kF32, {1, -0.0, 0}, 1), "i32[1](1)");
  EXPECT_EQ(LengthsOf(DType::kBool, {}), "i32[0]()");
}

TEST(MaskLengths, OtherRowsAreErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      LengthsOf(DType::kI32, {1, 0, 0, 0, 0, 1}),
      absl::StrCat("row 1 of input m has a 1 at place 2, behind a 0", kOthers));
  EXPECT_EQ(LengthsOf(DType::kF32, {1, nan, 1}),
            absl::StrCat("row 0 of input m has nan at place 1", kOthers));
  EXPECT_EQ(LengthsOf(DType::kBF16, {1, 0.5, 1}),
            absl::StrCat("row 0 of input m has 0.5 at place 1", kOthers));
  EXPECT_EQ(LengthsOf(DType::kF64, {1, 1, 0, 1, 0, 0}, 2),
            "row 1 of input m has a 0 at place 1, where it must have a 1: with "
            "--padding right each row is ones, then zeros, and sees a key; "
            "--padding any takes other masks");
}

}  // namespace
}  // namespace asyra
