// Random ONNX models in f64 whose ops read parameters at any operand.
#pragma once

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/frontends/model_builder.h"
#include "tests/schedules/random_choice.h"

namespace asyra {

// A chain of values [batch, seq, width] in (-1, 1), each computed from the one
// before and from what an op gives that reads parameters, and their mean square
// as the loss. Inputs: `x` in (-1, 1), `far` of 2 and -2, so that its sum with
// x is away from 0, both of that shape, and `ids` i64[batch, seq] below kRows.
// Numbers that are no parameters come from these inputs, from attributes and
// from ops, since a stored float tensor is a parameter.
class RandomOnnxModel {
 public:
  using Shape = std::vector<int64_t>;
  using Attrs = std::vector<std::pair<std::string, ModelBuilder::Attr>>;
  static constexpr int kBatch = 4, kSeq = 6, kWidth = 8;
  static constexpr int64_t kRows = 8;
  static constexpr int kF64 = onnx::TensorProto::DOUBLE;
  static constexpr const char* kMicrosoft = "com.microsoft";

  struct Param {
    std::string name;
    Shape shape;
    std::vector<double> values;
    bool trained = true;  // false: a statistic or a table of positions
  };

  RandomOnnxModel(RandomChoice* choice, int opset)
      : choice_(*choice), builder_(opset) {
    onnx::OperatorSetIdProto* import = builder_.model.add_opset_import();
    import->set_domain(kMicrosoft);
    import->set_version(1);
    builder_.Input("x", kF64, {kBatch, kSeq, kWidth})
        .Input("far", kF64, {kBatch, kSeq, kWidth})
        .Input("ids", kI64, {kBatch, kSeq});
  }

  RandomChoice& choice() { return choice_; }
  int opset() const {
    return static_cast<int>(builder_.model.opset_import(0).version());
  }

  // The value that the chain has come to.
  const std::string& x() const { return x_; }
  // x away from 0: in (1, 3) or in (-3, -1).
  std::string FarX() { return Op("Add", {x_, "far"}); }
  // A condition [batch, seq, width] that no parameter changes.
  std::string Condition() { return Op("Less", {"far", x_}); }

  // A parameter with numbers in [low, high]; with `signs` also negative ones.
  std::string Uniform(const Shape& shape, double low, double high,
                      bool signs = false) {
    std::vector<double> values(Count(shape));
    for (double& value : values) {
      value = choice_.Uniform(low, high);
      if (signs && choice_.Half()) value = -value;
    }
    return Stored(shape, std::move(values));
  }
  // At times one that is read elsewhere too.
  std::string Weight(const Shape& shape) {
    for (const std::string& weight : weights_) {
      const Param& param = ParamOf(weight);
      if (param.shape == shape && choice_.Below(6) == 0) return weight;
    }
    weights_.push_back(Uniform(shape, 0.2, 0.9, true));
    return weights_.back();
  }
  // One whose numbers are at least 0.05 apart, for ops that choose the largest.
  std::string Distinct(const Shape& shape) {
    std::vector<double> values(Count(shape));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.05 * static_cast<double>(i) - 0.9;
    }
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[choice_.Below(i)]);
    }
    return Stored(shape, std::move(values));
  }
  std::string Stored(const Shape& shape, std::vector<double> values,
                     bool trained = true) {
    // Not a name that exporters give to constants.
    std::string name = fmt::format("layers.{}.weight", params_.size());
    builder_.Initializer(name, kF64, shape)
        ->set_raw_data(values.data(), values.size() * sizeof(double));
    params_.push_back({name, shape, std::move(values), trained});
    return name;
  }
  // A shape that broadcasts to that of the chain; [] and [1] are among them.
  Shape AnyShape() {
    return choice_.Pick<Shape>({{},
                                {1},
                                {kWidth},
                                {kSeq, 1},
                                {kSeq, kWidth},
                                {1, kSeq, kWidth},
                                {kBatch, 1, kWidth}});
  }

  std::string Ints(const std::vector<int64_t>& values, Shape shape = {-1}) {
    std::string name = Fresh("ints");
    builder_.Ints(name, values, std::move(shape));
    return name;
  }
  std::string Int32s(const std::string& ints) {
    return Op("Cast", {ints}, {{"to", int{onnx::TensorProto::INT32}}});
  }

  std::string Op(const std::string& op, const std::vector<std::string>& inputs,
                 const Attrs& attrs = {}, const std::string& domain = "") {
    return Ops(op, inputs, 1, attrs, domain)[0];
  }
  std::vector<std::string> Ops(const std::string& op,
                               const std::vector<std::string>& inputs,
                               int outputs, const Attrs& attrs = {},
                               const std::string& domain = "") {
    std::vector<std::string> names;
    std::string name = Fresh(op);
    for (int i = 0; i < outputs; ++i) {
      names.push_back(i == 0 ? name : fmt::format("{}_{}", name, i));
    }
    builder_.Node(op, inputs, names, attrs);
    builder_.last().set_domain(domain);
    return names;
  }
  std::string Contrib(const std::string& op,
                      const std::vector<std::string>& inputs,
                      const Attrs& attrs = {}) {
    return Op(op, inputs, attrs, kMicrosoft);
  }
  std::string Reshape(const std::string& value, const Shape& shape) {
    return Op("Reshape", {value, Ints(shape)});
  }

  // Goes on from `read`, which broadcasts to the chain's shape.
  void Continue(const std::string& read) {
    // The cosine keeps products that lose their gradients away from 0.
    std::string joined =
        choice_.Half() ? Op("Add", {x_, read})
                       : Op("Add", {Op("Mul", {x_, read}), Op("Cos", {x_})});
    x_ = Op("Tanh", {joined});
  }
  void Finish() {
    std::string loss =
        Op("ReduceMean", {Op("Mul", {x_, x_})}, {{"keepdims", 0}});
    builder_.Output(loss, kF64, {});
  }

  const ModelBuilder& builder() const { return builder_; }
  const std::vector<Param>& params() const { return params_; }

  // The model with other numbers in one parameter.
  ModelBuilder With(size_t param, const std::vector<double>& values) const {
    ModelBuilder changed = builder_;
    for (auto& tensor : *changed.graph().mutable_initializer()) {
      if (tensor.name() != params_[param].name) continue;
      tensor.set_raw_data(values.data(), values.size() * sizeof(double));
    }
    return changed;
  }

 private:
  static size_t Count(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), size_t{1},
                           std::multiplies<>());
  }
  const Param& ParamOf(const std::string& name) const {
    return *std::find_if(params_.begin(), params_.end(),
                         [&](const Param& one) { return one.name == name; });
  }
  std::string Fresh(const std::string& stem) {
    return fmt::format("{}_{}", stem, next_++);
  }

  RandomChoice& choice_;
  ModelBuilder builder_;
  std::vector<Param> params_;
  std::vector<std::string> weights_;  // names of those that may be shared
  std::string x_ = "x";
  int next_ = 0;
};

}  // namespace asyra
