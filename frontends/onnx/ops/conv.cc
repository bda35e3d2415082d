// Convolutions, and pooling, which is spelled by them and by slices.
#include <algorithm>
#include <numeric>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// The windows of a node over the spatial dimensions of its input.
struct Windows {
  Ints taps, strides, dilations, before, after;

  Ints Pads() const {
    Ints pads = before;
    pads.insert(pads.end(), after.begin(), after.end());
    return pads;
  }
  bool IsPadded() const {
    Ints pads = Pads();
    return std::any_of(pads.begin(), pads.end(),
                       [](int64_t pad) { return pad != 0; });
  }
  AttrMap Attrs() const {
    return {{"strides", strides}, {"dilations", dilations}, {"pads", Pads()}};
  }
};

// Elements that a maximum over a window compares along a dim, each by ops.
constexpr int64_t kMostTaps = 4096;
// The largest size of a window, a stride, a dilation and a pad.
constexpr int64_t kLargest = int64_t{1} << 24;

absl::StatusOr<Ints> PerDim(Node& node, std::string_view name, size_t size,
                            int64_t otherwise) {
  Ints list = node.IntList(name);
  if (list.empty()) list.assign(size, otherwise);
  if (list.size() != size) {
    return Invalid("attribute {} has {} entries, not {}", name, list.size(),
                   size);
  }
  for (int64_t entry : list) {
    // Products of two are exact, also as sums with dims.
    if (std::clamp(entry, -kLargest, kLargest) == entry) continue;
    return Invalid("attribute {} has {}, at most {} is possible", name, entry,
                   kLargest);
  }
  return list;
}

// auto_pad SAME: as many results as strides fit into the input, the odd zero
// at the end (SAME_UPPER) or in front.
void PadSame(const Type& x, bool upper, Windows* windows) {
  for (size_t i = 0; i < windows->taps.size(); ++i) {
    int64_t size = x.size(static_cast<int>(i) + 2),
            stride = windows->strides[i];
    int64_t reach = (windows->taps[i] - 1) * windows->dilations[i] + 1;
    int64_t results = (size + stride - 1) / stride;
    int64_t pads = std::max((results - 1) * stride + reach - size, int64_t{0});
    windows->before[i] = upper ? pads / 2 : pads - pads / 2;
    windows->after[i] = pads - windows->before[i];
  }
}

// ceil_mode: a last window that begins inside the input or the zeros before it
// counts even if it ends beyond.
void PadCeil(const Type& x, Windows* windows) {
  for (size_t i = 0; i < windows->taps.size(); ++i) {
    int64_t size = x.size(static_cast<int>(i) + 2),
            stride = windows->strides[i];
    int64_t reach = (windows->taps[i] - 1) * windows->dilations[i] + 1;
    int64_t room = size + windows->before[i] + windows->after[i] - reach;
    if (room <= 0 || room % stride == 0) continue;
    int64_t start = (room / stride + 1) * stride;
    if (start >= size + windows->before[i]) continue;
    windows->after[i] += stride - room % stride;
  }
}

absl::StatusOr<Windows> WindowsOf(Node& node, const Ints& taps) {
  size_t spatial = taps.size();
  if (static_cast<int>(spatial) + 2 != node.rank()) {
    return Invalid("a window of {} dims for an input of rank {}", spatial,
                   node.rank());
  }
  Windows windows{.taps = taps};
  ASYRA_ASSIGN_OR_RETURN(Ints shape,
                         PerDim(node, "kernel_shape", spatial, taps[0]));
  if (node.HasAttr("kernel_shape") && shape != taps) {
    return Invalid("kernel_shape is {}, the weight has {}",
                   ShapeToString(shape), ShapeToString(taps));
  }
  ASYRA_ASSIGN_OR_RETURN(windows.strides, PerDim(node, "strides", spatial, 1));
  ASYRA_ASSIGN_OR_RETURN(windows.dilations,
                         PerDim(node, "dilations", spatial, 1));
  for (const Ints* list : {&windows.strides, &windows.dilations}) {
    for (int64_t entry : *list) {
      if (entry < 1) return Invalid("a stride or dilation is {}", entry);
    }
  }
  ASYRA_ASSIGN_OR_RETURN(Ints pads, PerDim(node, "pads", 2 * spatial, 0));
  windows.before.assign(pads.begin(), pads.begin() + spatial);
  windows.after.assign(pads.begin() + spatial, pads.end());
  std::string form = node.String("auto_pad", "NOTSET");
  if (form == "SAME_UPPER" || form == "SAME_LOWER") {
    PadSame(node.type(), form == "SAME_UPPER", &windows);
  } else if (form != "NOTSET" && form != "VALID") {
    return Invalid("attribute auto_pad is '{}'", form);
  }
  return windows;
}

absl::Status RequireSpatial(Node& node, int input) {
  if (node.rank(input) >= 3) return absl::OkStatus();
  return Invalid("input {} has rank {}, at least 3 is needed", input,
                 node.rank(input));
}

