#include "passes/raise/attention_mask.h"

#include <algorithm>
#include <deque>

#include "absl/algorithm/container.h"
#include "passes/raise/attention_hide.h"

namespace asyra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Biases up to here cause no more rounding than another order of summation.
constexpr double kLargestBias = 1e5;

using Hides = std::vector<const Hide*>;
using Found = absl::StatusOr<std::optional<AttentionMask>>;

ValueId Number(Rewriter& to, DType dtype, double value) {
  return to.Constant(Tensor::FromDoubles(dtype, {}, {value}));
}

absl::StatusOr<ValueId> AllOf(Rewriter& to, const std::vector<ValueId>& seen) {
  ValueId all = seen[0];
  for (size_t i = 1; i < seen.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(all, to.Add("and", {all, seen[i]}));
  }
  return all;
}

// kNoValue for no summands. Of several types, in f32, as scores are.
absl::StatusOr<ValueId> SumOf(Rewriter& to, std::vector<ValueId> summands) {
  bool differ = absl::c_any_of(summands, [&](ValueId value) {
    return to.type(value).dtype != to.type(summands[0]).dtype;
  });
  ValueId sum = kNoValue;
  for (ValueId value : summands) {
    if (differ) {
      ASYRA_ASSIGN_OR_RETURN(value,
                             to.Add("cast", {value}, {{"to", DType::kF32}}));
    }
    if (sum == kNoValue) {
      sum = value;
    } else {
      ASYRA_ASSIGN_OR_RETURN(sum, to.Add("add", {sum, value}));
    }
  }
  return sum;
}

class Combiner {
 public:
  Combiner(Rewriter& to, const ScoreShape& scores, std::string* why)
      : to_(to), scores_(scores), why_(why) {}

  absl::Status Read(absl::Span<const MaskStep> steps) {
    for (const MaskStep& step : steps) {
      ASYRA_ASSIGN_OR_RETURN(Hide hide, ReadStep(to_, step));
      if (hide.kind != Hide::kNothing) hides_.push_back(std::move(hide));
    }
    return absl::OkStatus();
  }

  Found Run() {
    using Method = Found (Combiner::*)();
    for (Method method : {&Combiner::WhereEveryRowSees, &Combiner::ByInfinity,
                          &Combiner::ByOneNumber, &Combiner::ByBand,
                          &Combiner::ByInfinityAndOthers, &Combiner::Whole}) {
      ASYRA_ASSIGN_OR_RETURN(std::optional<AttentionMask> mask,
                             (this->*method)());
      if (mask.has_value()) return mask;
    }
    return std::nullopt;
  }

 private:
  template <typename Is>
  Hides Those(Is is) const {
    Hides those;
    for (const Hide& hide : hides_) {
      if (is(hide)) those.push_back(&hide);
    }
    return those;
  }
  Hides Hiding() const {
    return Those([](const Hide& hide) { return hide.hides(); });
  }
  Hides Biases() const {
    return Those([](const Hide& hide) { return hide.kind == Hide::kBias; });
  }

  static bool IsSmall(const Hide& hide) {
    double most = std::min(kLargestBias, -LowNumber(hide.dtype) / 100);
    return hide.kind == Hide::kBias && hide.range.low >= -most &&
           hide.range.high <= most;
  }

  // Returns whether adding these one by one gives the same scores as adding
  // their sum.
  bool AddsUp(const Hides& added) {
    Hides large, small;
    for (const Hide* hide : added) {
      if (IsSmall(*hide)) {
        small.push_back(hide);
      } else if (!Absorbs(hide->gate, hide->dtype)) {
        large.push_back(hide);
      }
    }
    if (absl::c_any_of(large, [](const Hide* hide) { return hide->rounds; })) {
      *why_ = "a finite mask is scaled after it is added, which rounds scores";
      return false;
    }
    if (large.empty() || (large.size() == 1 && small.empty())) return true;
    // Keys that both hide have weight 0: each row has a key that one of them
    // does not hide.
    bool pair = large.size() == 2 && small.empty() &&
                absl::c_all_of(large, [](const Hide* hide) {
                  return hide->gate <= LowNumber(hide->dtype);
                });
    if (pair && absl::c_any_of(large, [&](const Hide* hide) {
          return hide->hides() && EveryRowSees(to_, {hide}, scores_);
        })) {
      return true;
    }
    *why_ =
        "masks and biases are added in an order that matters to rows that may "
        "see no key";
    return false;
  }

