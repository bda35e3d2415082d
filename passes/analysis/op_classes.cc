#include "passes/analysis/op_classes.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "ir/identical_ops.h"
#include "ir/printer.h"
#include "ir/support/hash.h"

namespace asyra {
namespace {

// Returns, by value, the op that makes it; -1: an input.
std::vector<int> Makers(const Program& program) {
  std::vector<int> makers(program.values.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].results) {
      makers[value] = static_cast<int>(i);
    }
  }
  return makers;
}

ClassKey KeyOf(const Program& program, const Op& op) {
  std::vector<Type> operands = program.OperandTypes(op);
  uint64_t key = Fnv1a(op.def->name);
  key = Fnv1a(op.start ? "start" : "at once", key);
  key = Fnv1a(ToString(operands, program.mesh), key);
  key = Fnv1a(ToString(program.ResultTypes(op), program.mesh), key);
  std::string rest = AttrsToString(*op.def, op.attrs, operands, program.mesh);
  if (op.stream != kNoStream) rest += " on " + program.streams[op.stream];
  return {Fnv1a(rest, key), key};
}

// Depends on the order.
uint64_t Combine(uint64_t a, uint64_t b) {
  a = (a ^ (b + (a << 6))) * 0x9e3779b97f4a7c15;
  return a ^ (a >> 32);
}

}  // namespace

std::vector<int> OpClasses(const Program& program) {
  IdenticalOps identical(program);
  std::vector<int> classes;
  classes.reserve(program.ops.size());
  int count = 0;
  for (int op = 0; op < static_cast<int>(program.ops.size()); ++op) {
    int first = identical.FirstIdentical(op);
    classes.push_back(first == op ? count++ : classes[first]);
  }
  return classes;
}

std::vector<int> RefineClasses(const Program& program, std::vector<int> classes,
                               int rounds) {
  constexpr int kInput = -1;
  std::vector<int> def = Makers(program);
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

std::vector<ClassKey> ClassKeys(const Program& program,
                                const std::vector<int>& classes, int rounds) {
  constexpr ClassKey kInput = {1, 1};
  std::vector<int> def = Makers(program);
  std::vector<ClassKey> of_class, keys;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (classes[i] == static_cast<int>(of_class.size())) {
      of_class.push_back(KeyOf(program, program.ops[i]));
    }
    keys.push_back(of_class[classes[i]]);
  }
  for (int round = 0; round < rounds; ++round) {
    std::vector<ClassKey> refined = keys;
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (ValueId value : program.ops[i].operands) {
        const ClassKey& other = def[value] < 0 ? kInput : keys[def[value]];
        refined[i].exact = Combine(refined[i].exact, other.exact);
        refined[i].similar = Combine(refined[i].similar, other.similar);
      }
    }
    keys = std::move(refined);
  }
  return keys;
}

}  // namespace asyra