Ints SpatialSizes(const Type& type) {
  Ints sizes;
  for (int d = 2; d < type.rank(); ++d) sizes.push_back(type.size(d));
  return sizes;
}

// With the bias, input 2, if there is one.
absl::Status ReturnWithBias(Node& node, const Value& matmul) {
  if (!node.Has(2)) return node.Return(matmul);
  asyra::Shape shape(matmul.rank() - 1, 1);
  shape[0] = node.type(2).num_elements();
  ASYRA_ASSIGN_OR_RETURN(Value bias, node.graph().Reshape(node.In(2), shape));
  return node.Return(node.graph().Elementwise("add", {matmul, bias}));
}

// Pads of a transposed convolution whose results' sizes are given, or follow
// from auto_pad SAME.
absl::Status PadForResult(Node& node, const Ints& extra, Windows* windows) {
  std::string form = node.String("auto_pad", "NOTSET");
  bool same = form.starts_with("SAME");
  if (!same && !node.HasAttr("output_shape")) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(Ints sizes,
                         PerDim(node, "output_shape", windows->taps.size(), 0));
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t size = node.type().size(static_cast<int>(i) + 2);
    int64_t stride = windows->strides[i];
    int64_t reach = (windows->taps[i] - 1) * windows->dilations[i] + 1;
    if (!node.HasAttr("output_shape")) sizes[i] = size * stride;
    int64_t rest = (size - 1) * stride + extra[i] + reach - sizes[i];
    int64_t pads = std::max(rest, int64_t{0});
    windows->before[i] = form == "SAME_UPPER" ? pads / 2 : pads - pads / 2;
    windows->after[i] = rest - windows->before[i];  // zeros where it is short
  }
  return absl::OkStatus();
}

// w [(g c), o, taps] of a transposed convolution as the [(g o), c, taps] of a
// convolution, its taps in reverse order.
absl::StatusOr<Value> Reversed(Node& node, int64_t groups) {
  Graph& graph = node.graph();
  asyra::Shape shape = node.In(1).shape();
  if (groups < 1 || shape[0] % groups != 0) {
    return Invalid("{} groups do not divide {} channels", groups, shape[0]);
  }
  asyra::Shape parted = {groups, shape[0] / groups};
  parted.insert(parted.end(), shape.begin() + 1, shape.end());
  Ints perm(parted.size());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[1], perm[2]);
  ASYRA_ASSIGN_OR_RETURN(Value w, graph.Reshape(node.In(1), parted));
  ASYRA_ASSIGN_OR_RETURN(w, graph.Transpose(w, perm));
  std::swap(parted[1], parted[2]);
  parted[1] *= groups;
  parted.erase(parted.begin());
  ASYRA_ASSIGN_OR_RETURN(w, graph.Reshape(w, parted));
  for (int d = 2; d < w.rank(); ++d) {
    ASYRA_ASSIGN_OR_RETURN(w, graph.Slice(w, d, -1, INT64_MIN, -1));
  }
  return w;
}

}  // namespace

absl::Status Conv(Node& node) {
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 0));
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 1));
  int64_t groups = node.Int("group", 1);
  int64_t channels = node.type(0).size(1), of_each = node.type(1).size(1);
  bool fits = groups >= 1 && groups <= std::max(channels, int64_t{1}) &&
              of_each * groups == channels;
  if (!fits) {
    return Invalid("{} channels in {} groups, the weight takes {} of each",
                   channels, groups, of_each);
  }
  ASYRA_ASSIGN_OR_RETURN(Windows windows,
                         WindowsOf(node, SpatialSizes(node.type(1))));
  ASYRA_ASSIGN_OR_RETURN(
      Value matmul,
      node.graph().Add("conv", {node.In(0), node.In(1)}, windows.Attrs()));
  return ReturnWithBias(node, matmul);
}

absl::Status ConvTranspose(Node& node) {
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 0));
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 1));
  ASYRA_ASSIGN_OR_RETURN(Windows windows,
                         WindowsOf(node, SpatialSizes(node.type(1))));
  ASYRA_ASSIGN_OR_RETURN(
      Ints extra, PerDim(node, "output_padding", windows.taps.size(), 0));
  ASYRA_RETURN_IF_ERROR(PadForResult(node, extra, &windows));
  ASYRA_ASSIGN_OR_RETURN(Value w, Reversed(node, node.Int("group", 1)));
  for (size_t i = 0; i < windows.taps.size(); ++i) {
    int64_t reach = (windows.taps[i] - 1) * windows.dilations[i];
    windows.before[i] = reach - windows.before[i];
    windows.after[i] = reach - windows.after[i] + extra[i];
  }
  ASYRA_ASSIGN_OR_RETURN(Value matmul,
                         node.graph().Add("conv", {node.In(0), w},
                                          {{"input_dilations", windows.strides},
                                           {"dilations", windows.dilations},
                                           {"pads", windows.Pads()}}));
  return ReturnWithBias(node, matmul);
}

