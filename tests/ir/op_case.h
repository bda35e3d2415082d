// The conformance loop's cases: every sample of every op, parsed and filled.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ir/op_def.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {

// Of all random operands; ASYRA_SEED sets another one.
inline uint64_t Seed() {
  const char* given = std::getenv("ASYRA_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20240229;
}

inline Mesh ParseMesh(std::string_view text) {
  if (text.empty()) return {};
  std::string program = "asyra 1 local mesh " + std::string(text) +
                        " program @p() -> () { return }";
  return ASYRA_VALUE(ParseProgram(program)).mesh;
}

// Integers in [low, high], 0 and 1 for bool.
inline Tensor SmallIntegers(const Type& type, int low, int high,
                            std::mt19937_64* random) {
  Tensor tensor(type.dtype, type.shape());
  std::uniform_int_distribution<int64_t> uniform(low, high);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.SetInt(i, uniform(*random));
  }
  return tensor;
}

struct OpCase {
  const OpDef* def;
  Sample sample;
  int index;  // of the sample

  Mesh mesh() const { return ParseMesh(sample.mesh); }
  ParsedCall Parse() const {
    return ASYRA_VALUE(ParseCall(sample.text, mesh()));
  }
  std::vector<Tensor> Fill(const std::vector<Type>& types,
                           uint64_t salt = 0) const {
    std::mt19937_64 random(Seed() + salt);
    std::vector<Tensor> operands;
    for (const Type& type : types) {
      operands.push_back(SmallIntegers(type, sample.low, sample.high, &random));
    }
    return operands;
  }
};

inline void PrintTo(const OpCase& op_case, std::ostream* out) {
  *out << op_case.sample.text << " seed " << Seed();
}

inline std::string CaseName(const testing::TestParamInfo<OpCase>& info) {
  return std::string(info.param.def->name) + "_" +
         std::to_string(info.param.index);
}

// Those on one device, or those over a mesh.
inline std::vector<OpCase> Cases(bool with_mesh) {
  std::vector<OpCase> cases;
  for (const OpDef* def : AllOps()) {
    if (def->body_communicates) continue;  // overlap_test.cc
    for (size_t i = 0; i < def->samples.size(); ++i) {
      if (def->samples[i].mesh.empty() == with_mesh) continue;
      cases.push_back({def, def->samples[i], static_cast<int>(i)});
    }
  }
  return cases;
}

// Equal up to `tolerance`, relative to values above 1; exactly when it is 0.
inline testing::AssertionResult Near(const Tensor& got, const Tensor& want,
                                     double tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return testing::AssertionFailure()
           << ToString(got.dtype()) << ShapeToString(got.shape())
           << " instead of " << ToString(want.dtype())
           << ShapeToString(want.shape());
  }
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    double a = got.Get(i), b = want.Get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))) continue;
    return testing::AssertionFailure()
           << "element " << i << " is " << a << " instead of " << b;
  }
  return testing::AssertionSuccess();
}

}  // namespace asyra
