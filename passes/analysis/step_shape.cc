#include "passes/analysis/step_shape.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "passes/analysis/dim_labels.h"
#include "passes/analysis/dim_uses.h"
#include "passes/analysis/dim_words.h"

namespace asyra {
namespace {

// Returns the type of most bytes of the weights, or of the data where there are
// none.
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

// Returns the program with the types of a single device, along which dimensions
// are propagated.
Program Whole(Program program) {
  for (Value& value : program.values) {
    for (Dim& dim : value.type.dims) dim.axes.clear();
    value.type.partial.clear();
  }
  return program;
}

// Kinds of use of one data input by itself.
enum class Reading : uint8_t { kNone, kIds, kImage, kRows };

// Follows a data input through ops that read nothing else but weights.
class InputReader {
 public:
  InputReader(const Program& program, const DimLabels& labels)
      : program_(program), labels_(labels) {}

  // Ids of rows of a table, an image of convolutions, or rows of matmuls with
  // weights; none of these of a mask or a cache, which meet other data first.
  Reading Read(ValueId input) {
    std::vector<bool> follows(program_.values.size(), false);
    follows[input] = true;
    bool rows = false;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!ReadsOnly(op, follows)) continue;
      std::string_view name = op.def->name;
      bool indexes = name == "embedding" || name == "gather";
      if (indexes && !labels_.of_weights[op.operands[0]]) continue;
      if (indexes && IsInteger(op.operands[1])) return Reading::kIds;
      if (name == "conv" && IsPlane(op) && !HasTime(input)) {
        return Reading::kImage;
      }
      rows |=
          IsFloat(program_.type(op.results[0]).dtype) &&
          ContractsWeights(program_, op, labels_.rules[i], labels_.of_weights);
      // Sums of a mask are positions, which rows of a table may stand for.
      if (!rows && IsInteger(input) && !KeepsElements(op, i)) continue;
      for (ValueId result : op.results) follows[result] = true;
    }
    return rows ? Reading::kRows : Reading::kNone;
  }

 private:
  bool IsInteger(ValueId value) const {
    return !IsFloat(program_.type(value).dtype);
  }

  bool ReadsOnly(const Op& op, const std::vector<bool>& follows) const {
    bool any = false;
    for (ValueId operand : op.operands) {
      if (!follows[operand] && !labels_.of_weights[operand]) return false;
      any |= follows[operand];
    }
    return any;
  }

  // Returns whether a convolution is over height and width, at least.
  bool IsPlane(const Op& op) const {
    return program_.type(op.operands[0]).rank() >= 4;
  }

  // Spectra over time are planes as well.
  bool HasTime(ValueId input) const {
    for (int d = 0; d < program_.type(input).rank(); ++d) {
      std::string_view name =
          DimName(labels_.names, program_.value_name(input), d);
      if (LabelOfName(name) == DimLabel::kSequence) return true;
    }
    return false;
  }

  bool KeepsElements(const Op& op, size_t at) const {
    if (op.def->is_view || op.def->name == "slice") return true;
    return absl::c_all_of(labels_.rules[at].factors, [](const auto& factor) {
      return factor.kind == FactorKind::kParallel;
    });
  }

  const Program& program_;
  const DimLabels& labels_;
};

// Reads dimensions of values into a shape.
struct ShapeReader {
  const Program& program;
  const DimLabels& labels;
  StepShape shape = {};
  std::set<int64_t, std::greater<>> tokens = {};
  bool all_known = true;

  void ReadBatch(ValueId value) {
    for (int d = 0; d < program.type(value).rank(); ++d) {
      if (labels.values[value][d] != DimLabel::kBatch) continue;
      shape.batch = std::max(shape.batch, program.type(value).size(d));
    }
  }

  // Every id is a token, but for those of the batch.
  void ReadIds(ValueId value) {
    const Type& type = program.type(value);
    int64_t count = 1;
    bool has_tokens = type.rank() >= 2;
    for (int d = 0; d < type.rank(); ++d) {
      if (labels.values[value][d] == DimLabel::kBatch) continue;
      count *= type.size(d);
      has_tokens |= labels.values[value][d] == DimLabel::kSequence;
    }
    if (has_tokens) tokens.insert(count);
  }

  // Channels come before height and width, or after.
  void ReadImage(ValueId value) {
    constexpr int64_t kMostChannels = 4;
    const Type& type = program.type(value);
    bool last =
        type.size(1) > kMostChannels && type.dims.back().size <= kMostChannels;
    for (int d = last ? 1 : 2; d < type.rank() - (last ? 1 : 0); ++d) {
      shape.image.push_back(type.size(d));
    }
  }

  // Numbers [batch, n] that no matmul reads may be n features as well: unlike
  // indices [batch, n], they do not make n tokens.
  void ReadTokens(ValueId value) {
    const Type& type = program.type(value);
    bool known =
        !IsFloat(type.dtype) || !absl::c_linear_search(labels.unread, value);
    all_known &= known;
    for (int d = 0; d < type.rank(); ++d) {
      if (labels.values[value][d] != DimLabel::kSequence || !known) continue;
      tokens.insert(type.size(d));
    }
  }
};

}  // namespace

StepShape StepShapeOf(const Program& program, const DimNames& names) {
  Program whole = program.stage == Stage::kGlobal ? program : Whole(program);
  absl::StatusOr<DimLabels> labels = DimLabels::Of(whole, names);
  if (!labels.ok()) return {};
  ShapeReader reader{whole, *labels};
  std::map<Reading, std::vector<ValueId>> inputs;
  std::vector<ValueId> all;
  InputReader input_reader(whole, *labels);
  for (const Input& input : whole.inputs) {
    if (input.role != InputRole::kData) continue;
    all.push_back(input.value);
    inputs[input_reader.Read(input.value)].push_back(input.value);
    reader.ReadBatch(input.value);
  }
  if (inputs.contains(Reading::kIds)) {
    for (ValueId value : inputs[Reading::kIds]) reader.ReadIds(value);
  } else if (inputs.contains(Reading::kImage)) {
    reader.ReadImage(inputs[Reading::kImage][0]);
  } else {
    bool rows = inputs.contains(Reading::kRows);
    const std::vector<ValueId>& read = rows ? inputs[Reading::kRows] : all;
    for (ValueId value : read) reader.ReadTokens(value);
    if (reader.tokens.empty() && reader.all_known && !rows) {
      for (const Output& output : whole.outputs) {
        reader.ReadBatch(output.value);
        reader.ReadTokens(output.value);
      }
    }
  }
  StepShape shape = std::move(reader.shape);
  shape.batch = std::max<int64_t>(shape.batch, 1);
  shape.tokens.assign(reader.tokens.begin(), reader.tokens.end());
  shape.dtype = DTypeOf(whole);
  return shape;
}

}  // namespace asyra
