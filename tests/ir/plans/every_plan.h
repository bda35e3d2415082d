// Every shape of a chunk plan of a body, each run in random interleavings.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ir/plans/plan_interpreter.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/status.h"
#include "tests/ir/plans/plan_case.h"
#include "tests/support/sanitized.h"

namespace asyra {

// As often with each number of connections. The verifier proves every order;
// these check it.
inline constexpr int kInterleavings = kSanitized ? 3 : 24;

inline std::string Text(const PlanShape& shape) {
  return fmt::format(
      "order {} route {} parts {} groups [{}] inner {} sums in pieces {} "
      "exchanges {}",
      static_cast<int>(shape.order), static_cast<int>(shape.route), shape.parts,
      fmt::join(shape.groups, ", "), shape.inner, shape.sums_in_pieces,
      shape.exchanges);
}

// The sums of `groups` are `chunks`: one alone, pairs, all at once, a random
// partition.
inline std::vector<std::vector<int64_t>> Groupings(int64_t chunks) {
  std::vector<std::vector<int64_t>> all = {{}, {chunks}};
  if (chunks > 1) all.push_back({1, chunks - 1});
  std::mt19937_64 random(chunks);
  std::vector<int64_t> mixed;
  for (int64_t left = chunks; left > 0; left -= mixed.back()) {
    mixed.push_back(
        1 + static_cast<int64_t>(random() % std::min(left, int64_t{3})));
  }
  all.push_back(mixed);
  return all;
}

inline std::vector<PlanShape> EveryShapeOf(const PlanCase& c, int64_t parts) {
  std::vector<PlanShape> shapes;
  for (PlanShape shape : ShapesWithoutGroups(c, parts)) {
    if (shape.order == PlanOrder::kOwnLast) shape.copy_queues = 3;
    int64_t chunks = ASYRA_VALUE(ChunksOfARank(c.Group(), shape));
    for (const auto& groups : Groupings(chunks)) {
      shape.groups = groups;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

// Whether the template has no such plan, as its errors say.
inline bool IsRefused(const absl::Status& status) {
  return MessageOf(status).find("goes direct or is pulled") !=
             std::string_view::npos ||
         MessageOf(status).find("has no groups") != std::string_view::npos;
}

// The whole results of a body under a shape.
using WantOf = std::function<std::vector<Tensor>(const PlanShape&)>;

// Proves the plan of each shape, and runs it in random interleavings on what
// ranks hold of `whole`: each gives its part of `want_of`, bit for bit. Returns
// how many plans there were.
inline int ExpectEveryPlanGives(const PlanCase& c, int64_t parts,
                                absl::Span<const Tensor> whole,
                                const WantOf& want_of) {
  std::vector<std::vector<Tensor>> operands = Spread(c, whole);
  std::vector<Type> types =
      ASYRA_VALUE(OverlapTypes(c.body, c.operands, c.mesh));
  int plans = 0;
  for (const PlanShape& shape : EveryShapeOf(c, parts)) {
    SCOPED_TRACE(c.name + " " + Text(shape));
    absl::StatusOr<ChunkPlan> plan = MakePlan(c.Group(), shape);
    if (!plan.ok()) {
      EXPECT_TRUE(IsRefused(plan.status())) << plan.status();
      continue;
    }
    ++plans;
    for (int connections : {0, 1, 2}) {
      absl::Status verified = VerifyPlan(*plan, {.connections = connections});
      EXPECT_TRUE(verified.ok()) << verified;
    }
    std::vector<Tensor> whole_results = want_of(shape);
    std::vector<std::vector<Tensor>> want(c.ranks());
    for (int r = 0; r < c.ranks(); ++r) {
      for (size_t i = 0; i < whole_results.size(); ++i) {
        const Type& type = types[c.body.results[i]];
        want[r].push_back(Shard(whole_results[i], type, c.mesh, r));
      }
    }
    for (int seed = 0; seed < kInterleavings; ++seed) {
      auto got = RunPlan(
          *plan, operands,
          {.seed = static_cast<uint64_t>(seed), .connections = seed % 3});
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok()) break;
      bool same = true;
      for (int r = 0; r < c.ranks(); ++r) {
        for (size_t i = 0; i < want[r].size(); ++i) {
          same &= SameBytes((*got)[r][i], want[r][i]);
        }
      }
      EXPECT_TRUE(same) << "interleaving " << seed;
      if (!same) break;
    }
    if (testing::Test::HasFailure()) break;
  }
  return plans;
}

}  // namespace asyra
