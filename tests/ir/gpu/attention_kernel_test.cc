#include "ir/gpu/attention_kernel.h"

#include "gmock/gmock.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

AttentionChoice ChoiceOf(std::string_view text) {
  Mesh mesh;
  ParsedCall call = ASYRA_VALUE(ParseCall(text, mesh));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  return AttentionKernelOf({*call.def, call.attrs, call.operands, results});
}

constexpr std::string_view kQkv =
    "bf16[2,64,4,128], bf16[2,64,2,128], bf16[2,64,2,128]";

std::string Forward(std::string_view more, std::string_view attrs = "") {
  return fmt::format("attention({}{}) {{scale=0.5{}}}", kQkv, more, attrs);
}

TEST(AttentionKernel, TheLibraryTakesBandsOfKeys) {
  for (std::string_view attrs :
       {"", ", causal=true", ", causal=true, window=8", ", hidden=-1e9"}) {
    AttentionChoice choice = ChoiceOf(Forward("", attrs));
    EXPECT_EQ(choice.kernel, AttentionKernel::kLibrary) << attrs;
    EXPECT_EQ(choice.traits, "");
  }
  EXPECT_EQ(ChoiceOf(Forward(", i32[2]")).traits, "lengths");
}

TEST(AttentionKernel, OursTakesMasksSinksAndCaps) {
  for (auto [more, attrs, traits] :
       {std::tuple(", bool[2,1,1,64]", "", "bool mask of keys"),
        std::tuple(", bool[2,1,64,64]", "", "bool mask"),
        std::tuple(", bf16[2,1,64,64]", ", causal=true", "float mask"),
        std::tuple(", bool[2,1,1,64], i32[2], bf16[4]", ", softcap=30.0",
                   "bool mask of keys, lengths, sinks, softcap")}) {
    AttentionChoice choice = ChoiceOf(Forward(more, attrs));
    EXPECT_EQ(choice.kernel, AttentionKernel::kFlash) << more;
    EXPECT_EQ(choice.traits, traits);
    EXPECT_EQ(choice.obstacle, "");
  }
}

TEST(AttentionKernel, ThePlainOneSaysWhy) {
  auto why = [](const std::string& call) {
    AttentionChoice choice = ChoiceOf(call);
    EXPECT_EQ(choice.kernel, AttentionKernel::kPlain) << call;
    return choice.obstacle;
  };
  EXPECT_EQ(why("attention(f32[2,8,4,16], f32[2,8,4,16], f32[2,8,4,16]) "
                "{scale=0.5}"),
            "elements of other than 16 bits");
  EXPECT_EQ(why("attention(f16[2,8,4,20], f16[2,8,4,20], f16[2,8,4,20], "
                "bool[2,1,1,8]) {scale=0.5}"),
            "heads of 20 and 20");
  EXPECT_EQ(why(Forward(", bool[2,1,1,64]", ", hidden=-1e9")),
            "keys that are hidden by a score of -1000000000");
  constexpr std::string_view kGrad =
      "attention_grad(bf16[2,8,4,{0}], bf16[2,8,4,{0}], bf16[2,8,4,{0}], "
      "bf16[2,8,4,{0}], f32[2,4,8], bf16[2,8,4,{0}], {1}) {{scale=0.5, "
      "of=\"{2}\"}}";
  EXPECT_THAT(
      why(fmt::format(fmt::runtime(kGrad), 256, "bool[2,1,1,8]", "qkv")),
      HasSubstr("heads of 256 and 256, whose gradients"));
  EXPECT_EQ(why(fmt::format(fmt::runtime(kGrad), 64, "bf16[2,1,8,8]", "mask")),
            "a gradient of masks or sinks");
  EXPECT_EQ(
      ChoiceOf(fmt::format(fmt::runtime(kGrad), 192, "bool[2,1,1,8]", "qkv"))
          .kernel,
      AttentionKernel::kFlash);
}

}  // namespace
}  // namespace asyra
