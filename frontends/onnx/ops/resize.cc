// Resize, dimension by dimension: every result is a weighted sum of two
// (linear) or four (cubic) elements, which are gathered. A matmul with the
// matrix of all weights would spread an infinity over the whole dimension.
#include <cmath>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

constexpr int64_t kMostOut = int64_t{1} << 20;

struct Interpolation {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false;
};

// Returns the place of result i among the elements.
double Coordinate(const Interpolation& form, int64_t i, int64_t in, int64_t out,
                  double scale) {
  auto x = static_cast<double>(i);
  auto from = static_cast<double>(in), to = static_cast<double>(out);
  if (form.coordinates == "asymmetric") return x / scale;
  if (form.coordinates == "align_corners") {
    return out == 1 ? 0 : x * (from - 1) / (to - 1);
  }
  if (form.coordinates == "pytorch_half_pixel" && out == 1) return 0;
  double half = (x + 0.5) / scale - 0.5;
  if (form.coordinates == "half_pixel_symmetric") {
    half += from / 2 * (1 - to / (scale * from));
  }
  return half;
}

int64_t Nearest(const Interpolation& form, double x) {
  if (form.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (form.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  double half = form.nearest == "round_prefer_ceil" ? 0.5 : -0.5;
  return static_cast<int64_t>(half > 0 ? std::floor(x + half)
                                       : std::ceil(x + half));
}

// Keys' cubic convolution at distance x.
double Cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// One of the elements that each result along a dimension is a sum of.
struct Tap {
  Ints from;                    // by result: which element
  std::vector<double> weights;  // and its weight
};

// Elements outside are those at the border.
std::vector<Tap> TapsOf(const Interpolation& form, int64_t in, int64_t out,
                        double scale) {
  int64_t reach = form.mode == "cubic" ? 2 : 1;
  std::vector<Tap> taps(2 * reach);
  for (int64_t i = 0; i < out; ++i) {
    double x = Coordinate(form, i, in, out, scale), sum = 0;
    // Past the border all is as on it, where one element has all the weight.
    if (form.mode == "linear")
      x = std::clamp(x, 0.0, static_cast<double>(in - 1));
    auto floor = static_cast<int64_t>(std::floor(x));
    for (int64_t k = 0; k < 2 * reach; ++k) {
      int64_t at = floor - reach + 1 + k;
      double distance = x - static_cast<double>(at);
      double weight = form.mode == "cubic" ? Cubic(form.cubic, distance)
                                           : 1 - std::abs(distance);
      if (form.exclude_outside && (at < 0 || at >= in)) weight = 0;
      taps[k].from.push_back(std::clamp(at, int64_t{0}, in - 1));
      taps[k].weights.push_back(weight);
      sum += weight;
    }
    for (Tap& tap : taps) tap.weights[i] /= sum;
  }
  // An element with weight 0 is not read, since zero times infinity is NaN;
  // half of the element with the largest weight replaces it.
  for (int64_t i = 0; i < out; ++i) {
    auto heaviest = std::max_element(
        taps.begin(), taps.end(), [i](const Tap& a, const Tap& b) {
          return std::abs(a.weights[i]) < std::abs(b.weights[i]);
        });
    for (Tap& tap : taps) {
      if (tap.weights[i] != 0) continue;
      tap.from[i] = heaviest->from[i];
      tap.weights[i] = heaviest->weights[i] /= 2;
    }
  }
  return taps;
}

absl::StatusOr<Value> GatherAlong(Node& node, const Value& x, int dim,
                                  const Ints& from) {
  Value indices = Value::Known(
      Tensor::FromInts(DType::kI64, {static_cast<int64_t>(from.size())}, from));
  return node.graph().Add("gather", {x, indices}, {{"dim", int64_t{dim}}});
}

template <typename Number>
absl::Status TooLarge(int64_t in, Number out) {
  return Unimplemented("from size {} to {}", in, out);
}

absl::StatusOr<Value> ResizeDim(Node& node, const Interpolation& form,
                                const Value& x, int dim, int64_t out,
                                double scale) {
  Graph& graph = node.graph();
  int64_t in = x.type().size(dim);
  if (in == 0 || out > kMostOut) return TooLarge(in, out);
  if (form.mode == "nearest") {
    Ints from;
    for (int64_t i = 0; i < out; ++i) {
      from.push_back(
          std::clamp(Nearest(form, Coordinate(form, i, in, out, scale)),
                     int64_t{0}, in - 1));
    }
    return GatherAlong(node, x, dim, from);
  }
  asyra::Shape shape(x.rank(), 1);
  shape[dim] = out;
  std::optional<Value> sum;
  for (const Tap& tap : TapsOf(form, in, out, scale)) {
    ASYRA_ASSIGN_OR_RETURN(Value part, GatherAlong(node, x, dim, tap.from));
    ASYRA_ASSIGN_OR_RETURN(Value weights,
                           graph.Cast(Value::Known(Tensor::FromDoubles(
                                          DType::kF32, shape, tap.weights)),
                                      x.dtype()));
    ASYRA_ASSIGN_OR_RETURN(part, graph.Elementwise("mul", {part, weights}));
    if (sum.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(part, graph.Elementwise("add", {*sum, part}));
    }
    sum = part;
  }
  return *sum;
}

// Floats of the model are weights rather than known values.
std::optional<Tensor> KnownScales(Node& node) {
  if (!node.Has(2)) return std::nullopt;
  if (node.In(2).known()) return node.In(2).Expanded();
  const Tensor* data = node.graph().WeightData(node.In(2));
  return data == nullptr ? std::nullopt : std::optional<Tensor>(*data);
}

// Sizes and scales of the dimensions that are resized.
absl::Status ReadSizes(Node& node, const Ints& axes, Ints* sizes,
                       std::vector<double>* scales) {
  if (node.Has(3) && node.type(3).num_elements() > 0) {
    ASYRA_ASSIGN_OR_RETURN(*sizes, node.KnownInts(3, "sizes"));
    for (size_t i = 0; i < std::min(sizes->size(), axes.size()); ++i) {
      if ((*sizes)[i] < 0) return Invalid("sizes[{}] is {}", i, (*sizes)[i]);
      scales->push_back(
          static_cast<double>((*sizes)[i]) /
          static_cast<double>(node.type().size(static_cast<int>(axes[i]))));
    }
  } else if (std::optional<Tensor> given = KnownScales(node)) {
    *scales = given->ToDoubles();
    for (size_t i = 0; i < std::min(scales->size(), axes.size()); ++i) {
      int64_t in = node.type().size(static_cast<int>(axes[i]));
      double scale = (*scales)[i],
             out = std::floor(static_cast<double>(in) * scale);
      if (!(scale > 0)) {
        return Invalid("scales[{}] is {}, it must be above 0", i, scale);
      }
      if (out > kMostOut) return TooLarge(in, out);
      sizes->push_back(static_cast<int64_t>(out));
    }
  } else {
    return Unimplemented("scales or sizes must be known");
  }
  if (sizes->size() == axes.size()) return absl::OkStatus();
  return Invalid("{} sizes for {} axes", sizes->size(), axes.size());
}

}  // namespace

absl::Status Resize(Node& node) {
  Interpolation form{
      .mode = node.String("mode", "nearest"),
      .coordinates =
          node.String("coordinate_transformation_mode", "half_pixel"),
      .nearest = node.String("nearest_mode", "round_prefer_floor"),
      .cubic = node.Float("cubic_coeff_a", -0.75),
      .exclude_outside = node.Int("exclude_outside", 0) != 0};
  node.Ignore("extrapolation_value");  // of tf_crop_and_resize
  if (form.mode != "nearest" && form.mode != "linear" && form.mode != "cubic") {
    return Invalid("attribute mode is '{}'", form.mode);
  }
  if (form.coordinates == "tf_crop_and_resize" ||
      node.Int("antialias", 0) != 0 ||
      node.String("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return Unimplemented(
        "cropping, antialiasing and kept aspect ratios are not supported");
  }
  Ints axes = node.IntList("axes");
  for (int64_t& axis : axes) {
    ASYRA_ASSIGN_OR_RETURN(axis, DimOf(axis, node.rank()));
  }
  for (int d = 0; !node.HasAttr("axes") && d < node.rank(); ++d) {
    axes.push_back(d);
  }
  Ints sizes;
  std::vector<double> scales;
  ASYRA_RETURN_IF_ERROR(ReadSizes(node, axes, &sizes, &scales));
  Value x = node.In(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    int dim = static_cast<int>(axes[i]);
    if (sizes[i] == x.type().size(dim) && scales[i] == 1) continue;
    ASYRA_ASSIGN_OR_RETURN(x,
                           ResizeDim(node, form, x, dim, sizes[i], scales[i]));
  }
  return node.Return(x);
}

}  // namespace asyra::onnx_import::ops
