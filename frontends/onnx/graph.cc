#include "frontends/onnx/graph.h"

#include "frontends/onnx/tensor_proto.h"
#include "ir/interpreter.h"
#include "ir/support/status.h"

namespace asyra::onnx_import {
namespace {

constexpr int64_t kMostFolded = 64 * 1024;
// Nothing is computed here that takes long.
constexpr double kMostFlops = 1e8;
// A vector of so few elements is computed with here.
constexpr int64_t kSmall = 16;

// Ops whose result has the elements of operand 0 in some other order: of
// equal elements they give equal elements.
constexpr std::string_view kMoves[] = {
    "reshape", "transpose", "slice",          "broadcast",
    "gather",  "gather_nd", "gather_elements"};

// True for a known value that does not follow from a parameter.
bool IsFoldable(const Value& value) {
  return value.known() && !Graph::IsParameter(value);
}

bool AllFoldable(absl::Span<const Value> values) {
  return std::all_of(values.begin(), values.end(), IsFoldable);
}

absl::StatusOr<Value> EvaluateKnown(const OpDef& def, const AttrMap& attrs,
                                    absl::Span<const Tensor> operands,
                                    const Type& type) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                         Evaluate(def, attrs, operands));
  return Value::Known(results[0], type.shape());
}

// The result types of `op` for operands of these types.
absl::StatusOr<std::vector<Type>> InferAll(const OpDef& def,
                                           const AttrMap& attrs,
                                           absl::Span<const Type> types) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> results,
                         InferTypes(def, attrs, types, Mesh()));
  for (const Type& type : results) {
    ASYRA_RETURN_IF_ERROR(CheckShape(type.shape()));
  }
  return results;
}

absl::StatusOr<Type> Infer(const OpDef& def, const AttrMap& attrs,
                           absl::Span<const Type> types) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> results,
                         InferAll(def, attrs, types));
  return results[0];
}

absl::StatusOr<const OpDef*> Find(std::string_view op) {
  const OpDef* def = FindOp(op);
  if (def == nullptr) return Unimplemented("the IR has no op {}", op);
  return def;
}

// `shape` without its ones: what a reshape that only adds or removes them
// keeps.
Shape Squeezed(const Shape& shape) {
  Shape squeezed;
  for (int64_t size : shape) {
    if (size != 1) squeezed.push_back(size);
  }
  return squeezed;
}

}  // namespace

Value Graph::Input(std::string_view name, const Type& type, InputRole role) {
  return Value::Computed(builder_.Input(name, type, role), type);
}

Value Graph::Weight(std::string_view name, const Tensor& data,
                    std::shared_ptr<const WeightOrigin> origin) {
  Value value =
      Input(name, Type(data.dtype(), data.shape()), InputRole::kWeight);
  builder_.mutable_program().inputs.back().origin = std::move(origin);
  weights_.Set(builder_.program().value_name(value.id()), data);
  return value;
}

template <typename Change>
void Graph::ChangeOrigin(const Value& weight, Change change) {
  if (weight.known() || weight.is_sequence()) return;
  Program& program = builder_.mutable_program();
  for (struct Input& input : program.inputs) {
    if (input.value != weight.id() || !asyra::IsWeight(input)) continue;
    auto origin = std::make_shared<WeightOrigin>(OriginOf(program, input));
    change(*origin);
    input.origin = std::move(origin);
  }
}

void Graph::MarkConstant(const Value& value, std::string_view reason) {
  absl::StatusOr<ValueId> id = value.id();
  if (IsParameter(value)) id = Compact(value);
  if (!id.ok()) return;  // where it is read, the error is reported
  ChangeOrigin(Value::Computed(*id, value.type()),
               [&](WeightOrigin& origin) { origin.constant = reason; });
}

void Graph::AddCopy(const Value& weight, const WeightOrigin::Tied& copy) {
  ChangeOrigin(weight,
               [&](WeightOrigin& origin) { origin.tied.push_back(copy); });
}

bool Graph::IsWeight(const Value& value) const {
  for (const struct Input& input : builder_.program().inputs) {
    if (input.value == value.id()) return asyra::IsWeight(input);
  }
  return false;
}

const Tensor* Graph::WeightData(const Value& value) const {
  if (value.known() || value.is_sequence() || !IsWeight(value)) return nullptr;
  return weights_.Find(builder_.program().value_name(value.id()));
}

absl::StatusOr<std::vector<Value>> Graph::AddOp(
    std::string_view op, absl::Span<const ValueId> operands, AttrMap attrs) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> ids,
                         builder_.Add(op, operands, std::move(attrs), name_));
  std::vector<Value> results;
  for (ValueId id : ids) {
    ASYRA_RETURN_IF_ERROR(CheckShape(builder_.type(id).shape()));
    results.push_back(Value::Computed(id, builder_.type(id)));
    if (!source_.empty()) sources_.emplace(id, source_);
  }
  return results;
}

