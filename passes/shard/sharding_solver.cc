#include "passes/shard/sharding_solver.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int64_t kInfeasible = RedistributionCosts::kInfeasible;
int64_t Sum(int64_t a, int64_t b) { return std::min(kInfeasible, a + b); }

std::vector<absl::InlinedVector<TypeId, 4>> IdsOf(const Forms& forms,
                                                  const Program& program,
                                                  RedistributionCosts& types) {
  std::vector<absl::InlinedVector<TypeId, 4>> ids(program.values.size());
  for (size_t v = 0; v < forms.size(); ++v) {
    for (const Type& form : forms[v]) ids[v].push_back(types.Id(form));
  }
  return ids;
}

}  // namespace

bool CostedPlan::Uses(AxisId axis) const {
  return std::any_of(ops.begin(), ops.end(),
                     [axis](const OpSharding& op) { return op.Shards(axis); });
}

ShardingSolver::ShardingSolver(const Program& program, const AxisRoles& roles,
                               const PlanOptions& options, const Forms& fixed,
                               RedistributionCosts& types)
    : program_(program),
      roles_(roles),
      options_(options),
      types_(types),
      fixed_(fixed),
      fixed_ids_(IdsOf(fixed, program, types)),
      choices_(program, roles, options, fixed_ids_, types),
      conversions_(program, roles, options, types),
      periods_(program, choices_.classes()),
      last_use_(program.values.size(), -1),
      is_input_(program.values.size(), false),
      is_output_(program.values.size(), false),
      alias_(program.values.size(), kNoValue) {
  for (const Input& input : program.inputs) is_input_[input.value] = true;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].operands) {
      last_use_[value] = static_cast<int>(i);
    }
  }
  for (const Output& output : program.outputs) {
    is_output_[output.value] = true;
    if (output.alias != kNoValue && IsFixed(output.alias)) {
      alias_[output.value] = output.alias;
    }
  }
}

absl::StatusOr<CostedPlan> ShardingSolver::Solve(const CostedPlan& plan,
                                                 const AxisList& open,
                                                 const AxisList& decided) {
  open_ = open;
  decided_ = decided;
  given_.assign(program_.values.size(), {});
  for (size_t v = 0; v < fixed_.size(); ++v) {
    for (const Type& form : fixed_[v]) given_[v].push_back(OverDecided(form));
  }
  states_.assign(1, {});
  int count = static_cast<int>(program_.ops.size());
  states_before_.assign(count, {});
  layers_.assign(count, nullptr);
  int longest =
      periods_.all().empty() ? 0 : *absl::c_max_element(periods_.all());
  for (int i = 0, forgotten = 0; i < count;) {
    states_before_[i] = std::move(states_);
    ASYRA_RETURN_IF_ERROR(Step(i, plan));
    i = Stamp(i + 1, plan);
    // Only a period back is looked at again.
    for (; forgotten < i - longest; ++forgotten) {
      states_before_[forgotten] = std::vector<State>();
    }
  }
  return Trace();
}

absl::Span<const ShardingSolver::Held> ShardingSolver::State::Find(
    ValueId value) const {
  auto begin = std::lower_bound(
      frontier.begin(), frontier.end(), value,
      [](const Held& held, ValueId value) { return held.value < value; });
  auto end = begin;
  while (end != frontier.end() && end->value == value) ++end;
  return absl::MakeConstSpan(frontier).subspan(begin - frontier.begin(),
                                               end - begin);
}

ShardingSolver::TypeIds ShardingSolver::FormsOf(const State& state,
                                                ValueId value) const {
  TypeIds forms = given_[value];
  for (const Held& held : state.Find(value)) forms.push_back(held.form);
  return forms;
}

// Returns how the value must be distributed over the axes decided so far.
std::optional<TypeId> ShardingSolver::PinnedForm(ValueId value) {
  const Type* pin = PinOf(options_.pins, value);
  if (pin == nullptr) return std::nullopt;
  return OverDecided(*pin);
}

