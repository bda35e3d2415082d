#include "passes/rewrite/rewriter.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "ir/body.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

// Rules that undo one another would not terminate.
constexpr int kMaxDepth = 200;

struct HashValue {
  size_t operator()(const Tensor& value) const {
    // The rest is compared.
    return absl::HashOf(value.dtype(), value.num_elements(),
                        value.num_elements() > 0 ? value.Get(0) : 0.0);
  }
  size_t operator()(const BodyRef& value) const {
    return absl::HashOf(BodyOutline(*value));
  }
  size_t operator()(const PlanRef& value) const {
    return absl::HashOf(value.get() == nullptr);
  }
  template <typename T>
  size_t operator()(const T& value) const {
    return absl::HashOf(value);
  }
};

size_t HashOp(const Op& op) {
  size_t hash = absl::HashOf(op.def, absl::MakeSpan(op.operands));
  for (const auto& [name, value] : op.attrs) {
    hash = absl::HashOf(hash, std::visit(HashValue(), value));
  }
  return hash;
}

bool SameOps(const Program& a, const Program& b) {
  auto same_values = [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](ValueId v, ValueId w) {
                        return a.value_name(v) == b.value_name(w);
                      });
  };
  return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [&](const Op& x, const Op& y) {
                      return x.def == y.def && x.attrs == y.attrs &&
                             same_values(x.operands, y.operands) &&
                             same_values(x.results, y.results);
                    });
}

bool SameProgram(const Program& a, const Program& b) {
  auto name = [](const Program& p, ValueId v) {
    return v == kNoValue ? std::string() : p.value_name(v);
  };
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(),
                    b.inputs.end(),
                    [&](const Input& x, const Input& y) {
                      return name(a, x.value) == name(b, y.value);
                    }) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(),
                    b.outputs.end(),
                    [&](const Output& x, const Output& y) {
                      return name(a, x.value) == name(b, y.value) &&
                             a.output_name(x) == b.output_name(y) &&
                             name(a, x.alias) == name(b, y.alias);
                    }) &&
         SameOps(a, b);
}

}  // namespace

Rewriter::Rewriter(const Program& from, absl::Span<const Rule> rules)
    : from_(from),
      rules_(rules.begin(), rules.end()),
      map_(from.values.size(), kNoValue) {
  for (const Input& input : from.inputs) {
    map_[input.value] = NewInput(UniqueInputName(from.value_name(input.value)),
                                 from.type(input.value), input);
  }
}

ValueId Rewriter::NewInput(std::string name, const Type& type, Input like) {
  ValueId value = static_cast<ValueId>(values_.size());
  values_.push_back({std::move(name), type});
  def_.push_back(-1);
  input_of_.push_back(static_cast<int>(inputs_.size()));
  like.value = value;
  inputs_.push_back(std::move(like));
  facts_.Add(value, Data(value));
  return value;
}

const Op* Rewriter::Def(ValueId value) const {
  return def_[value] < 0 ? nullptr : &ops_[def_[value]];
}

const Op* Rewriter::Def(ValueId value, std::string_view op) const {
  const Op* def = Def(value);
  return def != nullptr && def->def->name == op ? def : nullptr;
}

bool Rewriter::is_weight(ValueId value) const {
  return input_of_[value] >= 0 && asyra::IsWeight(inputs_[input_of_[value]]);
}

const Tensor* Rewriter::Data(ValueId value) const {
  if (const Op* op = Def(value, "constant")) {
    return &op->attrs.Get<Tensor>("value");
  }
  // Data smaller than its type does not have all elements, those of a param
  // change from step to step, and made tensors have none in memory.
  if (!is_weight(value)) return nullptr;
  const Input& input = inputs_[input_of_[value]];
  if (input.role == InputRole::kParam || !input.stored.empty()) return nullptr;
  const Tensor* data = GivenData(value);
  return data == nullptr || data->data() == nullptr ? nullptr : data;
}

const Tensor* Rewriter::GivenData(ValueId value) const {
  if (!is_weight(value)) return nullptr;
  const Tensor* data = nullptr;
  if (new_weights_ != nullptr) data = new_weights_->Find(name(value));
  if (data == nullptr && from_.weights != nullptr) {
    data = from_.weights->Find(name(value));
  }
  return data;
}

absl::Status Rewriter::Copy(const Op& op) {
  Op copy = op;
  copy.results.clear();
  for (ValueId& operand : copy.operands) operand = map_[operand];
  if (!op.results.empty()) hint_ = from_.value_name(op.results[0]);
  ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results, AddOp(std::move(copy)));
  for (size_t i = 0; i < results.size(); ++i) {
    if (type(results[i]) != from_.type(op.results[i])) {
      return absl::InternalError(fmt::format(
          "%{} was {} and became {}", from_.value_name(op.results[i]),
          ToString(from_.type(op.results[i]), from_.mesh),
          ToString(type(results[i]), from_.mesh)));
    }
    map_[op.results[i]] = results[i];
  }
  return absl::OkStatus();
}

