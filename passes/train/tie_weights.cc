#include "passes/train/tie_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/support/name_pattern.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"

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

// Rearranges elements on the way from a weight to what computes with it.
bool IsMove(const Op& op) {
  constexpr std::string_view kNames[] = {"reshape", "transpose", "cast"};
  return std::find(std::begin(kNames), std::end(kNames), op.def->name) !=
         std::end(kNames);
}

// The weights that are tables of lookups, and those that are the matrix of the
// head.
class WeightUses {
 public:
  explicit WeightUses(const Program& program)
      : program_(program),
        def_use_(program),
        near_output_(program.values.size(), false) {
    for (const Output& output : program.outputs) {
      near_output_[output.value] = true;
    }
    for (size_t i = program.ops.size(); i-- > 0;) {
      const Op& op = program.ops[i];
      bool near = std::any_of(op.results.begin(), op.results.end(),
                              [&](ValueId v) { return near_output_[v]; });
      if (!near || Mixes(op)) continue;
      for (ValueId operand : op.operands) near_output_[operand] = true;
    }
  }

  bool IsTable(ValueId value) const {
    return AnyReader(value, [](const Op& op, ValueId read) {
      return (op.def->name == "embedding" || op.def->name == "gather") &&
             op.operands[0] == read;
    });
  }

  bool IsHead(ValueId value) const {
    return AnyReader(value, [&](const Op& op, ValueId) {
      return op.def->name == "matmul" && near_output_[op.results[0]];
    });
  }

 private:
  static bool Mixes(const Op& op) {
    constexpr std::string_view kNames[] = {"matmul", "grouped_matmul", "conv",
                                           "attention"};
    return std::find(std::begin(kNames), std::end(kNames), op.def->name) !=
           std::end(kNames);
  }

  template <typename Test>
  bool AnyReader(ValueId value, Test test) const {
    for (int reader : def_use_.uses[value]) {
      const Op& op = program_.ops[reader];
      if (IsMove(op) ? AnyReader(op.results[0], test) : test(op, value)) {
        return true;
      }
    }
    return false;
  }

  const Program& program_;
  DefUse def_use_;
  // No matrix is on the way to some output.
  std::vector<bool> near_output_;
};

// A pattern of names that has to match some parameter.
class Names {
 public:
  static absl::StatusOr<Names> Create(const Program& program,
                                      const std::vector<Parameter>& parameters,
                                      std::string_view flag,
                                      const std::string& text) {
    Names names;
    if (text.empty()) return names;
    ASYRA_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(text));
    for (const Input& input : program.inputs) {
      bool matches = pattern.Matches(UserName(program, input)) ||
                     pattern.Matches(program.value_name(input.value));
      if (matches) names.values_.insert(input.value);
    }
    bool any =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const Parameter& one) { return names.Has(one.value); });
    if (any) return names;
    return Invalid("{}: none of the {} parameters is called {}", flag,
                   parameters.size(), text);
  }

  bool Has(ValueId value) const { return values_.contains(value); }
  const absl::flat_hash_set<ValueId>& values() const { return values_; }

 private:
  absl::flat_hash_set<ValueId> values_;
};

// The later of two that are one, and the earlier.
struct Tie {
  ValueId later, earlier;
  bool transposed;
};

class WeightTier {
 public:
  WeightTier(const Program& program, const std::vector<Parameter>& parameters,
             Names tie, Names untie)
      : program_(program),
        parameters_(parameters),
        uses_(program),
        tie_(std::move(tie)),
        untie_(std::move(untie)) {}