TypeId ShardingSolver::OverDecided(Type type) {
  auto drop_later = [this](AxisList* axes) {
    auto later = [&](AxisId axis) { return !Contains(decided_, axis); };
    axes->erase(std::remove_if(axes->begin(), axes->end(), later), axes->end());
  };
  for (Dim& dim : type.dims) drop_later(&dim.axes);
  drop_later(&type.partial);
  return types_.Id(type);
}

TypeId ShardingSolver::GivenForm(int i, size_t k, const Choice& choice,
                                 uint32_t whole) {
  ValueId value = program_.ops[i].operands[k];
  if (std::optional<TypeId> pin = PinnedForm(value)) return *pin;
  if ((whole >> k & 1) != 0) return types_.Id(program_.type(value));
  Type type = types_.type(choice.operands[k]);
  if (type.partial.empty()) return choice.operands[k];
  type.partial.clear();
  return types_.Id(type);
}

ShardingSolver::Reads ShardingSolver::ReadsOf(int i, const State& state) const {
  const Op& op = program_.ops[i];
  Reads reads(op.operands.size());
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId value = op.operands[k];
    reads[k].forms = FormsOf(state, value);
    auto earlier = op.operands.begin() + static_cast<std::ptrdiff_t>(k);
    reads[k].depends =
        reads[k].forms.empty() ||
        (is_output_[value] && last_use_[value] == i) ||
        std::find(op.operands.begin(), earlier, value) != earlier;
  }
  return reads;
}

int64_t ShardingSolver::ReadNs(ValueId value, Read& read, TypeId need) {
  for (auto [form, ns] : read.ns) {
    if (form == need) return ns;
  }
  read.ns.emplace_back(need, conversions_.Ns(value, read.forms, need));
  return read.ns.back().second;
}

// Cost of redistributing the operands as the choice requires.
int64_t ShardingSolver::ReadNs(int i, Reads& reads, const Choice& choice,
                               uint32_t whole) {
  const Op& op = program_.ops[i];
  int64_t ns = 0;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId value = op.operands[k];
    if (!reads[k].depends) {
      ns = Sum(ns, ReadNs(value, reads[k], choice.operands[k]));
      continue;
    }
    TypeIds forms = reads[k].forms;
    for (size_t j = 0; j < k; ++j) {
      if (op.operands[j] == value) forms.push_back(choice.operands[j]);
    }
    if (forms.empty()) forms.push_back(GivenForm(i, k, choice, whole));
    ns = Sum(ns, conversions_.Ns(value, forms, choice.operands[k]));
    if (is_output_[value] && last_use_[value] == i) {
      forms.push_back(choice.operands[k]);
      ns = Sum(ns, OutputNs(value, forms));
    }
  }
  return ns;
}

// Returns the cost of results that are pinned, or are outputs that nothing
// reads.
int64_t ShardingSolver::ResultNs(int i, const Choice& choice) {
  const Op& op = program_.ops[i];
  int64_t ns = 0;
  for (size_t k = 0; k < op.results.size(); ++k) {
    TypeIds forms = {choice.results[k]};
    if (std::optional<TypeId> pin = PinnedForm(op.results[k])) {
      ns = Sum(ns, conversions_.Ns(op.results[k], forms, *pin));
      forms = {*pin};
    }
    if (is_output_[op.results[k]] && Dies(op.results[k], i)) {
      ns = Sum(ns, OutputNs(op.results[k], forms));
    }
  }
  return ns;
}

// An output that is only there as a partial value is summed, one that replaces
// a fixed state gets its form.
int64_t ShardingSolver::OutputNs(ValueId value, const TypeIds& have) {
  if (ValueId state = alias_[value]; state != kNoValue) {
    return conversions_.Ns(value, have, given_[state][0]);
  }
  for (TypeId form : have) {
    if (types_.type(form).partial.empty()) return 0;
  }
  Type sum = types_.type(have[0]);
  sum.partial.clear();
  return types_.Ns(have[0], types_.Id(sum));
}

