#include "ir/ops/indexing.h"

#include "ir/ops/integers.h"

namespace asyra::ops {
namespace {

template <typename T>
T Combined(Reduction reduction, T old, T update) {
  switch (reduction) {
    case Reduction::kNone:
      return update;
    case Reduction::kAdd:
      return Plus(old, update);
    case Reduction::kMul:
      return Times(old, update);
    case Reduction::kMax:
      return Maximum(old, update);
    case Reduction::kMin:
      return Minimum(old, update);
  }
  return old;
}

}  // namespace

absl::StatusOr<int> RequireElementIndices(const OpCall& call) {
  const Type& x = call.operands[0];
  const Type& indices = call.operands[1];
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", x.rank()));
  bool fits = x.rank() == indices.rank();
  for (int d = 0; fits && d < x.rank(); ++d) {
    fits = d == dim || indices.size(d) <= x.size(d);
  }
  if (fits) return dim;
  return Invalid("indices have shape {}, x has {}, dim is {}",
                 ShapeToString(indices.shape()), ShapeToString(x.shape()), dim);
}

ElementSpecs SpecsOfElements(const OpCall& call, std::string_view x_dim,
                             std::string_view indices_dim) {
  ElementSpecs specs;
  const Type& x = call.operands[0];
  const Type& indices = call.operands[1];
  int dim = NormalizeDim(call.attrs.Int("dim"), x.rank());
  for (int d = 0; d < x.rank(); ++d) {
    if (d == dim) {
      specs.x += fmt::format("{} ", x_dim);
      specs.indices += fmt::format("{} ", indices_dim);
    } else if (x.size(d) == indices.size(d)) {
      specs.x += fmt::format("d{} ", d);
      specs.indices += fmt::format("d{} ", d);
    } else {  // only the first ones of x
      specs.x += fmt::format("!all{} ", d);
      specs.indices += fmt::format("!d{} ", d);
    }
  }
  return specs;
}

absl::StatusOr<std::vector<int64_t>> FindElements(const RefCall& call) {
  const Tensor& x = call.operands[0];
  const Tensor& indices = call.operands[1];
  int dim = NormalizeDim(call.attrs.Int("dim"), x.rank());
  int64_t start = call.Start(0, dim), total = call.operand_types[0].size(dim);
  Shape strides = RowMajorStrides(x.shape());
  std::vector<int64_t> elements = indices.ToInts();
  for (size_t i = 0; i < elements.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(int64_t at, Position(elements[i], total));
    at -= start;
    if (at < 0 || at >= x.size(dim)) {
      elements[i] = -1;
      continue;
    }
    auto rest = static_cast<int64_t>(i);
    elements[i] = at * strides[dim];
    for (int d = x.rank(); d-- > 0; rest /= indices.size(d)) {
      if (d != dim) elements[i] += rest % indices.size(d) * strides[d];
    }
  }
  return elements;
}

AttrDef RowsAttr() {
  return {"rows", AttrKind::kInt,
          "that indices count, in [-rows, rows): those behind them are "
          "padding; -1: all",
          int64_t{-1}};
}

AttrDef ReductionAttr() {
  return {"reduction", AttrKind::kString,
          "with what is there: none (the last update stays), add, mul, max or "
          "min",
          std::string("none")};
}

absl::StatusOr<Reduction> RequireReduction(const OpCall& call) {
  const std::string& name = call.attrs.Get<std::string>("reduction");
  for (size_t i = 0; i < std::size(kReductions); ++i) {
    if (kReductions[i] == name) return static_cast<Reduction>(i);
  }
  return Invalid("reduction is '{}', not none, add, mul, max or min", name);
}

Reduction ReductionOf(const AttrMap& attrs) {
  return static_cast<Reduction>(std::find(std::begin(kReductions),
                                          std::end(kReductions),
                                          attrs.Get<std::string>("reduction")) -
                                std::begin(kReductions));
}

Scatter::Scatter(Reduction reduction, const Tensor& x, const Tensor& updates)
    : reduction_(reduction), is_float_(IsFloat(x.dtype())) {
  if (is_float_) {
    floats_ = x.ToDoubles();
    float_updates_ = updates.ToDoubles();
  } else {
    ints_ = x.ToInts();
    int_updates_ = updates.ToInts();
  }
}

void Scatter::Put(int64_t element, int64_t update) {
  if (is_float_) {
    floats_[element] =
        Combined(reduction_, floats_[element], float_updates_[update]);
  } else {
    ints_[element] = Combined(reduction_, ints_[element], int_updates_[update]);
  }
}

void Scatter::Finish(Tensor* out) const {
  if (is_float_) {
    out->SetAll(floats_);
  } else {
    for (size_t i = 0; i < ints_.size(); ++i) {
      out->SetInt(static_cast<int64_t>(i), ints_[i]);
    }
  }
}

namespace {

// A scatter and the gather at the same places.
class Places {
 public:
  Places(Gradient& g, std::string_view scatter, std::string_view gather)
      : g_(g), scatter_(scatter), gather_(gather), attrs_(g.attrs()) {
    attrs_.Erase("reduction");
  }
  ValueId Pick(ValueId from) { return g_.Op(gather_, {from, g_.x(1)}, attrs_); }
  ValueId Put(ValueId x, ValueId updates, std::string_view reduction) {
    AttrMap attrs = attrs_;
    attrs.Set("reduction", std::string(reduction));
    return g_.Op(scatter_, {x, g_.x(1), updates}, attrs);
  }

