// What the executor really enqueues in a step, seen from the device: its events
// give the order of ir/happens_before.h, all of it and no more. The verifier
// and the memory planner trust that order.
#include "absl/strings/str_join.h"
#include "executor/executor.h"
#include "gtest/gtest.h"
#include "ir/happens_before.h"
#include "ir/printer.h"
#include "tests/executor/runnable.h"
#include "tests/executor/traced.h"

namespace asyra {
namespace {

using Order = std::map<std::string, std::vector<std::string>>;

// A launch of each op that has a kernel in a step; by its label.
Order WantedOrder(const Program& program) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  auto runs = [&](int op) {
    return !program.ops[op].def->is_view && !IsConstant(program.ops[op]);
  };
  Order before;
  int n = static_cast<int>(program.ops.size());
  for (int b = 0; b < n; ++b) {
    if (!runs(b)) continue;
    auto& earlier = before[ToString(program, program.ops[b])];
    for (int a = 0; a < n; ++a) {
      if (!runs(a) || !order.Finished(a, b)) continue;
      earlier.push_back(ToString(program, program.ops[a]));
    }
  }
  return before;
}

// The first op that has other ops before it; empty: none has.
std::string Difference(const Order& wanted, const Order& got) {
  if (wanted.size() != got.size()) {
    return fmt::format("{} launches instead of {}", got.size(), wanted.size());
  }
  for (const auto& [op, before] : wanted) {
    auto at = got.find(op);
    if (at == got.end()) return op + " is not launched";
    if (at->second == before) continue;
    return fmt::format("before {}:\n{}\ninstead of:\n{}", op,
                       absl::StrJoin(at->second, "\n"),
                       absl::StrJoin(before, "\n"));
  }
  return "";
}

// Of one step.
Trace TraceStep(const Program& program) {
  Trace trace;
  TracedDevice device(&trace);
  TracedWorld world(program.mesh.num_devices());
  auto executor = ASYRA_VALUE(Executor::Load(program));
  ASYRA_CHECK_OK(executor->Prepare(device, &world, nullptr));
  trace.entries = device.step();
  return trace;
}

class EnqueueOrder : public testing::TestWithParam<int> {};

TEST_P(EnqueueOrder, IsThatOfHappensBefore) {
  Program program = RunnableProgram(GetParam());
  SCOPED_TRACE(ToString(program));
  Order wanted = WantedOrder(program);
  Trace trace = TraceStep(program);
  ASSERT_FALSE(wanted.empty());
  EXPECT_EQ(Difference(wanted, trace.Before()), "");
}

// A wait that is left out is noticed. Not each one orders launches: views and
// constants have none.
TEST_P(EnqueueOrder, ChangesWithoutAnEvent) {
  Program program = RunnableProgram(GetParam());
  SCOPED_TRACE(ToString(program));
  Order wanted = WantedOrder(program);
  Trace trace = TraceStep(program);
  int waits = 0, noticed = 0;
  for (size_t i = 0; i < trace.entries.size(); ++i) {
    if (trace.entries[i].kind != Trace::kWait) continue;
    ++waits;
    noticed += !Difference(wanted, trace.Before(static_cast<int>(i))).empty();
  }
  EXPECT_GE(noticed, waits / 4);
  EXPECT_GT(noticed, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EnqueueOrder, testing::Range(0, 50));

}  // namespace
}  // namespace asyra
