// Results of attention over parts of the keys, as one over all of them.
#include <cmath>
#include <limits>

#include "ir/ops/infer.h"
#include "ir/ops/integers.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status CheckPart(const OpCall& call, size_t i) {
  const Type &y = call.operands[i], &sums = call.operands[i + 1];
  const Type& first = call.operands[0];
  if (y.rank() != 4 || !IsFloat(y.dtype) || y.shape() != first.shape()) {
    return Invalid("operand {} is {}, it should be floats of shape {}", i,
                   ToString(y, {}), ShapeToString(first.shape()));
  }
  Shape rows = {y.size(0), y.size(2), y.size(1)};
  DType wide = SumType(y.dtype);
  if (sums.dtype == wide && sums.shape() == rows) return absl::OkStatus();
  return Invalid("operand {} is {}, log sums of operand {} are {} of shape {}",
                 i + 1, ToString(sums, {}), i, ToString(wide),
                 ShapeToString(rows));
}

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  size_t n = call.operands.size();
  if (n < 2 || n % 2 != 0) {
    return Invalid("{} operands, they should be pairs of y and its log sums",
                   n);
  }
  if (call.operands[0].rank() != 4) {
    return Invalid("operand 0 is {}, it should have rank 4",
                   ToString(call.operands[0], {}));
  }
  for (size_t i = 0; i < n; i += 2) {
    ASYRA_RETURN_IF_ERROR(CheckPart(call, i));
  }
  Type y = call.operands[n - 2], sums = call.operands[n - 1];
  if (call.attrs.Bool("wide")) y.dtype = sums.dtype;
  return std::vector<Type>{y, sums};
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  std::string pair = "b s h !e, b h s", operands = pair;
  for (size_t i = 2; i < call.operands.size(); i += 2) operands += ", " + pair;
  return ParseAxisRule(operands + " -> " + pair, call.operands, call.results);
}

// Returns the log of the sum of exp, of rows that see a key of their part.
double LogSum(absl::Span<const double> parts) {
  double largest = -kInfinity, sum = 0;
  for (double part : parts) {
    if (part != kInfinity) largest = Maximum(largest, part);
  }
  if (largest == -kInfinity) return kInfinity;
  for (double part : parts) {
    if (part != kInfinity) sum += std::exp(part - largest);
  }
  return largest + std::log(sum);
}

absl::Status Reference(const RefCall& call) {
  size_t parts = call.operands.size() / 2;
  std::vector<std::vector<double>> y, sums;
  for (size_t i = 0; i < parts; ++i) {
    y.push_back(call.operands[2 * i].ToDoubles());
    sums.push_back(call.operands[2 * i + 1].ToDoubles());
  }
  const Shape shape = call.results[0].shape();
  int64_t rows = shape[1], heads = shape[2], size = shape[3];
  std::vector<double> out(y[0].size()), out_sums(sums[0].size()), row(parts);
  for (int64_t i = 0; i < static_cast<int64_t>(out_sums.size()); ++i) {
    int64_t b = i / rows / heads, h = i / rows % heads, s = i % rows;
    for (size_t p = 0; p < parts; ++p) row[p] = sums[p][i];
    double all = LogSum(row);
    out_sums[i] = all;
    for (size_t p = 0; p < parts; ++p) {
      if (row[p] == kInfinity) continue;
      double weight = std::exp(row[p] - all);
      for (int64_t e = 0; e < size; ++e) {
        int64_t at = ((b * rows + s) * heads + h) * size + e;
        out[at] += weight * y[p][at];
      }
    }
  }
  call.results[0].SetAll(out);
  call.results[1].SetAll(out_sums);
  return absl::OkStatus();
}

// The merge of a row takes its elements of y where it writes them, and its log
// sums everywhere.
bool MayReplace(const OpCall&, int operand, int result) {
  return result == 0 && operand % 2 == 0;
}

}  // namespace

std::vector<OpDef> AttentionMergeOps() {
  return {
      {.name = "attention_merge",
       .summary =
           "attention over several parts of the keys as over all: y1, l1, "
           "y2, l2, ..., each with its log sums; y is the sum of exp(li - "
           "l) yi, l the log of the sum of exp(li). A part of which a row "
           "sees no key, li = inf, has no weight",
       .operands = {{"parts", OperandDef::kVariadic}},
       .attrs = {{"wide", AttrKind::kBool,
                  "y is f32 (f64 of f64), to be merged again; else like "
                  "the last part",
                  false}},
       .infer = Infer,
       .axes = Axes,
       .reference = Reference,
       .samples =
           {{"attention_merge(f32[2,3,4,2], f32[2,4,3], f32[2,3,4,2], "
             "f32[2,4,3])"},
            {"attention_merge(bf16[1,3,2,8], f32[1,2,3], bf16[1,3,2,8], "
             "f32[1,2,3], bf16[1,3,2,8], f32[1,2,3]) {wide=true}"},
            {"attention_merge(f32[1,3,2,8], f32[1,2,3], f16[1,3,2,8], "
             "f32[1,2,3])"},
            {"attention_merge(f32[2,4@a,2,4], f32[2,2,4@a], f32[2,4@a,2,4], "
             "f32[2,2,4@a])",
             -3, 3, "(a=2)"}},
       .in_place = true,
       .result_in_place = MayReplace}};
}

}  // namespace asyra::ops
