#include "passes/raise/mask_flow.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "passes/analysis/op_shape.h"
#include "passes/analysis/value_facts.h"

namespace asyra {
namespace {

// Dimensions of a value along which elements of the input lie; -1: none, the
// input has one row.
struct Place {
  int row = -1, key = -1;
  friend bool operator==(const Place& a, const Place& b) {
    return a.row == b.row && a.key == b.key;
  }
};

Place Shifted(const Place& place, int by) {
  return {place.row < 0 ? -1 : place.row + by, place.key + by};
}

std::vector<int> DimsOfMany(const Shape& shape) {
  std::vector<int> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) dims.push_back(static_cast<int>(d));
  }
  return dims;
}

class Follower {
 public:
  Follower(Rewriter& in, std::string* why) : in_(in), why_(why) {}

  bool Run(ValueId mask, MaskFlow* flow) {
    if (!Collect(mask)) return false;
    if (input_ == kNoValue) return Fail("depends on no input");
    if (!PlaceInput(flow)) return false;
    for (ValueId value : values_) {
      if (!Add(value)) return false;
    }
    auto place = places_.find(mask);
    if (place == places_.end()) return Fail("depends on no input");
    const int rank = in_.type(mask).rank();
    if (place->second.key != rank - 1 || place->second.row > 0) {
      return Fail("hides queries, not keys");
    }
    flow->ones = ones_.Of(mask);
    flow->zeros = zeros_.Of(mask);
    if (flow->ones.kind == Fact::kUnknown ||
        flow->zeros.kind == Fact::kUnknown) {
      return Fail(fmt::format("has no known values for 0 and 1 of %{}",
                              in_.name(input_)));
    }
    return true;
  }

 private:
  bool Fail(std::string why) {
    *why_ = std::move(why);
    return false;
  }

  // Collects what `mask` is computed from: values of known elements, and one
  // input.
  bool Collect(ValueId mask) {
    std::vector<ValueId> open = {mask};
    while (!open.empty()) {
      ValueId value = open.back();
      open.pop_back();
      if (!values_.insert(value).second) continue;
      if (in_.fact(value).kind != Fact::kUnknown) continue;
      const Op* op = in_.Def(value);
      if (op == nullptr) {
        if (in_.is_weight(value)) {
          return Fail(
              fmt::format("is computed from weight %{}", in_.name(value)));
        }
        if (in_.input(value).role != InputRole::kData) {
          return Fail(
              fmt::format("is computed from state %{}", in_.name(value)));
        }
        if (input_ != kNoValue) {
          return Fail(fmt::format("is computed from %{} and %{}",
                                  in_.name(input_), in_.name(value)));
        }
        input_ = value;
        continue;
      }
      if (!Follows(*op)) {
        return Fail(fmt::format("is computed by {} (%{})", op->def->name,
                                in_.name(value)));
      }
      open.insert(open.end(), op->operands.begin(), op->operands.end());
    }
    return true;
  }

  static bool Follows(const Op& op) {
    std::string_view name = op.def->name;
    return name == "reshape" || name == "broadcast" || name == "transpose" ||
           name == "slice" || IsElementwise(*op.def);
  }

  bool PlaceInput(MaskFlow* flow) {
    const Shape shape = in_.type(input_).shape();
    const int last = static_cast<int>(shape.size()) - 1;
    for (int d = 1; d < last; ++d) {
      if (shape[d] == 1) continue;
      return Fail(fmt::format("has rows of its own for each query in %{} {}",
                              in_.name(input_), ShapeToString(shape)));
    }
    if (last < 1 || shape[last] < 2) {
      return Fail(fmt::format("is computed from %{} {}, not [rows, keys]",
                              in_.name(input_), ShapeToString(shape)));
    }
    flow->input = input_;
    flow->rows = shape[0];
    flow->keys = shape[last];
    places_[input_] = {shape[0] == 1 ? -1 : 0, last};
    return true;
  }

  // Adds a value, whose operands are there: its place, and its elements for an
  // input of ones and one of zeros.
  bool Add(ValueId value) {
    const Op* op = in_.Def(value);
    const Type& type = in_.type(value);
    if (value == input_) {
      ones_.Add(value, Fact::UniformOf(1, type.rank()));
      zeros_.Add(value, Fact::UniformOf(0, type.rank()));
      return true;
    }
    if (in_.fact(value).kind != Fact::kUnknown) {
      ones_.Add(value, in_.fact(value));
      zeros_.Add(value, in_.fact(value));
      return true;
    }
    std::vector<Type> types;
    for (ValueId operand : op->operands) types.push_back(in_.type(operand));
    ones_.Add(value, ones_.Derive(*op, types, type));
    zeros_.Add(value, zeros_.Derive(*op, types, type));
    return PlaceResult(value, *op);
  }

  bool PlaceResult(ValueId value, const Op& op) {
    const Type& type = in_.type(value);
    std::optional<Place> result;
    for (ValueId operand : op.operands) {
      auto found = places_.find(operand);
      if (found == places_.end()) continue;
      std::optional<Place> place =
          PlaceThrough(op, in_.type(operand), found->second, type);
      if (!place.has_value() || (result.has_value() && *result != *place)) {
        return Fail(fmt::format("has no one element of %{} for a key (%{})",
                                in_.name(input_), in_.name(value)));
      }
      result = place;
    }
    if (result.has_value()) places_[value] = *result;
    return true;
  }

  // Returns the place in the result of what is at `place` in an operand; none
  // where the op moves elements otherwise.
  static std::optional<Place> PlaceThrough(const Op& op, const Type& from,
                                           const Place& place, const Type& to) {
    std::string_view name = op.def->name;
    if (name == "transpose")
      return Transposed(op.attrs.Get<Ints>("perm"), place);
    if (name == "reshape") return Reshaped(from.shape(), place, to.shape());
    if (name == "slice") {
      int dim = NormalizeDim(op.attrs.Int("dim"), from.rank());
      bool cuts = dim == place.row || dim == place.key;
      if (cuts) return std::nullopt;
      return place;
    }
    return Shifted(place, to.rank() - from.rank());
  }

  static Place Transposed(const Ints& perm, const Place& place) {
    Place result;
    for (int d = 0; d < static_cast<int>(perm.size()); ++d) {
      int source = NormalizeDim(perm[d], static_cast<int>(perm.size()));
      if (source == place.row) result.row = d;
      if (source == place.key) result.key = d;
    }
    return result;
  }

  // Dimensions of size 1 come and go.
  static std::optional<Place> Reshaped(const Shape& from, const Place& place,
                                       const Shape& to) {
    std::vector<int> before = DimsOfMany(from), after = DimsOfMany(to);
    if (before.size() != after.size()) return std::nullopt;
    Place result;
    for (size_t i = 0; i < before.size(); ++i) {
      if (from[before[i]] != to[after[i]]) return std::nullopt;
      if (before[i] == place.row) result.row = after[i];
      if (before[i] == place.key) result.key = after[i];
    }
    return result;
  }

  Rewriter& in_;
  std::string* why_;
  std::set<ValueId> values_;  // in the order in which they are defined
  ValueId input_ = kNoValue;
  std::map<ValueId, Place> places_;  // of values that depend on the input
  ValueFacts ones_, zeros_;
};

}  // namespace

bool FollowMask(Rewriter& in, ValueId mask, MaskFlow* flow, std::string* why) {
  return Follower(in, why).Run(mask, flow);
}

}  // namespace asyra
