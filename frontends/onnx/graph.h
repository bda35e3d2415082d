// The program during import. Ops on known values are computed at once by the
// reference of the IR op; others are added to the program.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "frontends/onnx/value.h"
#include "ir/builder.h"
#include "ir/op_sources.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"

namespace asyra::onnx_import {

class Graph {
 public:
  Value Input(std::string_view name, const Type& type, InputRole role);
  // A weight with data. `origin`: its tensor in the file; null: the one of its
  // name.
  Value Weight(std::string_view name, const Tensor& data,
               std::shared_ptr<const WeightOrigin> origin = nullptr);
  // Notes another tensor of the file that a weight stands for too.
  void AddCopy(const Value& weight, const WeightOrigin::Tied& copy);
  // Says why a weight is no parameter (WeightOrigin::constant); other values
  // are left as they are.
  void MarkConstant(const Value& value, std::string_view reason);
  bool IsWeight(const Value& value) const;
  // A known tensor of a Constant node that may be trained: nothing that follows
  // from it is known.
  static bool IsParameter(const Value& value);
  // The name of an input in the program.
  const std::string& NameOf(const Value& input) const {
    return builder_.program().value_name(input.id());
  }
  // Data of a weight that has it, else null.
  const Tensor* WeightData(const Value& value) const;

  // Ops added from now on are named so.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  // The node that they are added for: OpSources.
  const std::string& source() const { return source_; }
  void set_source(std::string source) { source_ = std::move(source); }

  // An IR op of one result. Known operands give a known result of up to 64K
  // elements; larger ones become ops. Errors are those of type inference.
  absl::StatusOr<Value> Add(std::string_view op, absl::Span<const Value> values,
                            AttrMap attrs = {});
  // The same for an op of any number of results.
  absl::StatusOr<std::vector<Value>> AddMany(std::string_view op,
                                             absl::Span<const Value> values,
                                             AttrMap attrs = {});
  // Does the same as Add for ops that work element by element on operands that
  // broadcast. Known operands are computed at the size in which they vary; an
  // op that would broadcast them to a larger shape (rows against columns) stays
  // an op.
  absl::StatusOr<Value> Elementwise(std::string_view op,
                                    absl::Span<const Value> values,
                                    AttrMap attrs = {});

  // Frequent ops; those that would change nothing return their operand.
  absl::StatusOr<Value> Reshape(const Value& value,
                                absl::Span<const int64_t> shape);
  absl::StatusOr<Value> Transpose(const Value& value, const Ints& perm);
  absl::StatusOr<Value> Broadcast(const Value& value,
                                  absl::Span<const int64_t> shape);
  absl::StatusOr<Value> Cast(const Value& value, DType dtype);
  absl::StatusOr<Value> Iota(absl::Span<const int64_t> shape, int dim,
                             DType dtype);
  // Rows start, start+step, ... up to `stop`, exclusive, of one dimension.
  // start and stop are clamped to what exists, as ONNX has it.
  absl::StatusOr<Value> Slice(const Value& value, int dim, int64_t start,
                              int64_t stop, int64_t step = 1);
  Value Scalar(double element, DType dtype) const;

  // The program's value. Known data becomes the most specific of: a constant,
  // an iota, a comparison of two (a causal mask), a weight.
  absl::StatusOr<ValueId> Materialize(const Value& value);

  // The program with these outputs, without what they do not need. `sources`
  // gets the nodes of its ops.
  absl::StatusOr<Program> Finish(
      std::string_view name,
      absl::Span<const std::pair<std::string, ValueId>> outputs,
      OpSources* sources) &&;

 private:
  absl::StatusOr<std::vector<Value>> AddOp(std::string_view op,
                                           absl::Span<const ValueId> operands,
                                           AttrMap attrs);
  // Calls `change` with the origin of a weight; other values have none.
  template <typename Change>
  void ChangeOrigin(const Value& weight, Change change);
  // Several floats of the file that become a weight where an op reads them.
  static bool MayBeWeight(const Value& value);
  ValueId StoredWeight(const Value& value, const std::string& name);
  absl::StatusOr<ValueId> Compact(const Value& value);
  absl::StatusOr<ValueId> MakeCompact(const Value& value);

  Builder builder_;
  WeightStore weights_;
  std::string name_, source_;
  std::map<ValueId, std::string> sources_;
  // Known data that the program already has: bytes for small tensors, the
  // address for others, which `alive_` keeps from being reused.
  std::map<std::string, ValueId> made_;
  std::vector<Tensor> alive_;
};

}  // namespace asyra::onnx_import
