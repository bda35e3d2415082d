#include "passes/train/loss_parts.h"

#include <cmath>
#include <optional>

#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/train/batch_sums.h"

namespace asyra {
namespace {

// The most that is added to a count so that it is not 0.
constexpr double kMostEpsilon = 1e-5;

struct Quotient {
  ValueId sum, count;  // in the builder
};

class Splitter {
 public:
  Splitter(const Program& program, std::vector<BatchUse> uses, bool guarded,
           const std::vector<ValueId>& map, Builder& builder)
      : program_(program),
        def_use_(program),
        uses_(std::move(uses)),
        guarded_(guarded),
        map_(map),
        builder_(builder),
        of_weights_(program.values.size(), false) {
    for (const Input& input : program.inputs) {
      of_weights_[input.value] = IsWeight(input);
    }
    for (const Op& op : program.ops) {
      for (ValueId operand : op.operands) {
        if (!of_weights_[operand]) continue;
        for (ValueId result : op.results) of_weights_[result] = true;
      }
    }
  }

  absl::StatusOr<LossParts> Run(ValueId loss) {
    switch (uses_[loss]) {
      case BatchUse::kSum:
        return LossParts{.form = LossForm::kSum};
      case BatchUse::kMean:
      case BatchUse::kFixed:
        return LossParts{.form = LossForm::kMean};
      default:
        break;
    }
    ASYRA_ASSIGN_OR_RETURN(std::optional<Quotient> parts, Split(loss));
    if (!parts.has_value()) return LossParts{.why_not = why_not_};
    return LossParts{LossForm::kQuotient, parts->sum, parts->count, ""};
  }

 private:
  using Result = absl::StatusOr<std::optional<Quotient>>;

  bool Is(ValueId value, BatchUse use) const { return uses_[value] == use; }

  const Op* Def(ValueId value) const {
    int def = def_use_.def[value];
    return def < 0 ? nullptr : &program_.ops[def];
  }

  Result Split(ValueId value) {
    const Op* op = Def(value);
    if (op == nullptr) return std::optional<Quotient>();
    std::string_view name = op->def->name;
    if (name == "cast" || name == "reshape" || name == "neg") {
      return Rest(*op, 0);
    }
    if (op->operands.size() == 2) {
      ValueId a = op->operands[0], b = op->operands[1];
      if (name == "div" && Is(b, BatchUse::kFixed)) return Rest(*op, 0);
      if (name == "div") return OfDivision(*op, a, b);
      if (name == "mul" && Is(b, BatchUse::kFixed)) return Rest(*op, 0);
      if (name == "mul" && Is(a, BatchUse::kFixed)) return Rest(*op, 1);
      if (name == "mul" && IsInverse(b)) {
        return OfDivision(*op, a, Def(b)->operands[0]);
      }
      if (name == "mul" && IsInverse(a)) {
        return OfDivision(*op, b, Def(a)->operands[0]);
      }
      if (name == "add" || name == "sub") return OfSum(*op);
    }
    return Fail(*op);
  }

  // Names the first op on the way that is neither.
  Result Fail(const Op& op) {
    const Op* first = &op;
    for (bool above = true; above;) {
      above = false;
      for (ValueId operand : first->operands) {
        if (above || !Is(operand, BatchUse::kMixed)) continue;
        above = Def(operand) != nullptr;
        if (above) first = Def(operand);
      }
    }
    if (why_not_.empty()) why_not_ = ToString(program_, *first);
    return std::optional<Quotient>();
  }

  bool IsSumOrMean(ValueId value) const {
    return Is(value, BatchUse::kSum) || Is(value, BatchUse::kMean);
  }

  bool IsInverse(ValueId value) const {
    const Op* op = Def(value);
    return op != nullptr && op->def->name == "reciprocal";
  }

