#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/ops/attention_places.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify/different_values.h"
#include "ir/verify/verify_rules.h"
#include "ir/verify/walk_flow.h"

namespace asyra {
namespace {

// Attributes that are the same for all parts of one attention.
constexpr std::string_view kShared[] = {"shards",       "causal", "window",
                                        "window_after", "runs",   "offset",
                                        "scale",        "softcap"};

// Pairs of devices beyond which nobody asks which shards are seen.
constexpr int64_t kMostPairs = int64_t{1} << 22;

std::string Devices(int64_t count) {
  return fmt::format("{} device{}", count, count == 1 ? "" : "s");
}

std::string OrderText(const std::vector<RunOrder>& order) {
  std::string text;
  for (const RunOrder& one : order) {
    text += fmt::format("{}{}{{pairs={}}} of {}", text.empty() ? "" : ", ",
                        one.op->name, one.pairs, one.size);
  }
  return text.empty() ? "as gathered" : text;
}

// Parts of one attention, by what they have of the keys.
struct Parts {
  std::map<int64_t, int> by_shift;  // shift to op
  int first = -1;                   // an op of them
  bool complete = true;             // others were not found
};

class WalkRules {
 public:
  WalkRules(const Program& program, const DefUse& def_use)
      : program_(program), def_use_(def_use), walks_(FollowWalks(program)) {}

  absl::Status Verify() {
    FindGradients();
    FindRoots();
    FindUsed();
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      int at = static_cast<int>(i);
      absl::Status status = HasKeyShard(op)                     ? CheckKeys(at)
                            : op.def->name == "attention_merge" ? CheckMerge(at)
                            : op.def->name == "add"             ? CheckSum(at)
                                                    : absl::OkStatus();
      ASYRA_RETURN_IF_ERROR(status);
    }
    for (const auto& [key, parts] : gradients_) {
      ASYRA_RETURN_IF_ERROR(CheckGradients(parts));
    }
    return CheckOutputs();
  }

 private:
  absl::Status Error(int op, std::string_view message) const {
    return OpError(program_, program_.ops[op], message);
  }
  std::string Name(ValueId value) const {
    return "%" + program_.value_name(value);
  }
  std::string NameOf(int op) const { return Name(program_.ops[op].results[0]); }
  int64_t ShiftOf(int op) const { return program_.ops[op].attrs.Int("shift"); }

  // Keys and values ------------------------------------------------------

  // Returns the devices between a device and that whose keys it sees, as they
  // walked; none where these are not the op's shards.
  std::optional<int64_t> WalkedBy(int op, int operand) const {
    ValueId value = program_.ops[op].operands[operand];
    const Walk& walk = walks_[value];
    if (!walk.IsKnown()) return std::nullopt;
    if (walk.kind == Walk::kInPlace) return 0;
    bool shards =
        program_.mesh.size(walk.axes) == program_.ops[op].attrs.Int("shards") &&
        program_.type(value).dims[1].axes == walk.axes;
    return shards ? std::optional(walk.by) : std::nullopt;
  }

  bool Walks(int op) const {
    return WalkedBy(op, 1).value_or(0) > 0 || WalkedBy(op, 2).value_or(0) > 0;
  }

