// Known values in the program: constants, what computes them, and weights.
#include "frontends/onnx/exported_names.h"
#include "frontends/onnx/graph.h"
#include "frontends/onnx/known_form.h"
#include "ir/support/status.h"

namespace asyra::onnx_import {
namespace {

// Constants of so few elements are written into the program.
constexpr int64_t kSmall = 16;

}  // namespace

absl::StatusOr<ValueId> Graph::Materialize(const Value& value) {
  if (value.is_sequence()) return Invalid("a sequence is not a tensor");
  if (!value.known()) return value.id();
  ASYRA_ASSIGN_OR_RETURN(ValueId id, Compact(value));
  if (builder_.type(id).shape() == value.shape()) return id;
  std::string key = fmt::format("{} to {}", id, ShapeToString(value.shape()));
  auto [entry, added] = made_.emplace(key, kNoValue);
  if (added) {
    Shape shape = value.shape();
    ASYRA_ASSIGN_OR_RETURN(
        entry->second,
        builder_.AddOne("broadcast", {id},
                        {{"shape", Ints(shape.begin(), shape.end())}}, name_));
  }
  return entry->second;
}

// Several floats that a Constant node stores, as an initializer may. One number
// everywhere is what its name says it is.
bool Graph::MayBeWeight(const Value& value) {
  if (!value.stored() || !IsFloat(value.dtype())) return false;
  return value.data().num_elements() > 1 ||
         (NumElements(value.shape()) > 1 &&
          !IsMadeUpName(value.name(), value.rank()));
}

bool Graph::IsParameter(const Value& value) {
  return value.known() && MayBeWeight(value) &&
         !IsMadeUpName(value.name(), value.rank());
}

absl::StatusOr<ValueId> Graph::Compact(const Value& value) {
  const Tensor& data = value.data();
  std::string key =
      fmt::format("{}{}", ToString(data.dtype()), ShapeToString(data.shape()));
  // Equal bytes make no stored tensors one: each may be a parameter.
  if (data.num_elements() <= kSmall && !MayBeWeight(value)) {
    key.append(reinterpret_cast<const char*>(data.data()), data.bytes());
  } else {
    key += fmt::format("at{}", fmt::ptr(data.data()));
  }
  auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  ASYRA_ASSIGN_OR_RETURN(ValueId id, MakeCompact(value));
  alive_.push_back(data);
  made_.emplace(std::move(key), id);
  return id;
}

// Adds a weight in the shape that the file has.
ValueId Graph::StoredWeight(const Value& value, const std::string& name) {
  Tensor data = value.Expanded();
  Value weight = Weight(name, data);
  if (data.num_elements() <= kSmall && IsMadeUpName(name, data.rank())) {
    MarkConstant(weight, "few numbers that nodes write, without a name");
  }
  return weight.id();
}

absl::StatusOr<ValueId> Graph::MakeCompact(const Value& value) {
  const Tensor& data = value.data();
  std::string name = value.name().empty() ? "constant" : value.name();
  bool may_be_weight = MayBeWeight(value);
  if (data.num_elements() == 1 && !may_be_weight) {
    return builder_.Constant(data.Reshaped({}), name);
  }
  auto add = [&](std::string_view op, const std::vector<ValueId>& operands,
                 AttrMap attrs = {}) {
    return builder_.AddOne(op, operands, std::move(attrs), name);
  };
  auto line = [&](const Shape& shape, int dim, DType dtype, int64_t start,
                  int64_t step) -> absl::StatusOr<ValueId> {
    ASYRA_ASSIGN_OR_RETURN(ValueId id,
                           add("iota", {},
                               {{"shape", Ints(shape.begin(), shape.end())},
                                {"dim", int64_t{dim}},
                                {"dtype", dtype}}));
    auto with = [&](std::string_view op,
                    int64_t element) -> absl::StatusOr<ValueId> {
      Value scalar = Scalar(static_cast<double>(element), dtype);
      ASYRA_ASSIGN_OR_RETURN(ValueId constant, Compact(scalar));
      return add(op, {id, constant});
    };
    if (step != 1) {
      ASYRA_ASSIGN_OR_RETURN(id, with("mul", step));
    }
    if (start != 0) {
      ASYRA_ASSIGN_OR_RETURN(id, with("add", start));
    }
    return id;
  };
  if (auto form = AsLine(data)) {
    return line(data.shape(), form->dim, data.dtype(), form->start, form->step);
  }
  if (may_be_weight) return StoredWeight(value, name);
  if (data.num_elements() <= kSmall) return builder_.Constant(data, name);
  if (auto form = AsTriangle(data)) {
    Shape rows(data.rank(), 1), columns(data.rank(), 1);
    rows[form->row_dim] = data.size(form->row_dim);
    columns[form->column_dim] = data.size(form->column_dim);
    ASYRA_ASSIGN_OR_RETURN(ValueId column,
                           line(columns, form->column_dim, DType::kI64, 0, 1));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId row, line(rows, form->row_dim, DType::kI64, form->diagonal, 1));
    return add("less_equal", {column, row});
  }
  if (value.stored()) return Weight(name, data).id();
  // Folded here: the file has no such tensor.
  return Weight(name, data,
                std::make_shared<WeightOrigin>(WeightOrigin{
                    .tensor = name, .shape = data.shape(), .made = true}))
      .id();
}

}  // namespace asyra::onnx_import
