#include "passes/shard/sharding_solver.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int64_t kInfeasible = RedistributionCosts::kInfeasible;
int64_t Sum(int64_t a, int64_t b) { return std::min(kInfeasible, a + b); }

uint64_t FrontierHash(absl::Span<const std::pair<ValueId, TypeId>> frontier) {
  uint64_t hash = 0;
  for (auto [value, form] : frontier) {
    auto both = static_cast<uint64_t>(static_cast<uint32_t>(value)) << 32 |
                static_cast<uint32_t>(form);
    hash = (hash ^ both) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

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
  for (int i = 0; i < count;) {
    states_before_[i] = std::move(states_);
    ASYRA_RETURN_IF_ERROR(Step(i, plan));
    i = Stamp(i + 1, plan);
  }
  return Trace();
}

ShardingSolver::TypeIds ShardingSolver::FormsOf(const State& state,
                                                ValueId value) const {
  TypeIds forms = given_[value];
  auto held = std::lower_bound(
      state.frontier.begin(), state.frontier.end(), value,
      [](const Held& held, ValueId value) { return held.first < value; });
  for (; held != state.frontier.end() && held->first == value; ++held) {
    forms.push_back(held->second);
  }
  return forms;
}

// How the value must be distributed over the axes decided so far.
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

// Of results that are pinned, or outputs that nothing reads.
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

ShardingSolver::State ShardingSolver::Follow(int i, const State& from,
                                             const Choice& choice,
                                             uint32_t whole, Back* back) {
  const Op& op = program_.ops[i];
  State state = from;
  auto put = [&](ValueId value, TypeId form) {
    Held held{value, form};
    auto at =
        std::lower_bound(state.frontier.begin(), state.frontier.end(), held);
    if (at == state.frontier.end() || *at != held) {
      state.frontier.insert(at, held);
    }
  };
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId value = op.operands[k];
    if (IsFixed(value)) continue;
    if (is_input_[value] && FormsOf(state, value).empty()) {
      TypeId given = GivenForm(i, k, choice, whole);
      back->given.push_back({static_cast<int>(k), given});
      put(value, given);
    }
    put(value, choice.operands[k]);
  }
  for (size_t k = 0; k < op.results.size(); ++k) {
    std::optional<TypeId> pin = PinnedForm(op.results[k]);
    put(op.results[k], pin.value_or(choice.results[k]));
  }
  auto dead =
      std::remove_if(state.frontier.begin(), state.frontier.end(),
                     [&](const Held& held) { return Dies(held.first, i); });
  state.frontier.erase(dead, state.frontier.end());
  return state;
}