  // Other values may have been rolled by the owner of the program.
  void FindRoots() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!HasKeyShard(op)) continue;
      for (int k : {1, 2}) {
        if (WalkedBy(static_cast<int>(i), k).value_or(0) == 0) continue;
        roots_.insert(walks_[op.operands[k]].root);
      }
    }
  }

  absl::Status CheckKeys(int at) const {
    const Op& op = program_.ops[at];
    for (int k : {1, 2}) {
      std::optional<int64_t> by = WalkedBy(at, k);
      if (!by.has_value() || *by == ShiftOf(at) ||
          !roots_.contains(walks_[op.operands[k]].root)) {
        continue;
      }
      return Error(at, fmt::format("its {} come from {} before, shift says {}",
                                   k == 1 ? "keys" : "values", Devices(*by),
                                   ShiftOf(at)));
    }
    const Walk &k = walks_[op.operands[1]], &v = walks_[op.operands[2]];
    if (!k.IsKnown() || k.kind != v.kind || k.gathered.empty() ||
        k.gathered != v.gathered || k.order == v.order) {
      return absl::OkStatus();
    }
    return Error(at, fmt::format("its keys are {}, its values {}",
                                 OrderText(k.order), OrderText(v.order)));
  }

  // Parts of one attention -----------------------------------------------

  // Compares a part with the first.
  absl::Status CheckShared(int at, int part, int first) const {
    const Op &a = program_.ops[first], &b = program_.ops[part];
    for (std::string_view name : kShared) {
      const AttrValue &x = *a.attrs.Find(name), &y = *b.attrs.Find(name);
      if (x == y) continue;
      return Error(at, fmt::format("{} has {}={}, {} has {}", NameOf(first),
                                   name, ToString(x, program_.mesh),
                                   NameOf(part), ToString(y, program_.mesh)));
    }
    if (SurelyDiffer(program_, def_use_, a.operands[0], b.operands[0])) {
      return Error(at, fmt::format("{} has the queries {}, {} has {}",
                                   NameOf(first), Name(a.operands[0]),
                                   NameOf(part), Name(b.operands[0])));
    }
    const Walk &k = walks_[a.operands[1]], &l = walks_[b.operands[1]];
    if (!k.IsKnown() || !l.IsKnown() || k.gathered != l.gathered ||
        k.order == l.order) {
      return absl::OkStatus();
    }
    return Error(
        at, fmt::format("the keys of {} are {}, those of {} {}", NameOf(first),
                        OrderText(k.order), NameOf(part), OrderText(l.order)));
  }

  // Adds parts, each shift once.
  absl::Status Add(int at, const Parts& more, Parts* parts) const {
    parts->complete = parts->complete && more.complete;
    if (more.first < 0) return absl::OkStatus();
    if (parts->first < 0) parts->first = more.first;
    ASYRA_RETURN_IF_ERROR(CheckShared(at, more.first, parts->first));
    for (const auto& [shift, op] : more.by_shift) {
      auto [found, fresh] = parts->by_shift.try_emplace(shift, op);
      if (fresh) continue;
      return Error(at,
                   found->second == op
                       ? fmt::format("{} is merged twice", NameOf(op))
                       : fmt::format("{} and {} both have shift {}",
                                     NameOf(found->second), NameOf(op), shift));
    }
    return absl::OkStatus();
  }

  // Returns the shards that rows see and no part has; none where it is unknown
  // which they see.
  std::vector<int64_t> Missing(const Parts& parts) {
    if (parts.first < 0) return {};
    const Op& op = program_.ops[parts.first];
    const Type& k = program_.type(op.operands[1]);
    int64_t shards = op.attrs.Int("shards");
    std::vector<Type> types;
    for (ValueId operand : op.operands) {
      types.push_back(program_.type(operand).Local(program_.mesh));
    }
    int64_t rows = types[0].size(1), keys = types[1].size(1), work = 0;
    if (rows == 0 || keys != k.size(1) / shards ||
        __builtin_mul_overflow(shards, shards, &work) ||
        __builtin_mul_overflow(work, std::max<int64_t>(1, keys / rows),
                               &work) ||
        work > kMostPairs) {
      return {};
    }
    OpCall local{*op.def, op.attrs, types, {}};
    std::vector<int64_t> missing;
    for (int64_t shift = 0; shift < shards; ++shift) {
      if (!parts.by_shift.contains(shift) && ops::SeesShard(local, shift)) {
        missing.push_back(shift);
      }
    }
    return missing;
  }

  // Merges ---------------------------------------------------------------

  absl::Status CheckMerge(int at) {
    const Op& op = program_.ops[at];
    Parts& parts = merges_[at];
    for (size_t k = 0; k + 1 < op.operands.size(); k += 2) {
      int y = def_use_.def[op.operands[k]],
          l = def_use_.def[op.operands[k + 1]];
      bool from_y = y >= 0 && IsPart(y), from_l = l >= 0 && IsPart(l);
      if (from_y && from_l && y != l) {
        return Error(at, fmt::format("operand {} is of {}, its log sums of {}",
                                     k, NameOf(y), NameOf(l)));
      }
      auto merge = merges_.find(y);
      if (from_y && from_l && merge != merges_.end()) {
        ASYRA_RETURN_IF_ERROR(Add(at, merge->second, &parts));
      } else if (from_y && from_l && HasKeyShard(program_.ops[y])) {
        ASYRA_RETURN_IF_ERROR(Add(at, {{{ShiftOf(y), y}}, y}, &parts));
      } else {
        parts.complete = false;
      }
    }
    bool is_last = absl::c_any_of(op.results, [&](ValueId result) {
      return def_use_.output_uses[result] > 0 ||
             absl::c_any_of(def_use_.uses[result], [&](int use) {
               return program_.ops[use].def != op.def;
             });
    });
    if (!is_last || !parts.complete) return absl::OkStatus();
    std::vector<int64_t> missing = Missing(parts);
    if (missing.empty()) return absl::OkStatus();
    return Error(at, fmt::format("it has no part of shift {}, which rows see",
                                 missing[0]));
  }

  bool IsPart(int op) const {
    std::string_view name = program_.ops[op].def->name;
    return name == "attention" || name == "attention_merge";
  }

  // Gradients ------------------------------------------------------------

  // Gradients of one attention have the same results and gradients of them.
  using Key = std::pair<ValueId, ValueId>;
  Key KeyOf(const Op& op) const {
    return {op.operands[ops::kGradY], op.operands[ops::kGradDy]};
  }

  void FindGradients() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!IsKeyGradient(op)) continue;
      gradients_[KeyOf(op)].push_back(static_cast<int>(i));
    }
  }

  absl::Status CheckGradients(const std::vector<int>& ops) {
    Parts parts;
    parts.first = ops[0];
    for (int op : ops) {
      ASYRA_RETURN_IF_ERROR(CheckShared(op, op, ops[0]));
      parts.by_shift.emplace(ShiftOf(op), op);
    }
    if (parts.by_shift.size() < 2 && !Walks(ops[0])) return absl::OkStatus();
    for (int64_t shift : Missing(parts)) {
      if (HasOther(ops[0], shift, -1)) continue;
      return Error(ops[0], fmt::format("no other has the gradients of shift "
                                       "{}, which rows see",
                                       shift));
    }
    for (int result : {0, 1, 2}) {
      ASYRA_RETURN_IF_ERROR(CheckUsed(ops, result));
    }
    return absl::OkStatus();
  }

  // Finds the values on which outputs depend.
  void FindUsed() {
    used_.resize(program_.values.size());
    for (const Output& output : program_.outputs) used_[output.value] = true;
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const Op& op = program_.ops[i];
      bool used = absl::c_any_of(op.results,
                                 [&](ValueId result) { return used_[result]; });
      for (ValueId operand : op.operands) {
        if (used) used_[operand] = true;
      }
    }
  }

  // A result that is used of some parts is used of all.
  absl::Status CheckUsed(const std::vector<int>& ops, int result) const {
    std::map<int64_t, std::pair<int, bool>> used;  // by shift: an op
    bool any = false;
    for (int op : ops) {
      bool now = used_[program_.ops[op].results[result]];
      auto& found = used.try_emplace(ShiftOf(op), op, false).first->second;
      found.second = found.second || now;
      any = any || now;
    }
    for (const auto& [shift, of] : used) {
      if (!any || of.second || HasOther(of.first, shift, result)) continue;
      return Error(of.first,
                   fmt::format("no output depends on {}, where those of other "
                               "shards count",
                               Name(program_.ops[of.first].results[result])));
    }
    return absl::OkStatus();
  }

  // Returns whether an op of other operands might be one of the same gradients
  // of that shift, whose result is used.
  bool HasOther(int at, int64_t shift, int result) const {
    const Op& op = program_.ops[at];
    for (const auto& [key, ops] : gradients_) {
      if (key == KeyOf(op) ||
          SurelyDiffer(program_, def_use_, key.second, KeyOf(op).second)) {
        continue;
      }
      for (int other : ops) {
        if (ShiftOf(other) == shift &&
            (result < 0 || used_[program_.ops[other].results[result]])) {
          return true;
        }
      }
    }
    return false;
  }

  static bool HasKeys(const Walk& walk) {
    return absl::c_any_of(
        walk.sum, [](const GradientPart& part) { return part.result > 0; });
  }

  // Addends that are gradients, of keys that are on the same device.
  absl::Status CheckSum(int at) const {
    const Op& op = program_.ops[at];
    const Walk &a = walks_[op.operands[0]], &b = walks_[op.operands[1]];
    if (a.sum.empty() || b.sum.empty()) return absl::OkStatus();
    bool comparable = a.kind != b.kind || a.axes == b.axes;
    if (comparable && a.by != b.by && (HasKeys(a) || HasKeys(b))) {
      return Error(at, fmt::format("{} has gradients of keys that come from "
                                   "{} before, {} from {}",
                                   Name(op.operands[0]), Devices(a.by),
                                   Name(op.operands[1]), Devices(b.by)));
    }
    std::vector<GradientPart> both;
    absl::c_set_intersection(a.sum, b.sum, std::back_inserter(both));
    for (const GradientPart& part : both) {
      if (HasAll(a, part) && HasAll(b, part)) continue;
      return Error(
          at, fmt::format("it adds {} twice",
                          Name(program_.ops[part.op].results[part.result])));
    }
    if (!AreOfOne(a, b) || a.order == b.order) return absl::OkStatus();
    return Error(at, fmt::format("the gradients {} are {}, {} {}",
                                 Name(op.operands[0]), OrderText(a.order),
                                 Name(op.operands[1]), OrderText(b.order)));
  }

  // Returns whether a sum has all parts of the gradient that `part` is of: it
  // may then be added to itself.
  bool HasAll(const Walk& walk, const GradientPart& part) const {
    const std::vector<int>& ops = gradients_.at(KeyOf(program_.ops[part.op]));
    return absl::c_all_of(ops, [&](int op) {
      return absl::c_binary_search(walk.sum, GradientPart{op, part.result});
    });
  }

  // Returns whether both have gradients of the same keys alone.
  bool AreOfOne(const Walk& a, const Walk& b) const {
    auto keys = [&](const GradientPart& part) {
      return walks_[program_.ops[part.op].operands[part.result]].root;
    };
    auto same = [&](const GradientPart& part) {
      return part.result > 0 && keys(part) == keys(a.sum[0]);
    };
    return absl::c_all_of(a.sum, same) && absl::c_all_of(b.sum, same);
  }

  absl::Status CheckOutputs() const {
    for (const Output& output : program_.outputs) {
      const Walk& walk = walks_[output.value];
      if (walk.kind != Walk::kWalked || !HasKeys(walk)) continue;
      return Invalid("output {} has gradients of keys that come from {} before",
                     Name(output.value), Devices(walk.by));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const DefUse& def_use_;
  const std::vector<Walk> walks_;
  std::set<ValueId> roots_;                    // of keys that walk
  std::vector<bool> used_;                     // by value
  std::map<int, Parts> merges_;                // by op
  std::map<Key, std::vector<int>> gradients_;  // ops
};

}  // namespace

absl::Status VerifyWalks(const Program& program, const DefUse& def_use) {
  if (!absl::c_any_of(program.ops, HasKeyShard)) return absl::OkStatus();
  return WalkRules(program, def_use).Verify();
}

}  // namespace asyra
