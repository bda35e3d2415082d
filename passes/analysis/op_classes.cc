#include "passes/analysis/op_classes.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "ir/printer.h"

namespace asyra {

std::vector<int> OpClasses(const Program& program) {
  // Ops of one definition and types, distinguished by the other properties.
  absl::flat_hash_map<std::pair<const OpDef*, std::string>,
                      std::vector<std::pair<const Op*, int>>>
      by_types;
  std::vector<int> classes;
  classes.reserve(program.ops.size());
  int count = 0;
  for (const Op& op : program.ops) {
    std::string types = ToString(program.OperandTypes(op), program.mesh);
    types += ToString(program.ResultTypes(op), program.mesh);
    auto& same_types = by_types[{op.def, std::move(types)}];
    size_t i = 0;
    while (i < same_types.size() &&
           !(same_types[i].first->attrs == op.attrs &&
             same_types[i].first->start == op.start &&
             same_types[i].first->stream == op.stream)) {
      ++i;
    }
    if (i == same_types.size()) same_types.emplace_back(&op, count++);
    classes.push_back(same_types[i].second);
  }
  return classes;
}

std::vector<int> RefineClasses(const Program& program, std::vector<int> classes,
                               int rounds) {
  constexpr int kInput = -1;
  std::vector<int> def(program.values.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].results) {
      def[value] = static_cast<int>(i);
    }
  }
  for (int round = 0; round < rounds; ++round) {
    absl::flat_hash_map<absl::InlinedVector<int, 8>, int> numbers;
    std::vector<int> refined;
    refined.reserve(classes.size());
    for (size_t i = 0; i < program.ops.size(); ++i) {
      absl::InlinedVector<int, 8> key = {classes[i]};
      for (ValueId value : program.ops[i].operands) {
        key.push_back(def[value] < 0 ? kInput : classes[def[value]]);
      }
      int next = static_cast<int>(numbers.size());
      refined.push_back(numbers.emplace(std::move(key), next).first->second);
    }
    classes = std::move(refined);
  }
  return classes;
}

}  // namespace asyra
