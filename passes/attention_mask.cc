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

// A mask of -inf splits like a bool one. One of finite numbers means something
// for rows that see nothing, so it goes only as a whole.
void ReadFloat(Rewriter& in, ValueId mask, bool rows_see, DType dtype,
               AttentionMask* result) {
  double number;
  const Fact& fact = in.fact(mask);
  if (fact.IsUniform(&number) && number == 0) {
    result->found = true;
    return;
  }
  Bounds bounds;
  if (fact.kind == Fact::kPredicate && fact.yes == 0 && Hides(fact.no, dtype) &&
      ReadBounds(fact, &bounds) && (rows_see || bounds.window == 0)) {
    Take(bounds, result);
    return;
  }
  const Op* select = in.Def(mask, "select");
  double yes, no;
  if (select != nullptr && in.Uniform(select->operands[1], &yes) &&
      in.Uniform(select->operands[2], &no) && yes == 0 && no == -kInfinity) {
    AttentionMask part;
    ReadBool(in, select->operands[0], &part);
    if (part.found) {
      Take({part.causal, part.window}, result);
      result->left.insert(result->left.end(), part.left.begin(),
                          part.left.end());
      return;
    }
  }
  result->left.push_back(mask);
}

}  // namespace

bool Hides(double number, DType dtype) {
  // The lowest half is -65504; scores do not come near either.
  return number <= (dtype == DType::kF16 ? -3e4 : -1e9);
}

void ReadMask(Rewriter& in, ValueId mask, int64_t queries, int64_t keys,
              AttentionMask* result) {
  if (in.type(mask).dtype == DType::kBool) {
    ReadBool(in, mask, result);
  } else {
    // With a window, rows behind the last key see nothing.
    ReadFloat(in, mask, queries <= keys, in.type(mask).dtype, result);
  }
}

absl::StatusOr<ValueId> MaskOperand(Rewriter& to, const AttentionMask& mask) {
  ValueId seen = kNoValue, added = kNoValue;
  for (ValueId value : mask.left) {
    bool is_bool = to.type(value).dtype == DType::kBool;
    ValueId& all = is_bool ? seen : added;
    if (all == kNoValue) {
      all = value;
    } else {
      ASYRA_ASSIGN_OR_RETURN(all,
                             to.Add(is_bool ? "and" : "add", {all, value}));
    }
  }
  ValueId whole = added;
  if (added == kNoValue) {
    whole = seen;
  } else if (seen != kNoValue) {
    DType dtype = to.type(added).dtype;
    ValueId hidden = to.Constant(Tensor::FromDoubles(dtype, {}, {-kInfinity}));
    ASYRA_ASSIGN_OR_RETURN(whole, to.Add("select", {seen, added, hidden}));
  }
  if (whole == kNoValue) return kNoValue;
  Shape shape = to.type(whole).shape();
  shape.insert(shape.begin(), 4 - std::min<size_t>(4, shape.size()), 1);
  return to.Reshape(whole, shape);
}

}  // namespace asyra
