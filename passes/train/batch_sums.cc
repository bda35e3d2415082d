#include "passes/train/batch_sums.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "passes/analysis/dim_flow.h"
#include "passes/analysis/dim_labels.h"

namespace asyra {
namespace {

constexpr int kBatchTag = 1;

bool HasBatch(const DimPieces& pieces) {
  return absl::c_any_of(
      pieces, [](const DimPiece& piece) { return piece.tag == kBatchTag; });
}

DimTags BatchTags(const Program& program, const DimLabels& labels) {
  DimTags named, first;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kData) continue;
    int rank = program.type(input.value).rank();
    for (int d = 0; d < rank; ++d) {
      if (labels.values[input.value][d] != DimLabel::kBatch) continue;
      named[{input.value, d}] = kBatchTag;
    }
    if (rank > 0) first[{input.value, 0}] = kBatchTag;
  }
  return named.empty() ? first : named;
}

class Classifier {
 public:
  Classifier(const Program& program, const DimLabels& labels)
      : program_(program),
        labels_(labels),
        def_use_(program),
        tags_(BatchTags(program, labels)),
        flow_(program, labels.rules, tags_),
        uses_(program.values.size(), BatchUse::kFixed) {
    for (const auto& [dim, tag] : tags_) {
      batch_ = std::max(batch_, program.type(dim.first).size(dim.second));
    }
  }

  std::vector<BatchUse> Run() && {
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kData) continue;
      uses_[input.value] =
          IsRows(input.value) ? BatchUse::kRows : BatchUse::kMixed;
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (Count(op, BatchUse::kFixed) == op.operands.size()) continue;
      for (size_t r = 0; r < op.results.size(); ++r) {
        uses_[op.results[r]] = IsRows(op.results[r]) ? BatchUse::kRows
                               : Count(op, BatchUse::kRows) > 0
                                   ? OfRows(i, static_cast<int>(r))
                                   : OfSums(i);
      }
    }
    return std::move(uses_);
  }

 private:
  bool IsRows(ValueId value) const {
    return absl::c_any_of(flow_.values[value], HasBatch);
  }

  size_t Count(const Op& op, BatchUse use) const {
    return absl::c_count_if(op.operands,
                            [&](ValueId value) { return uses_[value] == use; });
  }

  // Returns the use of an op that takes rows to a result without a dimension of
  // the batch.
  BatchUse OfRows(size_t i, int result) const {
    const Op& op = program_.ops[i];
    const AxisRule& rule = labels_.rules[i];
    bool mean = op.def->name == "reduce_mean";
    size_t others = op.operands.size() - Count(op, BatchUse::kRows) -
                    Count(op, BatchUse::kFixed);
    if (others > 0) return BatchUse::kMixed;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (!HasBatch(flow_.factors[i][f])) continue;
      // Positional factors are those of tables, of which rows are taken.
      bool sums = rule.IsSummedIn(static_cast<FactorId>(f), result) &&
                  (mean || !rule.factors[f].positional);
      if (!sums) return BatchUse::kMixed;
    }
    return mean ? BatchUse::kMean : BatchUse::kSum;
  }

  // Returns the use of an op without rows.
  BatchUse OfSums(size_t i) const {
    const Op& op = program_.ops[i];
    size_t fixed = Count(op, BatchUse::kFixed);
    size_t sums = Count(op, BatchUse::kSum);
    size_t means = Count(op, BatchUse::kMean);
    if (fixed + sums + means < op.operands.size() || (sums > 0 && means > 0)) {
      return BatchUse::kMixed;
    }
    BatchUse use = sums > 0 ? BatchUse::kSum : BatchUse::kMean;
    if (op.def->name == "cast") {
      bool to_number = program_.type(op.results[0]).dtype != DType::kBool;
      return to_number ? use : BatchUse::kMixed;
    }
    bool first =
        uses_[op.operands[0]] == use && fixed + 1 == op.operands.size();
    if (op.def->name == "div") {
      return first && Scales(op.operands[1], use) ? use : BatchUse::kMixed;
    }
    switch (labels_.rules[i].linearity) {
      case Linearity::kNone:
        return BatchUse::kMixed;
      case Linearity::kJoint:
        return fixed == 0 || use == BatchUse::kMean ? use : BatchUse::kMixed;
      case Linearity::kFirst:
        return first ? use : BatchUse::kMixed;
      case Linearity::kEach:
        break;
    }
    bool one = fixed + 1 == op.operands.size();
    return one && absl::c_all_of(op.operands,
                                 [&](ValueId value) {
                                   return uses_[value] != BatchUse::kFixed ||
                                          Scales(value, use);
                                 })
               ? use
               : BatchUse::kMixed;
  }

  // Returns whether a sum or mean multiplied with the value, or divided by it,
  // stays one.
  bool Scales(ValueId value, BatchUse use) const {
    if (use == BatchUse::kMean) return true;
    int def = def_use_.def[value];
    if (def < 0 || program_.ops[def].def->name != "constant") return false;
    std::vector<double> numbers =
        program_.ops[def].attrs.Get<Tensor>("value").ToDoubles();
    return absl::c_all_of(numbers, [&](double number) {
      return std::abs(number) == 1 ||
             (!IsMultiple(number) && !IsMultiple(1 / number));
    });
  }

  bool IsMultiple(double number) const {
    double times = number / static_cast<double>(std::max<int64_t>(batch_, 1));
    constexpr double kRounding = 1e-5;  // of an inverse in a narrow type
    return std::abs(times) > 0.5 &&
           std::abs(times - std::round(times)) < kRounding * std::abs(times);
  }

  const Program& program_;
  const DimLabels& labels_;
  const DefUse def_use_;
  const DimTags tags_;
  const DimFlow flow_;
  std::vector<BatchUse> uses_;
  int64_t batch_ = 0;  // rows of it
};

}  // namespace

absl::StatusOr<std::vector<BatchUse>> BatchUses(const Program& program,
                                                const DimNames& names) {
  absl::StatusOr<DimLabels> labels = DimLabels::Of(program, names);
  if (!labels.ok()) return labels.status();
  return Classifier(program, *labels).Run();
}

}  // namespace asyra
