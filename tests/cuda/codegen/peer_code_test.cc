// Sources of kernels that reach the memory of other GPUs, compiled without one.
#include "executor/cuda/codegen/peer_code.h"

#include "executor/cuda/codegen/codegen.h"
#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "tests/support/kernel_case.h"

namespace asyra::cuda {
namespace {

using testing::HasSubstr;
using testing::Not;

GeneratedUse Describe(std::string_view text) {
  ParsedCall call = ASYRA_VALUE(ParseCall(text, Mesh()));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, Mesh()));
  KernelUse use(*call.def, call.attrs, call.operands, results, Mesh(), 0);
  return FindCudaKernel(use)->describe(use);
}

constexpr char kResidualAndNorm[] =
    "fusion(bf16[64,4096], bf16[64,4096], bf16[4096]) {"
    "%3 = add(%0, %1) : bf16[64,4096] "
    "%4 = rms_norm(%3, %2) {eps=0.125} : bf16[64,4096] "
    "return %4, %3}";

TEST(PeerCode, Compiles) {
  const std::string_view kBodies[] = {
      kResidualAndNorm,
      // Rows that no registers hold, vectors of odd rows, elements alone.
      "fusion(f32[3,65536], f32[3,65536], f32[65536]) {"
      "%3 = add(%0, %1) : f32[3,65536] "
      "%4 = layer_norm(%3, %2, %2) {eps=0.125} : f32[3,65536] "
      "return %4, %3}",
      "fusion(bf16[3,37], bf16[3,37]) {"
      "%2 = add(%0, %1) : bf16[3,37] "
      "%3 = softmax(%2) : bf16[3,37] "
      "return %3, %2}",
      "fusion(f16[8,128], f16[128]) {"
      "%2 = add(%0, %1) : f16[8,128] "
      "%3 = gelu(%2) : f16[8,128] "
      "return %3, %2}"};
  for (std::string_view body : kBodies) {
    GeneratedUse use = Describe(body);
    for (int members : {2, 3, 8}) {
      for (bool gathered : {false, true}) {
        PeerCode peers{members, 0, {gathered, false}};
        ASSERT_TRUE(CanReachPeers(use.expression, use.loop, peers)) << body;
        GeneratedSource source = Generate(use.expression, use.loop, &peers);
        EXPECT_TRUE(CompileToCubin(source.text, {.architecture = 90}).ok())
            << CompileToCubin(source.text, {.architecture = 90}).status();
      }
    }
  }
}

TEST(PeerCode, SumsWhatAllHaveAndWritesWhatTheyGather) {
  GeneratedUse use = Describe(kResidualAndNorm);
  PeerCode peers{2, 1, {true, false}};
  std::string text = Generate(use.expression, use.loop, &peers).text;
  EXPECT_THAT(text, HasSubstr("const BF16* in1_0, const BF16* in1_1"));
  EXPECT_THAT(text, HasSubstr("Load(of_in1_0.at[v]) + Load(of_in1_1.at[v])"));
  EXPECT_THAT(text, HasSubstr("BF16* out0_0, BF16* out0_1, BF16* out1,"));
  EXPECT_THAT(text, HasSubstr("(out0_1 + "));
  EXPECT_THAT(text, Not(HasSubstr("in0_1")));
  // Without peers, a block has its rows alone.
  std::string alone = Generate(use.expression, use.loop).text;
  EXPECT_THAT(alone, Not(HasSubstr("gridDim")));
  EXPECT_THAT(alone, Not(HasSubstr("Raise")));
}

// One element for a row is not read, or written, by all of its threads.
TEST(PeerCode, NeedsWhatDiffersWithinRows) {
  GeneratedUse use = Describe(
      "fusion(f32[4,64], f32[4,1]) {"
      "%2 = add(%0, %1) : f32[4,64] "
      "%3 = reduce_sum(%2) {dims=[-1], keep=true} : f32[4,1] "
      "return %2, %3}");
  EXPECT_TRUE(CanReachPeers(use.expression, use.loop, {2, 0, {true, false}}));
  EXPECT_FALSE(CanReachPeers(use.expression, use.loop, {2, 1, {true, false}}));
  EXPECT_FALSE(CanReachPeers(use.expression, use.loop, {2, 0, {false, true}}));
}

}  // namespace
}  // namespace asyra::cuda
