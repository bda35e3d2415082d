// Measurements: the format, and what they predict of what was left out.
#include "simulator/cost_table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "simulator/cost_model.h"
#include "simulator/embedded_machines.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

Machine H200WithoutTable() {
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  machine.table = nullptr;
  return machine;
}

Measurements ShippedTable() {
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == "h200x8.table") {
      return ASYRA_VALUE(ReadMeasurements(file.text, file.name));
    }
  }
  ADD_FAILURE() << "no h200x8.table";
  return {};
}

OpCost CostOf(const Measurement& point, const Machine& machine) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"x", point.ranks}}));
  ParsedCall call = ASYRA_VALUE(ParseCall(point.call, mesh));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  return CostModel(machine, mesh)
      .Cost({*call.def, call.attrs, call.operands, results});
}

std::string_view OpOf(const Measurement& point) {
  return std::string_view(point.call).substr(0, point.call.find('('));
}

TEST(CostTable, WhatWasMeasuredCostsWhatWasMeasured) {
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  for (const Measurement& point : ShippedTable().points) {
    OpCost cost = CostOf(point, machine);
    EXPECT_NEAR(cost.time_us, point.us, 1e-6 * point.us) << point.call;
    EXPECT_EQ(cost.source, OpCost::kMeasured) << point.call;
  }
}

// Errors of the points of one kind that were left out, each third in turn.
std::vector<double> ErrorsWithoutThirds(
    const std::function<bool(const Measurement&)>& of_kind) {
  Machine plain = H200WithoutTable();
  Measurements all = ShippedTable();
  std::erase_if(all.points, [&](const auto& p) { return !of_kind(p); });
  std::vector<double> errors;
  for (size_t third = 0; third < 3; ++third) {
    Measurements kept = all;
    kept.points.clear();
    for (size_t i = 0; i < all.points.size(); ++i) {
      if (i % 3 != third) kept.points.push_back(all.points[i]);
    }
    Machine machine = plain;
    machine.table = ASYRA_VALUE(CostTable::Calibrate(kept, plain));
    for (size_t i = third; i < all.points.size(); i += 3) {
      double us = CostOf(all.points[i], machine).time_us;
      errors.push_back(std::abs(us / all.points[i].us - 1));
    }
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

void ExpectMedianWithinTenPercent(
    const char* what, const std::function<bool(const Measurement&)>& of_kind) {
  std::vector<double> errors = ErrorsWithoutThirds(of_kind);
  ASSERT_GT(errors.size(), 20u);
  double median = errors[errors.size() / 2];
  EXPECT_LT(median, 0.10) << what;
  std::printf("%s left out: %zu points, median error %.1f %%, worst %.1f %%\n",
              what, errors.size(), 100 * median, 100 * errors.back());
}

TEST(CostTable, LeftOutProductsArePredicted) {
  ExpectMedianWithinTenPercent("products", [](const Measurement& point) {
    return OpOf(point) == "matmul";
  });
}

TEST(CostTable, LeftOutCollectivesArePredicted) {
  ExpectMedianWithinTenPercent(
      "collectives", [](const Measurement& point) { return point.ranks > 1; });
}

TEST(CostTable, LeftOutAttentionIsPredicted) {
  ExpectMedianWithinTenPercent("attention", [](const Measurement& point) {
    return OpOf(point) == "attention";
  });
}

TEST(CostTable, LeftOutMemoryBoundOpsArePredicted) {
  ExpectMedianWithinTenPercent("memory-bound ops", [](const Measurement& p) {
    return p.ranks == 1 && OpOf(p) != "matmul" && OpOf(p) != "attention";
  });
}

}  // namespace
}  // namespace asyra
