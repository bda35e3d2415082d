// The value of an ONNX name during import.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra::onnx_import {

struct NarrowType;

// A known tensor, a value that the program computes, or a sequence of values.
class Value {
 public:
  // Known: `data` broadcasts to `shape` and stays as small as it is, so that
  // a mask of ones or a position index costs nothing at any size. Dimensions
  // along which `data` does not vary are reduced to 1.
  static Value Known(const Tensor& data);
  static Value Known(const Tensor& data, absl::Span<const int64_t> shape);
  static Value Computed(ValueId id, Type type);
  static Value Sequence(std::vector<Value> parts);

  bool known() const { return data_.has_value(); }
  bool is_sequence() const { return is_sequence_; }
  // Global shape and element type, of a value that is no sequence.
  const Type& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  Shape shape() const { return type_.shape(); }
  int rank() const { return type_.rank(); }

  // Known values: the data, of the value's rank.
  const Tensor& data() const { return *data_; }
  // All elements are equal.
  bool is_splat() const { return known() && data_->num_elements() == 1; }
  bool IsSplatOf(double element) const {
    return is_splat() && data_->Get(0) == element;
  }
  // The data repeated to the whole shape.
  Tensor Expanded() const;

  ValueId id() const { return id_; }
  const std::vector<Value>& parts() const { return parts_; }

  // The ONNX type, where the IR's type is only its carrier.
  const NarrowType* narrow() const { return narrow_; }
  void set_narrow(const NarrowType* type) { narrow_ = type; }

  // Known values: the model stores the tensor as it is, in a Constant node.
  bool stored() const { return stored_; }
  void set_stored() { stored_ = true; }

  // Returns the origin, for names of weights.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  Type type_;
  std::optional<Tensor> data_;
  ValueId id_ = kNoValue;
  bool is_sequence_ = false, stored_ = false;
  std::vector<Value> parts_;
  const NarrowType* narrow_ = nullptr;
  std::string name_;
};

}  // namespace asyra::onnx_import