  std::vector<Tie> Find() const {
    std::vector<Tie> ties;
    std::vector<ValueId> kept;
    for (const Parameter& parameter : parameters_) {
      std::optional<Tie> tie = TieOf(parameter.value, kept);
      if (tie.has_value()) {
        ties.push_back(*tie);
      } else {
        kept.push_back(parameter.value);
      }
    }
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

  bool MayBeOne(ValueId a, ValueId b) const {
    if (untie_.Has(a) || untie_.Has(b)) return false;
    if (tie_.Has(a) && tie_.Has(b)) return true;
    return (uses_.IsTable(a) && uses_.IsHead(b)) ||
           (uses_.IsTable(b) && uses_.IsHead(a));
  }

  std::optional<Tie> TieOf(ValueId value,
                           const std::vector<ValueId>& kept) const {
    const Tensor* data = Data(value);
    if (data == nullptr) return std::nullopt;
    for (ValueId other : kept) {
      const Tensor* earlier = Data(other);
      if (earlier == nullptr || !MayBeOne(value, other)) continue;
      bool same = SameBytes(*data, *earlier);
      bool transposed = !same && data->rank() == 2 && earlier->rank() == 2 &&
                        IsTransposed(*data, *earlier);
      if (!same && !transposed) continue;
      if (IsConstantFilled(*data)) return std::nullopt;
      return Tie{value, other, transposed};
    }
    return std::nullopt;
  }

  const Program& program_;
  const std::vector<Parameter>& parameters_;
  WeightUses uses_;
  Names tie_, untie_;
};

const Input& InputOf(const Program& program, ValueId value) {
  return *std::find_if(program.inputs.begin(), program.inputs.end(),
                       [&](const Input& one) { return one.value == value; });
}

// Returns the origin of the earlier one, with the names of the later one.
std::shared_ptr<const WeightOrigin> Joined(const Program& program,
                                           const WeightOrigin& earlier,
                                           const Tie& tie) {
  WeightOrigin later = OriginOf(program, InputOf(program, tie.later));
  auto joined = std::make_shared<WeightOrigin>(earlier);
  // Users may know either as its transpose.
  bool turned = tie.transposed != (earlier.transposed != later.transposed);
  joined->tied.push_back(
      {later.tensor, turned, later.stored_as, later.transposed});
  for (WeightOrigin::Tied other : later.tied) {
    other.transposed = turned != other.transposed;
    joined->tied.push_back(std::move(other));
  }
  return joined;
}

// Returns the program whose readers of later ones read the earlier ones.
absl::StatusOr<Program> WithTies(const Program& program,
                                 const std::vector<Tie>& ties) {
  Builder builder = Builder::Like(program);
  std::vector<ValueId> map(program.values.size(), kNoValue);
  for (Input input : program.inputs) {
    bool later = false;
    for (const Tie& tie : ties) {
      later |= tie.later == input.value;
      if (tie.earlier != input.value) continue;
      input.origin = Joined(program, OriginOf(program, input), tie);
    }
    if (!later) map[input.value] = builder.Input(program, input);
  }
  for (const auto& [later, earlier, transposed] : ties) {
    map[later] = map[earlier];
    if (!transposed) continue;
    ASYRA_ASSIGN_OR_RETURN(
        map[later],
        builder.AddOne("transpose", {map[earlier]}, {{"perm", Ints{1, 0}}},
                       program.value_name(later)));
  }
  for (const Op& op : program.ops) {
    ASYRA_RETURN_IF_ERROR(builder.Copy(program, op, &map));
  }
  for (const Output& output : program.outputs) {
    builder.Output(map[output.value], kNoValue, program.output_name(output));
  }
  return std::move(builder).Finish();
}

// Checks that all ties that were asked for are possible.
absl::Status CheckTied(const Program& program, const Names& tie,
                       const std::vector<Parameter>& parameters,
                       const std::vector<Tie>& ties) {
  for (const Parameter& one : parameters) {
    if (!tie.Has(one.value)) continue;
    bool tied = std::any_of(ties.begin(), ties.end(), [&](const Tie& other) {
      return other.later == one.value || other.earlier == one.value;
    });
    if (tied) continue;
    return Invalid(
        "tie: no other parameter that it matches has the bytes of {}",
        UserName(program, InputOf(program, one.value)));
  }
  return absl::OkStatus();
}

// Checks that some of the weights that stay apart would be one with another.
absl::Status CheckUntied(const std::string& pattern, const Names& untie,
                         const std::vector<Tie>& otherwise) {
  bool any = std::any_of(otherwise.begin(), otherwise.end(), [&](Tie tie) {
    return untie.Has(tie.later) || untie.Has(tie.earlier);
  });
  if (any) return absl::OkStatus();
  return Invalid("untie: no parameter called {} is tied to another without it",
                 pattern);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TieWeights(
    Program& program, const std::vector<Parameter>& parameters,
    const TieChoice& choice) {
  ASYRA_ASSIGN_OR_RETURN(Names tie,
                         Names::Create(program, parameters, "tie", choice.tie));
  ASYRA_ASSIGN_OR_RETURN(
      Names untie, Names::Create(program, parameters, "untie", choice.untie));
  std::vector<Tie> ties = WeightTier(program, parameters, tie, untie).Find();
  if (!choice.untie.empty()) {
    ASYRA_RETURN_IF_ERROR(
        CheckUntied(choice.untie, untie,
                    WeightTier(program, parameters, tie, Names()).Find()));
  }
  ASYRA_RETURN_IF_ERROR(CheckTied(program, tie, parameters, ties));
  std::vector<std::string> lines;
  for (const auto& [later, earlier, transposed] : ties) {
    lines.push_back(fmt::format("{} is {}{}: one parameter",
                                UserName(program, InputOf(program, later)),
                                UserName(program, InputOf(program, earlier)),
                                transposed ? " transposed" : ""));
  }
  if (ties.empty()) return lines;
  ASYRA_ASSIGN_OR_RETURN(program, WithTies(program, ties));
  return lines;
}

}  // namespace asyra