// All steps from one state. Inputs that are first read here may have any
// distribution at no cost; small ones may be whole in addition, if they are
// read again and may need another one.
void ShardingSolver::Extend(int i, const State& state, int from,
                            const Choices& choices,
                            absl::Span<const int64_t> result_ns,
                            std::vector<Candidate>* out) {
  const Op& op = program_.ops[i];
  Reads reads = ReadsOf(i, state);
  uint32_t free = 0;
  for (size_t k = 0; k < std::min<size_t>(op.operands.size(), 8); ++k) {
    ValueId value = op.operands[k];
    if (is_input_[value] && !IsFixed(value) && last_use_[value] > i &&
        roles_.MayBeWhole(value) && PinOf(options_.pins, value) == nullptr &&
        reads[k].forms.empty()) {
      free |= 1u << k;
    }
  }
  for (size_t c = 0; c < choices.size(); ++c) {
    // Every subset of `free`.
    for (uint32_t whole = free;; whole = (whole - 1) & free) {
      int64_t ns = Sum(ReadNs(i, reads, choices[c], whole), result_ns[c]);
      if (ns < kInfeasible) {
        out->push_back(
            {state.ns + choices[c].ns + ns, from, static_cast<int>(c), whole});
      }
      if (whole == 0) break;
    }
  }
}

ShardingSolver::Edit ShardingSolver::Follow(int i, const State& from,
                                            const Choice& choice,
                                            uint32_t whole, Back* back) {
  const Op& op = program_.ops[i];
  Edit edit;
  auto is_there = [&](ValueId value) {
    return !from.Find(value).empty() ||
           absl::c_any_of(edit.added, [&](const Held& held) {
             return held.value == value;
           });
  };
  auto put = [&](Held held) {
    if (!absl::c_binary_search(from.frontier, held) &&
        !absl::c_linear_search(edit.added, held)) {
      edit.added.push_back(held);
    }
  };
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId value = op.operands[k];
    if (IsFixed(value)) continue;
    if (is_input_[value] && !is_there(value)) {
      TypeId given = GivenForm(i, k, choice, whole);
      back->given.push_back({static_cast<int>(k), given});
      put({value, given});
    }
    put({value, choice.operands[k]});
    if (Dies(value, i)) edit.dropped.push_back(value);
  }
  for (size_t k = 0; k < op.results.size(); ++k) {
    std::optional<TypeId> pin = PinnedForm(op.results[k]);
    put({op.results[k], pin.value_or(choice.results[k])});
  }
  edit.added.erase(
      std::remove_if(edit.added.begin(), edit.added.end(),
                     [&](const Held& held) { return Dies(held.value, i); }),
      edit.added.end());
  absl::c_sort(edit.added);
  absl::c_sort(edit.dropped);
  edit.dropped.erase(std::unique(edit.dropped.begin(), edit.dropped.end()),
                     edit.dropped.end());
  return edit;
}

// Copies what is between the edits.
void ShardingSolver::Apply(const Edit& edit, const State& from, State* to) {
  const Frontier& old = from.frontier;
  to->frontier.clear();
  to->frontier.reserve(old.size() + edit.added.size());
  to->hash = from.hash;
  auto added = edit.added.begin();
  auto at = old.begin();
  // Copies what comes before `limit`, in front of which more may be added.
  auto copy_to = [&](Frontier::const_iterator limit) {
    for (; added != edit.added.end(); ++added) {
      auto place = std::lower_bound(at, old.end(), *added);
      if (place > limit) break;
      to->frontier.insert(to->frontier.end(), at, place);
      to->frontier.push_back(*added);
      to->hash += added->Hash();
      at = place;
    }
    to->frontier.insert(to->frontier.end(), at, limit);
    at = limit;
  };
  for (ValueId value : edit.dropped) {
    absl::Span<const Held> gone = from.Find(value);
    if (gone.empty()) continue;
    copy_to(old.begin() + (gone.data() - old.data()));
    for (const Held& held : gone) to->hash -= held.Hash();
    at += static_cast<std::ptrdiff_t>(gone.size());
  }
  copy_to(old.end());
}

