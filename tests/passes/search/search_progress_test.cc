// What searches say of how far they are: candidates that were made, of about
// how many, and the best so far.
#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/compile.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {
namespace {

std::vector<std::string> Said(bool train, int search_steps) {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-tiny", {{"seq", 16}}));
  RaisedProgram raised = ASYRA_VALUE(Raise(program, {}));
  std::vector<std::string> said;
  CompileOptions options;
  options.schedule.search_steps = search_steps;
  if (train) options.train = TrainOptions();
  options.progress = [&](const std::string& what) { said.push_back(what); };
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"tp", 2}}));
  ASYRA_CHECK_OK(Compile(raised, mesh, machine, options).status());
  return said;
}

void ExpectItGoesOn(const std::vector<std::string>& said) {
  size_t last_made = 0, first_all = 0, counted = 0, with_best = 0;
  for (const std::string& what : said) {
    size_t made = 0, all = 0;
    if (std::sscanf(what.c_str(), "%zu of about %zu candidates, ", &made,
                    &all) != 2) {
      continue;
    }
    ++counted;
    if (first_all == 0) first_all = all;
    EXPECT_GE(made, last_made) << what;
    EXPECT_LT(made, all) << what;
    last_made = made;
    with_best += what.find("candidates, best ") != std::string::npos;
  }
  EXPECT_GT(last_made, 10u);
  // All but what is said before the first candidate.
  EXPECT_GE(counted + 2, said.size());
  EXPECT_GT(with_best, counted / 2);
}

TEST(SearchProgress, CountsCandidatesOfAll) {
  ExpectItGoesOn(Said(/*train=*/false, 200));
  ExpectItGoesOn(Said(/*train=*/false, 1000));
}

// Several strategies, each searched inside the one before.
TEST(SearchProgress, GoesOnOverStrategies) {
  ExpectItGoesOn(Said(/*train=*/true, 200));
}

}  // namespace
}  // namespace asyra
