#include "tools/run/given_inputs.h"

#include <cmath>

#include "frontends/onnx/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "tests/tools/scratch_file.h"
#include "tools/run/npy.h"
#include "tools/run/run_inputs.h"
#include "tools/run/write_outputs.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Program Example() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%ids: i64[1, 3], %w: f32[2] weight, %x: bf16[2], %m: bool[2])
    -> (i64[1, 3], bf16[2], bool[2]) {
  return %ids, %x, %m
}
)"));
}

absl::StatusOr<std::vector<Tensor>> Take(const std::vector<std::string>& given,
                                         bool round = false,
                                         bool others = true) {
  Program program = Example();
  std::vector<std::string> all = given;
  for (const char* name : {"ids", "x", "m"}) {
    bool has = false;
    for (const std::string& one : given) has |= one.starts_with(name);
    if (!has && others) all.push_back(fmt::format("{}=0", name));
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<GivenInput> read, ReadGivenInputs(all));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, RunInputs(program, {}, 1));
  std::vector<std::string> lacking = {"w"};
  ASYRA_RETURN_IF_ERROR(
      TakeGivenInputs(program, read, lacking, round, &inputs));
  return inputs;
}

std::string ErrorOf(const std::vector<std::string>& given, bool round = false,
                    bool others = true) {
  return std::string(MessageOf(Take(given, round, others).status()));
}

std::string NpyOf(const Tensor& tensor) {
  return NpyHeader(tensor.dtype(), tensor.shape()) +
         std::string(reinterpret_cast<const char*>(tensor.data()),
                     tensor.bytes());
}

TEST(GivenInputs, NumbersAreTaken) {
  auto inputs = ASYRA_VALUE(Take({"ids=5,6,7", "x=0.5,-2", "m=true,false"}));
  EXPECT_THAT(inputs[0].ToInts(), ElementsAre(5, 6, 7));
  EXPECT_EQ(inputs[0].shape(), Shape({1, 3}));
  EXPECT_THAT(inputs[2].ToDoubles(), ElementsAre(0.5, -2));
  EXPECT_THAT(inputs[3].ToInts(), ElementsAre(1, 0));
  inputs = ASYRA_VALUE(Take({"ids=[[5, 6, 7]]", "x=3", "w=1.5"}));
  EXPECT_THAT(inputs[0].ToInts(), ElementsAre(5, 6, 7));
  EXPECT_THAT(inputs[2].ToDoubles(), ElementsAre(3, 3));
  EXPECT_THAT(inputs[1].ToDoubles(), ElementsAre(1.5, 1.5));
  // A number of a command line has no type: 0.1 is rounded.
  EXPECT_EQ(ASYRA_VALUE(Take({"x=0.1"}))[2].Get(0), 0.10009765625);
}

TEST(GivenInputs, NumbersThatDoNotFitAreErrors) {
  EXPECT_THAT(ErrorOf({"ids=1,2"}),
              HasSubstr("--input ids=1,2: 2 numbers are given, i64[1,3] takes "
                        "3, or one for all"));
  EXPECT_THAT(ErrorOf({"ids=[1,2,3]"}),
              HasSubstr("it is i64[3], the program takes i64[1,3]"));
  EXPECT_THAT(ErrorOf({"ids=1.5"}),
              HasSubstr("element 0 is 1.5 of type f64, which i64 does not "
                        "hold"));
  EXPECT_THAT(ErrorOf({"m=2"}), HasSubstr("which bool does not hold"));
  EXPECT_THAT(ErrorOf({"ids=[[1,2],[3]]"}),
              HasSubstr("lists of 2 and of 1 elements side by side"));
  EXPECT_THAT(ErrorOf({"ids=[[1],2]"}), HasSubstr("side by side"));
  EXPECT_THAT(ErrorOf({"ids=[1,[2]]"}), HasSubstr("side by side"));
  EXPECT_THAT(ErrorOf({"ids=[[[1]],[2]]"}), HasSubstr("side by side"));
  EXPECT_THAT(ErrorOf({"ids=[1"}), HasSubstr("it is no list of numbers"));
  EXPECT_THAT(ErrorOf({"ids=[\"a\"]"}), HasSubstr("'\"a\"' is no number"));
}

