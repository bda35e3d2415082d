// Padding.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

bool IsConstantMode(const AttrMap& attrs) {
  return attrs.Get<std::string>("mode") == "constant";
}

// Returns how many elements `mode` can add at one end of a dimension of that
// size.
int64_t MostAdded(std::string_view mode, int64_t size) {
  if (mode == "reflect") return size - 1;
  if (mode == "wrap") return size;
  return mode == "edge" && size == 0 ? 0 : INT64_MAX;
}

absl::Status CheckMode(const OpCall& call) {
  const std::string& mode = call.attrs.Get<std::string>("mode");
  for (std::string_view known : {"constant", "edge", "reflect", "wrap"}) {
    if (mode == known) return absl::OkStatus();
  }
  return Invalid("mode is '{}', not constant, edge, reflect or wrap", mode);
}

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckMode(call));
  Type type = call.operands[0];
  const std::string& mode = call.attrs.Get<std::string>("mode");
  double value = call.attrs.Float("value");
  if (!IsFloat(type.dtype) && value != std::floor(value)) {
    return Invalid("value {} is no {}", value, ToString(type.dtype));
  }
  for (std::string_view end : {"before", "after"}) {
    const Ints& added = call.attrs.Get<Ints>(end);
    if (static_cast<int>(added.size()) != type.rank()) {
      return Invalid("{} has {} entries, the rank is {}", end, added.size(),
                     type.rank());
    }
    for (int d = 0; d < type.rank(); ++d) {
      int64_t size = call.operands[0].size(d), most = MostAdded(mode, size);
      if (added[d] < 0 || (added[d] > 0 && added[d] > most)) {
        return Invalid("{} adds {} to dim {} of size {} by {}", end, added[d],
                       d, size, mode);
      }
      if (__builtin_add_overflow(type.dims[d].size, added[d],
                                 &type.dims[d].size)) {
        return Invalid("dim {} exceeds 2^63", d);
      }
    }
  }
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  std::string from, to;
  for (int d = 0; d < call.operands[0].rank(); ++d) {
    bool grows = call.attrs.Get<Ints>("before")[d] > 0 ||
                 call.attrs.Get<Ints>("after")[d] > 0;
    from += fmt::format("{}d{} ", grows ? "!" : "", d);
    to += fmt::format("{}{} ", grows ? "!all" : "d", d);
  }
  bool adds = IsConstantMode(call.attrs) && call.attrs.Float("value") != 0;
  return ParseAxisRule(from + "-> " + to, call.operands, call.results,
                       adds ? Linearity::kNone : Linearity::kJoint);
}

// The element of a dimension of that size that is at `index` of the
// result counted from the first element of x; -1: the constant.
int64_t Source(std::string_view mode, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return index;
  if (mode == "edge") return index < 0 ? 0 : size - 1;
  if (mode == "wrap") return index < 0 ? index + size : index - size;
  if (mode == "reflect") return index < 0 ? -index : 2 * (size - 1) - index;
  return -1;
}

absl::Status Reference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  const std::string& mode = call.attrs.Get<std::string>("mode");
  const Ints& before = call.attrs.Get<Ints>("before");
  Shape strides = RowMajorStrides(in.shape());
  // One element behind those of x holds the constant.
  Tensor constant(in.dtype(), {1});
  constant.Set(0, call.attrs.Float("value"));
  Tensor all = Tensor::Concat({in.Reshaped({in.num_elements()}), constant}, 0);
  CopyElements(
      all,
      [&](int64_t index) {
        int64_t from = 0;
        for (int d = in.rank(); d-- > 0;) {
          int64_t at =
              Source(mode, index % out.size(d) - before[d], in.size(d));
          if (at < 0) return in.num_elements();
          from += at * strides[d];
          index /= out.size(d);
        }
        return from;
      },
      &out);
  return absl::OkStatus();
}

