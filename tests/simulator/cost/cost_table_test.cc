// Measurements: the format, and what they predict of what was left out.
#include "simulator/cost/cost_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>

#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/embedded_machines.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

Machine H200WithoutTable() {
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  machine.table = nullptr;
  return machine;
}

Measurements ShippedTable(const std::string& machine = "h200x8") {
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == machine + ".table") {
      return ASYRA_VALUE(ReadMeasurements(file.text, file.name));
    }
  }
  ADD_FAILURE() << "no " << machine << ".table";
  return {};
}

std::string_view OpOf(const Measurement& point) {
  return std::string_view(point.call).substr(0, point.call.find('('));
}

TEST(CostTable, WhatWasMeasuredCostsWhatWasMeasured) {
  for (const char* name : {"h200x2", "h200x4", "h200x8"}) {
    SCOPED_TRACE(name);
    Machine machine = ASYRA_VALUE(LoadMachine(name));
    for (const Measurement& point : ShippedTable(name).points) {
      OpCost cost = CostOf(point, machine);
      EXPECT_NEAR(cost.time_us, point.us, 1e-6 * point.us)
          << "of " << point.call << " at " << point.mhz << " MHz";
      EXPECT_EQ(cost.source, OpCost::kMeasured) << point.call;
    }
  }
}

// Whole plans, against the replay of their pieces.
TEST(CostTable, OverlapsThatWereMeasuredCostWhatWasMeasured) {
  auto overlap = [](int64_t rows, std::string_view attrs) {
    return fmt::format(
        "overlap(bf16[{0}@x,4096], bf16[4096,8192@x]) {{"
        "%2 = all_gather(%0) {{dim=0, axes=x}} : bf16[{0},4096] "
        "%3 = matmul(%2, %1) : bf16[{0},8192@x] return %3}} {{{1}}}",
        rows, attrs);
  };
  Machine machine = H200WithoutTable();
  Measurement matmul = {"matmul(bf16[4096,4096], bf16[4096,4096])", 1, 400};
  Measurement one = {overlap(8192, "parts=1"), 2, 800},
              two = {overlap(8192, "parts=2"), 2, 700},
              larger = {overlap(16384, "parts=1"), 2, 0},
              four_ranks = {overlap(8192, "parts=1"), 4, 0};
  auto calibrate = [&](const std::vector<Measurement>& points) {
    Machine with = machine;
    with.table = ASYRA_VALUE(CostTable::Calibrate({.points = points}, machine));
    return with;
  };
  Machine pieces = calibrate({matmul}), all = calibrate({one, matmul, two});
  EXPECT_NEAR(CostOf(one, all).time_us, 800, 1e-6);
  EXPECT_EQ(CostOf(one, all).source, OpCost::kMeasured);
  EXPECT_NEAR(CostOf(two, all).time_us, 700, 1e-6);
  EXPECT_GT(CostOf(one, pieces).source, OpCost::kInterpolated);
  // The factor of its neighbour.
  double factor = 800 / CostOf(one, pieces).time_us;
  OpCost near = CostOf(larger, all), plain = CostOf(larger, pieces);
  EXPECT_EQ(factor > 1, near.time_us > plain.time_us);
  EXPECT_NE(near.time_us, plain.time_us);
  // Of other numbers of ranks nothing is known.
  EXPECT_EQ(CostOf(four_ranks, all).time_us,
            CostOf(four_ranks, pieces).time_us);
  // Where copy engines do not reach there are no plans.
  Machine apart = ASYRA_VALUE(LoadMachine("rtx4090x8"));
  apart.table = ASYRA_VALUE(CostTable::Calibrate({.points = {one}}, apart));
  EXPECT_GT(CostOf(one, apart).source, OpCost::kInterpolated);
}