  // Attributes and bool masks for `hiding`, the others added.
  AttentionMask MaskOf(double hidden, const Hides& hiding,
                       const Hides& added) const {
    AttentionMask mask = {.hidden = hidden};
    double lowest = hidden;
    for (const Hide* hide : hiding) {
      mask.band = Both(mask.band, hide->band);
      mask.seen.insert(mask.seen.end(), hide->seen.begin(), hide->seen.end());
    }
    if (hiding.empty()) lowest = 0;
    for (const Hide* hide : added) {
      mask.added.push_back(hide->added);
      lowest += std::min(0.0, hide->range.low);
    }
    DType dtype = hides_.empty() ? DType::kF32 : hides_.back().dtype;
    mask.may_be_empty = lowest < LowestNumber(dtype);
    return mask;
  }

  // Each row has a key that no mask hides, so that the number by which the
  // others are hidden does not matter.
  Found WhereEveryRowSees() {
    Hides hiding = Hiding(), biases = Biases();
    bool low =
        absl::c_all_of(hiding, [](const Hide* h) { return h->is_low(); });
    bool small =
        absl::c_all_of(biases, [](const Hide* h) { return IsSmall(*h); });
    if (!low || !small || !EveryRowSees(to_, hiding, scores_)) {
      return std::nullopt;
    }
    AttentionMask mask = MaskOf(-kInfinity, hiding, biases);
    mask.may_be_empty = false;
    return mask;
  }

  // Hides by -inf: nothing brings back what it has hidden.
  Found ByInfinity() {
    Hides hiding = Hiding(), biases = Biases();
    bool infinite = absl::c_all_of(
        hiding, [](const Hide* h) { return h->number == -kInfinity; });
    if (hiding.empty() || !infinite || !AddsUp(biases)) return std::nullopt;
    return MaskOf(-kInfinity, hiding, biases);
  }

  // Hidden scores are one and the same number, by whichever mask.
  Found ByOneNumber() {
    Hides hiding = Hiding();
    if (hiding.empty() || hiding.size() != hides_.size()) return std::nullopt;
    double number = hiding[0]->number;
    for (const Hide* hide : hiding) {
      bool replaces = hide->kind == Hide::kOverrides ||
                      (hide == hiding[0] && Absorbs(number, hide->dtype));
      if (hide->number != number || !replaces) return std::nullopt;
    }
    AttentionMask mask = MaskOf(number, hiding, {});
    // A choice that is added already can be the operand as it is.
    bool as_it_is = hiding.size() == 1 && hiding[0]->kind == Hide::kAdds;
    if (as_it_is && !mask.band.any()) return std::nullopt;
    return mask;
  }

  // A band hides keys, and the other masks are added, also to hidden scores.
  Found ByBand() {
    for (const Hide& band : hides_) {
      bool only_a_band = band.hides() && band.seen.empty() && band.band.any();
      bool replaces = band.kind == Hide::kOverrides
                          ? &band == &hides_.front()
                          : Absorbs(band.number, band.dtype);
      Hides others = Those([&](const Hide& hide) { return &hide != &band; });
      bool added = absl::c_all_of(others, [](const Hide* hide) {
        return hide->kind != Hide::kOverrides;
      });
      if (only_a_band && replaces && added && AddsUp(others)) {
        return MaskOf(band.number, {&band}, others);
      }
    }
    return std::nullopt;
  }

  // Hides by -inf, like ByInfinity, with finite masks added to the scores.
  Found ByInfinityAndOthers() {
    Hides infinite = Those([](const Hide& hide) {
      return hide.hides() && hide.number == -kInfinity;
    });
    Hides others = Those([](const Hide& hide) {
      return !hide.hides() || hide.number != -kInfinity;
    });
    bool added = absl::c_all_of(others, [](const Hide* hide) {
      return hide->kind != Hide::kOverrides;
    });
    if (infinite.empty() || !added || !AddsUp(others)) return std::nullopt;
    return MaskOf(-kInfinity, infinite, others);
  }

