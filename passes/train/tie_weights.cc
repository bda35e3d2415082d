#include "passes/train/tie_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"

namespace asyra {
namespace {

// Elements that are looked at before all are.
constexpr int64_t kSampled = 64;

const std::byte* Element(const Tensor& tensor, int64_t row, int64_t column) {
  return tensor.data() +
         (row * tensor.size(1) + column) * SizeOf(tensor.dtype());
}

bool IsConstantFilled(const Tensor& tensor) {
  int64_t size = SizeOf(tensor.dtype());
  return tensor.bytes() <= size ||
         std::memcmp(tensor.data(), tensor.data() + size,
                     tensor.bytes() - size) == 0;
}

bool IsTransposed(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.size(0) != b.size(1) ||
      a.size(1) != b.size(0)) {
    return false;
  }
  int64_t size = SizeOf(a.dtype());
  // First along one diagonal: most pairs differ there.
  int64_t diagonal = std::min({a.size(0), a.size(1), kSampled});
  auto differ = [&](int64_t r, int64_t c) {
    return std::memcmp(Element(a, r, c), Element(b, c, r), size) != 0;
  };
  for (int64_t i = 0; i + 1 < diagonal; ++i) {
    if (differ(i, i + 1)) return false;
  }
  for (int64_t r = 0; r < a.size(0); ++r) {
    for (int64_t c = 0; c < a.size(1); ++c) {
      if (differ(r, c)) return false;
    }
  }
  return true;
}

class WeightTier {
 public:
  WeightTier(const Program& program, std::vector<Parameter>* parameters)
      : program_(program), parameters_(*parameters) {}

  // The later of two that are one, and the earlier.
  struct Tie {
    ValueId later, earlier;
    bool transposed;
  };

  std::vector<Tie> Find() {
    std::vector<Tie> ties;
    std::vector<Parameter> kept;
    for (const Parameter& parameter : parameters_) {
      std::optional<Tie> tie = TieOf(parameter.value, kept);
      if (tie.has_value()) {
        ties.push_back(*tie);
      } else {
        kept.push_back(parameter);
      }
    }
    parameters_ = kept;
    return ties;
  }

 private:
  const Tensor* Data(ValueId value) const {
    if (program_.weights == nullptr || program_.type(value).rank() < 2) {
      return nullptr;
    }
    const Tensor* data = program_.weights->Find(program_.value_name(value));
    return data == nullptr || data->data() == nullptr ? nullptr : data;
  }

  std::optional<Tie> TieOf(ValueId value,
                           const std::vector<Parameter>& kept) const {
    const Tensor* data = Data(value);
    if (data == nullptr) return std::nullopt;
    for (const Parameter& other : kept) {
      const Tensor* earlier = Data(other.value);
      if (earlier == nullptr) continue;
      bool same = SameBytes(*data, *earlier);
      bool transposed = !same && data->rank() == 2 && earlier->rank() == 2 &&
                        IsTransposed(*data, *earlier);
      if (!same && !transposed) continue;
      if (IsConstantFilled(*data)) return std::nullopt;
      return Tie{value, other.value, transposed};
    }
    return std::nullopt;
  }

  const Program& program_;
  std::vector<Parameter>& parameters_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> TieWeights(
    Program& program, std::vector<Parameter>* parameters) {
  std::vector<WeightTier::Tie> ties = WeightTier(program, parameters).Find();
  std::vector<std::string> lines;
  if (ties.empty()) return lines;
  Builder builder = Builder::Like(program);
  std::vector<ValueId> map(program.values.size(), kNoValue);
  auto is_later = [&](ValueId value) {
    return std::any_of(ties.begin(), ties.end(),
                       [&](const auto& tie) { return tie.later == value; });
  };
  for (const Input& input : program.inputs) {
    if (is_later(input.value)) continue;
    map[input.value] =
        builder.Input(program.value_name(input.value),
                      program.type(input.value), input.role, input.stored);
  }
  for (const auto& [later, earlier, transposed] : ties) {
    map[later] = map[earlier];
    if (transposed) {
      ASYRA_ASSIGN_OR_RETURN(
          map[later],
          builder.AddOne("transpose", {map[earlier]}, {{"perm", Ints{1, 0}}},
                         program.value_name(later)));
    }
    lines.push_back(fmt::format(
        "%{} is %{}{}: one parameter", program.value_name(later),
        program.value_name(earlier), transposed ? " transposed" : ""));
  }
  for (const Op& op : program.ops) {
    ASYRA_RETURN_IF_ERROR(builder.Copy(program, op, &map));
  }
  for (const Output& output : program.outputs) {
    builder.Output(map[output.value], kNoValue, program.output_name(output));
  }
  for (Parameter& parameter : *parameters) {
    parameter.value = map[parameter.value];
  }
  program = std::move(builder).Finish();
  return lines;
}

}  // namespace asyra