// Whether `other` costs less even if it converts what it holds to all that
// `state` holds.
bool ShardingSolver::IsDominated(const State& state, const State& other) {
  int64_t ns = other.ns;
  // Frontiers are sorted, long where every gradient waits for their norm, and
  // differ in little.
  auto theirs = other.frontier.begin();
  for (const Held& held : state.frontier) {
    if (ns >= state.ns) return false;
    while (theirs != other.frontier.end() && *theirs < held) ++theirs;
    if (theirs != other.frontier.end() && *theirs == held) continue;
    auto [value, form] = held;
    ns = Sum(ns, conversions_.Ns(value, FormsOf(other, value), form));
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
  auto is_new = [&](const Frontier& frontier) {
    for (uint64_t hash = FrontierHash(frontier);; ++hash) {
      auto [at, inserted] = seen.emplace(hash, next.size());
      if (inserted) return true;
      if (next[at->second].frontier == frontier) return false;
    }
  };
  for (const Candidate& candidate : candidates) {
    if (next.size() == static_cast<size_t>(options_.beam)) break;
    Back back{candidate.from, candidate.choice, {}};
    State state =
        Follow(i, before[candidate.from], (*layer->choices)[candidate.choice],
               candidate.whole, &back);
    state.ns = candidate.ns;
    if (!next.empty() && IsDominated(state, next[0])) continue;
    if (!is_new(state.frontier)) continue;
    next.push_back(std::move(state));
    layer->backs.push_back(std::move(back));
  }
  states_ = std::move(next);
  layers_[i] = std::move(layer);
  return absl::OkStatus();
}

// Whether the states before op `begin` are those of one period before.
bool ShardingSolver::SameStates(const std::vector<State>& before, int begin,
                                int p) const {
  if (before.size() != states_.size() || before.empty()) return false;
  for (size_t s = 0; s < before.size(); ++s) {
    if (states_[s].frontier.size() != before[s].frontier.size()) return false;
  }
  int period = periods_.all()[p];
  for (size_t s = 0; s < before.size(); ++s) {
    Frontier shifted = before[s].frontier;
    for (Held& held : shifted) {
      held.first = periods_.ShiftedByNext(held.first, begin - period, p);
    }
    std::sort(shifted.begin(), shifted.end());
    if (shifted != states_[s].frontier) return false;
  }
  return true;
}

// The state in front of op `begin` from which each one before op `end` came.
std::vector<int> ShardingSolver::OriginsOf(int begin, int end) const {
  std::vector<int> origins(states_.size());
  std::iota(origins.begin(), origins.end(), 0);
  for (int i = end; i-- > begin;) {
    for (int& at : origins) at = layers_[i]->backs[at].from;
  }
  return origins;
}

// Whether the next period repeats the one before op `begin`. Each state here
// came from one a period before, and its cost grew on the way: by the least
// that any grew, or by more, as where every layer converts the layout of a
// table. The period repeats where the states are the same and none that grew
// by the least came from one that grew by more: then each comes from the same
// state again, at the same cost. Those that grow by more only fall behind.
// Others may replace one no later than where it is left, since they can convert
// what it holds.
bool ShardingSolver::Repeats(const std::vector<State>& before, int begin, int p,
                             absl::Span<const int> origins) const {
  auto growth = [&](size_t s) { return states_[s].ns - before[s].ns; };
  for (size_t s = 0; s < before.size(); ++s) {
    if (growth(s) < growth(0)) return false;
    if (growth(s) == growth(0) && growth(origins[s]) != growth(0)) return false;
  }
  return SameStates(before, begin, p);
}

// Whether the ops of [begin, end) have the choices of those a period before.
bool ShardingSolver::SameChoices(int begin, int end, int period,
                                 const CostedPlan& plan) {
  for (int i = begin; i < end; ++i) {
    const OpSharding& here = plan.ops[i];
    const OpSharding& there = plan.ops[i - period];
    if (choices_.Of(i, open_, here) != choices_.Of(i - period, open_, there)) {
      return false;
    }
  }
  return true;
}

int ShardingSolver::Stamp(int next, const CostedPlan& plan) {
  for (size_t p = 0; p < periods_.all().size(); ++p) {
    int period = periods_.all()[p];
    if (next < period || next >= static_cast<int>(program_.ops.size())) {
      continue;
    }
    int times = periods_.RunFrom(next, static_cast<int>(p)) / period;
    const std::vector<State>& before = states_before_[next - period];
    if (times == 0 || before.size() != states_.size()) continue;
    std::vector<int> origins = OriginsOf(next - period, next);
    if (!Repeats(before, next, static_cast<int>(p), origins)) continue;
    std::vector<int64_t> added(states_.size());
    for (size_t s = 0; s < states_.size(); ++s) {
      added[s] = states_[s].ns - before[origins[s]].ns;
    }
    int done = 0;
    for (; done < times; ++done) {
      int begin = next + done * period;
      if (!SameChoices(begin, begin + period, period, plan)) break;
      StampOnce(begin, static_cast<int>(p), origins, added);
    }
    if (done > 0) return next + done * period;
  }
  return next;
}

// One period from op `begin` on, as the one before it.
void ShardingSolver::StampOnce(int begin, int p, absl::Span<const int> origins,
                               absl::Span<const int64_t> added) {
  int period = periods_.all()[p];
  for (int i = begin; i < begin + period; ++i) {
    layers_[i] = layers_[i - period];
  }
  std::vector<int64_t> ns;
  for (const State& state : states_) ns.push_back(state.ns);
  for (size_t s = 0; s < states_.size(); ++s) {
    State& state = states_[s];
    state.ns = ns[origins[s]] + added[s];
    for (Held& held : state.frontier) {
      held.first = periods_.ShiftedByLast(held.first, begin, p);
    }
    std::sort(state.frontier.begin(), state.frontier.end());
  }
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