ValueId SliceOf(Gradient& g, ValueId value, int64_t dim, int64_t start,
                int64_t stop, int64_t step = 1) {
  return g.Op("slice", {value},
              {{"dim", dim}, {"start", start}, {"stop", stop}, {"step", step}});
}

// `part` among zeros, at `start` of a dimension of `size`.
ValueId Within(Gradient& g, ValueId part, int64_t dim, int64_t start,
               int64_t size) {
  const Type& type = g.type(part);
  Ints before(type.rank(), 0), after(type.rank(), 0);
  before[dim] = start;
  after[dim] = size - start - type.size(static_cast<int>(dim));
  if (before[dim] == 0 && after[dim] == 0) return part;
  return g.Op("pad", {part}, {{"before", before}, {"after", after}});
}

// Adds the gradient of `count` elements that were put at one end of `dim` to
// the elements of x they were copied from.
ValueId AddEnd(Gradient& g, ValueId sum, ValueId end, int64_t dim,
               bool is_front) {
  const std::string& mode = g.attrs().Get<std::string>("mode");
  int64_t size = g.type(sum).size(static_cast<int>(dim));
  int64_t count = g.type(end).size(static_cast<int>(dim));
  int64_t start = is_front ? 0 : size - 1;
  if (mode == "edge") {
    end = g.Op("reduce_sum", {end}, {{"dims", Ints{dim}}});
  } else if (mode == "reflect") {
    end = SliceOf(g, end, dim, count - 1, -1, -1);
    start = is_front ? 1 : size - 1 - count;
  } else {
    start = is_front ? size - count : 0;
  }
  return g.Add(sum, Within(g, end, dim, start, size));
}

// All modes work dimension by dimension.
Gradients PadVjp(Gradient& g) {
  ValueId dx = g.dy();
  for (int d = 0; d < g.type(g.x()).rank(); ++d) {
    int64_t before = g.attrs().Get<Ints>("before")[d];
    int64_t after = g.attrs().Get<Ints>("after")[d];
    if (before == 0 && after == 0) continue;
    ValueId all = dx;
    int64_t stop = before + g.type(g.x()).size(d);
    dx = SliceOf(g, all, d, before, stop);
    if (IsConstantMode(g.attrs())) continue;
    if (before > 0) dx = AddEnd(g, dx, SliceOf(g, all, d, 0, before), d, true);
    if (after > 0) {
      dx = AddEnd(g, dx, SliceOf(g, all, d, stop, stop + after), d, false);
    }
  }
  return {dx};
}

}  // namespace

std::vector<OpDef> PadOps() {
  return {
      {.name = "pad",
       .summary = "x with elements added at the ends of its dimensions: "
                  "`value`, the nearest element (edge), those mirrored at the "
                  "end (reflect) or those at the other end (wrap)",
       .operands = {{"x"}},
       .attrs = {{"before", AttrKind::kInts, "added in front, for each dim"},
                 {"after", AttrKind::kInts, "added behind"},
                 {"mode", AttrKind::kString, "constant, edge, reflect or wrap",
                  std::string("constant")},
                 {"value", AttrKind::kFloat, "of constant elements", 0.0}},
       .infer = Infer,
       .axes = Axes,
       .work = MoveWork,
       .vjp = Vjp<PadVjp>,
       .reference = Reference,
       .samples = {{"pad(f32[4,6]) {before=[0, 1], after=[0, 2]}"},
                   {"pad(i64[4,6]) {before=[2, 0], after=[0, 0], value=7.0}"},
                   {"pad(f32[2,4,6]) {before=[0, 3, 1], after=[0, 2, 5], "
                    "mode=\"reflect\"}"},
                   {"pad(f32[2,4,6]) {before=[1, 0, 0], after=[3, 0, 2], "
                    "mode=\"edge\"}"},
                   {"pad(f32[2,4,6]) {before=[0, 4, 1], after=[0, 0, 2], "
                    "mode=\"wrap\"}"}}}};
}

}  // namespace asyra::ops
