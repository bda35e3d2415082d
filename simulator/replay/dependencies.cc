#include "simulator/replay/dependencies.h"

#include <algorithm>

#include "ir/happens_before.h"

namespace asyra {

Dependencies::Dependencies(const Program& program) {
  size_t count = program.ops.size();
  first_.reserve(count + 1);
  awaited_end_.reserve(count);
  communicator_.assign(count, -1);
  edges_.reserve(3 * count);
  std::vector<int> def(program.values.size(), -1);
  auto add = [&](ValueId value) {
    if (def[value] >= 0) edges_.push_back(def[value]);
  };
  // Constants are available from the beginning, unless `after` names their
  // position.
  auto is_there = [&](const Op& op, ValueId value) {
    return !op.start && def[value] >= 0 && IsConstant(program.ops[def[value]]);
  };
  for (size_t i = 0; i < count; ++i) {
    const Op& op = program.ops[i];
    first_.push_back(static_cast<int>(edges_.size()));
    for (ValueId value : op.operands) {
      if (!is_there(op, value)) add(value);
    }
    for (ValueId value : op.after) add(value);
    awaited_end_.push_back(static_cast<int>(edges_.size()));
    for (ValueId value : op.operands) {
      if (is_there(op, value)) add(value);
    }
    for (ValueId value : op.results) def[value] = static_cast<int>(i);
    if (!op.is_collective()) continue;
    const auto& axes = op.attrs.Get<AxisList>("axes");
    auto at = std::find(communicators_.begin(), communicators_.end(), axes);
    communicator_[i] = static_cast<int>(at - communicators_.begin());
    if (at == communicators_.end()) communicators_.push_back(axes);
  }
  first_.push_back(static_cast<int>(edges_.size()));
}

}  // namespace asyra
