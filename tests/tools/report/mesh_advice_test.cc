#include "tools/report/mesh_advice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CompileFlags Options() {
  CompileFlags options;
  options.model = "llama3-8b";
  options.dims = {"layers=2", "batch=4", "seq=4096"};
  options.search_steps = 1;
  options.tiles = 1;
  return options;
}

TEST(MeshAdvice, SaysNothingOfAMeshThatDividesAll) {
  CompileFlags options = Options();
  options.tp = 2;
  options.sp = 2;
  MeshAdvice advice = AdviseMesh(options, ASYRA_VALUE(Compile(options)));
  EXPECT_THAT(advice.redundant, IsEmpty());
  EXPECT_EQ(AdviceText(advice), "");
}

// Collectives of a small model take longer than what tp saves.
TEST(MeshAdvice, NamesOneDeviceThatIsFaster) {
  CompileFlags options = Options();
  options.model = "llama3-tiny";
  options.dims = {"batch=1", "seq=16"};
  options.tp = 2;
  MeshAdvice advice = AdviseMesh(options, ASYRA_VALUE(Compile(options)));
  EXPECT_EQ(advice.better, "--tp 1");
  EXPECT_THAT(AdviceText(advice), HasSubstr("one device alone, --tp 1 takes "));
}

// Tokens that sp does not divide leave the matmuls to all of its devices.
TEST(MeshAdvice, NamesWhatAllDevicesComputeAndABetterMesh) {
  CompileFlags options = Options();
  options.dims = {"layers=2", "batch=4", "seq=1023"};
  options.sp = 2;
  MeshAdvice advice = AdviseMesh(options, ASYRA_VALUE(Compile(options)));
  ASSERT_EQ(advice.redundant.size(), 1u);
  EXPECT_EQ(advice.redundant[0].axis, "sp");
  EXPECT_GT(advice.redundant[0].share, 0.5);
  EXPECT_THAT(advice.redundant[0].ops, HasSubstr("13 matmul"));
  EXPECT_EQ(advice.better, "--dp 2");
  EXPECT_LT(advice.ratio, 0.7);
  EXPECT_THAT(AdviceText(advice), HasSubstr("  --dp 2 takes "));
}

// 8 heads of keys over 16 devices: sp gathers them, tp would not. Nothing is
// better than two axes of tokens, in stripes.
TEST(MeshAdvice, TradesAxesWhereHeadsDoNotDivide) {
  CompileFlags options = Options();
  options.dims = {"layers=2", "batch=1", "seq=32768"};
  CompileFlags named = options;
  named.mesh = "sp=4,tp=4";
  named.stripes = "never";
  EXPECT_NE(AdviseMesh(named, ASYRA_VALUE(Compile(named))).better, "");
  options.tp = 4;
  options.sp = 4;
  CompiledModel compiled = ASYRA_VALUE(Compile(options));
  EXPECT_EQ(AdviseMesh(options, compiled).better, "");
}

// Nothing is to be said of the mesh, but all that it does is communicate.
TEST(MeshAdvice, NamesOneDeviceWhereTheModelIsTooSmallForMore) {
  CompileFlags options = Options();
  options.model = "llama3-tiny";
  options.dims = {};
  options.tp = 2;
  options.machine = "rtx4090x8";
  MeshAdvice advice = AdviseMesh(options, ASYRA_VALUE(Compile(options)));
  EXPECT_EQ(advice.better, "--tp 1");
  EXPECT_LT(advice.ratio, 0.95);
}

// What would not fit is no advice.
TEST(MeshAdvice, KeepsToTheMemoryThereIs) {
  CompileFlags options = Options();
  options.dims = {"layers=2", "batch=4", "seq=1023"};
  options.tp = 2;
  options.sp = 2;
  CompiledModel result = ASYRA_VALUE(Compile(options));
  MeshAdvice free = AdviseMesh(options, result);
  EXPECT_EQ(free.better, "--mesh a=4");
  options.set = {"gpu.hbm_gib=3.5"};
  MeshAdvice tight = AdviseMesh(options, ASYRA_VALUE(Compile(options)));
  // The same program.
  EXPECT_THAT(tight.better, AnyOf("--dp 2 --tp 2", "--mesh a=2,tp=2"));
}

}  // namespace
}  // namespace asyra
