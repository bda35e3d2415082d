#include "tools/run/npy.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/tools/scratch_file.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as NumPy writes it, of version 1.
std::string Npy(const std::string& descr, const std::string& shape,
                const std::string& data, const std::string& order = "False") {
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n",
                  descr, order, shape);
  std::string length = {static_cast<char>(dict.size()), 0};
  return std::string("\x93NUMPY\x01\x00", 8) + length + dict + data;
}

template <typename T>
std::string Bytes(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

absl::StatusOr<Tensor> Read(const std::string& bytes) {
  ScratchFile file("x.npy", bytes);
  return ReadNpy(file.path());
}

std::string ErrorOf(const std::string& bytes) {
  return std::string(MessageOf(Read(bytes).status()));
}

TEST(Npy, IsReadAsWritten) {
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBF16) continue;
    for (const Shape& shape :
         {Shape{}, Shape{3}, Shape{2, 3}, Shape{0}, Shape{2, 0, 3}}) {
      Tensor tensor(dtype, shape);
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        tensor.SetInt(i, i % 2);
      }
      std::string header = NpyHeader(dtype, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      EXPECT_EQ(header.back(), '\n');
      Tensor read = ASYRA_VALUE(Read(
          header + std::string(reinterpret_cast<const char*>(tensor.data()),
                               tensor.bytes())));
      EXPECT_TRUE(SameBytes(read, tensor)) << ToString(dtype);
    }
  }
  EXPECT_THAT(NpyHeader(DType::kF32, {2, 3}),
              HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (2, "
                        "3), }  "));
  EXPECT_THAT(NpyHeader(DType::kBool, {3}),
              HasSubstr("'|b1', 'fortran_order': False, 'shape': (3,), }"));
  EXPECT_THAT(NpyHeader(DType::kI64, {}), HasSubstr("'shape': (), }"));
}

TEST(Npy, OtherTypesAndOrdersAreUnderstood) {
  auto ints = [](const std::string& bytes) {
    return ASYRA_VALUE(Read(bytes)).ToInts();
  };
  EXPECT_THAT(ints(Npy("|i1", "(2,)", Bytes<int8_t>({-3, 4}))),
              ElementsAre(-3, 4));
  EXPECT_THAT(ints(Npy("<u1", "(2,)", Bytes<uint8_t>({253, 4}))),
              ElementsAre(253, 4));
  EXPECT_THAT(ints(Npy("<i2", "(1,)", Bytes<int16_t>({-300}))),
              ElementsAre(-300));
  EXPECT_THAT(ints(Npy("<u4", "(1,)", Bytes<uint32_t>({4000000000u}))),
              ElementsAre(4000000000));
  EXPECT_THAT(ints(Npy("<u8", "(1,)", Bytes<uint64_t>({5}))), ElementsAre(5));
  EXPECT_THAT(ints(Npy("|b1", "(2,)", Bytes<uint8_t>({2, 0}))),
              ElementsAre(1, 0));
  EXPECT_THAT(
      ints(Npy(">i4", "(2,)", std::string("\0\0\1\0\xff\xff\xff\xfe", 8))),
      ElementsAre(256, -2));
  Tensor columns = ASYRA_VALUE(
      Read(Npy("<f4", "(2, 3)", Bytes<float>({1, 4, 2, 5, 3, 6}), "True")));
  EXPECT_THAT(columns.ToDoubles(), ElementsAre(1, 2, 3, 4, 5, 6));
  Tensor bf16 =
      ASYRA_VALUE(Read(Npy("<V2", "(1,)", Bytes<uint16_t>({0x3fc0}))));
  EXPECT_EQ(bf16.dtype(), DType::kBF16);
  EXPECT_EQ(bf16.Get(0), 1.5);
}

TEST(Npy, RefusesWhatIsNone) {
  EXPECT_THAT(ErrorOf("PK\3\4"), HasSubstr("it is no .npy file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("x.npy: it is no .npy file"));
  EXPECT_THAT(ErrorOf(Npy("<f4", "(2, 3)", "abcd")),
              HasSubstr("<f4[2,3] takes 24 bytes, the file has 4"));
  EXPECT_THAT(ErrorOf(Npy("<c8", "(1,)", std::string(8, 0))),
              HasSubstr("its elements are '<c8'"));
  EXPECT_THAT(ErrorOf(Npy("<u8", "(1,)", std::string(8, '\xff'))),
              HasSubstr("an element is 18446744073709551615"));
  EXPECT_THAT(ErrorOf(Npy("<f4", "(-1,)", "")), HasSubstr("a size of '-1'"));
  EXPECT_THAT(ErrorOf(Npy("<f4", "(9999999999, 9999999999)", "")),
              HasSubstr("more than 2^48 elements"));
  std::string whole = Npy("<f4", "(1,)", "abcd");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(ErrorOf(whole.substr(0, size)), "") << size;
  }
  whole[6] = 9;
  EXPECT_THAT(ErrorOf(whole), HasSubstr("version 9"));
}

}  // namespace
}  // namespace asyra
