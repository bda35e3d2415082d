// A chunk plan that is written by hand, and the body that it is for.
#pragma once

#include <string_view>

#include "tests/ir/plans/plan_case.h"

namespace asyra {

inline PlanCase RingCase() { return GatherMatmuls(4, 8, 1); }

// No template: halves of each shard go round in both directions.
inline constexpr std::string_view kRingBothWays = R"(plan {
  queues compute, up, down
  rank r:
    on compute:
      post ready to up of r-1; post ready to down of r+1;
      piece %3[#r, #r] from %0, %1;
      await came from up of r-1; piece %3[#r-1(0/2), #r];
      await came from down of r+1; piece %3[#r+1(1/2), #r];
      await came from up of r-1; piece %3[#r-2(0/2), #r];
      await came from down of r+1; piece %3[#r+2(1/2), #r];
      await came from up of r-1; piece %3[#r-3(0/2), #r];
      await came from down of r+1; piece %3[#r+3(1/2), #r]
    on up:
      await ready from compute of r+1; put %0[#r(0/2), :] to %2 of r+1;
      post came to compute of r+1; post came to up of r+1;
      await came from up of r-1; put %2[#r-1(0/2), :] to %2 of r+1;
      post came to compute of r+1; post came to up of r+1;
      await came from up of r-1; put %2[#r-2(0/2), :] to %2 of r+1;
      post came to compute of r+1
    on down:
      await ready from compute of r-1; put %0[#r(1/2), :] to %2 of r-1;
      post came to compute of r-1; post came to down of r-1;
      await came from down of r+1; put %2[#r+1(1/2), :] to %2 of r-1;
      post came to compute of r-1; post came to down of r-1;
      await came from down of r+1; put %2[#r+2(1/2), :] to %2 of r-1;
      post came to compute of r-1
}
)";

}  // namespace asyra
