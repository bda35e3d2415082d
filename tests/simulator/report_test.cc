#include "simulator/report.h"

#include "gmock/gmock.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

TEST(Report, SaysTimeCommunicationMemoryAndSources) {
  Program program = Parse(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[500]
  %r = wait(%f) on compute : f32[500]
  %b = neg(%r) on compute : f32[500]
  return %a, %b
})");
  SimResult result = Simulate(program, CostModel(TestMachine(), program.mesh),
                              {.contention = false});
  EXPECT_EQ(Report(result, program.mesh),
            "makespan               16.0 us   lower bound 16.0 us\n"
            "computation             8.0 us   bubble 50.0 %\n"
            "communication          12.0 us   exposed 8.0 us\n"
            "  tp                   12.0 us   exposed 8.0 us\n"
            "peak memory        10000 bytes   weights 0 bytes\n"
            "kernels                   3      collectives 1\n"
            "priced by      formula 100.0 %\n");
}

}  // namespace
}  // namespace asyra
