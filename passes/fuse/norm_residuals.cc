#include "passes/fuse/norm_residuals.h"

#include <algorithm>

#include "passes/fuse/fusion_clusters.h"

namespace asyra {
namespace {

// Operands of the gradient: x, scale, dy, and what is added.
constexpr size_t kWithoutRest = 3;

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        def_use_(program),
        before_(CollectivesBefore(program, def_use_)) {}

  // Returns the op that adds to the first result of this one, or -1.
  int SumBehind(int index) const {
    const Op& op = program_.ops[index];
    bool is_gradient =
        op.def->name == "rms_norm_grad" || op.def->name == "layer_norm_grad";
    if (!is_gradient || op.operands.size() != kWithoutRest || !IsUnplaced(op)) {
      return -1;
    }
    ValueId dx = op.results[0];
    if (def_use_.output_uses[dx] > 0 || def_use_.uses[dx].size() != 1)
      return -1;
    int sum = def_use_.uses[dx][0];
    return MayTakeOver(index, sum) ? sum : -1;
  }

  // Returns the other operand of the sum.
  ValueId Rest(int index, int sum) const {
    const Op& op = program_.ops[sum];
    return op.operands[op.operands[0] == program_.ops[index].results[0]];
  }

 private:
  static bool IsUnplaced(const Op& op) {
    return op.stream == kNoStream && op.after.empty();
  }

  bool MayTakeOver(int index, int sum) const {
    const Op& add = program_.ops[sum];
    if (add.def->name != "add" || !IsUnplaced(add)) return false;
    ValueId dx = program_.ops[index].results[0], rest = Rest(index, sum);
    const Type& type = program_.type(dx);
    if (program_.type(rest) != type || program_.type(add.results[0]) != type)
      return false;
    int def = def_use_.def[rest];
    if (def >= index) return false;
    if (def >= 0) {
      int waits = program_.ops[def].is_collective() ? def : before_[def];
      if (waits > before_[index]) return false;
    }
    return std::none_of(program_.ops.begin() + index,
                        program_.ops.begin() + sum,
                        [](const Op& op) { return op.def->is_barrier; });
  }

  const Program& program_;
  DefUse def_use_;
  std::vector<int> before_;  // by op: a collective that it waits for, or -1
};

}  // namespace

int FuseNormResiduals(Program* program) {
  // All are found in the program as it was.
  const Program before = *program;
  Finder finder(before);
  std::vector<bool> is_gone(program->ops.size(), false);
  int fused = 0;
  for (int i = 0; i < static_cast<int>(before.ops.size()); ++i) {
    int sum = finder.SumBehind(i);
    if (sum < 0 || is_gone[sum]) continue;
    is_gone[sum] = true;
    ++fused;
    Op& op = program->ops[i];
    op.operands.push_back(finder.Rest(i, sum));
    op.results[0] = before.ops[sum].results[0];
  }
  if (fused == 0) return 0;
  size_t next = 0;
  std::erase_if(program->ops, [&](const Op&) { return is_gone[next++]; });
  program->DropUnusedValues();
  return fused;
}

}  // namespace asyra
