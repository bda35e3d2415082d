#include "passes/shard/stripe_flow.h"

#include <utility>

#include "absl/algorithm/container.h"

namespace asyra {
namespace {

// Returns whether the op is an attention whose rows see different keys, and
// halves of them have runs for so many devices.
bool IsHalved(const Program& program, const Op& op, int64_t devices) {
  if (op.def->name != "attention") return false;
  const AttrMap& attrs = op.attrs;
  int64_t rows = program.type(op.operands[0]).size(1);
  return (attrs.Bool("causal") || attrs.Int("window") > 0 ||
          attrs.Int("window_after") > 0) &&
         !attrs.Bool("at_end") && !attrs.Bool("log_sums") &&
         attrs.Int("runs") == 0 && rows > 0 && rows % (2 * devices) == 0;
}

// Calls visit(place, factor) for each factor of the dimensions.
template <typename Visit>
void ForEachPlace(const OperandFactors& dims, const AxisRule& rule,
                  Visit visit) {
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t inner = 1;
    for (size_t i = dims[d].size(); i-- > 0;) {
      FactorId id = dims[d][i];
      visit(SequencePlace{static_cast<int>(d), inner, rule.factors[id].size},
            id);
      inner *= rule.factors[id].size;
    }
  }
}

SequencePlaces PlacesOf(const OperandFactors& dims, const AxisRule& rule,
                        const std::set<FactorId>& factors) {
  SequencePlaces places;
  ForEachPlace(dims, rule, [&](const SequencePlace& place, FactorId id) {
    if (factors.contains(id)) places.insert(place);
  });
  return places;
}

class Marker {
 public:
  Marker(const Program& program, StripeFlow* flow)
      : program_(program), flow_(*flow), def_use_(program) {}

  void Run() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (flow_.halved[i]) {
        TakeFactor(static_cast<int>(i), flow_.rules[i].operands[0][1][0]);
      }
    }
    while (!open_.empty()) {
      auto [value, place] = open_.back();
      open_.pop_back();
      int from = def_use_.def[value];
      if (from >= 0) MarkOp(from, value, place);
      for (int op : def_use_.uses[value]) MarkOp(op, value, place);
    }
  }

 private:
  // Takes over the place of an operand or a result, if the op computes the
  // elements along it one by one, or sums over all.
  void MarkOp(int op, ValueId value, const SequencePlace& place) {
    const Op& at = program_.ops[op];
    const AxisRule& rule = flow_.rules[op];
    auto look = [&](absl::Span<const ValueId> values,
                    const std::vector<OperandFactors>& dims) {
      for (size_t k = 0; k < values.size(); ++k) {
        if (values[k] != value) continue;
        ForEachPlace(dims[k], rule, [&](const SequencePlace& here, FactorId f) {
          if (here == place && MayTake(op, f)) TakeFactor(op, f);
        });
      }
    };
    look(at.operands, rule.operands);
    look(at.results, rule.results);
  }

  bool MayTake(int op, FactorId f) const {
    const AxisRule& rule = flow_.rules[op];
    const Factor& factor = rule.factors[f];
    const OpDef& def = *program_.ops[op].def;
    bool by_element = (factor.kind == FactorKind::kParallel ||
                       factor.kind == FactorKind::kSum) &&
                      !factor.positional;
    // An op without operand, as a constant, makes elements by their places.
    auto has = [&](size_t k) {
      return rule.UsedByOperand(f, static_cast<int>(k));
    };
    bool read = false;
    for (size_t k = 0; k < rule.operands.size(); ++k) read |= has(k);
    return by_element && read && def.is_pure && !def.is_barrier;
  }

  void TakeFactor(int op, FactorId f) {
    if (!flow_.striped[op].insert(f).second) return;
    const Op& at = program_.ops[op];
    const AxisRule& rule = flow_.rules[op];
    auto open = [&](absl::Span<const ValueId> values,
                    const std::vector<OperandFactors>& dims) {
      for (size_t k = 0; k < values.size(); ++k) {
        for (const SequencePlace& place : PlacesOf(dims[k], rule, {f})) {
          if (seen_.insert({values[k], place}).second) {
            open_.emplace_back(values[k], place);
          }
        }
      }
    };
    open(at.operands, rule.operands);
    open(at.results, rule.results);
  }

  const Program& program_;
  StripeFlow& flow_;
  DefUse def_use_;
  std::set<std::pair<ValueId, SequencePlace>> seen_;
  std::vector<std::pair<ValueId, SequencePlace>> open_;
};

// Makes ops behind which only outputs are natural again, as long as what they
// read in stripes is smaller than what they give: hidden states, not logits.
void EndAtOutputs(const Program& program, StripeFlow* flow) {
  DefUse def_use(program);
  // By op; what nothing reads goes away, whatever its order.
  std::vector<bool> natural(program.ops.size()), unread(program.ops.size());
  for (int i = static_cast<int>(program.ops.size()) - 1; i >= 0; --i) {
    if (flow->striped[i].empty() || flow->halved[i]) continue;
    const Op& op = program.ops[i];
    int64_t read = 0, given = 0;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      bool striped = !flow->OfOperand(i, static_cast<int>(k)).empty();
      read += striped ? program.type(op.operands[k]).bytes() : 0;
    }
    bool last = true, is_read = false;
    for (ValueId result : op.results) {
      given += program.type(result).bytes();
      for (int use : def_use.uses[result]) {
        last = last && (natural[use] || unread[use]);
        is_read = is_read || !unread[use];
      }
      is_read = is_read || def_use.output_uses[result] > 0;
    }
    unread[i] = !is_read;
    natural[i] = is_read && last && read < given;
    if (natural[i]) flow->striped[i].clear();
  }
}

}  // namespace

absl::StatusOr<StripeFlow> StripeFlow::Of(const Program& program,
                                          int64_t devices) {
  StripeFlow flow;
  for (const Op& op : program.ops) {
    ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(OpUse(program, op)));
    flow.rules.push_back(std::move(rule));
    flow.halved.push_back(IsHalved(program, op, devices));
  }
  flow.striped.resize(program.ops.size());
  Marker(program, &flow).Run();
  EndAtOutputs(program, &flow);
  return flow;
}

bool StripeFlow::finds() const { return absl::c_linear_search(halved, true); }

SequencePlaces StripeFlow::OfOperand(int op, int k) const {
  return PlacesOf(rules[op].operands[k], rules[op], striped[op]);
}

SequencePlaces StripeFlow::OfResult(int op, int k) const {
  return PlacesOf(rules[op].results[k], rules[op], striped[op]);
}

}  // namespace asyra
