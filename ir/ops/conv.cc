// Convolution over any number of spatial dimensions. Its input may be spread
// out with zeros between its elements, as XLA has it, so that the gradients of
// a convolution, and transposed convolutions, are convolutions too.
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;  // so that sums do not overflow

// One spatial dimension: result t is the sum over taps j of w[j] times the
// input at t * stride + j * dilation - before, where the input's elements are
// `spacing` apart and everything else is zero.
struct Window {
  int64_t size, taps, stride, before, after, dilation, spacing;

  int64_t Reach() const { return (taps - 1) * dilation + 1; }
  int64_t Extent() const { return size == 0 ? 0 : (size - 1) * spacing + 1; }
  int64_t Room() const { return Extent() + before + after - Reach(); }
  int64_t Results() const { return Room() < 0 ? 0 : Room() / stride + 1; }
  // The input element that tap j of result t sees, or -1.
  int64_t Seen(int64_t t, int64_t j) const {
    int64_t at = t * stride + j * dilation - before;
    if (at < 0 || at % spacing != 0) return -1;
    return at / spacing < size ? at / spacing : -1;
  }
};

int64_t Entry(const AttrMap& attrs, std::string_view name, size_t i,
              int64_t otherwise) {
  const Ints& list = attrs.Get<Ints>(name);
  return list.empty() ? otherwise : list[i];
}

template <typename Shaped>  // types or tensors
std::vector<Window> Windows(const AttrMap& attrs, absl::Span<const Shaped> x) {
  std::vector<Window> windows;
  size_t spatial = x[0].rank() - 2;
  for (size_t i = 0; i < spatial; ++i) {
    int dim = static_cast<int>(i) + 2;
    windows.push_back({.size = x[0].size(dim),
                       .taps = x[1].size(dim),
                       .stride = Entry(attrs, "strides", i, 1),
                       .before = Entry(attrs, "pads", i, 0),
                       .after = Entry(attrs, "pads", spatial + i, 0),
                       .dilation = Entry(attrs, "dilations", i, 1),
                       .spacing = Entry(attrs, "input_dilations", i, 1)});
  }
  return windows;
}

template <typename Shaped>
int64_t Groups(absl::Span<const Shaped> x) {
  return x[0].size(1) / x[1].size(1);
}