absl::Status Rewriter::CopyAll() {
  for (const Op& op : from_.ops) ASYRA_RETURN_IF_ERROR(Copy(op));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> Rewriter::AddAll(
    std::string_view name, absl::Span<const ValueId> operands, AttrMap attrs) {
  Op op;
  op.def = FindOp(name);
  if (op.def == nullptr) return Invalid("unknown op {}", name);
  op.operands.assign(operands.begin(), operands.end());
  op.attrs = std::move(attrs);
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*op.def, &op.attrs));
  return AddOp(std::move(op));
}

absl::StatusOr<ValueId> Rewriter::Add(std::string_view name,
                                      absl::Span<const ValueId> operands,
                                      AttrMap attrs) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                         AddAll(name, operands, std::move(attrs)));
  ASYRA_CHECK(results.size() == 1);
  return results[0];
}

const Op* Rewriter::FindEqual(const Op& op, size_t hash) const {
  auto found = by_hash_.find(hash);
  if (found == by_hash_.end() || !op.def->is_pure) return nullptr;
  for (int index : found->second) {
    const Op& other = ops_[index];
    if (other.def == op.def && other.operands == op.operands &&
        other.attrs == op.attrs) {
      return &other;
    }
  }
  return nullptr;
}

absl::StatusOr<std::vector<ValueId>> Rewriter::AddOp(Op op) {
  size_t hash = HashOp(op);
  if (const Op* equal = FindEqual(op, hash)) {
    return std::vector<ValueId>(equal->results.begin(), equal->results.end());
  }
  std::vector<Type> operands;
  for (ValueId value : op.operands) operands.push_back(type(value));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types,
                         InferTypes(*op.def, op.attrs, operands, from_.mesh));
  Fact fact;
  if (types.size() == 1) {
    fact = facts_.Derive(op, operands, types[0]);
    if (++depth_ > kMaxDepth) {
      return absl::InternalError(
          fmt::format("{}: rewriting does not come to an end", op.def->name));
    }
    NewOp offered{op, types[0], fact};
    for (Rule rule : rules_) {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, rule(*this, offered));
      if (value == kNoValue) continue;
      ASYRA_CHECK(type(value) == types[0]);
      --depth_;
      return std::vector<ValueId>{value};
    }
    --depth_;
  }
  by_hash_[hash].push_back(static_cast<int>(ops_.size()));
  return Append(std::move(op), std::move(types), fact);
}

std::vector<ValueId> Rewriter::Append(Op op, std::vector<Type> types,
                                      const Fact& fact) {
  std::vector<ValueId> results;
  for (Type& type : types) {
    ValueId value = static_cast<ValueId>(values_.size());
    values_.push_back({hint_, std::move(type)});
    def_.push_back(static_cast<int>(ops_.size()));
    input_of_.push_back(-1);
    facts_.Add(value, fact);
    results.push_back(value);
  }
  op.results.assign(results.begin(), results.end());
  ops_.push_back(std::move(op));
  return results;
}

ValueId Rewriter::Constant(const Tensor& value) {
  return ASYRA_VALUE(Add("constant", {}, {{"value", value}}));
}

std::string Rewriter::UniqueInputName(std::string_view name) {
  std::string unique(name);
  for (int i = 1; !input_names_.insert(unique).second; ++i) {
    unique = fmt::format("{}.{}", name, i);
  }
  return unique;
}

void Rewriter::SetData(const std::string& name, const Tensor& data) {
  if (new_weights_ == nullptr) new_weights_ = std::make_shared<WeightStore>();
  new_weights_->Set(name, data);
}

ValueId Rewriter::Weight(std::string_view name, const Tensor& data,
                         std::string_view tensor) {
  std::string unique = UniqueInputName(name);
  SetData(unique, data);
  auto origin = std::make_shared<WeightOrigin>();
  origin->tensor = tensor.empty() ? unique : std::string(tensor);
  origin->shape = data.shape();
  origin->made = true;
  return NewInput(unique, Type(data.dtype(), data.shape()),
                  {.role = InputRole::kWeight, .origin = std::move(origin)});
}

ValueId Rewriter::PartOfWeight(ValueId like, std::string_view name,
                               const Type& type,
                               std::shared_ptr<const WeightOrigin> origin,
                               const Tensor* data) {
  std::string unique = UniqueInputName(name);
  if (data != nullptr) SetData(unique, *data);
  return NewInput(unique, type,
                  {.role = input(like).role, .origin = std::move(origin)});
}

