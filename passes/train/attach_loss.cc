#include "passes/train/attach_loss.h"

#include "ir/builder.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "passes/train/loss_parts.h"

namespace asyra {
namespace {

DType LossType(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

class LossAttacher {
 public:
  LossAttacher(const Program& program, const DimNames& names)
      : from_(program), names_(names), builder_(Builder::Like(program)) {}

  absl::StatusOr<Program> Run(const PassOptions& options) {
    batch_ = options.Get<std::string>("batch");
    if (!batch_.empty() && batch_ != kLastBatch && batch_ != kBatchBefore) {
      return Invalid("batch is '{}'; known are {} and {}, and none", batch_,
                     kLastBatch, kBatchBefore);
    }
    ASYRA_RETURN_IF_ERROR(CopyAll());
    ASYRA_ASSIGN_OR_RETURN(const Output* output,
                           FindOutput(options.Get<std::string>("output")));
    value_ = map_[output->value];
    bool is_loss = builder_.type(value_).num_elements() == 1;
    ASYRA_RETURN_IF_ERROR(is_loss ? TakeLoss(output->value)
                                  : AddLoss(options.Bool("next_token")));
    return std::move(builder_).Finish();
  }

 private:
  absl::Status CopyAll() {
    map_.assign(from_.values.size(), kNoValue);
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const Output*> FindOutput(const std::string& name) const {
    std::vector<const Output*> losses, others;
    std::vector<std::string> names;  // of all outputs
    for (const Output& output : from_.outputs) {
      names.push_back(from_.output_name(output));
      const Type& type = from_.type(output.value);
      if (names.back() == name) {
        if (IsFloat(type.dtype)) return &output;
        return Invalid("output '{}' is {}, a loss or logits are float", name,
                       ToString(type.dtype));
      }
      if (!IsFloat(type.dtype)) continue;
      (type.num_elements() == 1 ? losses : others).push_back(&output);
    }
    if (!name.empty()) {
      return NotFound("no output is called '{}', there are {}", name,
                      ShortList(names));
    }
    if (losses.size() == 1) return losses[0];
    if (losses.empty() && others.size() == 1) return others[0];
    if (losses.empty() && others.empty()) {
      return Invalid("there is no loss: none of the outputs {} is float",
                     ShortList(names));
    }
    std::vector<std::string> candidates;
    for (const Output* output : losses.empty() ? others : losses) {
      candidates.push_back(from_.output_name(*output));
    }
    return Invalid(
        "{} outputs may be the {}: {}; name one of them (option output, flag "
        "--loss)",
        candidates.size(), losses.empty() ? "logits" : "loss",
        ShortList(candidates));
  }

  absl::Status TakeLoss(ValueId loss) {
    ASYRA_ASSIGN_OR_RETURN(
        LossParts parts,
        PartsOfLoss(from_, names_, loss,
                    /*guarded=*/!batch_.empty(), map_, builder_));
    if (parts.form == LossForm::kOther && !batch_.empty()) {
      return Invalid(
          "the loss %{} of several batches does not follow from the losses of "
          "each: it is no sum over their rows, no mean of as many terms in "
          "each, and no quotient of two sums{}; let the step have one batch, "
          "or name logits as the output to train by",
          from_.value_name(loss),
          parts.why_not.empty() ? "" : fmt::format(" ({})", parts.why_not));
    }
    if (parts.form == LossForm::kQuotient) {
      ASYRA_RETURN_IF_ERROR(GiveNumber(parts.sum, kLossSum));
      return GiveNumber(parts.count, kLossCount);
    }
    ASYRA_RETURN_IF_ERROR(GiveNumber(value_, kLossSum));
    // A sum is divided by nothing, however many batches it is of.
    bool counts = parts.form != LossForm::kSum || batch_ != kBatchBefore;
    builder_.Output(builder_.Constant(Tensor::FromDoubles(
                                          LossType(builder_.type(value_).dtype),
                                          {}, {counts ? 1.0 : 0.0}),
                                      "count"),
                    kNoValue, kLossCount);
    return absl::OkStatus();
  }

  absl::Status GiveNumber(ValueId value, std::string_view name) {
    DType dtype = LossType(builder_.type(value_).dtype);
    ASYRA_ASSIGN_OR_RETURN(value, ToType(value, dtype));
    if (builder_.type(value).rank() > 0) {
      ASYRA_ASSIGN_OR_RETURN(
          value, builder_.AddOne("reshape", {value}, {{"shape", Ints{}}},
                                 name == kLossSum ? "loss" : "count"));
    }
    builder_.Output(value, kNoValue, name);
    return absl::OkStatus();
  }

  absl::Status AddLoss(bool next_token) {
    const Type& logits = builder_.type(value_);
    if (logits.rank() < 2) {
      return Invalid(
          "output %{} of shape {} is neither a loss nor rows of "
          "logits",
          builder_.program().value_name(value_), ShapeToString(logits.shape()));
    }
    Shape rows = logits.shape();
    rows.pop_back();
    ValueId labels = kNoValue;
    if (next_token) {
      ASYRA_ASSIGN_OR_RETURN(labels, NextTokens(rows));
    } else {
      if (from_.FindValue(kLabels) != kNoValue) {
        return Invalid(
            "the model has a %{} of its own, and ends in no loss: the labels "
            "of %{} need the name",
            kLabels, builder_.program().value_name(value_));
      }
      labels = builder_.Input(kLabels, Type(DType::kI64, rows));
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId wide, ToLossType(value_));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId losses,
        builder_.AddOne("cross_entropy", {wide, labels},
                        {{"ignore_index", kIgnoredLabel}}, "loss_of_token"));
    ASYRA_RETURN_IF_ERROR(AddSum(losses, kLossSum));
    return AddCount(labels, builder_.type(losses).dtype);
  }

  absl::Status AddCount(ValueId labels, DType dtype) {
    ValueId ignored =
        builder_.Constant(Tensor::FromInts(DType::kI64, {}, {kIgnoredLabel}));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId without,
        builder_.AddOne("equal", {labels, ignored}, {}, "ignored"));
    ASYRA_ASSIGN_OR_RETURN(ValueId counts,
                           builder_.AddOne("not", {without}, {}, "counts"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId numbers,
        builder_.AddOne("cast", {counts}, {{"to", dtype}}, "counts"));
    return AddSum(numbers, kLossCount);
  }

  absl::Status AddSum(ValueId value, std::string_view name) {
    Ints dims;
    for (int d = 0; d < builder_.type(value).rank(); ++d) dims.push_back(d);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sum, builder_.AddOne("reduce_sum", {value},
                                     {{"dims", dims}, {"keep", false}}, name));
    builder_.Output(sum, kNoValue, name);
    return absl::OkStatus();
  }

  // Returns the token one position on, -100 at the end of each row.
  absl::StatusOr<ValueId> NextTokens(const Shape& rows) {
    std::vector<ValueId> tokens;
    for (const Input& input : builder_.program().inputs) {
      if (input.role == InputRole::kData &&
          builder_.type(input.value).dtype == DType::kI64) {
        tokens.push_back(input.value);
      }
    }
    if (tokens.size() != 1) {
      return Invalid(
          "next_token: {} data inputs are i64, one should be the "
          "tokens",
          tokens.size());
    }
    Shape shape = builder_.type(tokens[0]).shape();
    if (shape != rows) {
      return Invalid("next_token: tokens have shape {}, rows of logits {}",
                     ShapeToString(shape), ShapeToString(rows));
    }
    int64_t last = static_cast<int64_t>(shape.size()) - 1;
    ASYRA_ASSIGN_OR_RETURN(
        ValueId next,
        builder_.AddOne(
            "slice", {tokens[0]},
            {{"dim", last}, {"start", int64_t{1}}, {"stop", shape[last]}},
            kLabels));
    ValueId ignored =
        builder_.Constant(Tensor::FromInts(DType::kI64, {}, {kIgnoredLabel}));
    Ints end(shape.begin(), shape.end());
    end[last] = 1;
    ASYRA_ASSIGN_OR_RETURN(
        ValueId column,
        builder_.AddOne("broadcast", {ignored}, {{"shape", end}}, kLabels));
    return builder_.AddOne("concat", {next, column}, {{"dim", last}}, kLabels);
  }

  absl::StatusOr<ValueId> ToLossType(ValueId value) {
    return ToType(value, LossType(builder_.type(value).dtype));
  }

  absl::StatusOr<ValueId> ToType(ValueId value, DType to) {
    if (builder_.type(value).dtype == to) return value;
    return builder_.AddOne("cast", {value}, {{"to", to}},
                           builder_.program().value_name(value));
  }

  const Program& from_;
  const DimNames& names_;
  Builder builder_;
  std::string batch_;  // the option
  std::vector<ValueId> map_;
  ValueId value_ = kNoValue;  // of the output that is, or leads to, the loss
};

}  // namespace

absl::StatusOr<bool> AttachLoss(Program& program, const PassOptions& options,
                                PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(program,
                         LossAttacher(program, context.dim_names).Run(options));
  return true;
}

}  // namespace asyra