absl::Status CheckList(const OpCall& call, std::string_view name, size_t size,
                       int64_t least) {
  const Ints& list = call.attrs.Get<Ints>(name);
  if (!list.empty() && list.size() != size) {
    return Invalid("{} has {} entries, {} spatial dims need {}", name,
                   list.size(), call.operands[0].rank() - 2, size);
  }
  for (int64_t entry : list) {
    if (entry < least || entry > kLargest) {
      return Invalid("{} has {}, it should be in [{}, {}]", name, entry, least,
                     kLargest);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChannels(const OpCall& call) {
  const Type& x = call.operands[0];
  const Type& w = call.operands[1];
  if (w.size(1) < 1 || x.size(1) % w.size(1) != 0) {
    return Invalid("x has {} channels, w takes {} of each group", x.size(1),
                   w.size(1));
  }
  int64_t groups = Groups(call.operands);
  if (groups > 1 && w.size(0) % groups != 0) {
    return Invalid("{} groups do not divide the {} channels that w gives",
                   groups, w.size(0));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 3));
  const Type& x = call.operands[0];
  const Type& w = call.operands[1];
  if (x.rank() != w.rank()) {
    return Invalid("x has rank {}, w has {}", x.rank(), w.rank());
  }
  size_t spatial = x.rank() - 2;
  for (std::string_view name : {"strides", "dilations", "input_dilations"}) {
    ASYRA_RETURN_IF_ERROR(CheckList(call, name, spatial, 1));
  }
  ASYRA_RETURN_IF_ERROR(CheckList(call, "pads", 2 * spatial, -kLargest));
  ASYRA_RETURN_IF_ERROR(CheckChannels(call));
  Type type(x.dtype, {x.size(0), w.size(0)});
  for (const Window& window : Windows(call.attrs, call.operands)) {
    int dim = type.rank();
    if (window.size > kLargest || window.taps > kLargest || window.taps < 1) {
      return Invalid("dim {} is {} in x and {} in w", dim, window.size,
                     window.taps);
    }
    if (window.Room() < 0) {
      return Invalid("dim {}: w reaches over {}, x with its pads has {}", dim,
                     window.Reach(),
                     window.Extent() + window.before + window.after);
    }
    type.dims.push_back({window.Results(), {}});
  }
  return std::vector<Type>{type};
}

// The binding of the spatial dimension of x, w and the result. Windows that do
// not overlap are independent blocks (patches p of k taps each), in a
// convolution and in both of its gradients; otherwise neighbours share
// elements, and the dimension stays whole.
struct SpatialSpec {
  std::string x, w, result;
  SpatialSpec(const Window& window, int dim) {
    bool unpadded = window.before == 0 && window.after == 0;
    std::string p = fmt::format("p{}", dim), k = fmt::format("!k{}", dim);
    std::string both = fmt::format("({} {})", p, k);
    if (unpadded && window.spacing == 1 && window.dilation == 1 &&
        window.stride == window.taps && window.size % window.taps == 0) {
      x = both, w = k, result = p;
    } else if (unpadded && window.spacing == 1 && window.stride == 1 &&
               window.dilation == window.Results() &&
               window.size == window.taps * window.dilation) {
      x = both, w = p, result = k;
    } else if (window.stride == 1 && window.dilation == 1 &&
               window.spacing == window.taps &&
               window.before == window.taps - 1 &&
               window.after == window.taps - 1) {
      x = p, w = k, result = both;
    } else {
      x = fmt::format("!s{}", dim), w = k, result = fmt::format("!t{}", dim);
    }
  }
};

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  bool grouped = Groups(call.operands) > 1;
  std::string x = grouped ? "n (g c)" : "n c", w = grouped ? "(g o) c" : "o c",
              result = grouped ? "n (g o)" : "n o";
  std::vector<Window> windows = Windows(call.attrs, call.operands);
  for (size_t i = 0; i < windows.size(); ++i) {
    SpatialSpec spec(windows[i], static_cast<int>(i));
    x += " " + spec.x;
    w += " " + spec.w;
    result += " " + spec.result;
  }
  return ParseAxisRule(fmt::format("{}, {} -> {}", x, w, result), call.operands,
                       call.results, Linearity::kEach);
}

// Matmuls with the zeros between spread elements are not computed.
Work ConvWork(const OpCall& local) {
  const Type& w = local.operands[1];
  Work work;
  work.flops = 2.0 * static_cast<double>(local.results[0].num_elements());
  for (int d = 1; d < w.rank(); ++d) {
    work.flops *= static_cast<double>(w.size(d));
  }
  for (const Window& window : Windows(local.attrs, local.operands)) {
    work.flops /= static_cast<double>(window.spacing);
  }
  work.read_bytes = static_cast<double>(local.operands[0].bytes() + w.bytes());
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  work.matrix = true;
  const Type& result = local.results[0];
  auto groups = static_cast<double>(Groups(local.operands));
  work.batch = groups;
  work.cols = static_cast<double>(result.size(1)) / groups;
  work.rows = static_cast<double>(result.num_elements()) /
              std::max(1.0, static_cast<double>(result.size(1)));
  return work;
}

// The elements of one channel that each result sees: `channel_size` is past
// the end, for none.
class Patches {
 public:
  explicit Patches(const std::vector<Window>& windows) : windows_(windows) {
    for (const Window& window : windows) {
      results_ *= window.Results();
      taps_ *= window.taps;
    }
  }
  int64_t results() const { return results_; }
  int64_t taps() const { return taps_; }

  // seen[j]: where in the channel tap j of result t is, or -1.
  void Find(int64_t t, std::vector<int64_t>* seen) const {
    for (int64_t j = 0; j < taps_; ++j) (*seen)[j] = At(t, j);
  }

 private:
  int64_t At(int64_t t, int64_t j) const {
    int64_t at = 0, stride = 1;
    for (size_t i = windows_.size(); i-- > 0;) {
      const Window& window = windows_[i];
      int64_t one = window.Seen(t % window.Results(), j % window.taps);
      if (one < 0) return -1;
      at += one * stride;
      stride *= window.size;
      t /= window.Results();
      j /= window.taps;
    }
    return at;
  }

  const std::vector<Window>& windows_;
  int64_t results_ = 1, taps_ = 1;
};

absl::Status Reference(const RefCall& call) {
  std::vector<Window> windows = Windows(call.attrs, call.operands);
  Patches patches(windows);
  const Tensor& w = call.operands[1];
  // Sizes of the shards: whole groups, or one group's part.
  int64_t batch = call.operands[0].size(0), channels = call.operands[0].size(1);
  int64_t outputs = w.size(0), per_group = w.size(1);
  if (call.results[0].num_elements() == 0 || channels == 0) {
    return absl::OkStatus();
  }
  int64_t groups = channels / per_group, outputs_each = outputs / groups;
  int64_t taps = patches.taps(), results = patches.results();
  int64_t row = per_group * taps;
  std::vector<double> x = call.operands[0].ToDoubles(), kernel = w.ToDoubles();
  int64_t plane = call.operands[0].num_elements() / (batch * channels);
  std::vector<double> out(call.results[0].num_elements(), 0.0), patch(row);
  std::vector<int64_t> seen(taps);
  for (int64_t t = 0; t < results; ++t) {
    patches.Find(t, &seen);
    for (int64_t n = 0; n < batch * groups; ++n) {
      const double* from = x.data() + n * per_group * plane;
      for (int64_t i = 0; i < row; ++i) {
        int64_t at = seen[i % taps];
        patch[i] = at < 0 ? 0 : from[i / taps * plane + at];
      }
      for (int64_t o = 0; o < outputs_each; ++o) {
        const double* weights =
            kernel.data() + (n % groups * outputs_each + o) * row;
        double sum = 0;
        for (int64_t i = 0; i < row; ++i) sum += patch[i] * weights[i];
        out[(n * outputs_each + o) * results + t] = sum;
      }
    }
  }
  call.results[0].SetAll(out);
  return absl::OkStatus();
}

// Dimensions of a [.., outer * inner, ..] at `dim` parted, and `inner` moved in
// front of all that precedes, `outer` joined with what follows it: with groups,
// [group, channel] becomes [channel, group].
ValueId SwapGroups(Gradient& g, ValueId value, int64_t groups) {
  Shape shape = g.type(value).shape();
  int64_t n = shape[0], each = shape[1] / groups;
  Shape parted = {n, groups, each};
  parted.insert(parted.end(), shape.begin() + 2, shape.end());
  Ints perm = {2, 1, 0};
  for (size_t i = 3; i < parted.size(); ++i) {
    perm.push_back(static_cast<int64_t>(i));
  }
  ValueId swapped =
      g.Op("transpose", {g.Reshape(value, parted)}, {{"perm", perm}});
  shape[0] = each;
  shape[1] = groups * n;
  return g.Reshape(swapped, shape);
}

ValueId SwapFirstTwo(Gradient& g, ValueId value) {
  return SwapGroups(g, value, 1);
}

// w [(g o), c, taps] as [(g c), o, taps], its taps in reverse order.
ValueId Reversed(Gradient& g, ValueId w, int64_t groups) {
  Shape shape = g.type(w).shape();
  Shape parted = {groups, shape[0] / groups};
  parted.insert(parted.end(), shape.begin() + 1, shape.end());
  Ints perm = {0, 2, 1};
  for (size_t i = 3; i < parted.size(); ++i) {
    perm.push_back(static_cast<int64_t>(i));
  }
  ValueId value = g.Op("transpose", {g.Reshape(w, parted)}, {{"perm", perm}});
  std::swap(parted[1], parted[2]);
  parted[1] *= groups;
  parted.erase(parted.begin());
  value = g.Reshape(value, parted);
  for (size_t i = 2; i < parted.size(); ++i) {
    if (parted[i] == 1) continue;
    value = g.Op("slice", {value},
                 {{"dim", static_cast<int64_t>(i)},
                  {"start", parted[i] - 1},
                  {"stop", int64_t{-1}},
                  {"step", int64_t{-1}}});
  }
  return value;
}

// Attributes of a convolution with these windows.
AttrMap ConvAttrs(const std::vector<Window>& windows) {
  Ints strides, pads, after, dilations, spacings;
  for (const Window& window : windows) {
    strides.push_back(window.stride);
    pads.push_back(window.before);
    after.push_back(window.after);
    dilations.push_back(window.dilation);
    spacings.push_back(window.spacing);
  }
  pads.insert(pads.end(), after.begin(), after.end());
  return {{"strides", strides},
          {"pads", pads},
          {"dilations", dilations},
          {"input_dilations", spacings}};
}

// With `at` an input position, dx[at] = sum of dy[t] w[j] where
// t * stride + j * dilation - before = at: dy spread by the stride, w reversed.
ValueId InputGradient(Gradient& g, std::vector<Window> windows,
                      int64_t groups) {
  for (Window& window : windows) {
    Window back = {.size = window.Results(),
                   .taps = window.taps,
                   .stride = window.spacing,
                   .before = window.Reach() - 1 - window.before,
                   .after = 0,
                   .dilation = window.dilation,
                   .spacing = window.stride};
    back.after = window.Extent() - 1 - back.Room();  // as many results as x has
    window = back;
  }
  return g.Op("conv", {g.dy(), Reversed(g, g.x(1), groups)},
              ConvAttrs(windows));
}

// dw[j] = sum over t of dy[t] x[t * stride + j * dilation - before]: dy is the
// kernel, and the batch is summed as channels are.
ValueId WeightGradient(Gradient& g, std::vector<Window> windows,
                       int64_t groups) {
  for (Window& window : windows) {
    Window back = {.size = window.size,
                   .taps = window.Results(),
                   .stride = window.dilation,
                   .before = window.before,
                   .after = 0,
                   .dilation = window.stride,
                   .spacing = window.spacing};
    back.after = window.Reach() - 1 - back.Room();  // as many as w has taps
    window = back;
  }
  ValueId dw =
      g.Op("conv", {SwapGroups(g, g.x(0), groups), SwapFirstTwo(g, g.dy())},
           ConvAttrs(windows));
  return SwapFirstTwo(g, dw);
}

Gradients ConvVjp(Gradient& g) {
  std::vector<Type> types = {g.type(g.x(0)), g.type(g.x(1))};
  std::vector<Window> windows =
      Windows(g.attrs(), absl::Span<const Type>(types));
  int64_t groups = Groups(absl::Span<const Type>(types));
  return {InputGradient(g, windows, groups),
          WeightGradient(g, windows, groups)};
}

}  // namespace

