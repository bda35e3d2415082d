#include "passes/search/mesh_order.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "tools/compile.h"

namespace asyra {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

CompileFlags Options() {
  CompileFlags options;
  options.model = "llama3-8b";
  options.dims = {"layers=2", "batch=4", "seq=4096"};
  options.machine = "a800x8";
  options.tiles = 1;
  options.scheduler = "serial";
  return options;
}

TEST(MeshOrder, IsTheFastestOfAll) {
  CompileFlags options = Options();
  options.dp = 2;
  options.tp = 4;
  options.sp = 2;
  CompiledModel chosen = ASYRA_VALUE(Compile(options));
  EXPECT_THAT(chosen.remarks, Contains(HasSubstr("orders of its axes")));
  double least_us = chosen.schedule->baseline.makespan_us;
  std::vector<std::string> axes = {"dp=2", "sp=2", "tp=4"};
  double slowest_us = 0;
  do {
    CompileFlags given = Options();
    given.mesh = absl::StrJoin(axes, ",");
    CompiledModel result = ASYRA_VALUE(Compile(given));
    EXPECT_THAT(result.remarks, Not(Contains(HasSubstr("orders of its axes"))));
    EXPECT_GE(result.schedule->baseline.makespan_us, least_us * (1 - 1e-9))
        << *given.mesh;
    slowest_us = std::max(slowest_us, result.schedule->baseline.makespan_us);
  } while (std::next_permutation(axes.begin(), axes.end()));
  // There is something to choose.
  EXPECT_GT(slowest_us, least_us * 1.1);
}

TEST(MeshOrder, StaysWhereOneHostHoldsAll) {
  CompileFlags options = Options();
  options.tp = 4;
  options.sp = 2;
  CompiledModel result = ASYRA_VALUE(Compile(options));
  EXPECT_THAT(result.remarks, Not(Contains(HasSubstr("orders of its axes"))));
  EXPECT_EQ(ToString(result.program.mesh), "(sp=2, tp=4)");
}

}  // namespace
}  // namespace asyra
