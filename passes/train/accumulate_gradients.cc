#include "passes/train/accumulate_gradients.h"

#include "ir/builder.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "passes/train/differentiate.h"
#include "passes/train/loss_scale.h"

namespace asyra {
namespace {

class Accumulator {
 public:
  Accumulator(const Program& program, bool last)
      : from_(program), last_(last), builder_(Builder::Like(program)) {}

  absl::StatusOr<Program> Run() {
    ASYRA_RETURN_IF_ERROR(CopyAll());
    for (const Output& output : from_.outputs) {
      ASYRA_RETURN_IF_ERROR(AddSum(output));
    }
    if (scale_.state != kNoValue) builder_.Output(scale_.state, scale_.state);
    if (sums_ < 3) {  // loss, count, and a gradient
      return Invalid(
          "there are no gradients: run attach_loss and differentiate before");
    }
    return std::move(builder_).Finish();
  }

 private:
  absl::Status CopyAll() {
    map_.assign(from_.values.size(), kNoValue);
    for (const Input& input : from_.inputs) {
      const std::string& name = from_.value_name(input.value);
      if (!last_ && input.role == InputRole::kData && name == kLossScale) {
        ASYRA_ASSIGN_OR_RETURN(scale_, AddLossScale(from_, builder_));
        map_[input.value] = scale_.scale;
        continue;
      }
      map_[input.value] = builder_.Input(from_, input);
    }
    for (const Op& op : from_.ops) {
      ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
    }
    return absl::OkStatus();
  }

  bool IsSummed(const std::string& name) const {
    if (name == kLossSum || name == kLossCount) return true;
    for (const Input& input : from_.inputs) {
      if (input.role == InputRole::kParam &&
          name == GradientName(from_.value_name(input.value))) {
        return true;
      }
    }
    return false;
  }

  absl::Status AddSum(const Output& output) {
    std::string name = from_.output_name(output);
    if (!IsSummed(name)) return absl::OkStatus();
    ++sums_;
    ValueId part = map_[output.value];
    ValueId before = builder_.Input(fmt::format("{}{}", name, kAccumulated),
                                    builder_.type(part), InputRole::kState);
    ASYRA_ASSIGN_OR_RETURN(ValueId sum, builder_.AddOne("add", {before, part},
                                                        {}, name + ".total"));
    builder_.Output(sum, before);
    bool is_loss = name == kLossSum || name == kLossCount;
    if (last_ || is_loss) builder_.Output(last_ ? sum : part, kNoValue, name);
    return absl::OkStatus();
  }

  const Program& from_;
  bool last_;
  Builder builder_;
  std::vector<ValueId> map_;
  LossScale scale_;
  int sums_ = 0;
};

}  // namespace

absl::StatusOr<bool> AccumulateGradients(Program& program,
                                         const PassOptions& options,
                                         PassContext&) {
  ASYRA_ASSIGN_OR_RETURN(program,
                         Accumulator(program, options.Bool("last")).Run());
  return true;
}

}  // namespace asyra
