// Resize: every result along a dimension is a weighted sum of elements, so
// that interpolation is a matmul with a known matrix, dimension by dimension.
#include <cmath>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

struct Interpolation {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false;
};

// Where result i is among the elements.
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

// The weights [in, out] of one dimension.
Tensor Weights(const Interpolation& form, int64_t in, int64_t out,
               double scale) {
  std::vector<double> weights(in * out, 0.0);
  int64_t reach = form.mode == "cubic" ? 2 : 1;
  for (int64_t i = 0; i < out; ++i) {
    double x = Coordinate(form, i, in, out, scale), sum = 0;
    auto floor = static_cast<int64_t>(std::floor(x));
    for (int64_t at = floor - reach + 1; at <= floor + reach; ++at) {
      double distance = x - static_cast<double>(at);
      double weight = form.mode == "cubic" ? Cubic(form.cubic, distance)
                                           : 1 - std::abs(distance);
      if (form.exclude_outside && (at < 0 || at >= in)) continue;
      weights[std::clamp(at, int64_t{0}, in - 1) * out + i] += weight;
      sum += weight;
    }
    for (int64_t at = 0; at < in; ++at) weights[at * out + i] /= sum;
  }
  return Tensor::FromDoubles(DType::kF32, {in, out}, weights);
}

absl::StatusOr<Value> ResizeDim(Node& node, const Interpolation& form,
                                const Value& x, int dim, int64_t out,
                                double scale) {
  Graph& graph = node.graph();
  int64_t in = x.type().size(dim);
  if (in == 0 || out > (int64_t{1} << 20)) {
    return Unimplemented("from size {} to {}", in, out);
  }
  if (form.mode == "nearest") {
    Ints from;
    for (int64_t i = 0; i < out; ++i) {
      from.push_back(
          std::clamp(Nearest(form, Coordinate(form, i, in, out, scale)),
                     int64_t{0}, in - 1));
    }
    Value indices = Value::Known(Tensor::FromInts(DType::kI64, {out}, from));
    return graph.Add("gather", {x, indices}, {{"dim", int64_t{dim}}});
  }
  ASYRA_ASSIGN_OR_RETURN(
      Value weights,
      graph.Cast(Value::Known(Weights(form, in, out, scale)), x.dtype()));
  Ints perm;
  for (int d = 0; d < x.rank(); ++d) perm.push_back(d);
  std::swap(perm[dim], perm.back());
  ASYRA_ASSIGN_OR_RETURN(Value moved, graph.Transpose(x, perm));
  if (moved.rank() == 1) {
    ASYRA_ASSIGN_OR_RETURN(moved, graph.Reshape(moved, {1, in}));
    ASYRA_ASSIGN_OR_RETURN(moved, graph.Add("matmul", {moved, weights}));
    return graph.Reshape(moved, {out});
  }
  ASYRA_ASSIGN_OR_RETURN(moved, graph.Add("matmul", {moved, weights}));
  return graph.Transpose(moved, perm);
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
      scales->push_back(
          static_cast<double>((*sizes)[i]) /
          static_cast<double>(node.type().size(static_cast<int>(axes[i]))));
    }
  } else if (std::optional<Tensor> given = KnownScales(node)) {
    *scales = given->ToDoubles();
    for (size_t i = 0; i < std::min(scales->size(), axes.size()); ++i) {
      auto in =
          static_cast<double>(node.type().size(static_cast<int>(axes[i])));
      sizes->push_back(static_cast<int64_t>(std::floor(in * (*scales)[i])));
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
