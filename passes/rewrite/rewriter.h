// Rebuilds a global program front to back. Each op on its way into the new
// program is offered to rewrite rules; then equal ops become one. Since every
// op a rule adds is offered to the rules in turn, one walk reaches what rules
// that look backwards (at the definitions of an op's operands) can reach.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "ir/support/status.h"
#include "passes/analysis/value_facts.h"

namespace asyra {

class Rewriter {
 public:
  // Looks at an op that is about to be added: its operands are values of the
  // new program, `type` is that of its only result, and op.results is empty.
  // Returns a value of the same type and meaning, or kNoValue.
  struct NewOp {
    const Op& op;
    const Type& type;
    const Fact& fact;  // what is known of its elements
    bool is(std::string_view name) const { return op.def->name == name; }
    ValueId in(int i) const { return op.operands[i]; }
    int arity() const { return static_cast<int>(op.operands.size()); }
  };
  using Rule = absl::StatusOr<ValueId> (*)(Rewriter& to, const NewOp& op);

  // `from` must outlive the rewriter.
  Rewriter(const Program& from, absl::Span<const Rule> rules);

  // Enters one op of `from` with its operands mapped, through the rules.
  absl::Status Copy(const Op& op);
  // Records `to` as the replacement of `old`, a value of `from`.
  void Map(ValueId old, ValueId to) { map_[old] = to; }
  ValueId Mapped(ValueId old) const { return map_[old]; }
  absl::Status CopyAll();
  // Sets the name base of values that are added from here on.
  void SetHint(std::string_view name) { hint_ = name; }
  const std::string& hint() const { return hint_; }
  // Tells the user what a rule did not do, and why.
  void Note(std::string text) { notes_.push_back(std::move(text)); }
  const std::vector<std::string>& notes() const { return notes_; }

  // Adds an op of one result, through the rules. Errors of type inference are
  // returned.
  absl::StatusOr<ValueId> Add(std::string_view op,
                              absl::Span<const ValueId> operands,
                              AttrMap attrs = {});
  // The same for an op of any number of results.
  absl::StatusOr<std::vector<ValueId>> AddAll(
      std::string_view op, absl::Span<const ValueId> operands,
      AttrMap attrs = {});
  ValueId Constant(const Tensor& value);
  // Adds a weight input with data. `tensor`: the one of the model's file that
  // the data is computed from, whose name users see; empty: none is.
  ValueId Weight(std::string_view name, const Tensor& data,
                 std::string_view tensor = "");
  // Adds an input as the weight `like`, but of another type and origin; `data`:
  // as it is given, null where there is none.
  ValueId PartOfWeight(ValueId like, std::string_view name, const Type& type,
                       std::shared_ptr<const WeightOrigin> origin,
                       const Tensor* data);
  // Returns the input of a value that is one.
  const Input& input(ValueId value) const { return inputs_[input_of_[value]]; }
  // Returns the data of a weight input as it is given, also where it changes
  // from step to step; null where there is none.
  const Tensor* GivenData(ValueId value) const;

  // Returns `value` reshaped; adds no op if it has that shape.
  absl::StatusOr<ValueId> Reshape(ValueId value, const Shape& shape);
  absl::StatusOr<ValueId> Transpose(ValueId value, const Ints& perm);

  const Type& type(ValueId value) const { return values_[value].type; }
  // Returns the op that defines it; null for inputs.
  const Op* Def(ValueId value) const;
  // Returns the same if that op has the name, else null.
  const Op* Def(ValueId value, std::string_view op) const;
  // Returns data known at compile time: of a constant op or of a weight input
  // with data, else null.
  const Tensor* Data(ValueId value) const;
  const std::string& name(ValueId value) const { return values_[value].name; }
  bool is_weight(ValueId value) const;
  const Fact& fact(ValueId value) { return facts_.Of(value); }
  // Returns whether all elements are equal, and sets `number` to their value.
  bool Uniform(ValueId value, double* number) {
    return facts_.Of(value).IsUniform(number);
  }
  ValueFacts& facts() { return facts_; }

  // Replaces `program` by the new one: without dead ops and dead weights,
  // outputs and inputs named as they were. True if anything differs.
  absl::StatusOr<bool> Finish(Program& program);

 private:
  absl::StatusOr<std::vector<ValueId>> AddOp(Op op);
  std::vector<ValueId> Append(Op op, std::vector<Type> types, const Fact& fact);
  const Op* FindEqual(const Op& op, size_t hash) const;
  std::string UniqueInputName(std::string_view name);
  // Adds an input as `like`, for the value that it becomes.
  ValueId NewInput(std::string name, const Type& type, Input like);
  std::vector<bool> LiveOps() const;
  std::vector<std::string> FinalNames(const std::vector<bool>& live) const;
  void FinishInputs(const std::vector<int>& uses,
                    std::vector<ValueId>* final_id, Program* to);

  const Program& from_;
  std::vector<Rule> rules_;
  std::vector<ValueId> map_;   // values of from_ to values here
  std::deque<Value> values_;   // a deque: rules hold types while they add
  std::vector<int> def_;       // op index by value; -1 for inputs
  std::vector<int> input_of_;  // index into inputs_ by value; -1 otherwise
  std::vector<Input> inputs_;
  std::deque<Op> ops_;  // a deque: rules hold pointers while they add
  void SetData(const std::string& name, const Tensor& data);

  std::shared_ptr<WeightStore> new_weights_;
  absl::flat_hash_set<std::string> input_names_;
  absl::flat_hash_map<size_t, absl::InlinedVector<int, 1>> by_hash_;
  ValueFacts facts_;
  std::string hint_ = "v";  // name for what is being added
  std::vector<std::string> notes_;
  int depth_ = 0;
};

// Runs the rules over the whole program.
absl::StatusOr<bool> Rewrite(Program& program,
                             absl::Span<const Rewriter::Rule> rules);

}  // namespace asyra
