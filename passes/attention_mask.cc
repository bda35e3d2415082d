#include "passes/attention_mask.h"

#include <cmath>
#include <limits>

namespace asyra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Bounds {
  bool causal = false;
  int64_t window = 0;
};

// Inequalities over (query i, key j) that are exactly i >= j, or
// j > i - window; false for any other.
bool ReadBounds(const Fact& fact, Bounds* bounds) {
  for (const Affine& affine : fact.all) {
    size_t rank = affine.strides.size();
    if (rank < 2) return false;
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (affine.strides[d] != 0) return false;
    }
    double i = affine.strides[rank - 2], j = affine.strides[rank - 1];
    if (i == 1 && j == -1 && affine.offset == 0) {
      bounds->causal = true;
    } else if (i == -1 && j == 1 && affine.offset >= 0) {
      auto window = static_cast<int64_t>(affine.offset) + 1;
      bounds->window =
          bounds->window == 0 ? window : std::min(bounds->window, window);
    } else {
      return false;
    }
  }
  return true;
}

void Take(const Bounds& bounds, AttentionMask* result) {
  result->causal |= bounds.causal;
  if (bounds.window > 0) {
    result->window = result->window == 0
                         ? bounds.window
                         : std::min(result->window, bounds.window);
  }
  result->found = true;
}

// Each of a conjunction of masks by itself.
void ReadBool(Rewriter& in, ValueId mask, AttentionMask* result) {
  double number;
  const Fact& fact = in.fact(mask);
  if (fact.IsUniform(&number) && number != 0) {
    result->found = true;
    return;
  }
  Bounds bounds;
  if (fact.IsMask(1, 0) && ReadBounds(fact, &bounds)) {
    Take(bounds, result);
    return;
  }
  if (const Op* both = in.Def(mask, "and")) {
    ReadBool(in, both->operands[0], result);
    ReadBool(in, both->operands[1], result);
    return;
  }
  // Attention broadcasts its mask itself.
  const Op* broadcast = in.Def(mask, "broadcast");
  if (broadcast != nullptr && fact.kind == Fact::kUnknown) {
    ReadBool(in, broadcast->operands[0], result);
    return;
  }
  result->left.push_back(mask);
}

// A finite number that scores vanish beside when it is added to them.
bool Absorbs(double number, DType dtype) {
  double lowest = dtype == DType::kF16   ? -65504
                  : dtype == DType::kF64 ? std::numeric_limits<double>::lowest()
                                         : std::numeric_limits<float>::lowest();
  return std::isfinite(number) && number <= lowest / 2;
}

absl::StatusOr<ValueId> AllOf(Rewriter& to, const std::vector<ValueId>& seen) {
  ValueId all = seen[0];
  for (size_t i = 1; i < seen.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(all, to.Add("and", {all, seen[i]}));
  }
  return all;
}

ValueId Number(Rewriter& to, DType dtype, double value) {
  return to.Constant(Tensor::FromDoubles(dtype, {}, {value}));
}

// select(condition, 0, no): what attributes can say of the condition goes into
// them. Beside a finite number, rows that see nothing share evenly; `hidden`
// keeps that number, if nothing else is added to it. False: it stays.
absl::StatusOr<bool> SplitSelect(Rewriter& to, const Op& select, DType dtype,
                                 bool alone, AttentionMask* result) {
  double yes, no;
  if (!to.Uniform(select.operands[1], &yes) || yes != 0 ||
      !to.Uniform(select.operands[2], &no)) {
    return false;
  }
  bool finite = no != -kInfinity;
  if (finite && !(alone && Absorbs(no, dtype))) return false;
  AttentionMask part;
  ReadBool(to, select.operands[0], &part);
  if (!part.found || (finite && part.left.empty())) return false;
  Take({part.causal, part.window}, result);
  if (finite) {
    result->hidden = no;
    ASYRA_ASSIGN_OR_RETURN(ValueId seen, AllOf(to, part.left));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId rest,
        to.Add("select", {seen, Number(to, dtype, 0), Number(to, dtype, no)}));
    part.left = {rest};
  }
  result->left.insert(result->left.end(), part.left.begin(), part.left.end());
  return true;
}