// A large matmul fills all CTA slots, however fast it was
// measured to be: what comes beside it finds none.
TEST(CostTable, PlacesAreNotMeasured) {
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  int faster = 0, slower = 0;
  for (const Measurement& point : ShippedTable().points) {
    OpCost formula = CostOf(point, H200WithoutTable());
    if (OpOf(point) != "matmul" || formula.waves < 1) continue;
    EXPECT_EQ(CostOf(point, machine).load[kCtaSlots], 1) << point.call;
    ++(point.us < formula.time_us ? faster : slower);
  }
  EXPECT_GT(faster, 0);
  EXPECT_GT(slower, 0);
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

TEST(CostTable, LeftOutMatmulsArePredicted) {
  ExpectMedianWithinTenPercent("matmuls", [](const Measurement& point) {
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

constexpr std::string_view kTable = R"json({
  "schema": 1, "device": "a", "driver": "b", "libraries": "c", "date": "d",
  "method": "e",
  "points": [{"call": "neg(f32[500])", "us": 8}]
})json";

std::string ErrorOfTable(std::string_view from, std::string_view to) {
  auto read =
      ReadMeasurements(Replaced(std::string(kTable), from, to), "my.table");
  if (!read.ok()) return std::string(MessageOf(read.status()));
  auto table = CostTable::Calibrate(*read, TestMachine());
  return std::string(MessageOf(table.status()));
}

TEST(CostTable, ErrorsNameTheKeyOrTheCall) {
  EXPECT_EQ(ErrorOfTable("{", "["), "my.table: line 2 is no JSON");
  EXPECT_EQ(ErrorOfTable("\"date\"", "\"day\""),
            "my.table: day: is not a known key, and date is missing");
  EXPECT_EQ(ErrorOfTable("\"us\": 8", "\"us\": -8"),
            "my.table: points[0].us: is -8, it should lie in [0.01, "
            "1000000000]");
  EXPECT_EQ(ErrorOfTable("\"us\": 8", "\"us\": 8, \"gpus\": 2"),
            "my.table: points[0].gpus: is not a known key");
  EXPECT_THAT(ErrorOfTable("neg(", "negate("),
              testing::HasSubstr("negate(f32[500])"));
  EXPECT_THAT(ErrorOfTable("neg(f32[500])", "add(f32[500], f32[7])"),
              testing::HasSubstr("500"));
  EXPECT_EQ(ErrorOfTable("neg(f32[500])", "reshape(f32[4]) {shape=[2,2]}"),
            "reshape(f32[4]) {shape=[2,2]}: takes no time by any formula");
}

// The formula says 4 us for each of 500 elements, 8 were measured.
TEST(CostTable, ACorrectionFadesWithDistance) {
  Machine machine = TestMachine();
  machine.table = ASYRA_VALUE(CostTable::Calibrate(
      ASYRA_VALUE(ReadMeasurements(kTable, "my.table")), machine));
  auto factor = [&](int elements) {
    Measurement use = {fmt::format("neg(f32[{}])", elements), 1, 0};
    return CostOf(use, machine).time_us / CostOf(use, TestMachine()).time_us;
  };
  EXPECT_DOUBLE_EQ(factor(500), 2);
  EXPECT_NEAR(factor(1000), 2, 0.01);
  EXPECT_GT(factor(1000), factor(4000));
  EXPECT_NEAR(factor(500 << 4), std::sqrt(2), 1e-6);  // as far as the formula
  EXPECT_NEAR(factor(500 << 12), 1, 0.01);
}

std::string MatmulAnd(std::string_view behind, int rows) {
  return fmt::format(
      "fusion(f32[{0},64], f32[64,64], f32[64]) {{%3 = matmul(%0, %1) : "
      "f32[{0},64] %4 = add(%3, %2) : f32[{0},64] {1}}}",
      rows, behind);
}

// A matmul with an epilogue is known by such matmuls; else by matmuls.
TEST(CostTable, EpiloguesAreComparedWithTheirLike) {
  Machine machine = TestMachine();
  auto formula = [&](const std::string& call) {
    return CostOf({call, 1, 0}, machine).time_us;
  };
  std::string matmul = "matmul(f32[64,64], f32[64,64])",
              bias = MatmulAnd("return %4", 64),
              relu = MatmulAnd("%5 = relu(%4) : f32[64,64] return %5", 64);
  // Bytes of the bias, and arithmetic.
  EXPECT_GT(formula(bias), formula(matmul));
  EXPECT_GE(formula(relu), formula(bias));
  EXPECT_LT(formula(relu), 1.1 * formula(matmul));
  Measurements table;
  table.points = {{matmul, 1, 2 * formula(matmul)},
                  {relu, 1, 3 * formula(relu)}};
  Machine measured = machine;
  measured.table = ASYRA_VALUE(CostTable::Calibrate(table, machine));
  struct Case {
    std::string call;
    double factor;
    OpCost::Source source;
  };
  for (const Case& use : std::initializer_list<Case>{
           {matmul, 2, OpCost::kMeasured},
           {relu, 3, OpCost::kMeasured},
           {bias, 2, OpCost::kExtrapolated},
           // Far from what was measured with its epilogue.
           {MatmulAnd("%5 = relu(%4) : f32[65536,64] return %5", 65536), 1.02,
            OpCost::kFormula}}) {
    OpCost cost = CostOf({use.call, 1, 0}, measured);
    EXPECT_NEAR(cost.time_us / formula(use.call), use.factor, 0.02) << use.call;
    EXPECT_EQ(cost.source, use.source) << use.call;
  }
}

// Of 4 ranks, by copy engines or by the library.
std::string GatherOf(int bytes, bool copy_engine) {
  return fmt::format("all_gather(bf16[{}@x]) {{dim=0, axes=x{}}}", bytes / 2,
                     copy_engine ? ", transport=copy_engine" : "");
}

TEST(CostTable, CopyEnginesSpeakForCopyEnginesAlone) {
  Machine machine = TestMachine();
  auto formula = [&](const std::string& call) {
    return CostOf({call, 4, 0}, machine).time_us;
  };
  constexpr int kBytes = 1 << 20;
  std::string copied = GatherOf(kBytes, true), plain = GatherOf(kBytes, false);
  ASSERT_NE(formula(copied), formula(plain));
  Measurements table;
  table.points = {
      {copied, 4, 3 * formula(copied)},
      {plain, 4, 2 * formula(plain)},
      {GatherOf(4 * kBytes, true), 4, 3 * formula(GatherOf(4 * kBytes, true))}};
  Machine measured = machine;
  measured.table = ASYRA_VALUE(CostTable::Calibrate(table, machine));
  struct Case {
    std::string call;
    double factor;
    OpCost::Source source;
  };
  for (const Case& use : std::initializer_list<Case>{
           {copied, 3, OpCost::kMeasured},
           {plain, 2, OpCost::kMeasured},
           {GatherOf(2 * kBytes, true), 3, OpCost::kInterpolated},
           {GatherOf(2 * kBytes, false), 2, OpCost::kExtrapolated},
           {"all_to_all(bf16[4@x,524288]) {from=0, to=1, axes=x, "
            "transport=copy_engine}",
            1, OpCost::kFormula}}) {
    OpCost cost = CostOf({use.call, 4, 0}, measured);
    EXPECT_NEAR(cost.time_us / formula(use.call), use.factor, 0.01) << use.call;
    EXPECT_EQ(cost.source, use.source) << use.call;
  }
}

// What copy engines cannot carry is costed as the library carries it.
TEST(CostTable, CopyEnginesDoNotReduceIntegers) {
  Machine machine = TestMachine();
  for (bool can : {true, false}) {
    std::string sum = fmt::format("all_reduce({}[4096] partial(x)) {{axes=x",
                                  can ? "f32" : "i32");
    OpCost asked = CostOf({sum + ", transport=copy_engine}", 4, 0}, machine);
    OpCost plain = CostOf({sum + "}", 4, 0}, machine);
    EXPECT_EQ(asked.algorithm == Algorithm::kCopyEngine, can);
    EXPECT_EQ(asked.time_us == plain.time_us, !can);
  }
}

// The library carries them then, of which they say nothing.
TEST(CostTable, CopyEnginesAreLeftOutWhereThereAreNone) {
  Machine machine = TestMachine();
  machine.copy_engines = 0;
  std::string copied = GatherOf(1 << 20, true),
              plain = GatherOf(1 << 20, false);
  Measurements table;
  table.points = {{copied, 4, 1e6}};
  Machine measured = machine;
  measured.table = ASYRA_VALUE(CostTable::Calibrate(table, machine));
  for (const std::string& call : {copied, plain}) {
    EXPECT_EQ(CostOf({call, 4, 0}, measured).time_us,
              CostOf({plain, 4, 0}, machine).time_us)
        << call;
  }
  // Engines that are taken away in a file that was measured with them.
  machine = TestMachine();
  table.points.push_back(
      {plain, 4, 2 * CostOf({plain, 4, 0}, machine).time_us});
  measured.table = ASYRA_VALUE(CostTable::Calibrate(table, machine));
  EXPECT_EQ(CostOf({copied, 4, 0}, measured).time_us,
            CostOf({plain, 4, 0}, measured).time_us);
}

TEST(CostTable, IsFoundByTheMachinesName) {
  EXPECT_EQ(ASYRA_VALUE(LoadMeasurements("h200x8")).points.size(),
            ShippedTable().points.size());
  EXPECT_EQ(MessageOf(LoadMeasurements("h100x8").status()),
            "h100x8 names no measurements");
  EXPECT_THAT(MessageOf(LoadMeasurements("no-such").status()),
              testing::HasSubstr("machine no-such is not known"));
}

TEST(CostTable, AFileOnDiskHasItsTableBesideIt) {
  std::string dir = testing::TempDir();
  std::ofstream(dir + "/with.machine")
      << Replaced(std::string(kTestMachine), "\"sources\"",
                  "\"measurements\": \"with.table\", \"sources\"");
  std::remove((dir + "/with.table").c_str());
  EXPECT_EQ(MessageOf(LoadMachine(dir + "/with.machine").status()),
            dir + "/with.table: No such file or directory");
  std::ofstream(dir + "/with.table") << kTable;
  EXPECT_NE(ASYRA_VALUE(LoadMachine(dir + "/with.machine")).table, nullptr);
}

}  // namespace
}  // namespace asyra
