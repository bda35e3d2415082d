#include "passes/train/balance_experts.h"

#include <cmath>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/support/status.h"
#include "passes/train/attach_loss.h"

namespace asyra {
namespace {

using Sum = absl::StatusOr<ValueId>;

class Balancer {
 public:
  Balancer(const Program& program, double balance, double z)
      : from_(program),
        balance_(balance),
        z_(z),
        builder_(Builder::Like(program)),
        map_(program.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() && {
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
      if (op.def->name == "moe_router") ASYRA_RETURN_IF_ERROR(AddRouter(op));
    }
    if (tokens_ == 0) {
      return Invalid("balance and z: the model has no mixture of experts");
    }
    ASYRA_RETURN_IF_ERROR(GiveOutputs());
    return std::move(builder_).Finish();
  }

 private:
  absl::Status AddRouter(const Op& op) {
    ValueId logits = map_[op.operands[0]];
    const Type& type = builder_.type(logits);
    int64_t experts = type.dims.back().size;
    if (experts_ != 0 && experts_ != experts) {
      return Invalid("balance and z: mixtures of {} and of {} experts",
                     experts_, experts);
    }
    experts_ = experts;
    tokens_ += type.num_elements() / experts;
    dtype_ = type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    if (type.dtype != dtype_) {
      ASYRA_ASSIGN_OR_RETURN(logits, Add("cast", {logits}, {{"to", dtype_}}));
    }
    if (balance_ > 0) {
      ASYRA_RETURN_IF_ERROR(AddTo(&probabilities_, Probabilities(logits)));
      ASYRA_RETURN_IF_ERROR(AddTo(&choices_, Choices(map_[op.results[1]])));
    }
    if (z_ > 0) ASYRA_RETURN_IF_ERROR(AddTo(&squares_, Squares(logits)));
    return absl::OkStatus();
  }

  Sum Add(std::string_view op, const std::vector<ValueId>& operands,
          AttrMap attrs = {}) {
    return builder_.AddOne(op, operands, std::move(attrs), "balance");
  }

  // Adds the values of a layer to those of the layers before.
  absl::Status AddTo(ValueId* sum, Sum of_layer) {
    ASYRA_RETURN_IF_ERROR(of_layer.status());
    if (*sum != kNoValue) {
      ASYRA_ASSIGN_OR_RETURN(of_layer, Add("add", {*sum, *of_layer}));
    }
    *sum = *of_layer;
    return absl::OkStatus();
  }

  // Sums all dimensions but the last `kept`.
  Sum SumAll(ValueId value, int kept) {
    Ints dims;
    for (int d = 0; d < builder_.type(value).rank() - kept; ++d) {
      dims.push_back(d);
    }
    return Add("reduce_sum", {value}, {{"dims", dims}, {"keep", false}});
  }

  Sum Probabilities(ValueId logits) {
    int64_t last = builder_.type(logits).rank() - 1;
    ASYRA_ASSIGN_OR_RETURN(ValueId softmax,
                           Add("softmax", {logits}, {{"dim", last}}));
    return SumAll(softmax, 1);
  }

  Sum Choices(ValueId chosen) {
    Shape shape = builder_.type(chosen).shape();
    shape.push_back(1);
    ASYRA_ASSIGN_OR_RETURN(ValueId column,
                           Add("reshape", {chosen},
                               {{"shape", Ints(shape.begin(), shape.end())}}));
    ASYRA_ASSIGN_OR_RETURN(ValueId numbers,
                           Add("iota", {},
                               {{"shape", Ints{experts_}},
                                {"dim", int64_t{0}},
                                {"dtype", builder_.type(chosen).dtype}}));
    ASYRA_ASSIGN_OR_RETURN(ValueId is, Add("equal", {column, numbers}));
    ASYRA_ASSIGN_OR_RETURN(ValueId ones, Add("cast", {is}, {{"to", dtype_}}));
    return SumAll(ones, 1);
  }

  Sum Squares(ValueId logits) {
    Ints last = {builder_.type(logits).rank() - 1};
    ASYRA_ASSIGN_OR_RETURN(
        ValueId log_sum,
        Add("log_sum_exp", {logits}, {{"dims", last}, {"keep", false}}));
    ASYRA_ASSIGN_OR_RETURN(ValueId square, Add("mul", {log_sum, log_sum}));
    return SumAll(square, 0);
  }

  // Adds a number times a scalar to `sum`.
  absl::Status AddTimes(double factor, ValueId value, ValueId* sum) {
    ValueId number =
        builder_.Constant(Tensor::FromDoubles(dtype_, {}, {factor}), "balance");
    return AddTo(sum, Add("mul", {value, number}));
  }

  absl::Status GiveOutputs() {
    auto tokens = static_cast<double>(tokens_);
    ValueId more = kNoValue;
    if (balance_ > 0) {
      ASYRA_ASSIGN_OR_RETURN(ValueId product,
                             Add("mul", {probabilities_, choices_}));
      ASYRA_ASSIGN_OR_RETURN(ValueId sum, SumAll(product, 0));
      double factor = balance_ * static_cast<double>(experts_);
      ASYRA_RETURN_IF_ERROR(AddTimes(factor / tokens / tokens, sum, &more));
    }
    if (z_ > 0) ASYRA_RETURN_IF_ERROR(AddTimes(z_ / tokens, squares_, &more));
    ValueId sum = kNoValue, count = kNoValue;
    for (const Output& output : from_.outputs) {
      if (from_.output_name(output) == kLossSum) sum = map_[output.value];
      if (from_.output_name(output) == kLossCount) count = map_[output.value];
    }
    if (sum == kNoValue || count == kNoValue) {
      return Invalid("there are no outputs {} and {}, which attach_loss leaves",
                     kLossSum, kLossCount);
    }
    DType dtype = builder_.type(sum).dtype;
    if (dtype != dtype_) {
      ASYRA_ASSIGN_OR_RETURN(more, Add("cast", {more}, {{"to", dtype}}));
    }
    ASYRA_ASSIGN_OR_RETURN(more, Add("mul", {more, count}));
    ASYRA_ASSIGN_OR_RETURN(sum, Add("add", {sum, more}));
    builder_.Output(sum, kNoValue, kLossSum);
    builder_.Output(count, kNoValue, kLossCount);
    return absl::OkStatus();
  }

  const Program& from_;
  double balance_, z_;
  Builder builder_;
  std::vector<ValueId> map_;
  DType dtype_ = DType::kF32;
  int64_t experts_ = 0, tokens_ = 0;  // tokens of all layers
  // Sums over the tokens of all layers: [experts], and a scalar.
  ValueId probabilities_ = kNoValue, choices_ = kNoValue;
  ValueId squares_ = kNoValue;
};

}  // namespace

absl::StatusOr<bool> BalanceExperts(Program& program,
                                    const PassOptions& options, PassContext&) {
  double balance = options.Float("balance"), z = options.Float("z");
  for (auto [name, value] : {std::pair{"balance", balance}, {"z", z}}) {
    if (value >= 0 && std::isfinite(value)) continue;
    return Invalid("{} is {}, it should be a number from 0 on", name, value);
  }
  if (balance == 0 && z == 0) return false;
  ASYRA_ASSIGN_OR_RETURN(program, Balancer(program, balance, z).Run());
  return true;
}

}  // namespace asyra