  // The op is linear in operand k: it is done with the sum.
  Result Rest(const Op& op, size_t k) {
    if (IsSumOrMean(op.operands[k])) return Fail(op);
    ASYRA_ASSIGN_OR_RETURN(std::optional<Quotient> parts,
                           Split(op.operands[k]));
    if (!parts.has_value()) return parts;
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(map_[operand]);
    operands[k] = parts->sum;
    ASYRA_ASSIGN_OR_RETURN(parts->sum,
                           builder_.AddOne(op.def->name, operands, op.attrs));
    return parts;
  }

  Result OfDivision(const Op& op, ValueId a, ValueId b) {
    b = WithoutGuard(b);
    bool sums = Is(a, BatchUse::kSum) && Is(b, BatchUse::kSum);
    bool means = Is(a, BatchUse::kMean) && Is(b, BatchUse::kMean);
    if ((!sums && !means) || of_weights_[b]) return Fail(op);
    return std::optional<Quotient>({map_[a], map_[b]});
  }

  ValueId WithoutGuard(ValueId value) const {
    const Op* op = Def(value);
    if (!guarded_ || op == nullptr || op->operands.size() != 2) return value;
    for (int k : {0, 1}) {
      std::optional<double> number = NumberOf(op->operands[k]);
      if (!number.has_value()) continue;
      bool guards = op->def->name == "max" ? *number > 0 && *number <= 1
                    : op->def->name == "add"
                        ? *number > 0 && *number <= kMostEpsilon
                        : false;
      if (guards) return op->operands[1 - k];
    }
    return value;
  }

  std::optional<double> NumberOf(ValueId value) const {
    const Op* op = Def(value);
    if (op == nullptr || op->def->name != "constant") return std::nullopt;
    const auto& tensor = op->attrs.Get<Tensor>("value");
    if (tensor.num_elements() != 1) return std::nullopt;
    return tensor.Get(0);
  }

  // Quotients of one count, and what no data is in.
  Result OfSum(const Op& op) {
    std::optional<Quotient> parts[2];
    bool mixes = false;
    for (int k : {0, 1}) {
      mixes |= IsSumOrMean(op.operands[k]);
      bool splits = Is(op.operands[k], BatchUse::kMixed) ||
                    Is(op.operands[k], BatchUse::kRows);
      if (!splits) continue;
      ASYRA_ASSIGN_OR_RETURN(parts[k], Split(op.operands[k]));
      if (!parts[k].has_value()) return parts[k];
    }
    if (mixes) return Fail(op);
    ValueId count = parts[0].has_value() ? parts[0]->count : parts[1]->count;
    std::vector<ValueId> sums;
    for (int k : {0, 1}) {
      if (!parts[k].has_value()) {
        ASYRA_ASSIGN_OR_RETURN(sums.emplace_back(),
                               Times(op.operands[k], count));
        continue;
      }
      if (parts[k]->count != count) return Fail(op);
      sums.push_back(parts[k]->sum);
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId sum,
                           builder_.AddOne(op.def->name, sums, op.attrs));
    return std::optional<Quotient>({sum, count});
  }

  absl::StatusOr<ValueId> Times(ValueId fixed, ValueId count) {
    DType dtype = program_.type(fixed).dtype;
    if (builder_.type(count).dtype != dtype) {
      ASYRA_ASSIGN_OR_RETURN(count,
                             builder_.AddOne("cast", {count}, {{"to", dtype}}));
    }
    return builder_.AddOne("mul", {map_[fixed], count});
  }

  const Program& program_;
  const DefUse def_use_;
  const std::vector<BatchUse> uses_;
  const bool guarded_;
  const std::vector<ValueId>& map_;
  Builder& builder_;
  std::vector<bool> of_weights_;  // by value: some weight is in it
  std::string why_not_;
};

}  // namespace

absl::StatusOr<LossParts> PartsOfLoss(const Program& program,
                                      const DimNames& names, ValueId loss,
                                      bool guarded,
                                      const std::vector<ValueId>& map,
                                      Builder& builder) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<BatchUse> uses, BatchUses(program, names));
  return Splitter(program, std::move(uses), guarded, map, builder).Run(loss);
}

}  // namespace asyra