// Returns whether `other` costs less even if it converts what it holds to all
// that `state` holds.
bool ShardingSolver::IsDominated(const State& state, const State& other) {
  int64_t ns = other.ns;
  // Frontiers are sorted, long where every gradient waits for their norm, and
  // differ in little.
  auto theirs = other.frontier.begin();
  for (const Held& held : state.frontier) {
    if (ns >= state.ns) return false;
    while (theirs != other.frontier.end() && *theirs < held) ++theirs;
    if (theirs != other.frontier.end() && *theirs == held) continue;
    ns = Sum(
        ns, conversions_.Ns(held.value, FormsOf(other, held.value), held.form));
  }
  return ns < state.ns;
}

absl::Status ShardingSolver::Step(int i, const CostedPlan& plan) {
  auto layer = std::make_shared<Layer>();
  layer->choices = choices_.Of(i, open_, plan.ops[i]);
  std::vector<int64_t> result_ns;
  for (const Choice& choice : *layer->choices) {
    result_ns.push_back(ResultNs(i, choice));
  }
  const std::vector<State>& before = states_before_[i];
  std::vector<Candidate> candidates;
  for (size_t s = 0; s < before.size(); ++s) {
    Extend(i, before[s], static_cast<int>(s), *layer->choices, result_ns,
           &candidates);
  }
  if (candidates.empty()) {
    return Invalid("axis {}: under the pins there is no way to compute {}",
                   AxesToString(open_, program_.mesh),
                   ToString(program_, program_.ops[i]));
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.ns < b.ns; });
  // One state for each frontier, that of lowest cost; and no more than the
  // beam.
  std::vector<State> next;
  absl::flat_hash_map<uint64_t, size_t> seen;  // by hash, the place in `next`
  auto is_new = [&](const State& one) {
    for (uint64_t hash = one.hash;; ++hash) {
      auto [at, inserted] = seen.emplace(hash, next.size());
      if (inserted) return true;
      if (next[at->second].frontier == one.frontier) return false;
    }
  };
  State state;  // has room for the next one
  for (const Candidate& candidate : candidates) {
    if (next.size() == static_cast<size_t>(options_.beam)) break;
    Back back{candidate.from, candidate.choice, {}};
    const State& from = before[candidate.from];
    Apply(Follow(i, from, (*layer->choices)[candidate.choice], candidate.whole,
                 &back),
          from, &state);
    state.ns = candidate.ns;
    if (!next.empty() && IsDominated(state, next[0])) continue;
    if (!is_new(state)) continue;
    next.push_back(state);
    layer->backs.push_back(std::move(back));
  }
  states_ = std::move(next);
  layers_[i] = std::move(layer);
  return absl::OkStatus();
}

void ShardingSolver::AddForms(int i, const Choice& choice, Forms* forms) const {
  const Op& op = program_.ops[i];
  auto add = [&](ValueId value, const Type& type) {
    std::vector<Type>& known = (*forms)[value];
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      known.push_back(type);
    }
  };
  for (size_t k = 0; k < op.operands.size(); ++k) {
    add(op.operands[k], types_.type(choice.operands[k]));
  }
  for (size_t k = 0; k < op.results.size(); ++k) {
    const Type* pin = PinOf(options_.pins, op.results[k]);
    add(op.results[k], pin != nullptr ? *pin : types_.type(choice.results[k]));
  }
}

CostedPlan ShardingSolver::Trace() const {
  CostedPlan plan;
  plan.ops.resize(program_.ops.size());
  plan.forms.resize(program_.values.size());
  absl::flat_hash_map<ValueId, TypeId> given;
  int at = 0;  // states are sorted by cost
  plan.ns = states_[0].ns;
  for (size_t i = program_.ops.size(); i-- > 0;) {
    const Back& back = layers_[i]->backs[at];
    const Choice& choice = (*layers_[i]->choices)[back.choice];
    plan.ops[i] = choice.sharding;
    AddForms(static_cast<int>(i), choice, &plan.forms);
    for (auto [k, type] : back.given) {
      given[program_.ops[i].operands[k]] = type;
    }
    at = back.from;
  }
  for (const Input& input : program_.inputs) {
    auto found = given.find(input.value);
    plan.inputs.push_back(found == given.end() ? program_.type(input.value)
                                               : types_.type(found->second));
  }
  return plan;
}

}  // namespace asyra