 private:
  Gradient& g_;
  std::string_view scatter_, gather_;
  AttrMap attrs_;
};

// Each update's number, to tell which one stayed.
ValueId Numbers(Gradient& g, ValueId updates) {
  const Type& type = g.type(updates);
  ValueId line = g.Op("iota", {},
                      {{"shape", Ints{type.num_elements()}},
                       {"dim", int64_t{0}},
                       {"dtype", DType::kI64}});
  return g.Reshape(line, type.shape());
}

Gradients ReplacedVjp(Gradient& g, Places places) {
  ValueId updates = g.x(2), numbers = Numbers(g, updates);
  Shape shape = g.type(g.x()).shape();
  ValueId none = g.Op("broadcast", {g.Scalar(0, numbers)},
                      {{"shape", Ints(shape.begin(), shape.end())}});
  ValueId last = places.Pick(places.Put(none, numbers, "none"));
  return {places.Put(g.dy(), g.Zeros(updates), "none"), kNoValue,
          g.Op("select", {g.Op("equal", {last, numbers}), places.Pick(g.dy()),
                          g.Scalar(0, updates)})};
}

ValueId Indicator(Gradient& g, ValueId a, ValueId b) {
  return g.Op("cast", {g.Op("equal", {a, b})}, {{"to", g.type(a).dtype}});
}

Gradients ExtremeVjp(Gradient& g, Places places) {
  ValueId kept = Indicator(g, g.x(), g.y());
  ValueId taken = Indicator(g, g.x(2), places.Pick(g.y()));
  ValueId share = g.Div(g.dy(), places.Put(kept, taken, "add"));
  return {g.Mul(share, kept), kNoValue, g.Mul(places.Pick(share), taken)};
}

}  // namespace

Gradients ScatterGradients(Gradient& g, std::string_view scatter,
                           std::string_view gather) {
  Places places(g, scatter, gather);
  switch (ReductionOf(g.attrs())) {
    case Reduction::kNone:
      return ReplacedVjp(g, places);
    case Reduction::kAdd:
      return {g.dy(), kNoValue, places.Pick(g.dy())};
    case Reduction::kMul: {
      ValueId ones = g.Add(g.Zeros(g.x()), g.Scalar(1, g.x()));
      return {g.Mul(g.dy(), places.Put(ones, g.x(2), "mul")), kNoValue,
              g.Div(places.Pick(g.Mul(g.dy(), g.y())), g.x(2))};
    }
    case Reduction::kMax:
    case Reduction::kMin:
      return ExtremeVjp(g, places);
  }
  return {};
}

}  // namespace asyra::ops
