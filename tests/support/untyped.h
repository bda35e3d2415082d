// Small programs for tests, written without result types:
//
//   in x f32[2,8,64]
//   weight w f32[64,64]
//   y = matmul(x, w) {transpose_b=true}
//   two = 2.0
//   z = mul(y, two)
//   best,places = top_k(z) {k=2}
//   out z
//
// A number is short for a scalar constant of the element type "f32", or of the
// one given after it: "one = 1 i64".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Stage global, one device.
absl::StatusOr<Program> ParseUntyped(std::string_view text);

// How many ops of the name there are.
int CountOps(const Program& program, std::string_view op);
// "matmul 3, add 1, ...", sorted by name: what a test prints and compares.
std::string OpCounts(const Program& program);

// Runs both on the same random inputs, matched by name, and compares the
// outputs to `tolerance`, absolute and relative. Inputs are drawn for
// `before`; a weight of `after` that it lacks must have data there.
absl::Status SameMeaning(const Program& before, const Program& after,
                         uint64_t seed, double tolerance);

}  // namespace asyra