absl::Status GlobalAveragePool(Node& node) {
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 0));
  Ints dims;
  for (int d = 2; d < node.rank(); ++d) dims.push_back(d);
  return node.Return(
      node.graph().Add("reduce_mean", {node.In(0)}, {{"dims", dims}}));
}

// The sum over windows is a convolution of every channel by ones.
absl::Status AveragePool(Node& node) {
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 0));
  Graph& graph = node.graph();
  bool ceil = node.Int("ceil_mode", 0) != 0;
  bool count_pads = node.Int("count_include_pad", 0) != 0;
  ASYRA_ASSIGN_OR_RETURN(Windows windows,
                         WindowsOf(node, node.IntList("kernel_shape")));
  Windows counted = windows;
  if (ceil) PadCeil(node.type(), &windows);
  asyra::Shape planes = node.In(0).shape();
  planes[0] *= planes[1];
  planes[1] = 1;
  asyra::Shape ones = {1, 1};
  ones.insert(ones.end(), windows.taps.begin(), windows.taps.end());
  ASYRA_ASSIGN_OR_RETURN(Value x, graph.Reshape(node.In(0), planes));
  Value one = graph.Scalar(1, node.dtype());
  ASYRA_ASSIGN_OR_RETURN(Value w, graph.Broadcast(one, ones));
  ASYRA_ASSIGN_OR_RETURN(Value sum, graph.Add("conv", {x, w}, windows.Attrs()));
  // The count of elements of each window; what ceil_mode added never counts.
  asyra::Shape plane = planes;
  plane[0] = 1;
  Windows inside = windows;
  if (count_pads) {
    for (size_t i = 0; i < windows.taps.size(); ++i) {
      plane[i + 2] += counted.before[i] + counted.after[i];
      inside.before[i] = 0;
      inside.after[i] -= counted.after[i];
    }
  }
  Value count = graph.Scalar(static_cast<double>(NumElements(windows.taps)),
                             node.dtype());
  if (inside.IsPadded()) {
    ASYRA_ASSIGN_OR_RETURN(Value all, graph.Broadcast(one, plane));
    ASYRA_ASSIGN_OR_RETURN(count, graph.Add("conv", {all, w}, inside.Attrs()));
  }
  ASYRA_ASSIGN_OR_RETURN(Value mean, graph.Elementwise("div", {sum, count}));
  asyra::Shape shape = mean.shape();
  shape[0] = node.type().size(0);
  shape[1] = node.type().size(1);
  return node.Return(graph.Reshape(mean, shape));
}

// The largest of strided slices, one for each tap, dimension by dimension.
absl::Status MaxPool(Node& node) {
  ASYRA_RETURN_IF_ERROR(RequireSpatial(node, 0));
  node.Ignore("storage_order");  // of the indices
  if (node.WantsOutput(1)) {
    return Unimplemented("output 1, the indices, is not supported");
  }
  Graph& graph = node.graph();
  bool ceil = node.Int("ceil_mode", 0) != 0;
  ASYRA_ASSIGN_OR_RETURN(Windows windows,
                         WindowsOf(node, node.IntList("kernel_shape")));
  if (ceil) PadCeil(node.type(), &windows);
  Value x = node.In(0);
  if (windows.IsPadded()) {
    Ints before = {0, 0}, after = {0, 0};
    before.insert(before.end(), windows.before.begin(), windows.before.end());
    after.insert(after.end(), windows.after.begin(), windows.after.end());
    ASYRA_ASSIGN_OR_RETURN(
        x, graph.Add("pad", {x},
                     {{"before", before},
                      {"after", after},
                      {"value", IsFloat(x.dtype()) ? -HUGE_VAL : -0x1p63}}));
  }
  for (size_t i = 0; i < windows.taps.size(); ++i) {
    int dim = static_cast<int>(i) + 2;
    int64_t stride = windows.strides[i], dilation = windows.dilations[i];
    int64_t last = (windows.taps[i] - 1) * dilation;
    int64_t room = x.type().size(dim) - last - 1;
    if (windows.taps[i] < 1 || room < 0) {
      return Invalid("dim {} has size {} with its pads, the window {}", dim,
                     x.type().size(dim), last + 1);
    }
    if (windows.taps[i] > kMostTaps) {
      return Unimplemented("a window of {} elements along a dim",
                           windows.taps[i]);
    }
    std::optional<Value> largest;
    for (int64_t start = 0; start <= last; start += dilation) {
      ASYRA_ASSIGN_OR_RETURN(
          Value part, graph.Slice(x, dim, start, start + room + 1, stride));
      if (largest.has_value()) {
        ASYRA_ASSIGN_OR_RETURN(part,
                               graph.Elementwise("max", {*largest, part}));
      }
      largest = std::move(part);
    }
    x = *largest;
  }
  return node.Return(x);
}

}  // namespace asyra::onnx_import::ops
