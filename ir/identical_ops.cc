#include "ir/identical_ops.h"

#include <algorithm>

namespace asyra {
namespace {

// Deterministic; needs not tell everything apart.
class Hash {
 public:
  void Add(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 32;
  }
  void Add(const AxisList& axes) {
    Add(axes.size());
    for (AxisId axis : axes) Add(static_cast<uint64_t>(axis));
  }
  void Add(const Type& type) {
    Add(static_cast<uint64_t>(type.dtype) * 2 + (type.future ? 1 : 0));
    for (const Dim& dim : type.dims) {
      Add(static_cast<uint64_t>(dim.size));
      Add(dim.axes);
    }
    Add(type.partial);
  }
  // Adds the values in which layers differ: integers.
  void Add(const AttrValue& value) {
    if (const auto* number = std::get_if<int64_t>(&value)) {
      Add(static_cast<uint64_t>(*number));
    } else if (const auto* numbers = std::get_if<Ints>(&value)) {
      for (int64_t number : *numbers) Add(static_cast<uint64_t>(number));
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

uint64_t IdenticalOps::HashOf(const Op& op) const {
  Hash hash;
  hash.Add(reinterpret_cast<uintptr_t>(op.def));
  hash.Add(static_cast<uint64_t>(op.stream) * 2 + (op.start ? 1 : 0));
  for (ValueId value : op.operands) hash.Add(program_.type(value));
  for (ValueId value : op.results) hash.Add(program_.type(value));
  for (const auto& [name, value] : op.attrs) hash.Add(value);
  return hash.value();
}

bool IdenticalOps::AreIdentical(const Op& a, const Op& b) const {
  auto same_type = [&](ValueId x, ValueId y) {
    return program_.type(x) == program_.type(y);
  };
  return a.def == b.def && a.start == b.start && a.stream == b.stream &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(),
                    b.operands.end(), same_type) &&
         std::equal(a.results.begin(), a.results.end(), b.results.begin(),
                    b.results.end(), same_type) &&
         a.attrs == b.attrs;
}

int IdenticalOps::FirstIdentical(int op) {
  Ops& ops = by_hash_[HashOf(program_.ops[op])];
  for (int other : ops) {
    if (AreIdentical(program_.ops[other], program_.ops[op])) return other;
  }
  ops.push_back(op);
  return op;
}

}  // namespace asyra