absl::StatusOr<Value> Graph::Add(std::string_view op,
                                 absl::Span<const Value> values,
                                 AttrMap attrs) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> results,
                         AddMany(op, values, std::move(attrs)));
  return results[0];
}

absl::StatusOr<std::vector<Value>> Graph::AddMany(
    std::string_view op, absl::Span<const Value> values, AttrMap attrs) {
  if (AllFoldable(values) && !values.empty()) {
    ASYRA_ASSIGN_OR_RETURN(const OpDef* def, Find(op));
    ASYRA_RETURN_IF_ERROR(CompleteAttrs(*def, &attrs));
    std::vector<Type> types;
    bool fits = true;
    for (const Value& value : values) {
      types.push_back(value.type());
      fits &= value.type().num_elements() <=
              std::max(kMostFolded, value.data().num_elements());
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<Type> result_types,
                           InferAll(*def, attrs, types));
    if (values[0].is_splat() && std::find(std::begin(kMoves), std::end(kMoves),
                                          op) != std::end(kMoves)) {
      return std::vector<Value>{
          Value::Known(values[0].data().Reshaped({}), result_types[0].shape())};
    }
    for (const Type& type : result_types) {
      fits &= type.num_elements() <= kMostFolded;
    }
    double flops = WorkOf({*def, attrs, types, result_types}, Mesh()).flops;
    if (fits && flops <= kMostFlops) {
      std::vector<Tensor> operands;
      for (const Value& value : values) operands.push_back(value.Expanded());
      ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                             Evaluate(*def, attrs, operands));
      std::vector<Value> results;
      for (const Tensor& tensor : tensors) {
        results.push_back(Value::Known(tensor));
      }
      return results;
    }
  }
  std::vector<ValueId> operands;
  for (const Value& value : values) {
    ASYRA_ASSIGN_OR_RETURN(ValueId id, Materialize(value));
    operands.push_back(id);
  }
  return AddOp(op, operands, std::move(attrs));
}

absl::StatusOr<Value> Graph::Elementwise(std::string_view op,
                                         absl::Span<const Value> values,
                                         AttrMap attrs) {
  ASYRA_ASSIGN_OR_RETURN(const OpDef* def, Find(op));
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*def, &attrs));
  std::vector<Type> types;
  for (const Value& value : values) types.push_back(value.type());
  ASYRA_ASSIGN_OR_RETURN(Type type, Infer(*def, attrs, types));
  if (AllFoldable(values)) {
    std::vector<Tensor> operands;
    std::vector<Type> data_types;
    int64_t largest = kSmall;
    for (const Value& value : values) {
      operands.push_back(value.data());
      data_types.emplace_back(value.dtype(), value.data().shape());
      largest = std::max(largest, value.data().num_elements());
    }
    ASYRA_ASSIGN_OR_RETURN(Type varying, Infer(*def, attrs, data_types));
    if (varying.num_elements() <= std::min(largest, kMostFolded)) {
      return EvaluateKnown(*def, attrs, operands, type);
    }
  }
  std::vector<ValueId> operands;
  for (const Value& value : values) {
    ASYRA_ASSIGN_OR_RETURN(
        ValueId id,
        value.known() ? Compact(value) : absl::StatusOr<ValueId>(value.id()));
    operands.push_back(id);
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> results,
                         AddOp(op, operands, std::move(attrs)));
  const Value& result = results[0];
  return result.type().num_elements() == type.num_elements()
             ? Reshape(result, type.shape())
             : Broadcast(result, type.shape());
}

absl::StatusOr<Value> Graph::Reshape(const Value& value,
                                     absl::Span<const int64_t> shape) {
  ASYRA_RETURN_IF_ERROR(CheckShape(shape));
  Shape from = value.shape(), to(shape.begin(), shape.end());
  if (from == to) return value;
  if (IsFoldable(value) && Squeezed(from) == Squeezed(to)) {
    Shape data_shape(to.size(), 1);
    size_t at = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == 1) continue;
      while (to[at] == 1) ++at;
      data_shape[at++] = value.data().size(static_cast<int>(i));
    }
    return Value::Known(value.data().Reshaped(data_shape), to);
  }
  return Add("reshape", {value}, {{"shape", Ints(to.begin(), to.end())}});
}

absl::StatusOr<Value> Graph::Transpose(const Value& value, const Ints& perm) {
  bool identity = static_cast<int>(perm.size()) == value.rank();
  for (size_t i = 0; i < perm.size(); ++i) {
    identity &= perm[i] == static_cast<int64_t>(i);
  }
  if (identity) return value;
  AttrMap attrs = {{"perm", perm}};
  if (IsFoldable(value)) {
    ASYRA_ASSIGN_OR_RETURN(const OpDef* def, Find("transpose"));
    ASYRA_ASSIGN_OR_RETURN(Type type, Infer(*def, attrs, {value.type()}));
    return EvaluateKnown(*def, attrs, {value.data()}, type);
  }
  return Add("transpose", {value}, std::move(attrs));
}

