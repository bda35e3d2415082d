#include "passes/analysis/dim_labels.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/algorithm/container.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/analysis/dim_flow.h"
#include "passes/analysis/dim_uses.h"
#include "passes/analysis/dim_words.h"

namespace asyra {
namespace {

// A dimension whose label does not follow from its operands.
struct Origin {
  ValueId value;
  int dim;
  bool is_input;
  DimLabel named = DimLabel::kNone;  // by its name
};

// Dimensions of data inputs, and those of activations that no operand has.
std::vector<Origin> OriginsOf(const Program& program, const DimLabels& labels) {
  std::vector<Origin> origins;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kData) continue;
    for (int d = 0; d < program.type(input.value).rank(); ++d) {
      std::string_view name =
          DimName(labels.names, program.value_name(input.value), d);
      origins.push_back({input.value, d, true, LabelOfName(name)});
    }
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const AxisRule& rule = labels.rules[i];
    if (op.operands.empty() || labels.of_weights[op.results[0]]) continue;
    auto arrives = [&](FactorId factor) {
      for (size_t k = 0; k < op.operands.size(); ++k) {
        if (rule.UsedByOperand(factor, static_cast<int>(k))) return true;
      }
      return false;
    };
    for (size_t k = 0; k < op.results.size(); ++k) {
      for (size_t d = 0; d < rule.results[k].size(); ++d) {
        const DimFactors& dim = rule.results[k][d];
        if (!dim.empty() && std::none_of(dim.begin(), dim.end(), arrives)) {
          origins.push_back({op.results[k], static_cast<int>(d), false});
        }
      }
    }
  }
  return origins;
}

// Origins that are one dimension of the model, and their uses by ops.
struct Group {
  std::vector<Origin> members;
  uint8_t uses = 0;
  std::optional<DimLabel> label;

  bool Is(DimUse use) const { return (uses & use) != 0; }
  // Returns the label by names of the members; kNone if there is none or they
  // differ.
  DimLabel Named() const {
    DimLabel named = DimLabel::kNone;
    for (const Origin& origin : members) {
      if (origin.named == DimLabel::kNone) continue;
      if (named != DimLabel::kNone && named != origin.named) {
        return DimLabel::kNone;
      }
      named = origin.named;
    }
    return named;
  }
};

// Decides the label of each origin. Tags are indices of origins plus 1.
class Labeller {
 public:
  Labeller(const Program& program, const DimLabels& labels)
      : program_(program),
        origins_(OriginsOf(program, labels)),
        group_of_(origins_.size()),
        groups_(origins_.size()) {
    std::iota(group_of_.begin(), group_of_.end(), 0);
    DimTags tags;
    for (size_t o = 0; o < origins_.size(); ++o) {
      tag_of_[{origins_[o].value, origins_[o].dim}] = static_cast<int>(o) + 1;
    }
    DimFlow flow(program, labels.rules, tag_of_);
    for (auto [a, b] : flow.met) group_of_[Find(a - 1)] = Find(b - 1);
    for (size_t o = 0; o < origins_.size(); ++o) {
      groups_[Find(static_cast<int>(o))].members.push_back(origins_[o]);
    }
    auto uses = DimUses(program, labels.rules, labels.of_weights);
    for (size_t i = 0; i < uses.size(); ++i) {
      for (size_t f = 0; f < uses[i].size(); ++f) {
        for (const DimPiece& piece : flow.factors[i][f]) {
          if (piece.tag != 0) groups_[Find(piece.tag - 1)].uses |= uses[i][f];
        }
      }
    }
  }

  // Labels as tags, to be propagated again.
  DimTags Run() {
    for (Group& group : groups_) {
      if (DimLabel named = group.Named(); named != DimLabel::kNone) {
        group.label = named;
      } else if (IsTokens(group)) {
        group.label = DimLabel::kSequence;
      } else if (IsFeature(group)) {
        group.label = DimLabel::kNone;
      }
    }
    std::vector<DimLabel> labels;
    for (const Group& group : groups_) {
      labels.push_back(group.label.has_value() ? *group.label : ByPlace(group));
    }
    // Each name decides about its own dimension where names contradict each
    // other.
    DimTags tags;
    for (size_t o = 0; o < origins_.size(); ++o) {
      const Origin& origin = origins_[o];
      tags[{origin.value, origin.dim}] = static_cast<int>(
          origin.named != DimLabel::kNone ? origin.named
                                          : labels[Find(static_cast<int>(o))]);
    }
    return tags;
  }

  // Returns DimLabels::unread, after Run.
  std::vector<ValueId> Unread() {
    std::vector<ValueId> unread;
    for (size_t o = 0; o < origins_.size(); ++o) {
      const Group& group = groups_[Find(static_cast<int>(o))];
      const Origin& origin = origins_[o];
      if (origin.is_input && origin.dim == 1 && !group.label.has_value() &&
          group.uses == 0) {
        unread.push_back(origin.value);
      }
    }
    return unread;
  }

