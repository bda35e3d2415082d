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
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      if (op.def->name == "cross_entropy") {
        ASYRA_ASSIGN_OR_RETURN(map_[op.results[0]], Split(op, context));
        ++split;
      } else {
        ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
      }
    }
    if (split == 0) return false;
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

  // Finds the logits behind a cast to the type that losses are summed in, and a
  // slice that keeps the beginning of each row, unless the devices divide only
  // what is after it.
  Logits LogitsOf(ValueId value) const {
    Logits logits{value, Width(value)};
    const Op* cast = MadeBy(value, "cast");
    if (cast != nullptr && IsFloat(from_.type(cast->operands[0]).dtype) &&
        SizeOf(from_.type(cast->operands[0]).dtype) == 2 &&
        from_.type(value).dtype == DType::kF32) {
      logits.value = cast->operands[0];
    }
    const Op* slice = MadeBy(logits.value, "slice");
    if (slice == nullptr) return logits;
    const Type& whole = from_.type(slice->operands[0]);
    if (logits.size % parts_ == 0 && whole.dims.back().size % parts_ != 0)
      return logits;
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
  // Reduces the last dimension.
  absl::StatusOr<ValueId> Reduce(std::string_view op, ValueId value) {
    int64_t last = builder_.type(value).rank() - 1;
    return Add(op, {value}, {{"dims", Ints{last}}, {"keep", false}});
  }

  absl::StatusOr<ValueId> Split(const Op& op, PassContext& context) {
    name_ = from_.value_name(op.results[0]);
    Logits logits = LogitsOf(op.operands[0]);
    int64_t parts = parts_;
    if (Width(logits.value) % parts != 0) {
      context.Remark("split_loss: {} devices do not divide a vocabulary of {}",
                     parts, Width(logits.value));
      parts = 1;
    }
    ValueId labels = map_[op.operands[1]];
    int64_t ignored = op.attrs.Int("ignore_index");
    AttrMap attrs = {{"parts", parts}, {"ignore_index", ignored}};
    if (Width(logits.value) > logits.size) attrs.Set("classes", logits.size);
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> of_parts,
        builder_.Add("cross_entropy_parts", {map_[logits.value], labels},
                     std::move(attrs), name_));
    ASYRA_ASSIGN_OR_RETURN(ValueId sums, OverParts("log_sum_exp", of_parts[0]));
    ASYRA_ASSIGN_OR_RETURN(ValueId target,
                           OverParts("reduce_sum", of_parts[1]));
    if (op.attrs.Float("label_smoothing") != 0) {
      ASYRA_ASSIGN_OR_RETURN(target, Smoothed(target, logits, op));
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId loss, Add("sub", {sums, target}));
    ValueId number = builder_.Constant(
        Tensor::FromInts(builder_.type(labels).dtype, {}, {ignored}));
    ASYRA_ASSIGN_OR_RETURN(ValueId is_ignored, Add("equal", {labels, number}));
    ASYRA_ASSIGN_OR_RETURN(
        loss, Add("select",
                  {is_ignored, Number(0, builder_.type(loss).dtype), loss}));
    DType dtype = from_.type(op.results[0]).dtype;
    if (builder_.type(loss).dtype == dtype) return loss;
    return Add("cast", {loss}, {{"to", dtype}});
  }

  // One number for each row.
  absl::StatusOr<ValueId> OverParts(std::string_view op, ValueId value) {
    Shape shape = builder_.type(value).shape();
    int64_t parts = shape.back();
    shape.pop_back();
    return parts == 1 ? Reshape(value, shape) : Reduce(op, value);
  }

  // Adds a share of all logits of the row.
  absl::StatusOr<ValueId> Smoothed(ValueId target, const Logits& logits,
                                   const Op& op) {
    double smoothing = op.attrs.Float("label_smoothing");
    DType dtype = builder_.type(target).dtype;
    ASYRA_ASSIGN_OR_RETURN(target,
                           Add("mul", {target, Number(1 - smoothing, dtype)}));
    ASYRA_ASSIGN_OR_RETURN(ValueId all, Inside(logits, dtype));
    ASYRA_ASSIGN_OR_RETURN(all, Reduce("reduce_sum", all));
    double share = smoothing / static_cast<double>(logits.size);
    ASYRA_ASSIGN_OR_RETURN(all, Add("mul", {all, Number(share, dtype)}));
    return Add("add", {target, all});
  }

  // The logits in that type, with 0 in the padding.
  absl::StatusOr<ValueId> Inside(const Logits& logits, DType dtype) {
    ValueId x = map_[logits.value];
    if (builder_.type(x).dtype != dtype) {
      ASYRA_ASSIGN_OR_RETURN(x, Add("cast", {x}, {{"to", dtype}}));
    }
    int64_t width = Width(logits.value);
    if (width == logits.size) return x;
    ASYRA_ASSIGN_OR_RETURN(ValueId index, Add("iota", {},
                                              {{"shape", Ints{width}},
                                               {"dim", int64_t{0}},
                                               {"dtype", DType::kI64}}));
    ValueId size =
        builder_.Constant(Tensor::FromInts(DType::kI64, {}, {logits.size}));
    ASYRA_ASSIGN_OR_RETURN(ValueId inside, Add("less", {index, size}));
    return Add("select", {inside, x, Number(0, dtype)});
  }

  const Program& from_;
  DefUse def_use_;
  int64_t parts_;
  Builder builder_;
  std::vector<ValueId> map_;
  std::string name_;  // of the loss that is split
};

}  // namespace

absl::StatusOr<bool> SplitLoss(Program& program, const PassOptions&,
                               PassContext& context) {
  return Splitter(program).Run(&program, context);
}

}  // namespace asyra
