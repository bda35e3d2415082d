// Overlaps and fused reductions of a whole model: wherever they may be formed
// the program computes the same, and the search with them is never worse than
// without.
#include "passes/schedule/transport/form_overlaps.h"

#include <cmath>
#include <filesystem>
#include <regex>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_text.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/transport/fuse_reductions.h"
#include "passes/schedule/transport/overlap_sites.h"
#include "passes/search/schedule.h"
#include "tests/support/costs.h"

namespace asyra {
namespace {

Program Partitioned(std::string_view model, std::vector<Mesh::Axis> axes,
                    const std::vector<std::pair<std::string, int64_t>>& dims,
                    PassContext* context, std::unique_ptr<CostModel>* costs,
                    const std::string& strategy = "auto") {
  Program program =
      ASYRA_VALUE(BuiltinModel(std::string(model), {dims.begin(), dims.end()}));
  program.mesh = ASYRA_VALUE(Mesh::Create(std::move(axes)));
  *costs = std::make_unique<CostModel>(Costs(program));
  context->costs = costs->get();
  ASYRA_CHECK_OK(
      RunPasses(program, ShardPasses({.tp_strategy = strategy}), *context));
  return program;
}

int Overlaps(const Program& program) {
  return static_cast<int>(absl::c_count_if(
      program.ops, [](const Op& op) { return IsOverlap(*op.def); }));
}

class OnMeshes : public testing::TestWithParam<std::vector<Mesh::Axis>> {
 protected:
  // Schedules a small model under a strategy of its norms, has `form` make
  // overlaps of it, and takes them apart again.
  using Form = absl::StatusOr<int> (*)(Program& program,
                                       const CostModel& costs);
  static void ExpectSame(const std::string& strategy, Form form) {
    PassContext context;
    std::unique_ptr<CostModel> costs;
    Program local = Partitioned("llama3-tiny", GetParam(), {{"seq", 16}},
                                &context, &costs, strategy);
    std::vector<Tensor> inputs = RandomInputs(local, 1, 256);
    std::vector<Tensor> want = ASYRA_VALUE(Interpret(local, inputs));
    for (int tiles : {1, 2}) {
      ScheduleOptions options{.tiles = tiles, .search_steps = 200};
      options.closed = {"fuse_reductions"};
      Program program = ASYRA_VALUE(Schedule(local, options, context)).program;
      int formed = ASYRA_VALUE(form(program, *costs));
      SCOPED_TRACE(ToString(program));
      EXPECT_GT(formed, 0);
      EXPECT_EQ(Overlaps(program), formed);
      EXPECT_EQ(Verify(program), absl::OkStatus());
      EXPECT_EQ(ToString(ASYRA_VALUE(ParseProgram(ToString(program)))),
                ToString(program));
      ExpectNear(ASYRA_VALUE(Interpret(program, inputs)), want);
      ASYRA_CHECK_OK(SplitOverlapsPass(program, {}, context).status());
      EXPECT_EQ(Overlaps(program), 0);
      EXPECT_EQ(Verify(program), absl::OkStatus());
      ExpectNear(ASYRA_VALUE(Interpret(program, inputs)), want);
    }
  }

