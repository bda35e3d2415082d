// Sources of generated kernels, which need no GPU to be compiled.
#include "executor/cuda/codegen/codegen.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "executor/cuda/codegen/codegen_plan.h"
#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "tests/support/kernel_case.h"

namespace asyra::cuda {
namespace {

using testing::HasSubstr;

// Of this run alone.
std::filesystem::path CacheFolder() {
  return std::filesystem::path(testing::TempDir()) /
         ("asyra_codegen_" + std::to_string(getpid()));
}

class OwnCache : public testing::Environment {
 public:
  void SetUp() override { setenv("ASYRA_CACHE_DIR", CacheFolder().c_str(), 1); }
  void TearDown() override { std::filesystem::remove_all(CacheFolder()); }
};

const testing::Environment* const kOwnCache =
    testing::AddGlobalTestEnvironment(new OwnCache);

KernelUse UseOf(std::string_view text, const Mesh& mesh = {}) {
  ParsedCall call = ASYRA_VALUE(ParseCall(text, mesh));
  Program program = ProgramOf(call, mesh);
  for (const Op& op : program.ops) {
    if (op.def == call.def) return KernelUse(program, op, 0);
  }
  ADD_FAILURE() << text;
  return KernelUse(program, program.ops[0], 0);
}

GeneratedUse Describe(std::string_view text) {
  KernelUse use = UseOf(text);
  const CudaKernelDef* def = FindCudaKernel(use);
  EXPECT_TRUE(def != nullptr && def->describe != nullptr) << text;
  return def->describe(use);
}

void ExpectCompiles(const GeneratedUse& use) {
  GeneratedSource source = Generate(use.expression, use.loop);
  ASSERT_GT(source.blocks, 0);
  EXPECT_LE(source.threads, 1024);
  auto cubin = CompileToCubin(
      source.text, {.architecture = 90,
                    .approximate_division = source.approximate_division});
  ASSERT_TRUE(cubin.ok()) << cubin.status();
  EXPECT_EQ(cubin->substr(1, 3), "ELF");
}

class Sources : public testing::TestWithParam<OpCase> {};

TEST_P(Sources, Compile) {
  KernelUse use = UseOf(GetParam().sample.text);
  const CudaKernelDef* def = FindCudaKernel(use);
  if (def == nullptr || def->describe == nullptr) {
    GTEST_SKIP() << "its kernel is not generated";
  }
  ExpectCompiles(def->describe(use));
}

INSTANTIATE_TEST_SUITE_P(OneRank, Sources, testing::ValuesIn(Cases(false)),
                         CaseName);

// Types and sizes that samples do not have.
TEST(Codegen, CompilesOtherTypesAndSizes) {
  for (std::string_view text : {
           "add(i32[7,64], i32[64])",
           "pow(i32[7], i32[7])",
           "mod(f64[8], f64[8])",
           "less(bf16[16,8], bf16[16,1])",
           "select(bool[64,64], f16[64,64], f16[64,1])",
           "cast(bf16[4096]) {to=f32}",
           "cast(f64[4096]) {to=i32}",
           "cast(bool[4096]) {to=f16}",
           "swiglu(bf16[512,14336], bf16[512,14336])",
           "rms_norm(bf16[8192,4096], bf16[4096]) {eps=1e-5}",
           "rms_norm(bf16[64,32,128], bf16[128]) {eps=1e-5}",
           "layer_norm(f64[16,1000], f64[1000], f64[1000]) {eps=1e-5}",
           "layer_norm(f32[3,50257], f32[50257]) {eps=1e-5}",
           "softmax(bf16[4,8,512,512]) {dim=3}",
           "softmax(f32[4,513,64]) {dim=1}",
           "log_softmax(bf16[16,128256]) {dim=1}",
           "reduce_sum(bf16[8192,4096]) {dims=[0]}",
           "reduce_max(f16[2,64,3,5]) {dims=[1,3]}",
           "reduce_min(i32[4,700]) {dims=[1]}",
           "reduce_mean(f32[1000000]) {dims=[0]}",
           "log_sum_exp(bf16[16,32000]) {dims=[1]}",
           "cross_entropy(bf16[64,128256], i64[64]) {label_smoothing=0.1}",
           "sgd(f64[64], bf16[64], f32[])",
           "sgd(bf16[640], f32[640], f32[], bf16[640]) {momentum=0.5, "
           "nesterov=true}",
           "dropout(bf16[64,64], i64[2]) {rate=0.5}",
           "one_hot(i32[64]) {depth=1000}",
           "reduce_sum(f32[0,64]) {dims=[0]}",
       }) {
    SCOPED_TRACE(text);
    ExpectCompiles(Describe(text));
  }
}

TEST(Codegen, OperandsAreAddedInTheirOrder) {
  Expression e;
  e.Store(e.SumOfOperands(DType::kBF16, 3), DType::kBF16);
  ASSERT_EQ(e.operands().size(), 3U);
  const std::vector<Expression::Node>& nodes = e.nodes();
  const Expression::Node& last = nodes[e.results()[0].node];
  const Expression::Node& first = nodes[last.inputs[0]];
  EXPECT_EQ(nodes[first.inputs[0]].operand, 0);
  EXPECT_EQ(nodes[first.inputs[1]].operand, 1);
  EXPECT_EQ(nodes[last.inputs[1]].operand, 2);
  Loop loop{.columns = {4096}};
  loop.operands.assign(3, {{1}});
  loop.results = {{{1}}};
  ExpectCompiles({e, loop});
}

TEST(Codegen, MovesSixteenBytesWhereMemoryIsDense) {
  GeneratedUse use = Describe("add(bf16[64,4096], bf16[4096])");
  CodegenPlan plan = PlanCode(use.expression, use.loop);
  EXPECT_EQ(plan.form, CodegenPlan::kElements);
  EXPECT_EQ(plan.vector, 8);
  EXPECT_EQ(plan.blocks, 64 * 4096 / 8 / plan.threads);
  EXPECT_THAT(Generate(use.expression, use.loop).text,
              HasSubstr("reinterpret_cast<const Pack<BF16, 8>*>(in1"));
}

TEST(Codegen, OddRowsAreReadElementByElement) {
  GeneratedUse use = Describe("add(bf16[64,4097], bf16[4097])");
  EXPECT_EQ(PlanCode(use.expression, use.loop).vector, 1);
}

TEST(Codegen, ARowStaysInRegistersFromReadToWrite) {
  GeneratedUse use =
      Describe("rms_norm(bf16[8192,4096], bf16[4096]) {eps=1e-5}");
  CodegenPlan plan = PlanCode(use.expression, use.loop);
  EXPECT_EQ(plan.form, CodegenPlan::kRows);
  EXPECT_EQ(plan.row_threads * plan.held * plan.vector, 4096);
  EXPECT_EQ(plan.blocks * (plan.threads / plan.row_threads), 8192);
}

TEST(Codegen, RowsTooLongForRegistersAreReadAgain) {
  GeneratedUse use = Describe("softmax(f32[4,1000000]) {dim=1}");
  CodegenPlan plan = PlanCode(use.expression, use.loop);
  EXPECT_EQ(plan.held, 0);
  EXPECT_EQ(plan.row_threads, 1024);
}

TEST(Codegen, RowsSideBySideAreStripes) {
  GeneratedUse use = Describe("reduce_sum(f32[100,64]) {dims=[0]}");
  CodegenPlan plan = PlanCode(use.expression, use.loop);
  EXPECT_EQ(plan.form, CodegenPlan::kStripes);
  EXPECT_EQ(plan.blocks, 2);
}

TEST(Codegen, IndicesAreAsWideAsTheyNeedToBe) {
  GeneratedUse use = Describe("neg(f32[8,1024])");
  EXPECT_FALSE(PlanCode(use.expression, use.loop).wide);
  use = Describe("neg(f32[4194304,1024])");
  EXPECT_TRUE(PlanCode(use.expression, use.loop).wide);
  ExpectCompiles(use);
}

// The two numbers of a key are read from one operand.
TEST(Codegen, RandomOpsReadTheirKeyTwice) {
  GeneratedUse use = Describe("dropout(f32[4,6], i64[2]) {rate=0.5}");
  EXPECT_THAT(use.operands, testing::ElementsAre(0, 1, 1));
  EXPECT_EQ(use.loop.operands[2].first, 1);
}

TEST(Codegen, NothingIsComputedOfNothing) {
  GeneratedUse use = Describe("add(f32[0,4], f32[4])");
  EXPECT_EQ(Generate(use.expression, use.loop).blocks, 0);
}

// Two ops after a reduction: what a fused kernel is.
TEST(Codegen, ChainsOfOpsAreOneKernel) {
  Expression e;
  int x = e.Operand(DType::kBF16), residual = e.Operand(DType::kBF16);
  int sum = e.Apply("add", {}, DType::kBF16, {x, residual});
  int square = e.Reduce(ReductionKind::kSum, e.Formula("$0 * $0", {sum}));
  e.Store(sum, DType::kBF16);
  e.Store(e.Formula("$0 * rsqrt($1)", {sum, square}), DType::kBF16);
  Access access{{4096, 1}};
  ExpectCompiles({e, {{64}, {4096}, {access, access}, {access, access}}});
}

constexpr char kResidualNorm[] =
    "fusion(bf16[64,4096], bf16[64,4096], bf16[4096]) {"
    "%3 = add(%0, %1) : bf16[64,4096] "
    "%4 = rms_norm(%3, %2) {eps=1e-5} : bf16[64,4096] "
    "return %3, %4}";

TEST(Fusion, IsOneKernelThatReadsEachRowOnce) {
  GeneratedUse use = Describe(kResidualNorm);
  CodegenPlan plan = PlanCode(use.expression, use.loop);
  EXPECT_EQ(plan.form, CodegenPlan::kRows);
  EXPECT_EQ(plan.row_threads * plan.held * plan.vector, 4096);
  EXPECT_TRUE(plan.is_half);
  ExpectCompiles(use);
}

// The norm is that of the sum as it is stored.
TEST(Fusion, ValuesBetweenOpsAreRounded) {
  GeneratedUse use = Describe(kResidualNorm);
  EXPECT_THAT(Generate(use.expression, use.loop).text,
              HasSubstr("Rounded<BF16>(v"));
}

TEST(Fusion, SinglePrecisionBetweenHalvesIsDividedExactly) {
  GeneratedUse use = Describe(
      "fusion(bf16[64,64], bf16[64,64]) {"
      "%2 = cast(%0) {to=f32} : f32[64,64] "
      "%3 = cast(%1) {to=f32} : f32[64,64] "
      "%4 = div(%2, %3) : f32[64,64] "
      "%5 = cast(%4) {to=bf16} : bf16[64,64] "
      "return %5}");
  EXPECT_FALSE(PlanCode(use.expression, use.loop).is_half);
  ExpectCompiles(use);
}

TEST(Fusion, CompilesOtherBodies) {
  for (std::string_view text : {
           // Elements alone, and a broadcast.
           "fusion(bf16[8,512], bf16[512]) {"
           "%2 = broadcast(%1) {shape=[8,512]} : bf16[8,512] "
           "%3 = add(%0, %2) : bf16[8,512] "
           "%4 = gelu_tanh(%3) : bf16[8,512] return %4}",
           // What a reduction leaves, kept and dropped, and used on.
           "fusion(f32[2,3,64], f32[2,3,1]) {"
           "%2 = reduce_max(%0) {dims=[2]} : f32[2,3,1] "
           "%3 = add(%2, %1) : f32[2,3,1] "
           "%4 = sub(%0, %3) : f32[2,3,64] "
           "%5 = exp(%4) : f32[2,3,64] return %3, %5}",
           "fusion(i32[6,7], i32[6]) {"
           "%2 = neg(%0) : i32[6,7] "
           "%3 = reduce_sum(%2) {dims=[1], keep=false} : i32[6] "
           "%4 = mul(%3, %1) : i32[6] return %4, %2}",
           // A mask before, a cast behind.
           "fusion(f16[4,2,33], bool[4,1,33], f16[1]) {"
           "%3 = select(%1, %0, %2) : f16[4,2,33] "
           "%4 = softmax(%3) : f16[4,2,33] "
           "%5 = cast(%4) {to=f32} : f32[4,2,33] return %5}",
           "fusion(bf16[3,50257], bf16[50257], bf16[50257]) {"
           "%3 = silu(%0) : bf16[3,50257] "
           "%4 = layer_norm(%3, %1, %2) {eps=1e-5} : bf16[3,50257] "
           "return %4}",
           "fusion(f32[]) {%1 = exp(%0) : f32[] %2 = neg(%1) : f32[] "
           "return %2}",
       }) {
    SCOPED_TRACE(text);
    ExpectCompiles(Describe(text));
  }
}

// Left to the kernels of the ops.
TEST(Fusion, OtherLoopsAreNoKernel) {
  for (std::string_view text : {
           "fusion(f32[4,6], f32[2,4]) {"
           "%2 = reduce_max(%0) {dims=[1], keep=false} : f32[4] "
           "%3 = add(%1, %2) : f32[2,4] return %3}",
           // Every row would write it.
           "fusion(f32[6], f32[4,6]) {"
           "%2 = neg(%0) : f32[6] %3 = add(%1, %2) : f32[4,6] "
           "return %2, %3}",
       }) {
    SCOPED_TRACE(text);
    EXPECT_EQ(FindCudaKernel(UseOf(text)), nullptr);
  }
}

TEST(Loop, NeighboursThatLieTogetherAreJoined) {
  Loop loop{.rows = {2, 1, 3}, .columns = {4, 5}};
  loop.operands = {{{60, 7, 20, 5, 1}}, {{3, 0, 1, 0, 0}}};
  loop.results = {{{60, 0, 20, 5, 1}}};
  Loop collapsed = Collapsed(loop);
  EXPECT_EQ(collapsed.rows, Shape({6}));
  EXPECT_EQ(collapsed.columns, Shape({20}));
  EXPECT_EQ(collapsed.operands[0].strides, Shape({20, 1}));
  EXPECT_EQ(collapsed.operands[1].strides, Shape({1, 0}));
}

TEST(Nvrtc, CodeIsKeptOnDiskAndBrokenFilesAreNot) {
  const std::string source = "extern \"C\" __global__ void kept() {}";
  std::filesystem::remove_all(CacheFolder());
  std::string first = ASYRA_VALUE(CompileToCubin(source, {.architecture = 90}));
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(CacheFolder())) {
    files.push_back(file.path());
  }
  ASSERT_EQ(files.size(), 1);
  auto size = std::filesystem::file_size(files[0]);
  EXPECT_EQ(ASYRA_VALUE(CompileToCubin(source, {.architecture = 90})), first);
  for (size_t left : {size - 1, size_t{10}, size_t{0}}) {
    std::filesystem::resize_file(files[0], left);
    EXPECT_EQ(ASYRA_VALUE(CompileToCubin(source, {.architecture = 90})), first);
    EXPECT_EQ(std::filesystem::file_size(files[0]), size);
  }
}

TEST(Nvrtc, ACacheThatCannotBeWrittenIsNone) {
  std::filesystem::remove_all(CacheFolder());
  std::ofstream(CacheFolder()) << "no folder";
  EXPECT_TRUE(CompileToCubin("extern \"C\" __global__ void f() {}",
                             {.architecture = 90})
                  .ok());
  std::filesystem::remove_all(CacheFolder());
}

TEST(Nvrtc, SaysWhatIsWrongWithASource) {
  auto cubin =
      CompileToCubin("int f() { return nothing; }", {.architecture = 90});
  ASSERT_FALSE(cubin.ok());
  EXPECT_THAT(std::string(MessageOf(cubin.status())),
              HasSubstr("\"nothing\" is undefined"));
}

}  // namespace
}  // namespace asyra::cuda
