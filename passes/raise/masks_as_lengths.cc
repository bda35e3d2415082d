#include "passes/raise/masks_as_lengths.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ir/ops/attention.h"
#include "passes/raise/attention_hide.h"
#include "passes/raise/blind_rows.h"
#include "passes/raise/mask_flow.h"

namespace asyra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Keys that a mask hides, where its input is ones, then zeros: those behind the
// ones, and those outside of a band.
struct Padding {
  KeyBand band;
  double highest = -kInfinity;  // of the scores that hide a key
  bool hides_by_infinity() const { return highest == -kInfinity; }
  void Hides(double score) { highest = std::max(highest, score); }
};

// Reads elements of a mask, where keys may be seen and where none is; false if
// they are others. `seen` and `hidden` are its elements for those: true and
// false, or 0 and scores up to a number.
template <typename IsHidden>
bool ReadElements(const MaskFlow& flow, double seen, IsHidden is_hidden,
                  Padding* padding) {
  auto hides = [&](double number) {
    if (!is_hidden(number)) return false;
    padding->Hides(number);
    return true;
  };
  double number = 0;
  if (flow.zeros.IsUniform(&number)) {
    if (!hides(number)) return false;
  } else if (flow.zeros.kind != Fact::kPredicate || !hides(flow.zeros.yes) ||
             !hides(flow.zeros.no)) {
    return false;
  }
  if (flow.ones.IsUniform(&number)) return number == seen;
  return flow.ones.kind == Fact::kPredicate && flow.ones.yes == seen &&
         hides(flow.ones.no) && ReadBand(flow.ones, &padding->band);
}

// Returns whether all rows see the first key where no mask hides it.
bool AllSeeFirstKey(const AttrMap& attrs, const KeyBand& band, int64_t rows) {
  const int64_t offset = attrs.Int("offset");
  return offset >= 0 && (band.window == 0 || rows - 1 + offset < band.window);
}

class LengthTaker {
 public:
  LengthTaker(Rewriter& to, const Rewriter::NewOp& op) : to_(to), op_(op.op) {
    for (ValueId operand : op_.operands) types_.push_back(to.type(operand));
  }

  absl::StatusOr<ValueId> Run() {
    ops::AttentionExtras extras(types_, ops::kFirstExtra);
    if (extras.mask < 0) return kNoValue;
    if (extras.lengths >= 0) return Keep("is beside lengths");
    if (extras.starts >= 0) return Keep("is beside documents");
    MaskFlow flow;
    std::string why;
    if (!FollowMask(to_, op_.operands[extras.mask], &flow, &why)) {
      return Keep(why);
    }
    Padding padding;
    if (!Read(flow, types_[extras.mask].dtype, &padding)) {
      return Keep(
          fmt::format("hides no keys where %{} is 0, or others where "
                      "it is 1",
                      to_.name(flow.input)));
    }
    return Replace(flow, padding, extras);
  }

 private:
  ValueId Keep(const std::string& why) {
    to_.Note(fmt::format("%{} keeps its mask, which {}", to_.hint(), why));
    return kNoValue;
  }

  // Reads the mask, with what causal and windows of the op hide.
  bool Read(const MaskFlow& flow, DType mask, Padding* padding) const {
    const double hidden = op_.attrs.Float("hidden");
    padding->band = {op_.attrs.Bool("causal"), op_.attrs.Int("window")};
    if (mask == DType::kBool) {
      padding->Hides(hidden);
      Padding elements;
      bool fits =
          hidden <= ops::kAsGoodAsHidden &&
          ReadElements(
              flow, 1, [](double number) { return number == 0; }, &elements);
      padding->band = Both(padding->band, elements.band);
      return fits && CountsFromFirst(elements.band);
    }
    if (padding->band.any() || op_.attrs.Int("window_after") > 0) {
      padding->Hides(hidden);
      if (hidden > ops::kAsGoodAsHidden) return false;
    }
    Padding elements;
    bool fits = ReadElements(
        flow, 0, [&](double number) { return number <= LowNumber(mask); },
        &elements);
    padding->Hides(elements.highest);
    padding->band = Both(padding->band, elements.band);
    return fits && CountsFromFirst(elements.band);
  }

