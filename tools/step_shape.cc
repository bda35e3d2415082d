#include "tools/step_shape.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "passes/analysis/dim_labels.h"

namespace asyra {
namespace {

// The type of most bytes of the weights, or of the data where there are none.
std::string DTypeOf(const Program& program) {
  for (bool weights : {true, false}) {
    std::map<std::string, int64_t> bytes;
    for (const Input& input : program.inputs) {
      const Type& type = program.type(input.value);
      bool asked = weights ? IsWeight(input) : input.role == InputRole::kData;
      if (asked && IsFloat(type.dtype)) {
        bytes[std::string(ToString(type.dtype))] += type.bytes();
      }
    }
    auto most = std::max_element(
        bytes.begin(), bytes.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != bytes.end()) return most->first;
  }
  return "";
}

// The program with the types of a single device, along which dimensions are
// propagated.
Program Whole(Program program) {
  for (Value& value : program.values) {
    for (Dim& dim : value.type.dims) dim.axes.clear();
    value.type.partial.clear();
  }
  return program;
}

}  // namespace

StepShape StepShapeOf(const Program& program, const DimNames& names) {
  StepShape shape;
  absl::StatusOr<DimLabels> labels = DimLabels::Of(
      program.stage == Stage::kGlobal ? program : Whole(program), names);
  if (!labels.ok()) return shape;
  // Numbers [batch, n] that no matmul reads may be n features as well: unlike
  // indices [batch, n], they do not make n tokens.
  auto has_tokens = [&](ValueId value) {
    return !IsFloat(program.type(value).dtype) ||
           !absl::c_linear_search(labels->unread, value);
  };
  std::set<int64_t, std::greater<>> tokens;
  bool all_known = true;
  auto read = [&](ValueId value) {
    bool known = has_tokens(value);
    all_known &= known;
    const Type& type = program.type(value);
    for (int d = 0; d < type.rank(); ++d) {
      DimLabel label = labels->values[value][d];
      if (label == DimLabel::kBatch) {
        shape.batch = std::max(shape.batch, type.size(d));
      } else if (label == DimLabel::kSequence && known) {
        tokens.insert(type.size(d));
      }
    }
  };
  for (const Input& input : program.inputs) {
    if (input.role == InputRole::kData) read(input.value);
  }
  if (tokens.empty() && all_known) {
    for (const Output& output : program.outputs) read(output.value);
  }
  shape.batch = std::max<int64_t>(shape.batch, 1);
  shape.tokens.assign(tokens.begin(), tokens.end());
  shape.dtype = DTypeOf(program);
  return shape;
}

}  // namespace asyra