absl::StatusOr<ValueId> Rewriter::Reshape(ValueId value, const Shape& shape) {
  if (type(value).shape() == shape) return value;
  return Add("reshape", {value}, {{"shape", Ints(shape.begin(), shape.end())}});
}

absl::StatusOr<ValueId> Rewriter::Transpose(ValueId value, const Ints& perm) {
  return Add("transpose", {value}, {{"perm", perm}});
}

std::vector<bool> Rewriter::LiveOps() const {
  std::vector<bool> live(ops_.size(), false);
  std::vector<bool> needed(values_.size(), false);
  for (const Output& output : from_.outputs) {
    needed[map_[output.value]] = true;
  }
  for (size_t i = ops_.size(); i-- > 0;) {
    const Op& op = ops_[i];
    live[i] = !op.def->is_pure || op.def->is_barrier;
    for (ValueId value : op.results) live[i] = live[i] || needed[value];
    if (!live[i]) continue;
    for (ValueId value : op.operands) needed[value] = true;
  }
  return live;
}

// A value gets the name of the first old value that became it; what has no
// such name keeps the name of the op it was made for, with a suffix.
std::vector<std::string> Rewriter::FinalNames(
    const std::vector<bool>& live) const {
  std::vector<std::string> names(values_.size());
  absl::flat_hash_set<std::string> taken;
  auto claim = [&](ValueId value, const std::string& name) {
    bool input = input_of_[value] >= 0;
    if (names[value].empty() && (input || live[def_[value]]) &&
        taken.insert(name).second) {
      names[value] = name;
    }
  };
  for (const Input& input : inputs_) claim(input.value, name(input.value));
  auto claim_old = [&](ValueId old) {
    if (map_[old] != kNoValue) claim(map_[old], from_.value_name(old));
  };
  for (const Output& output : from_.outputs) claim_old(output.value);
  for (const Op& op : from_.ops) {
    for (ValueId old : op.results) claim_old(old);
  }
  absl::flat_hash_map<std::string, int> suffixes;
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (ValueId value : ops_[i].results) {
      while (live[i] && names[value].empty()) {
        claim(value,
              fmt::format("{}.{}", name(value), ++suffixes[name(value)]));
      }
    }
  }
  return names;
}

// Drops weights that nothing reads, with their data.
void Rewriter::FinishInputs(const std::vector<int>& uses,
                            std::vector<ValueId>* final_id, Program* to) {
  auto weights = std::make_shared<WeightStore>();
  bool changed = new_weights_ != nullptr;
  for (const Input& input : inputs_) {
    if (IsWeight(input) && uses[input.value] == 0) {
      changed = true;
      continue;
    }
    (*final_id)[input.value] = static_cast<ValueId>(to->values.size());
    to->values.push_back(values_[input.value]);
    to->inputs.push_back(input);
    to->inputs.back().value = (*final_id)[input.value];
    if (const Tensor* data = GivenData(input.value)) {
      weights->Set(name(input.value), *data);
    }
  }
  to->weights = from_.weights;
  if (changed && weights->size() > 0) to->weights = std::move(weights);
}

absl::StatusOr<bool> Rewriter::Finish(Program& program) {
  std::vector<bool> live = LiveOps();
  std::vector<std::string> names = FinalNames(live);
  std::vector<int> uses(values_.size(), 0);
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (!live[i]) continue;
    for (ValueId value : ops_[i].operands) ++uses[value];
  }
  for (const Output& output : from_.outputs) {
    ++uses[map_[output.value]];
    if (output.alias != kNoValue) ++uses[map_[output.alias]];
  }

  Program to;
  to.name = from_.name;
  to.stage = from_.stage;
  to.mesh = from_.mesh;
  to.streams = from_.streams;
  std::vector<ValueId> final_id(values_.size(), kNoValue);
  FinishInputs(uses, &final_id, &to);
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (!live[i]) continue;
    Op op = std::move(ops_[i]);
    for (ValueId& operand : op.operands) operand = final_id[operand];
    for (ValueId& result : op.results) {
      final_id[result] = static_cast<ValueId>(to.values.size());
      to.values.push_back({names[result], values_[result].type});
      result = final_id[result];
    }
    to.ops.push_back(std::move(op));
  }
  for (const Output& output : from_.outputs) {
    ValueId alias =
        output.alias == kNoValue ? kNoValue : final_id[map_[output.alias]];
    to.AddOutput(final_id[map_[output.value]], alias,
                 from_.output_name(output));
  }
  bool changed = !SameProgram(from_, to);
  if (changed) program = std::move(to);
  return changed;
}

absl::StatusOr<bool> Rewrite(Program& program,
                             absl::Span<const Rewriter::Rule> rules) {
  Rewriter rewriter(program, rules);
  ASYRA_RETURN_IF_ERROR(rewriter.CopyAll());
  return rewriter.Finish(program);
}

}  // namespace asyra
