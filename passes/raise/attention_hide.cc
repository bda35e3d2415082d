#include "passes/raise/attention_hide.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "passes/rewrite/value_range.h"

namespace asyra {
namespace {

// Rounded to the type: numbers beyond its range are infinite.
double RoundTo(DType dtype, double number) {
  return Tensor::FromDoubles(dtype, {}, {number}).Get(0);
}

bool IsPowerOfTwo(double number) {
  int exponent;
  return std::abs(std::frexp(number, &exponent)) == 0.5;
}

// One condition by itself.
void ReadPart(Rewriter& in, ValueId seen, Hide* hide) {
  double number;
  const Fact& fact = in.fact(seen);
  if (fact.IsUniform(&number) && number != 0) return;
  KeyBand band;
  if (fact.IsMask(1, 0) && ReadBand(fact, &band)) {
    hide->band = Both(hide->band, band);
    return;
  }
  hide->seen.push_back(seen);
}

// Keys are seen where `condition` is `seen`; each of a conjunction by itself.
absl::Status ReadCondition(Rewriter& to, ValueId condition, bool seen,
                           Hide* hide) {
  const Fact& fact = to.fact(condition);
  const Op* op = to.Def(condition);
  std::string_view name = op == nullptr ? "" : op->def->name;
  if (fact.kind == Fact::kUnknown && name == (seen ? "and" : "or")) {
    ASYRA_RETURN_IF_ERROR(ReadCondition(to, op->operands[0], seen, hide));
    return ReadCondition(to, op->operands[1], seen, hide);
  }
  if (fact.kind == Fact::kUnknown && name == "not") {
    return ReadCondition(to, op->operands[0], !seen, hide);
  }
  // Attention broadcasts its mask itself.
  if (fact.kind == Fact::kUnknown && name == "broadcast") {
    return ReadCondition(to, op->operands[0], seen, hide);
  }
  if (!seen) {
    ASYRA_ASSIGN_OR_RETURN(condition, to.Add("not", {condition}));
  }
  ReadPart(to, condition, hide);
  return absl::OkStatus();
}

// Recognises select(condition, 0, number), with branches in any order, or a
// value known to be such a band. False for other masks.
absl::StatusOr<bool> ReadChoice(Rewriter& to, ValueId mask, double factor,
                                Hide* hide) {
  const Fact& fact = to.fact(mask);
  if (fact.kind == Fact::kPredicate && fact.yes == 0 &&
      ReadBand(fact, &hide->band)) {
    hide->number = RoundTo(hide->dtype, fact.no * factor);
    return hide->is_low();
  }
  hide->band = {};
  const Op* select = to.Def(mask, "select");
  double yes = 0, no = 0;
  if (select == nullptr || !to.Uniform(select->operands[1], &yes) ||
      !to.Uniform(select->operands[2], &no) || (yes == 0) == (no == 0)) {
    return false;
  }
  hide->number = RoundTo(hide->dtype, (yes == 0 ? no : yes) * factor);
  if (!hide->is_low()) return false;
  ASYRA_RETURN_IF_ERROR(ReadCondition(to, select->operands[0], yes == 0, hide));
  return true;
}

// The number that a mask adds where it hides a key, and 0 elsewhere: x * number
// or select(.., 0, number). x, 1 - mask or similar, is not known to be 0 or 1,
// but values between are large too. 0: not such a mask.
double GateOf(Rewriter& in, ValueId mask) {
  double number, other;
  const Op* op = in.Def(mask);
  while (op != nullptr &&
         (op->def->name == "reshape" || op->def->name == "broadcast" ||
          op->def->name == "transpose" || op->def->name == "cast")) {
    op = in.Def(op->operands[0]);
  }
  if (op == nullptr) return 0;
  if (op->def->name == "mul" && (in.Uniform(op->operands[0], &number) ||
                                 in.Uniform(op->operands[1], &number))) {
    return number;
  }
  bool chooses = op->def->name == "select" &&
                 in.Uniform(op->operands[1], &number) &&
                 in.Uniform(op->operands[2], &other) && number * other == 0;
  return chooses ? number + other : 0;
}

absl::StatusOr<Hide> ReadAdded(Rewriter& to, const MaskStep& step) {
  Hide hide = {.kind = Hide::kBias, .dtype = step.dtype, .added = step.mask};
  double number;
  if (to.Uniform(step.mask, &number) && number == 0) return Hide();
  Range range = BoundsOf(to, step.mask);
  hide.range = {range.low * step.factor, range.high * step.factor};
  if (step.factor < 0) std::swap(hide.range.low, hide.range.high);
  if (step.factor != 1) {
    ValueId factor = to.Constant(
        Tensor::FromDoubles(to.type(step.mask).dtype, {}, {step.factor}));
    ASYRA_ASSIGN_OR_RETURN(hide.added, to.Add("mul", {step.mask, factor}));
    hide.rounds = !IsPowerOfTwo(step.factor);
  }
  hide.gate = RoundTo(step.dtype, GateOf(to, step.mask) * step.factor);
  Hide choice = hide;
  ASYRA_ASSIGN_OR_RETURN(bool chooses,
                         ReadChoice(to, step.mask, step.factor, &choice));
  if (!chooses) return hide;
  choice.kind = Hide::kAdds;
  choice.gate = choice.number;
  return choice;
}

// offset + query i + key j >= 0.
struct Inequality {
  double offset, query, key;
};

// The inequalities for visible keys; false if some are unknown.
bool Inequalities(Rewriter& in, const Hide& hide,
                  std::vector<Inequality>* all) {
  if (hide.band.causal) all->push_back({0, 1, -1});
  if (hide.band.window > 0) {
    all->push_back({static_cast<double>(hide.band.window - 1), -1, 1});
  }
  for (ValueId seen : hide.seen) {
    const Fact& fact = in.fact(seen);
    if (!fact.IsMask(1, 0)) return false;
    for (const Affine& affine : fact.all) {
      size_t rank = affine.strides.size();
      for (size_t d = 0; d + 2 < rank; ++d) {
        if (affine.strides[d] != 0) return false;
      }
      if (rank < 1) return false;
      all->push_back({affine.offset, rank < 2 ? 0 : affine.strides[rank - 2],
                      affine.strides[rank - 1]});
    }
  }
  return true;
}

}  // namespace

double LowNumber(DType dtype) {
  // The lowest half is -65504; scores do not come near either.
  return dtype == DType::kF16 ? -3e4 : -1e9;
}

bool Absorbs(double number, DType dtype) {
  return number <= LowestNumber(dtype) / 2;
}

double LowestNumber(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return -65504;
    case DType::kBF16:
      return -3.3895313892515355e38;
    case DType::kF64:
      return std::numeric_limits<double>::lowest();
    default:
      return std::numeric_limits<float>::lowest();
  }
}