TEST(GivenInputs, FilesAreTakenByTheirEnding) {
  Tensor ids = Tensor::FromInts(DType::kI32, {1, 3}, {7, 8, 9});
  ScratchFile npy("ids.npy", NpyOf(ids));
  EXPECT_THAT(ASYRA_VALUE(Take({"ids=" + npy.path()}))[0].ToInts(),
              ElementsAre(7, 8, 9));
  ScratchFile pb("ids.pb", ASYRA_VALUE(TensorProtoBytes("any", ids)));
  EXPECT_THAT(ASYRA_VALUE(Take({"ids=" + pb.path()}))[0].ToInts(),
              ElementsAre(7, 8, 9));
  ScratchFile raw("x.bin", std::string("\x00\x3f\x00\xc0", 4));
  EXPECT_THAT(ASYRA_VALUE(Take({"x=" + raw.path()}))[2].ToDoubles(),
              ElementsAre(0.5, -2));
  EXPECT_THAT(ErrorOf({"ids=" + raw.path()}),
              HasSubstr("4 bytes are given, i64[1,3] takes 24"));
  ScratchFile wrong("wrong.npy", "text");
  EXPECT_THAT(ErrorOf({"ids=" + wrong.path()}),
              HasSubstr("it is no .npy file"));
  EXPECT_THAT(ErrorOf({"ids=none.npy"}),
              HasSubstr("--input ids: none.npy: No such file"));
  EXPECT_THAT(ErrorOf({"ids=" + ::testing::TempDir()}),
              HasSubstr("it is a folder"));
}

TEST(GivenInputs, TensorsOfASafetensorsFileAreNamed) {
  WeightStore store;
  Tensor seven = Tensor::FromInts(DType::kI64, {1, 3}, {7, 7, 7});
  Tensor eight = Tensor::FromInts(DType::kI64, {1, 3}, {8, 8, 8});
  store.Set("a:b", eight);
  ScratchFile file("in.safetensors");
  ASYRA_CHECK_OK(WriteWeights(store, file.path()));
  EXPECT_EQ(ASYRA_VALUE(Take({"ids=" + file.path()}))[0].GetInt(0), 8);
  store.Set("ids", seven);
  ASYRA_CHECK_OK(WriteWeights(store, file.path()));
  EXPECT_EQ(ASYRA_VALUE(Take({"ids=" + file.path()}))[0].GetInt(0), 7);
  EXPECT_EQ(ASYRA_VALUE(Take({"ids=" + file.path() + ":a:b"}))[0].GetInt(0), 8);
  EXPECT_THAT(ErrorOf({"x=" + file.path()}),
              HasSubstr("there is no tensor x, there are a:b, ids"));
}

TEST(GivenInputs, ValuesOfOtherTypesAreExactOrRefused) {
  Tensor exact = Tensor::FromDoubles(DType::kF64, {2}, {0.5, -INFINITY});
  ScratchFile exact_file("x.npy", NpyOf(exact));
  EXPECT_EQ(ASYRA_VALUE(Take({"x=" + exact_file.path()}))[2].Get(0), 0.5);
  Tensor between = Tensor::FromDoubles(DType::kF32, {2}, {0.5, 0.1});
  ScratchFile file("y.npy", NpyOf(between));
  EXPECT_THAT(ErrorOf({"x=" + file.path()}),
              AllOf(HasSubstr("element 1 is 0.10000000149011612 of type f32, "
                              "which bf16 does not hold"),
                    HasSubstr("--round-inputs")));
  EXPECT_EQ(ASYRA_VALUE(Take({"x=" + file.path()}, true))[2].Get(1),
            0.10009765625);
  // Too large for any rounding, and no integer.
  Tensor large = Tensor::FromDoubles(DType::kF64, {2}, {1e300, 0});
  ScratchFile large_file("z.npy", NpyOf(large));
  EXPECT_THAT(ErrorOf({"x=" + large_file.path()}, true),
              HasSubstr("which bf16 does not hold"));
  Tensor wide = Tensor::FromInts(DType::kI64, {2}, {2, 1});
  ScratchFile wide_file("m.npy", NpyOf(wide));
  EXPECT_THAT(
      ErrorOf({"m=" + wide_file.path()}),
      HasSubstr("element 0 is 2 of type i64, which bool does not hold"));
}

TEST(GivenInputs, NamesAreThoseOfTheProgram) {
  EXPECT_THAT(ErrorOf({"idx=1"}),
              HasSubstr("no input is called idx, the program takes ids, x, m, "
                        "and weights without data: w"));
  EXPECT_THAT(ErrorOf({"ids=1", "ids=2"}), HasSubstr("is given twice"));
  EXPECT_THAT(ErrorOf({"5"}), HasSubstr("--input 5: expected NAME=FILE"));
  EXPECT_THAT(ErrorOf({"=5"}), HasSubstr("expected NAME=FILE"));
  EXPECT_THAT(ErrorOf({"ids="}), HasSubstr("there is no file and no number"));
  EXPECT_THAT(ErrorOf({"ids=1"}, false, false),
              HasSubstr("inputs are not given with --input: x bf16[2], m "
                        "bool[2]"));
}

TEST(FileNames, AreSafeAndDifferent) {
  EXPECT_THAT(
      FileNames({"logits", "a/b", "a:b", "..", "", "Logits", "a_b_2"}),
      ElementsAre("logits", "a_b", "a_b_2", "_..", "_", "Logits_2", "a_b_2_2"));
  EXPECT_EQ(FileNames({std::string(1000, 'x')})[0].size(), 200u);
}

}  // namespace
}  // namespace asyra