// Whether a mask may hide all that a row sees. What is added without being
// chosen by a condition is taken for a bias.
bool MayHide(Rewriter& in, ValueId mask, DType dtype) {
  const Fact& fact = in.fact(mask);
  if (fact.kind == Fact::kAffine) return false;
  if (in.type(mask).dtype == DType::kBool) return true;
  if (fact.kind == Fact::kPredicate) {
    return Hides(std::min(fact.yes, fact.no), dtype);
  }
  const Op* select = in.Def(mask, "select");
  double number;
  return select != nullptr &&
         ((in.Uniform(select->operands[1], &number) && Hides(number, dtype)) ||
          (in.Uniform(select->operands[2], &number) && Hides(number, dtype)));
}

// A mask of -inf splits like a bool one. Finite numbers mean something for
// rows that see nothing: a triangle or band of them is the same as -inf where
// every row sees a key, of itself and of the others.
absl::Status ReadFloat(Rewriter& in, ValueId mask, bool rows_see,
                       bool others_hide, bool alone, AttentionMask* result) {
  double number;
  const Fact& fact = in.fact(mask);
  DType dtype = in.type(mask).dtype;
  if (fact.IsUniform(&number) && number == 0) {
    result->found = true;
    return absl::OkStatus();
  }
  Bounds bounds;
  if (fact.kind == Fact::kPredicate && fact.yes == 0 && Hides(fact.no, dtype) &&
      ReadBounds(fact, &bounds)) {
    bool same = fact.no == -kInfinity ||
                (!others_hide && (rows_see || bounds.window == 0));
    if (same) {
      Take(bounds, result);
      return absl::OkStatus();
    }
  }
  bool split = false;
  if (const Op* select = in.Def(mask, "select")) {
    ASYRA_ASSIGN_OR_RETURN(split,
                           SplitSelect(in, *select, dtype, alone, result));
  }
  if (!split) result->left.push_back(mask);
  return absl::OkStatus();
}

}  // namespace

bool Hides(double number, DType dtype) {
  // The lowest half is -65504; scores do not come near either.
  return number <= (dtype == DType::kF16 ? -3e4 : -1e9);
}

absl::StatusOr<AttentionMask> ReadMasks(Rewriter& in,
                                        absl::Span<const ValueId> masks,
                                        int64_t queries, int64_t keys) {
  AttentionMask result;
  for (size_t i = 0; i < masks.size(); ++i) {
    if (in.type(masks[i]).dtype == DType::kBool) {
      ReadBool(in, masks[i], &result);
      continue;
    }
    bool others_hide = false;
    for (size_t j = 0; j < masks.size(); ++j) {
      bool hides = j != i && MayHide(in, masks[j], in.type(masks[j]).dtype);
      others_hide = others_hide || hides;
    }
    // With a window, rows behind the last key see nothing.
    ASYRA_RETURN_IF_ERROR(ReadFloat(in, masks[i], queries <= keys, others_hide,
                                    masks.size() == 1, &result));
  }
  return result;
}

absl::StatusOr<ValueId> MaskOperand(Rewriter& to, const AttentionMask& mask) {
  std::vector<ValueId> seen;
  ValueId whole = kNoValue;
  for (ValueId value : mask.left) {
    if (to.type(value).dtype == DType::kBool) {
      seen.push_back(value);
    } else if (whole == kNoValue) {
      whole = value;
    } else {
      ASYRA_ASSIGN_OR_RETURN(whole, to.Add("add", {whole, value}));
    }
  }
  if (!seen.empty()) {
    ASYRA_ASSIGN_OR_RETURN(ValueId all, AllOf(to, seen));
    if (whole == kNoValue) {
      whole = all;
    } else {
      ValueId hidden = Number(to, to.type(whole).dtype, -kInfinity);
      ASYRA_ASSIGN_OR_RETURN(whole, to.Add("select", {all, whole, hidden}));
    }
  }
  if (whole == kNoValue) return kNoValue;
  Shape shape = to.type(whole).shape();
  shape.insert(shape.begin(), 4 - std::min<size_t>(4, shape.size()), 1);
  return to.Reshape(whole, shape);
}

}  // namespace asyra
