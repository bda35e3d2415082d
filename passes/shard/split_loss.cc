#include "passes/shard/split_loss.h"

#include <cmath>
#include <utility>

#include "ir/builder.h"
#include "ir/support/status.h"
#include "passes/shard/axis_roles.h"

namespace asyra {
namespace {

// Devices over which weights are sharded.
int64_t ModelDevices(const Mesh& mesh) {
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes()) {
    if (RoleOf(axis.name) == AxisRole::kModel) devices *= axis.size;
  }
  return devices;
}

class Splitter {
 public:
  explicit Splitter(const Program& program)
      : from_(program),
        def_use_(program),
        parts_(ModelDevices(program.mesh)),
        builder_(Builder::Like(program)),
        map_(program.values.size(), kNoValue) {}

  absl::StatusOr<bool> Run(Program* program, PassContext& context) {
    int split = 0;
    for (const Input& input : from_.inputs) {
      map_[input.value] =
          builder_.Input(from_.value_name(input.value), from_.type(input.value),
                         input.role, input.stored);
    }
    for (const Op& op : from_.ops) {
      if (op.def->name == "cross_entropy" && parts_ > 1) {
        Logits logits = LogitsOf(op.operands[0]);
        if (Width(logits.value) % parts_ == 0) {
          ASYRA_ASSIGN_OR_RETURN(map_[op.results[0]], Split(op, logits));
          ++split;
          continue;
        }
      }
      ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
    }
    if (split == 0) {
      context.Remark("split_loss: no vocabulary that a model axis divides");
      return false;
    }
    for (const Output& output : from_.outputs) {
      ValueId alias = output.alias == kNoValue ? kNoValue : map_[output.alias];
      builder_.Output(map_[output.value], alias, output.name);
    }
    *program = std::move(builder_).Finish();
    return true;
  }

 private:
  // Rows of logits in the old program, padded or not.
  struct Logits {
    ValueId value = kNoValue;
    int64_t size = 0;  // of the vocabulary
  };

  int64_t Width(ValueId value) const {
    return from_.type(value).dims.back().size;
  }

  const Op* MadeBy(ValueId value, std::string_view name) const {
    int def = def_use_.def[value];
    return def >= 0 && from_.ops[def].def->name == name ? &from_.ops[def]
                                                        : nullptr;
  }

  // Behind a cast and a slice that keeps the beginning of each row.
  Logits LogitsOf(ValueId value) const {
    Logits logits{value, Width(value)};
    const Op* cast = MadeBy(value, "cast");
    const Op* slice =
        MadeBy(cast == nullptr ? value : cast->operands[0], "slice");
    if (slice == nullptr || logits.size % parts_ == 0) return logits;
    const Type& whole = from_.type(slice->operands[0]);
    if (NormalizeDim(slice->attrs.Int("dim"), whole.rank()) ==
            whole.rank() - 1 &&
        slice->attrs.Int("start") == 0 && slice->attrs.Int("step") == 1) {
      logits.value = slice->operands[0];
    }
    return logits;
  }

  absl::StatusOr<ValueId> Add(std::string_view op,
                              const std::vector<ValueId>& operands,
                              AttrMap attrs = {}) {
    return builder_.AddOne(op, operands, std::move(attrs), name_);
  }
  absl::StatusOr<ValueId> Reshape(ValueId value, const Shape& shape) {
    return Add("reshape", {value},
               {{"shape", Ints(shape.begin(), shape.end())}});
  }
  ValueId Number(double number, DType dtype) {
    return builder_.Constant(Tensor::FromDoubles(dtype, {}, {number}));
  }
  // Of the last dimension.
  absl::StatusOr<ValueId> Reduce(std::string_view op, ValueId value) {
    int64_t last = builder_.type(value).rank() - 1;
    return Add(op, {value}, {{"dims", Ints{last}}, {"keep", false}});
  }

