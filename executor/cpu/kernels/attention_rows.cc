#include "executor/cpu/kernels/attention_rows.h"

#include <algorithm>
#include <cmath>

#include "executor/cpu/element.h"
#include "executor/cpu/strided.h"
#include "ir/ops/integers.h"

namespace asyra::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kMatrices = 3;  // q, k, v

std::vector<Type> MatricesOf(const KernelUse& use) {
  return {use.operand(0), use.operand(1), use.operand(2)};
}

}  // namespace

AttentionRows::AttentionRows(const KernelUse& use, int first_extra)
    : sizes_(absl::Span<const Type>(MatricesOf(use))),
      extras_(use.global_operands(), first_extra),
      window_(use.attrs().Int("window")),
      window_after_(
          use.attrs().Bool("causal") ? 1 : use.attrs().Int("window_after")),
      scale_(static_cast<float>(use.attrs().Float("scale"))),
      softcap_(static_cast<float>(use.attrs().Float("softcap"))),
      hidden_(static_cast<float>(use.attrs().Float("hidden"))),
      empty_is_nan_(use.attrs().Bool("empty_is_nan")),
      offset_(use.attrs().Int("offset")),
      start_(use.Start(use.global_operands()[0], 1)),
      runs_(use.attrs().Int("runs")),
      at_end_(use.attrs().Bool("at_end")),
      rows_in_all_(use.global_operands()[0].size(1)) {
  const Type& keys = use.global_operands()[1];
  keys_ = ops::KeyShardAt(use.attrs(),
                          use.Start(keys, 1) / std::max<int64_t>(1, sizes_.t),
                          keys.size(1));
  for (int i = 0; i < use.num_operands(); ++i) {
    operands_.push_back(
        {use.operand(i).dtype, use.operand(i).num_elements(), -1});
  }
  if (extras_.mask < 0) return;
  Shape full = {sizes_.b, sizes_.h, sizes_.s, sizes_.t};
  mask_is_bool_ = use.operand(extras_.mask).dtype == DType::kBool;
  mask_strides_ = BroadcastStrides(use.operand(extras_.mask).shape(), full);
}

void AttentionRows::LayOut(WorkspaceLayout* layout) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    OperandPlan& operand = operands_[i];
    int number = static_cast<int>(i);
    bool stays = number == extras_.lengths || number == extras_.starts;
    if (operand.dtype == DType::kF32 || stays) continue;
    operand.at = layout->Add(operand.elements * 4);
  }
}

const float* AttentionRows::Operand(const KernelArgs& args, int i) const {
  const OperandPlan& operand = operands_[i];
  if (operand.at < 0) return static_cast<const float*>(args.operands[i]);
  auto* converted = WorkspaceAt<float>(args.workspace, operand.at);
  Load(operand.dtype, args.operands[i], operand.elements, converted);
  return converted;
}

AttentionRows::Extras AttentionRows::ExtrasOf(const KernelArgs& args) const {
  Extras extras;
  if (extras_.sinks >= 0) extras.sinks = Operand(args, extras_.sinks);
  if (extras_.lengths >= 0) extras.lengths = args.operands[extras_.lengths];
  if (extras_.starts >= 0) extras.starts = args.operands[extras_.starts];
  if (extras_.mask < 0) return extras;
  extras.mask = Operand(args, extras_.mask);
  return extras;
}

int64_t AttentionRows::LengthOf(const Extras& extras, int64_t b) const {
  return extras.lengths == nullptr
             ? sizes_.t
             : IntegerAt(operands_[extras_.lengths].dtype, extras.lengths, b);
}

int64_t AttentionRows::StartOf(const Row& row, const Extras& extras) const {
  return extras.starts == nullptr
             ? 0
             : IntegerAt(operands_[extras_.starts].dtype, extras.starts,
                         row.b * sizes_.s + row.s);
}

int64_t AttentionRows::Place(const Row& row, const Extras& extras) const {
  return offset_ + ops::PlaceOfRow(start_ + row.s, rows_in_all_, runs_) +
         (at_end_ ? LengthOf(extras, row.b) - rows_in_all_ : 0);
}

float AttentionRows::Score(float product, int64_t place, int64_t t,
                           const float* added, float* slope) const {
  bool sees = SeesFrom(place, t) &&
              (!mask_is_bool_ || added[t * mask_strides_[3]] != 0);
  float score = hidden_;
  *slope = 0;
  if (sees) {
    score = product * scale_;
    *slope = scale_;
  }
  if (sees && softcap_ > 0) {
    float bounded = std::tanh(score / softcap_);
    score = softcap_ * bounded;
    *slope *= 1 - bounded * bounded;
  }
  bool adds = added != nullptr && !mask_is_bool_;
  return adds ? score + added[t * mask_strides_[3]] : score;
}

float AttentionRows::Scores(const Row& row, const Extras& extras, float* scores,
                            float* slopes) const {
  int64_t length = LengthOf(extras, row.b), place = Place(row, extras);
  int64_t start = StartOf(row, extras);
  const float* added =
      extras.mask == nullptr ? nullptr : extras.mask + MaskElement(row);
  float largest = -kInfinity;
  for (int64_t t = 0; t < sizes_.t; ++t) {
    float slope = 0;
    bool counts = t < length && keys_.Place(t) >= start;
    scores[t] = counts ? Score(scores[t], place, t, added, &slope) : -kInfinity;
    if (slopes != nullptr) slopes[t] = slope;
    largest = ops::Maximum(largest, scores[t]);
  }
  return largest;
}

float AttentionRows::Weights(const Row& row, const Extras& extras,
                             float* scores) const {
  float largest = Scores(row, extras, scores, nullptr);
  if (largest == -kInfinity && (extras.sinks == nullptr || !empty_is_nan_)) {
    std::fill_n(scores, sizes_.t, empty_is_nan_ ? kNan : 0.0f);
    return empty_is_nan_ ? kNan : kInfinity;
  }
  double sum = 0;
  if (extras.sinks != nullptr) {
    largest = ops::Maximum(largest, extras.sinks[row.h]);
    sum = std::exp(extras.sinks[row.h] - largest);
  }
  for (int64_t t = 0; t < sizes_.t; ++t) {
    scores[t] = std::exp(scores[t] - largest);
    sum += scores[t];
  }
  auto inverse = static_cast<float>(1 / sum);
  for (int64_t t = 0; t < sizes_.t; ++t) scores[t] *= inverse;
  return largest + static_cast<float>(std::log(sum));
}

float AttentionRows::WeightsFrom(float log_sum, const Row& row,
                                 const Extras& extras, float* scores,
                                 float* slopes) const {
  Scores(row, extras, scores, slopes);
  for (int64_t t = 0; t < sizes_.t; ++t) {
    bool hidden = scores[t] == -kInfinity;
    scores[t] = hidden ? 0 : std::exp(scores[t] - log_sum);
  }
  return extras.sinks == nullptr ? 0 : std::exp(extras.sinks[row.h] - log_sum);
}

bool SupportsAttention(const KernelUse& use) {
  for (int i = 0; i < kMatrices; ++i) {
    if (use.operand(i).num_elements() == 0) return false;
  }
  return use.operand(0).dtype != DType::kF64 &&
         ops::HasOneKeyShard(use.attrs(), use.operand(1).size(1),
                             use.global_operands()[1].size(1));
}

}  // namespace asyra::cpu
