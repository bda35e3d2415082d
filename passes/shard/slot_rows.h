// Values whose rows are slots of experts, of programs in which dispatches drop
// nothing.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/program.h"

namespace asyra {

// A choice of experts, and what is computed of its rows.
struct SlotFamily {
  int64_t chosen = 0;  // experts of a token
  int64_t tokens = 0;  // of one leading index, global
  int64_t num_experts = 0;
  int64_t group_tokens = 0;  // that share slots
  Shape lead;                // dimensions before the tokens
};

class SlotRows {
 public:
  // Reads `program`, which outlives it.
  explicit SlotRows(const Program& program);

  // Returns the number of choices of experts whose rows may take another form.
  int64_t families() const;
  // Returns the first choice of experts [..., tokens, k] of the family that a
  // value's rows belong to, or that an op routes by; kNoValue: none, or one
  // that has to stay as it is.
  ValueId FamilyOf(ValueId value) const;
  ValueId FamilyOfRouting(const Op& op) const;
  const SlotFamily& family(ValueId choice) const {
    return families_.at(choice);
  }

 private:
  struct Routing;

  ValueId RootOf(ValueId experts) const;
  bool ReadRouting(const Op& op, Routing* routing) const;
  void Visit(const Op& op);
  void VisitDispatch(const Op& op);
  void VisitEnd(const Op& op);
  bool Takes(const Op& op, ValueId root);
  bool TakesElements(const Op& op, ValueId root);
  bool TakesWithinRows(const Op& op, ValueId root);
  bool Fits(const Routing& routing) const;
  bool Has(ValueId value, ValueId root) const { return of_[value] == root; }
  void Enter(ValueId value, ValueId root, bool zero);
  void Spoil(ValueId root) { spoilt_.insert(root); }
  // [..., experts, slots] of a family.
  Shape Prefix(ValueId root) const;

  const Program& program_;
  DefUse def_use_;
  std::vector<ValueId> of_;  // by value, the root of its family
  std::vector<bool> zero_;   // by value, whether rows that nobody has are 0
  absl::flat_hash_map<ValueId, SlotFamily> families_;  // by root
  absl::flat_hash_set<ValueId> spoilt_;
};

// Returns the dimension of slots in the rows of a family.
inline int SlotDim(const SlotFamily& family) {
  return static_cast<int>(family.lead.size()) + 1;
}

}  // namespace asyra