  // Returns whether the op's attributes can say a band of the mask, whose row 0
  // is at key 0.
  bool CountsFromFirst(const KeyBand& band) const {
    return !band.any() || op_.attrs.Int("offset") == 0;
  }

  absl::StatusOr<ValueId> Replace(const MaskFlow& flow, const Padding& padding,
                                  const ops::AttentionExtras& extras) {
    AttrMap attrs = op_.attrs;
    attrs.Set("causal", padding.band.causal);
    attrs.Set("window", padding.band.window);
    attrs.Set("hidden", -kInfinity);
    const int64_t rows = types_[0].size(1);
    int64_t least = 0;
    bool averages = false;
    if (!padding.hides_by_infinity() && extras.sinks < 0) {
      attrs.Set("empty_is_nan", false);
      averages = !AllSeeFirstKey(op_.attrs, padding.band, rows);
      least = averages ? 0 : 1;
    }
    const bool is_bool = types_[extras.mask].dtype == DType::kBool;
    if (averages && (!is_bool || rows == 1)) {
      return Keep(
          "hides keys by a finite number beside a window: rows may see no key");
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId lengths, Lengths(flow, least));
    std::vector<ValueId> operands(op_.operands.begin(), op_.operands.end());
    operands[extras.mask] = lengths;
    return averages ? AverageRowsWithoutKey(to_, operands, attrs)
                    : to_.Add("attention", operands, attrs);
  }

  absl::StatusOr<ValueId> Lengths(const MaskFlow& flow, int64_t least) {
    ASYRA_ASSIGN_OR_RETURN(ValueId mask,
                           to_.Reshape(flow.input, {flow.rows, flow.keys}));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId lengths,
        to_.Add("mask_lengths", {mask},
                {{"input", to_.name(flow.input)}, {"least", least}}));
    const int64_t batch = types_[0].size(0);
    if (flow.rows == batch) return lengths;
    return to_.Add("broadcast", {lengths}, {{"shape", Ints{batch}}});
  }

  Rewriter& to_;
  const Op& op_;
  std::vector<Type> types_;
};

absl::StatusOr<ValueId> TakeLengths(Rewriter& to, const Rewriter::NewOp& op) {
  if (!op.is("attention")) return kNoValue;
  return LengthTaker(to, op).Run();
}

constexpr Rewriter::Rule kRules[] = {TakeLengths};

// Replaces the masks of `program`; `notes` are on those that stay.
absl::StatusOr<bool> ReplaceMasks(Program& program,
                                  std::set<std::string>* notes) {
  Rewriter rewriter(program, kRules);
  ASYRA_RETURN_IF_ERROR(rewriter.CopyAll());
  notes->insert(rewriter.notes().begin(), rewriter.notes().end());
  return rewriter.Finish(program);
}

// Returns the inputs whose rows have lengths, as "%m, %n"; empty for none.
std::string InputsOfLengths(const Program& program) {
  std::set<std::string> inputs;
  for (const Op& op : program.ops) {
    if (op.def->name != "mask_lengths") continue;
    inputs.insert("%" + op.attrs.Get<std::string>("input"));
  }
  return fmt::format("{}", fmt::join(inputs, ", "));
}

}  // namespace

absl::StatusOr<bool> MasksAsLengths(Program& program,
                                    const PassOptions& options,
                                    PassContext& context) {
  const bool only_says = options.Bool("only_says");
  std::set<std::string> notes;
  Program trial = program;
  ASYRA_ASSIGN_OR_RETURN(bool changed, ReplaceMasks(trial, &notes));
  const std::string inputs = InputsOfLengths(trial);
  if (only_says) {
    if (inputs.empty() || !changed) {
      context.Remark("masks_as_lengths: no mask could be lengths");
    } else {
      context.Remark(
          "attention has a mask from {}: if each row there is ones, then "
          "zeros, --padding right makes it lengths, which are faster",
          inputs);
    }
    return false;
  }
  for (const std::string& note : notes) context.Remark("{}", note);
  if (inputs.empty()) {
    context.Remark(
        "padding right: no attention has a mask of one input of zeros and "
        "ones");
  } else {
    context.Remark(
        "padding right: attention takes lengths of the rows of {}, which each "
        "step checks",
        inputs);
  }
  program = std::move(trial);
  return changed;
}

}  // namespace asyra