absl::StatusOr<Value> Graph::Broadcast(const Value& value,
                                       absl::Span<const int64_t> shape) {
  ASYRA_RETURN_IF_ERROR(CheckShape(shape));
  if (value.shape() == Shape(shape.begin(), shape.end())) return value;
  AttrMap attrs = {{"shape", Ints(shape.begin(), shape.end())}};
  if (IsFoldable(value)) {
    ASYRA_ASSIGN_OR_RETURN(const OpDef* def, Find("broadcast"));
    ASYRA_RETURN_IF_ERROR(Infer(*def, attrs, {value.type()}).status());
    return Value::Known(value.data(), shape);
  }
  return Add("broadcast", {value}, std::move(attrs));
}

absl::StatusOr<Value> Graph::Cast(const Value& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return Elementwise("cast", {value}, {{"to", dtype}});
}

absl::StatusOr<Value> Graph::Iota(absl::Span<const int64_t> shape, int dim,
                                  DType dtype) {
  ASYRA_RETURN_IF_ERROR(CheckShape(shape));
  Shape varying(shape.size(), 1);
  varying[dim] = shape[dim];
  if (shape[dim] <= kMostFolded) {
    Tensor data(dtype, varying);
    for (int64_t i = 0; i < shape[dim]; ++i) {
      IsFloat(dtype) ? data.Set(i, static_cast<double>(i)) : data.SetInt(i, i);
    }
    return Value::Known(data, shape);
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> line,
                         AddOp("iota", {},
                               {{"shape", Ints(varying.begin(), varying.end())},
                                {"dim", int64_t{dim}},
                                {"dtype", dtype}}));
  return Broadcast(line[0], shape);
}

absl::StatusOr<Value> Graph::Slice(const Value& value, int dim, int64_t start,
                                   int64_t stop, int64_t step) {
  if (step == 0) return Invalid("the step of dim {} is 0", dim);
  int64_t size = value.type().size(dim);
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  // Counting from the end first; -size - 1 is "before the beginning".
  auto clamp = [&](int64_t at, int64_t least) {
    at = at < 0 ? std::max(at, -size - 1) + size : at;
    return std::clamp(at, std::min(least, high), high);
  };
  start = clamp(start, 0);
  stop = clamp(stop, low);
  if (step == 1 && start == 0 && stop == size) return value;
  if ((stop > start) != (step > 0)) stop = start;
  return Add("slice", {value},
             {{"dim", int64_t{dim}},
              {"start", start},
              {"stop", stop},
              {"step", step}});
}

Value Graph::Scalar(double element, DType dtype) const {
  return Value::Known(Tensor::FromDoubles(dtype, {}, {element}));
}

absl::StatusOr<Program> Graph::Finish(
    std::string_view name,
    absl::Span<const std::pair<std::string, ValueId>> outputs,
    OpSources* sources) && {
  Program program = std::move(builder_).Finish();
  std::vector<bool> live(program.values.size(), false);
  for (const auto& [output, id] : outputs) live[id] = true;
  std::vector<const Op*> kept;
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    if (std::none_of(op->results.begin(), op->results.end(),
                     [&](ValueId id) { return live[id]; })) {
      continue;
    }
    for (ValueId id : op->operands) live[id] = true;
    kept.push_back(&*op);
  }
  // An output gets its ONNX name; a value that had this name gets another.
  std::vector<bool> is_input(program.values.size(), false);
  for (const struct Input& input : program.inputs) is_input[input.value] = true;
  for (const auto& [output, id] : outputs) {
    ValueId holder = program.FindValue(output);
    if (is_input[id] || (holder != kNoValue && is_input[holder])) continue;
    if (holder != kNoValue) {
      program.values[holder].name = program.values[id].name;
    }
    program.values[id].name = output;
  }
  auto weights = std::make_shared<WeightStore>();
  Builder builder;
  std::vector<ValueId> map(program.values.size(), kNoValue);
  for (const struct Input& input : program.inputs) {
    const std::string& input_name = program.value_name(input.value);
    if (const Tensor* data = weights_.Find(input_name)) {
      if (!live[input.value]) continue;
      weights->Set(input_name, *data);
    }
    map[input.value] = builder.Input(program, input);
  }
  for (auto op = kept.rbegin(); op != kept.rend(); ++op) {
    ASYRA_RETURN_IF_ERROR(builder.Copy(program, **op, &map));
  }
  for (const auto& [output, id] : outputs) {
    builder.Output(map[id], kNoValue, output);
  }
  for (auto& [id, source] : sources_) {
    if (map[id] == kNoValue) continue;
    sources->emplace(builder.program().value_name(map[id]), std::move(source));
  }
  builder.mutable_program().name = std::string(name);
  builder.mutable_program().weights = std::move(weights);
  return std::move(builder).Finish();
}

}  // namespace asyra::onnx_import
