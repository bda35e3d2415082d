#include "ir/memory/buffer_map.h"

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

TEST(BufferMap, ViewsAndWaitsAreInTheBufferOfTheirOperand) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[8@tp]) -> (f32[2, 4]) {
  %a = exp(%x) on compute : f32[8@tp]
  %f = start all_gather(%a) {dim=0, axes=tp} on tp : future f32[8]
  %s = wait(%f) on compute : f32[8]
  %v = reshape(%s) {shape=[2, 4]} on compute : f32[2, 4]
  return %v
}
)"));
  BufferMap map(program);
  map.AddAll();
  auto owner = [&](std::string_view name) {
    return program.value_name(map.OwnerOf(program.FindValue(name)));
  };
  EXPECT_EQ(owner("x"), "x");
  EXPECT_EQ(owner("a"), "a");
  EXPECT_EQ(owner("f"), "f");
  EXPECT_EQ(owner("s"), "f");
  EXPECT_EQ(owner("v"), "f");
  EXPECT_EQ(map.StartOf(program.ops[2]), &program.ops[1]);
  EXPECT_EQ(map.StartOf(program.ops[3]), nullptr);
}

TEST(BufferMap, ResultsMayBeWrittenOverAnOperand) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 allocated
program @f(%x: f32[64]) -> (f32[64]) {
  %a = exp(%x) on compute : f32[64] at 512
  %b = exp(%a) on compute : f32[64] at 0
  %c = exp(%b) on compute : f32[64] at 0
  return %c
}
)"));
  ValueId b = program.FindValue("b"), c = program.FindValue("c");
  BufferMap of_views(program), of_all(program, /*sums=*/{});
  of_views.AddAll();
  of_all.AddAll();
  EXPECT_EQ(of_views.OwnerOf(c), c);
  EXPECT_EQ(of_all.OwnerOf(c), b);
  EXPECT_EQ(of_all.OwnerOf(b), b);
  // What is added to a value is known before there are offsets.
  for (Value& value : program.values) value.offset = -1;
  std::vector<ValueId> sums(program.values.size(), kNoValue);
  sums[b] = program.FindValue("a");
  BufferMap of_sums(program, sums);
  of_sums.AddAll();
  EXPECT_EQ(of_sums.OwnerOf(b), sums[b]);
  EXPECT_EQ(of_sums.OwnerOf(c), c);
}

}  // namespace
}  // namespace asyra