 private:
  static void ExpectNear(const std::vector<Tensor>& got,
                         const std::vector<Tensor>& want) {
    for (int64_t i = 0; i < want[0].num_elements(); ++i) {
      ASSERT_NEAR(got[0].Get(i), want[0].Get(i), 1e-6);
    }
  }
};

TEST_P(OnMeshes, EveryOverlapComputesTheSame) {
  ExpectSame("auto", [](Program& program, const CostModel& costs) {
    return FormOverlaps(program, {.taking = OverlapTaking::kAll}, costs);
  });
}

TEST_P(OnMeshes, EveryFusedReductionComputesTheSame) {
  for (const char* strategy : {"replicated", "sequence"}) {
    ExpectSame(strategy, [](Program& program, const CostModel& costs) {
      return FuseReductions(program, {.always = true}, costs);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Small, OnMeshes,
                         testing::Values(std::vector<Mesh::Axis>{{"tp", 2}},
                                         std::vector<Mesh::Axis>{{"tp", 4}},
                                         std::vector<Mesh::Axis>{{"dp", 2},
                                                                 {"tp", 2}}));

// Where messages are small, the search makes one kernel of a reduction and what
// is behind it.
TEST(FuseReductions, TheSearchTakesThemForShortPrompts) {
  PassContext context;
  std::unique_ptr<CostModel> costs;
  Program local = Partitioned("llama3-8b", {{"tp", 2}},
                              {{"layers", 2}, {"batch", 1}, {"seq", 128}},
                              &context, &costs, "replicated");
  ScheduleOptions options{.search_steps = 200};
  ScheduleResult with = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Overlaps(with.program), 4);  // two of each layer
  options.closed = {"fuse_reductions"};
  ScheduleResult without = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Overlaps(without.program), 0);
  EXPECT_LT(with.optimized.makespan_us, without.optimized.makespan_us);
}

// Only on request, and then never worse.
TEST(FormOverlaps, TheSearchIsNeverWorseWithThem) {
  PassContext context;
  std::unique_ptr<CostModel> costs;
  Program local = Partitioned("llama3-8b", {{"tp", 2}},
                              {{"layers", 2}, {"batch", 1}, {"seq", 2048}},
                              &context, &costs, "sequence");
  ScheduleOptions options{.search_steps = 200};
  options.closed = {"fuse_reductions"};
  ScheduleResult without = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Overlaps(without.program), 0);
  options.opened = {"form_overlaps"};
  ScheduleResult with = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Verify(with.program), absl::OkStatus());
  EXPECT_LE(with.optimized.makespan_us, without.optimized.makespan_us);
  EXPECT_GT(Overlaps(with.program), 0);
}

// A file with the text of a plan, for as long as it lives.
class PlanFile {
 public:
  explicit PlanFile(std::string_view text)
      : path_(testing::TempDir() + "asyra_plan_" + RandomName()) {
    ASYRA_CHECK_OK(WriteTextFile(path_, text));
  }
  ~PlanFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class OwnPlans : public testing::Test {
 protected:
  OwnPlans() {
    local_ = Partitioned("llama3-tiny", {{"tp", 2}}, {{"seq", 16}}, &context_,
                         &costs_, "sequence");
    ScheduleOptions options{.tiles = 1, .search_steps = 200};
    options.closed = {"fuse_reductions"};
    scheduled_ = ASYRA_VALUE(Schedule(local_, options, context_)).program;
    context_.remarks.clear();
  }

  // The site that gives this value.
  OverlapSite Site(const std::string& name) const {
    std::vector<OverlapSite> sites = FindOverlapSites(scheduled_, {});
    auto site = absl::c_find_if(
        sites, [&](const OverlapSite& s) { return Result(s) == name; });
    ASYRA_CHECK(site != sites.end());
    return *site;
  }
  std::string Result(const OverlapSite& site) const {
    return scheduled_.value_name(site.results[0]);
  }
  GroupBody Group(const OverlapSite& site) const {
    std::vector<Type> operands;
    for (ValueId value : site.operands) {
      operands.push_back(scheduled_.type(value));
    }
    return ASYRA_VALUE(GroupBodyOf(site.body, operands, scheduled_.mesh));
  }
  // The text of a plan of two parts.
  std::string PlanOfTwoParts(const OverlapSite& site) const {
    return PrintPlan(
        ASYRA_VALUE(MakePlan(Group(site), {.order = site.order, .parts = 2})));
  }
  absl::StatusOr<bool> Form(Program* program, const std::string& options) {
    auto passes = ParsePipeline("form_overlaps{" + options + "}");
    if (!passes.ok()) return passes.status();
    return FormOverlapsPass(*program, (*passes)[0].options, context_);
  }
  std::string ErrorOf(const std::string& options) {
    Program program = scheduled_;
    absl::StatusOr<bool> formed = Form(&program, options);
    return formed.ok() ? "no error" : std::string(MessageOf(formed.status()));
  }

  static constexpr const char* kOut = "layer0.o_proj.reduce_scatter";
  static constexpr const char* kDown = "layer1.down_proj.reduce_scatter";

  PassContext context_;
  std::unique_ptr<CostModel> costs_;
  Program local_, scheduled_;
};

TEST_F(OwnPlans, TheSiteTakesThePlanOfAFile) {
  std::vector<Tensor> inputs = RandomInputs(local_, 1, 256);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(local_, inputs));
  for (const char* name : {kOut, kDown}) {
    OverlapSite site = Site(name);
    std::string text = PlanOfTwoParts(site);
    PlanFile file(text);
    Program program = scheduled_;
    EXPECT_TRUE(ASYRA_VALUE(
        Form(&program, fmt::format("plan={}, site={}", file.path(), name))));
    EXPECT_EQ(Overlaps(program), 1);
    EXPECT_EQ(Verify(program), absl::OkStatus());
    for (const Op& op : program.ops) {
      if (!IsOverlap(*op.def)) continue;
      EXPECT_EQ(PrintPlan(*op.attrs.Get<PlanRef>("plan")), text);
    }
    EXPECT_EQ(ToString(ASYRA_VALUE(ParseProgram(ToString(program)))),
              ToString(program));
    std::vector<Tensor> got = ASYRA_VALUE(Interpret(program, inputs));
    for (int64_t i = 0; i < want[0].num_elements(); ++i) {
      ASSERT_NEAR(got[0].Get(i), want[0].Get(i), 1e-6);
    }
  }
}

// Without a site all that the plan fits; remarks name the others. Chunks are
// parts of shards, so that a plan fits both matmuls of a layer, unless it says
// that a shard of an operand has 96 columns.
TEST_F(OwnPlans, SitesThatThePlanDoesNotFitAreNamed) {
  std::string text = PlanOfTwoParts(Site(kDown));
  Program program = scheduled_;
  EXPECT_TRUE(ASYRA_VALUE(Form(&program, "plan=" + PlanFile(text).path())));
  EXPECT_EQ(Overlaps(program), 4);
  EXPECT_TRUE(context_.remarks.empty());
  text = std::regex_replace(text, std::regex("piece %2\\[[^\\]]*\\]"),
                            "$& from %0[:, :, #r(0:96/96)], %1");
  program = scheduled_;
  PlanFile file(text);
  EXPECT_TRUE(ASYRA_VALUE(Form(&program, "plan=" + file.path())));
  EXPECT_EQ(Overlaps(program), 2);
  ASSERT_EQ(context_.remarks.size(), 2u);
  EXPECT_NE(context_.remarks[0].find(std::string("does not fit %") + kOut +
                                     ": line "),
            std::string::npos)
      << context_.remarks[0];
  EXPECT_NE(context_.remarks[0].find(
                "size 64, which does not divide into 2 shards of 96 parts"),
            std::string::npos)
      << context_.remarks[0];
}

TEST_F(OwnPlans, WhatCannotBeIsRefused) {
  std::string name = kDown, text = PlanOfTwoParts(Site(kDown));
  PlanFile file(text);
  EXPECT_NE(ErrorOf("plan=" + file.path() + ", site=nothing")
                .find("no site gives %nothing, there are those of %"),
            std::string::npos);
  EXPECT_NE(ErrorOf("plan=" + file.path() + ", joined=true")
                .find("joined=true makes one of several"),
            std::string::npos);
  EXPECT_NE(ErrorOf("site=" + name).find("there is none: plan=FILE"),
            std::string::npos);
  EXPECT_NE(ErrorOf("plan=/nothing/here").find("/nothing/here"),
            std::string::npos);
  constexpr std::string_view kAwait = "await done from compute; ";
  PlanFile broken(text.erase(text.find(kAwait), kAwait.size()));
  std::string error = ErrorOf("plan=" + broken.path() + ", site=" + name);
  EXPECT_NE(error.find("fits none of 1 sites; %" + name), std::string::npos)
      << error;
  EXPECT_NE(error.find("line "), std::string::npos) << error;
}

}  // namespace
}  // namespace asyra