  absl::StatusOr<ValueId> Split(const Op& op, const Logits& logits) {
    name_ = from_.value_name(op.results[0]);
    ValueId labels = map_[op.operands[1]];
    DType integer = builder_.type(labels).dtype;
    index_ = inside_ = kNoValue;
    ASYRA_ASSIGN_OR_RETURN(ValueId wide, Wide(logits, integer, op));
    ASYRA_ASSIGN_OR_RETURN(ValueId x, Inside(wide, -HUGE_VAL));
    ASYRA_ASSIGN_OR_RETURN(ValueId sums, LogSumExp(x));
    ASYRA_ASSIGN_OR_RETURN(ValueId target, Target(wide, labels, logits, op));
    ASYRA_ASSIGN_OR_RETURN(ValueId loss, Add("sub", {sums, target}));
    ValueId number = builder_.Constant(
        Tensor::FromInts(integer, {}, {op.attrs.Int("ignore_index")}));
    ASYRA_ASSIGN_OR_RETURN(ValueId ignored, Add("equal", {labels, number}));
    return Add("select", {ignored, Number(0, builder_.type(loss).dtype), loss});
  }

  // The logits in the type of the loss.
  absl::StatusOr<ValueId> Wide(const Logits& logits, DType integer,
                               const Op& op) {
    ValueId x = map_[logits.value];
    DType dtype = from_.type(op.operands[0]).dtype;
    if (builder_.type(x).dtype != dtype) {
      ASYRA_ASSIGN_OR_RETURN(x, Add("cast", {x}, {{"to", dtype}}));
    }
    int64_t width = Width(logits.value);
    ASYRA_ASSIGN_OR_RETURN(
        index_,
        Add("iota", {},
            {{"shape", Ints{width}}, {"dim", int64_t{0}}, {"dtype", integer}}));
    if (width == logits.size) return x;
    ValueId size =
        builder_.Constant(Tensor::FromInts(integer, {}, {logits.size}));
    ASYRA_ASSIGN_OR_RETURN(inside_, Add("less", {index_, size}));
    return x;
  }

  // x with that number in the padding, if there is any.
  absl::StatusOr<ValueId> Inside(ValueId x, double number) {
    if (inside_ == kNoValue) return x;
    return Add("select", {inside_, x, Number(number, builder_.type(x).dtype)});
  }

  absl::StatusOr<ValueId> LogSumExp(ValueId x) {
    Shape shape = builder_.type(x).shape();
    shape.back() /= parts_;
    shape.insert(shape.end() - 1, parts_);
    ASYRA_ASSIGN_OR_RETURN(ValueId parts, Reshape(x, shape));
    // Kept dimensions, so that the gradient reads the sums as they are.
    int64_t last = builder_.type(parts).rank() - 1;
    ASYRA_ASSIGN_OR_RETURN(parts,
                           Add("log_sum_exp", {parts}, {{"dims", Ints{last}}}));
    return Add("log_sum_exp", {parts},
               {{"dims", Ints{last - 1, last}}, {"keep", false}});
  }

  // What cross_entropy takes from log_sum_exp: the logit of the label, with
  // smoothing also the mean of all.
  absl::StatusOr<ValueId> Target(ValueId x, ValueId labels,
                                 const Logits& logits, const Op& op) {
    DType dtype = builder_.type(x).dtype;
    Shape column = builder_.type(labels).shape();
    column.push_back(1);
    ASYRA_ASSIGN_OR_RETURN(ValueId label, Reshape(labels, column));
    ASYRA_ASSIGN_OR_RETURN(ValueId at, Add("equal", {label, index_}));
    ASYRA_ASSIGN_OR_RETURN(ValueId own,
                           Add("select", {at, x, Number(0, dtype)}));
    ASYRA_ASSIGN_OR_RETURN(own, Reduce("reduce_sum", own));
    double smoothing = op.attrs.Float("label_smoothing");
    if (smoothing == 0) return own;
    ASYRA_ASSIGN_OR_RETURN(own,
                           Add("mul", {own, Number(1 - smoothing, dtype)}));
    ASYRA_ASSIGN_OR_RETURN(ValueId all, Inside(x, 0));
    ASYRA_ASSIGN_OR_RETURN(all, Reduce("reduce_sum", all));
    ASYRA_ASSIGN_OR_RETURN(
        all,
        Add("mul", {all, Number(smoothing / static_cast<double>(logits.size),
                                dtype)}));
    return Add("add", {own, all});
  }

  const Program& from_;
  DefUse def_use_;
  int64_t parts_;
  Builder builder_;
  std::vector<ValueId> map_;
  std::string name_;           // of the loss that is split
  ValueId index_ = kNoValue;   // iota along its vocabulary
  ValueId inside_ = kNoValue;  // where that is no padding; if there is any
};

}  // namespace

absl::StatusOr<bool> SplitLoss(Program& program, const PassOptions&,
                               PassContext& context) {
  return Splitter(program).Run(&program, context);
}

}  // namespace asyra