 private:
  int Find(int origin) {
    while (group_of_[origin] != origin) {
      origin = group_of_[origin] = group_of_[group_of_[origin]];
    }
    return origin;
  }

  static bool IsTokens(const Group& group) {
    if (!group.Is(kQuery)) return false;
    // [batch * tokens, ...] counts as the batch.
    return !group.Is(kShared) ||
           absl::c_none_of(group.members, [](const Origin& origin) {
             return origin.is_input && origin.dim == 0;
           });
  }

  // Returns whether a dimension is features. Where matmuls both sum over it and
  // have it as rows, as matmuls over the tokens and over the features do in
  // turn, features come last, or are those that are not called tokens.
  bool IsFeature(const Group& group) {
    return group.Is(kContracted) && !group.Is(kQuery) &&
           (!group.Is(kRow) ||
            absl::c_any_of(group.members, [&](const Origin& origin) {
              return origin.dim + 1 == program_.type(origin.value).rank() ||
                     IsBesideNamed(origin, DimLabel::kSequence);
            }));
  }

  // Returns whether another dimension of its input has a name that says
  // `label`.
  bool IsBesideNamed(const Origin& origin, DimLabel label) {
    if (!origin.is_input) return false;
    for (int d = 0; d < program_.type(origin.value).rank(); ++d) {
      if (d == origin.dim) continue;
      int other = tag_of_.at({origin.value, d}) - 1;
      if (origins_[other].named == label ||
          groups_[Find(other)].Named() == label) {
        return true;
      }
    }
    return false;
  }

  // Returns whether nothing is before it in its input but tokens and features.
  bool IsFirst(const Origin& origin) {
    if (IsBesideNamed(origin, DimLabel::kBatch)) return false;
    for (int d = 0; d < origin.dim; ++d) {
      int before = Find(tag_of_.at({origin.value, d}) - 1);
      if (!groups_[before].label.has_value()) return false;
    }
    return true;
  }

  // Labels dimensions that are certainly neither tokens nor features.
  DimLabel ByPlace(const Group& group) {
    int places = 0, first = 0, at[2] = {0, 0};
    bool matrices = absl::c_any_of(group.members, [&](const Origin& origin) {
      return origin.is_input && program_.type(origin.value).rank() >= 2;
    });
    for (const Origin& origin : group.members) {
      bool vector = program_.type(origin.value).rank() < 2;
      if (!origin.is_input || (vector && matrices)) continue;
      ++places;
      first += IsFirst(origin);
      bool is_one = program_.type(origin.value).size(origin.dim) == 1;
      if (origin.dim >= 2 || vector || is_one) continue;
      bool sequence =
          origin.dim == 1 || IsBesideNamed(origin, DimLabel::kBatch);
      if (!sequence || !IsBesideNamed(origin, DimLabel::kSequence)) {
        ++at[sequence ? 1 : 0];
      }
    }
    if (places == 0) return DimLabel::kNone;
    if (group.Is(kShared)) {
      return first > 0 ? DimLabel::kBatch : DimLabel::kNone;
    }
    if (group.Is(kRow)) {
      return first == places ? DimLabel::kBatch : DimLabel::kSequence;
    }
    if (at[0] > 0) return DimLabel::kBatch;
    return at[1] > 0 ? DimLabel::kSequence : DimLabel::kNone;
  }

  const Program& program_;
  const std::vector<Origin> origins_;
  DimTags tag_of_;
  std::vector<int> group_of_;  // by origin: another of its group, or itself
  std::vector<Group> groups_;  // by the origin that represents the group
};

DimLabel LabelOf(const DimPieces& pieces) {
  int label = 0;
  for (const DimPiece& piece : pieces) label = std::max(label, piece.tag);
  return static_cast<DimLabel>(label);
}

}  // namespace

absl::StatusOr<DimLabels> DimLabels::Of(const Program& program,
                                        const DimNames& names) {
  DimLabels result;
  result.names = names;
  for (const Op& op : program.ops) {
    absl::StatusOr<AxisRule> rule = AxisRuleOf(OpUse(program, op));
    if (!rule.ok()) return Annotate(rule.status(), ToString(program, op));
    result.rules.push_back(*std::move(rule));
  }
  result.of_weights = ValuesOfWeights(program);
  Labeller labeller(program, result);
  DimFlow flow(program, result.rules, labeller.Run());
  result.unread = labeller.Unread();
  for (const std::vector<DimPieces>& factors : flow.factors) {
    result.factors.emplace_back();
    for (const DimPieces& factor : factors) {
      result.factors.back().push_back(
          factor.empty() ? DimLabel::kNone
                         : static_cast<DimLabel>(factor[0].tag));
    }
  }
  for (const std::vector<DimPieces>& dims : flow.values) {
    result.values.emplace_back();
    for (const DimPieces& dim : dims) {
      result.values.back().push_back(LabelOf(dim));
    }
  }
  return result;
}

}  // namespace asyra
