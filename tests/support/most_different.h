// Outputs of two programs of equal inputs, by the interpreter.
#pragma once

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"

namespace asyra {

// Returns the largest difference of an element of their outputs for random
// inputs; NaN where one is. Expects equal shapes.
inline double MostDifferent(const Program& a, const Program& b) {
  std::vector<Tensor> inputs = RandomInputs(a, 5, 3);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(a, inputs)),
                      got = ASYRA_VALUE(Interpret(b, inputs));
  EXPECT_EQ(got.size(), want.size());
  if (got.size() != want.size()) return HUGE_VAL;
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].shape(), want[i].shape());
    if (got[i].shape() != want[i].shape()) return HUGE_VAL;
    for (int64_t k = 0; k < want[i].num_elements(); ++k) {
      double error = std::abs(want[i].Get(k) - got[i].Get(k));
      most = error <= most ? most : error;  // NaN counts
    }
  }
  return most;
}

}  // namespace asyra
