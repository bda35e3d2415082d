#include "simulator/report/slow_kernels.h"

#include "gmock/gmock.h"
#include "simulator/cost/load_machine.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> NotesOf(std::string_view dtype, int64_t rows) {
  std::string type = fmt::format("{}[1, {}, 8, 128]", dtype, rows);
  Program program = Parse(fmt::format(R"(asyra 1 local
program @f(%q: {0}, %k: {0}, %v: {0}, %seen: bool[1, 1, 1, {1}]) -> ({0}) {{
  %y = attention(%q, %k, %v, %seen) {{causal=true, scale=0.1}} : {0}
  return %y
}}
)",
                                      type, rows));
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), program.mesh);
  return SlowKernelNotes(program, Simulate(program, costs), costs);
}

TEST(SlowKernels, AttentionWithoutTensorCoresIsTold) {
  EXPECT_THAT(NotesOf("bf16", 8192), IsEmpty());
  EXPECT_THAT(NotesOf("f32", 8192),
              ElementsAre(HasSubstr("not on tensor cores, because of elements "
                                    "of other than 16 bits")));
}

TEST(SlowKernels, SoIsTooLittleWork) {
  EXPECT_THAT(NotesOf("bf16", 64),
              ElementsAre(HasSubstr("too little work for a kernel")));
}

// By measurement, f32 in the place of bf16 takes seventy times as long.
TEST(SlowKernels, CostsAreThoseOfTheKernel) {
  Machine machine = ASYRA_VALUE(LoadMachine("h200x2"));
  auto cost = [&](std::string_view dtype, std::string_view more) {
    return CostOf({fmt::format("attention({0}[2,8192,32,128], "
                               "{0}[2,8192,8,128], {0}[2,8192,8,128]{1}) "
                               "{{causal=true, scale=0.0884}}",
                               dtype, more),
                   1, 0},
                  machine);
  };
  OpCost plain = cost("f32", ""), library = cost("bf16", ""),
         masked = cost("bf16", ", bool[2,1,1,8192]"),
         other = cost("bf16", ", bf16[2,1,8192,8192], bf16[32]");
  EXPECT_GT(plain.time_us, 100e3);
  EXPECT_LT(plain.time_us, 140e3);
  EXPECT_LT(library.time_us, 2.5e3);
  EXPECT_NEAR(masked.time_us, 2150.85, 1);
  EXPECT_LT(masked.source, OpCost::kExtrapolated);
  EXPECT_LT(library.source, OpCost::kExtrapolated);
  // Masks with sinks were not measured.
  EXPECT_GE(other.source, OpCost::kExtrapolated);
}

}  // namespace
}  // namespace asyra