std::vector<OpDef> ConvOps() {
  return {
      {.name = "conv",
       .summary = "convolution (not reversed) of x [N, G C, spatial...] with w "
                  "[G O, C, taps...], giving [N, G O, spatial...], summed in "
                  "f32 or wider; attributes left empty are 1, pads 0",
       .operands = {{"x"}, {"w"}},
       .attrs = {{"strides", AttrKind::kInts, "between results", Ints{}},
                 {"pads", AttrKind::kInts,
                  "zeros before each spatial dim, then after each; negative: "
                  "elements left out",
                  Ints{}},
                 {"dilations", AttrKind::kInts, "between taps", Ints{}},
                 {"input_dilations", AttrKind::kInts,
                  "between the elements of x", Ints{}}},
       .infer = Infer,
       .axes = Axes,
       .work = ConvWork,
       .vjp = Vjp<ConvVjp>,
       .reference = Reference,
       .samples = {
           {"conv(f32[2,4,8,8], f32[6,4,2,2]) {strides=[2, 2]}"},
           {"conv(f32[2,4,5,6], f32[2,4,3,2]) {pads=[1, 0, 1, 2]}"},
           {"conv(f32[2,2,9], f32[4,2,3]) {strides=[2], dilations=[2], "
            "pads=[3, -1]}"},
           {"conv(f32[2,4,6,5], f32[8,2,3,3]) {strides=[2, 1], "
            "pads=[1, 1, 1, 1]}"},
           {"conv(f32[2,2,3,2,3], f32[2,1,2,2,2])"},
           {"conv(f32[2,4,4], f32[2,4,2]) {input_dilations=[2], pads=[1, 1]}"},
           {"conv(f32[2,4,8], f32[2,4,4]) {dilations=[2]}"},
           {"conv(f32[2,4,6], f32[2,4,1])"}}}};
}

}  // namespace asyra::ops
