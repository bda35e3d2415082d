#include "passes/search/runners_up.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "ir/printer.h"
#include "ir/split_axes.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Returns whether the programs have one mesh, and equal types of what is not
// given anew at each step.
bool KeepsSameTypes(const Program& a, const Program& b) {
  return a.mesh == b.mesh && absl::c_all_of(b.inputs, [&](const Input& input) {
           ValueId value = a.FindValue(b.value_name(input.value));
           return input.role == InputRole::kData ||
                  (value != kNoValue && a.type(value) == b.type(input.value));
         });
}

}  // namespace

absl::StatusOr<std::vector<RunnerUp>> RunnersUpOf(const Program& program,
                                                  std::vector<RunnerUp> others,
                                                  size_t most) {
  if (others.empty()) return others;
  absl::c_stable_sort(others, IsFaster);
  std::vector<std::string> texts = {ToString(program)};
  std::vector<RunnerUp> kept;
  for (RunnerUp& other : others) {
    if (kept.size() >= most) break;
    if (WithoutSplits(program.mesh) == other.program.mesh) {
      ASYRA_ASSIGN_OR_RETURN(other.program, SplitAxes(std::move(other.program),
                                                      SplitsOf(program.mesh)));
    }
    if (!KeepsSameTypes(program, other.program)) continue;
    std::string text = ToString(other.program);
    if (absl::c_linear_search(texts, text)) continue;
    texts.push_back(std::move(text));
    kept.push_back(std::move(other));
  }
  return kept;
}

}  // namespace asyra