bool ReadBand(const Fact& fact, KeyBand* band) {
  for (const Affine& affine : fact.all) {
    size_t rank = affine.strides.size();
    if (rank < 2) return false;
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (affine.strides[d] != 0) return false;
    }
    double i = affine.strides[rank - 2], j = affine.strides[rank - 1];
    if (i == 1 && j == -1 && affine.offset == 0) {
      *band = Both(*band, {true, 0});
    } else if (i == -1 && j == 1 && affine.offset >= 0) {
      *band = Both(*band, {false, static_cast<int64_t>(affine.offset) + 1});
    } else {
      return false;
    }
  }
  return true;
}

KeyBand Both(const KeyBand& a, const KeyBand& b) {
  int64_t window = std::min(a.window, b.window);
  return {a.causal || b.causal,
          window > 0 ? window : std::max(a.window, b.window)};
}

absl::StatusOr<Hide> ReadStep(Rewriter& to, const MaskStep& step) {
  if (step.kind == MaskStep::kAdd) return ReadAdded(to, step);
  Hide hide = {.kind = Hide::kOverrides,
               .dtype = step.dtype,
               .number = RoundTo(step.dtype, step.hidden),
               .band = step.band,
               .step = step};
  if (step.mask != kNoValue) {
    ASYRA_RETURN_IF_ERROR(ReadCondition(to, step.mask, step.seen, &hide));
  }
  return hide.seen.empty() && !hide.band.any() ? Hide() : hide;
}

bool EveryRowSees(Rewriter& in, absl::Span<const Hide* const> hides,
                  const ScoreShape& scores) {
  std::vector<Inequality> all;
  for (const Hide* hide : hides) {
    if (!Inequalities(in, *hide, &all)) return false;
  }
  // Keys that may be seen by all rows i: key offset + slope i.
  auto rows = static_cast<double>(scores.queries);
  auto keys = static_cast<double>(scores.keys);
  const std::pair<double, double> candidates[] = {
      {0, 0}, {0, 1}, {keys - rows, 1}, {keys - 1, 0}};
  return absl::c_any_of(candidates, [&](std::pair<double, double> candidate) {
    auto [first, slope] = candidate;
    double last = first + slope * (rows - 1);
    if (first < 0 || first >= keys || last < 0 || last >= keys) return false;
    return absl::c_all_of(all, [&, first = first](const Inequality& a) {
      return a.offset + a.key * first >= 0 &&
             a.offset + a.query * (rows - 1) + a.key * last >= 0;
    });
  });
}

}  // namespace asyra