  // Returns all masks as one added mask: an overridden score gets a value that
  // absorbs it.
  Found Whole() {
    Hides added;
    std::deque<Hide> overridden;
    for (const Hide& hide : hides_) {
      if (hide.kind != Hide::kOverrides) {
        added.push_back(&hide);
        continue;
      }
      // The lowest half does not absorb scores in f32.
      bool absorbs = hide.dtype != DType::kF16 || hide.number == -kInfinity;
      absorbs = absorbs && Absorbs(hide.number, hide.dtype);
      if (!absorbs || hide.step.mask == kNoValue) {
        *why_ = WhyNotAdded(hide);
        return std::nullopt;
      }
      if (!AddsUp(added)) return std::nullopt;
      ASYRA_ASSIGN_OR_RETURN(Hide whole, Overridden(hide, added));
      overridden.push_back(std::move(whole));
      added = {&overridden.back()};
    }
    if (!AddsUp(added)) return std::nullopt;
    return MaskOf(-kInfinity, {}, added);
  }

  // Returns the reason why no added mask stands for `hide`, which overrides
  // scores.
  std::string WhyNotAdded(const Hide& hide) const {
    for (const Hide* other : Hiding()) {
      if (other->number == hide.number) continue;
      return fmt::format(
          "keys are hidden by {:g} and by {:g}, the op has one number for them",
          hide.number, other->number);
    }
    return fmt::format(
        "scores are replaced by {:g}, and no mask that is added does so",
        hide.number);
  }

  // select(condition, sum of added masks, number), as a mask to be added.
  absl::StatusOr<Hide> Overridden(const Hide& hide, const Hides& added) {
    Hide whole = {.kind = Hide::kBias, .dtype = hide.dtype};
    std::vector<ValueId> summands;
    for (const Hide* summand : added) {
      summands.push_back(summand->added);
      whole.range.low += std::min(0.0, summand->range.low);
      whole.range.high += std::max(0.0, summand->range.high);
    }
    if (added.empty()) whole.gate = hide.number;
    whole.range.low = std::min(whole.range.low, hide.number);
    ASYRA_ASSIGN_OR_RETURN(ValueId yes, SumOf(to_, summands));
    if (yes == kNoValue) yes = Number(to_, hide.dtype, 0);
    ValueId no = Number(to_, to_.type(yes).dtype, hide.number);
    if (!hide.step.seen) std::swap(yes, no);
    ASYRA_ASSIGN_OR_RETURN(whole.added,
                           to_.Add("select", {hide.step.mask, yes, no}));
    return whole;
  }

  Rewriter& to_;
  ScoreShape scores_;
  std::string* why_;
  std::vector<Hide> hides_;
};

}  // namespace

absl::StatusOr<std::optional<AttentionMask>> CombineMasks(
    Rewriter& to, absl::Span<const MaskStep> steps, const ScoreShape& scores,
    std::string* why) {
  Combiner combiner(to, scores, why);
  ASYRA_RETURN_IF_ERROR(combiner.Read(steps));
  return combiner.Run();
}

absl::StatusOr<ValueId> MaskOperand(Rewriter& to, const AttentionMask& mask,
                                    const ScoreShape& scores) {
  ASYRA_ASSIGN_OR_RETURN(ValueId whole, SumOf(to, mask.added));
  if (!mask.seen.empty()) {
    ASYRA_ASSIGN_OR_RETURN(ValueId all, AllOf(to, mask.seen));
    if (whole == kNoValue) {
      whole = all;
    } else {
      ValueId hidden = Number(to, to.type(whole).dtype, -kInfinity);
      ASYRA_ASSIGN_OR_RETURN(whole, to.Add("select", {all, whole, hidden}));
    }
  }
  if (whole == kNoValue) return kNoValue;
  Shape shape = to.type(whole).shape();
  if (scores.rank == 3 && shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  shape.insert(shape.begin(), 4 - std::min<size_t>(4, shape.size()), 1);
  return to.Reshape(whole, shape);
}

}  // namespace asyra
