#include "ir/verify/walk_flow.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/body.h"

namespace asyra {
namespace {

bool Intersect(const AxisList& a, const AxisList& b) {
  return absl::c_any_of(a, [&](AxisId axis) { return Contains(b, axis); });
}

bool IsDistributedOver(const Type& type, const AxisList& axes) {
  return Intersect(type.partial, axes) ||
         absl::c_any_of(type.dims, [&](const Dim& dim) {
           return Intersect(dim.axes, axes);
         });
}

// The axes over which an op tells devices apart.
AxisList AxesOf(const Op& op) {
  const AttrValue* value = op.attrs.Find("axes");
  const AxisList* axes = value ? std::get_if<AxisList>(value) : nullptr;
  return axes == nullptr ? AxisList() : *axes;
}

bool IsReorder(const Op& op) {
  return op.def->name == "stripe" || op.def->name == "unstripe";
}

// Returns whether each result has the elements of its own operand.
bool IsMove(const Op& op) {
  return op.operands.size() == op.results.size() &&
         (op.is_collective() || op.def->is_view || IsReorder(op) ||
          op.def->name == "cast" || op.def->name == "transpose");
}

// Returns whether a device's part of the result is made of what it has of the
// operands alone, whichever device it is.
bool IsLocal(const Op& op) {
  return op.results.size() == 1 && (op.def->fusable == Fusable::kElement ||
                                    op.def->is_tile || op.def->is_untile);
}

bool WalksInside(const Op& op) {
  const Body* body = BodyOf(op.attrs);
  return body != nullptr && absl::c_any_of(body->ops, [](const BodyOp& inner) {
           return inner.def->collective == CollectiveKind::kShift;
         });
}

Walk Unknown() {
  Walk walk;
  walk.kind = Walk::kUnknown;
  return walk;
}

class WalkFlow {
 public:
  explicit WalkFlow(const Program& program)
      : program_(program), walks_(program.values.size()) {}

  std::vector<Walk> Run() {
    for (const Input& input : program_.inputs) {
      walks_[input.value].root = input.value;
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      Follow(static_cast<int>(i));
      for (ValueId result : program_.ops[i].results) {
        ValueId& root = walks_[result].root;
        if (root == kNoValue) root = result;
      }
    }
    return std::move(walks_);
  }

 private:
  void Follow(int at) {
    const Op& op = program_.ops[at];
    if (HasKeyShard(op)) {
      Attend(at);
    } else if (IsMove(op)) {
      for (size_t k = 0; k < op.results.size(); ++k) {
        walks_[op.results[k]] = Moved(op, walks_[op.operands[k]]);
      }
    } else {
      Walk walk = IsLocal(op) ? Joined(op) : Computed(op);
      for (ValueId result : op.results) walks_[result] = walk;
    }
  }

  bool AreInPlace(absl::Span<const ValueId> values) const {
    return absl::c_all_of(values, [&](ValueId value) {
      return walks_[value].kind == Walk::kInPlace;
    });
  }

  // Keys and values may walk, and their gradients are where they are.
  void Attend(int at) {
    const Op& op = program_.ops[at];
    auto others = absl::MakeSpan(op.operands).subspan(3);
    bool known = AreInPlace({op.operands[0]}) && AreInPlace(others);
    for (size_t k = 0; k < op.results.size(); ++k) {
      Walk& walk = walks_[op.results[k]];
      if (!known) {
        walk = Unknown();
      } else if (IsKeyGradient(op)) {
        const Walk& seen = walks_[op.operands[k]];
        if (k > 0) {
          walk.kind = seen.kind;
          walk.axes = seen.axes;
          walk.by = seen.by;
        }
        walk.sum = {{at, static_cast<int>(k)}};
      }
    }
  }

  Walk Shifted(const Op& op, Walk walk) const {
    AxisList axes = AxesOf(op);
    if (walk.kind == Walk::kInPlace) walk.axes = axes;
    if (walk.axes != axes) return Unknown();
    walk.kind = Walk::kWalked;
    walk.by = (walk.by + op.attrs.Int("by")) % program_.mesh.size(axes);
    if (walk.by > 0) return walk;
    walk.kind = Walk::kInPlace;
    walk.axes.clear();
    return walk;
  }

  Walk Moved(const Op& op, Walk walk) const {
    if (!walk.IsKnown()) return walk;
    if (op.def->collective == CollectiveKind::kShift) {
      return Shifted(op, std::move(walk));
    }
    if (Intersect(AxesOf(op), walk.axes)) return Unknown();
    if (op.def->collective == CollectiveKind::kAllGather) {
      walk.gathered = AxesOf(op);
      walk.order.clear();
    } else if (IsReorder(op)) {
      const Type& type = program_.type(op.operands[0]);
      int dim = NormalizeDim(op.attrs.Int("dim"), type.rank());
      walk.order.push_back({op.def, op.attrs.Int("pairs"), type.size(dim)});
    }
    return walk;
  }

  // Values that all walked as far, and such as no device of these axes has
  // another part of.
  Walk Joined(const Op& op) const {
    Walk all;
    if (op.operands.empty()) return all;
    bool same_order = true;
    for (ValueId operand : op.operands) {
      const Walk& walk = walks_[operand];
      if (!walk.IsKnown()) return Unknown();
      if (walk.kind == Walk::kWalked && all.kind == Walk::kWalked &&
          (walk.axes != all.axes || walk.by != all.by)) {
        return Unknown();
      }
      if (walk.kind == Walk::kWalked) {
        all.kind = walk.kind;
        all.axes = walk.axes;
        all.by = walk.by;
      }
      const Walk& first = walks_[op.operands[0]];
      same_order = same_order && walk.gathered == first.gathered &&
                   walk.order == first.order;
    }
    for (ValueId operand : op.operands) {
      if (walks_[operand].kind == Walk::kInPlace &&
          IsDistributedOver(program_.type(operand), all.axes)) {
        return Unknown();
      }
    }
    if (op.operands.size() == 1) all.root = walks_[op.operands[0]].root;
    if (same_order) {
      all.gathered = walks_[op.operands[0]].gathered;
      all.order = walks_[op.operands[0]].order;
    }
    if (op.def->name == "add") {
      const auto &a = walks_[op.operands[0]].sum,
                 &b = walks_[op.operands[1]].sum;
      std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                     std::back_inserter(all.sum));
    }
    return all;
  }

  Walk Computed(const Op& op) const {
    return WalksInside(op) || !AreInPlace(op.operands) ? Unknown() : Walk();
  }

  const Program& program_;
  std::vector<Walk> walks_;
};

}  // namespace

bool HasKeyShard(const Op& op) {
  return (op.def->name == "attention" || op.def->name == "attention_grad") &&
         op.attrs.Int("shards") > 1;
}

bool IsKeyGradient(const Op& op) {
  return op.def->name == "attention_grad" && op.attrs.Int("shards") > 1 &&
         op.attrs.Get<std::string>("of") == "qkv";
}

std::vector<Walk> FollowWalks(const Program& program) {
  return WalkFlow(program).Run();
}

}  // namespace asyra
