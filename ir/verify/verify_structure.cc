#include "absl/container/flat_hash_set.h"
#include "ir/lexer.h"
#include "ir/support/status.h"
#include "ir/verify/verify_rules.h"
#include "ir/weight_origin.h"

namespace asyra {
namespace {

class Structure {
 public:
  explicit Structure(const Program& program)
      : program_(program), defined_(program.values.size(), false) {}

  absl::Status Verify() {
    ASYRA_RETURN_IF_ERROR(Names());
    for (const Input& input : program_.inputs) {
      if (!InRange(input.value)) {
        return Invalid("an input has value id {}, there are {} values",
                       input.value, program_.values.size());
      }
      if (!Define(input.value)) {
        return Invalid("input %{} is given twice", Name(input.value));
      }
      ASYRA_RETURN_IF_ERROR(Stored(input));
      ASYRA_RETURN_IF_ERROR(Origin(input));
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      absl::Status status = VerifyOp(program_.ops[i]);
      if (!status.ok()) return Annotate(status, fmt::format("op {}", i));
    }
    for (size_t value = 0; value < defined_.size(); ++value) {
      if (!defined_[value]) {
        return Invalid("%{} is neither an input nor the result of an op",
                       program_.values[value].name);
      }
    }
    return Outputs();
  }

 private:
  bool InRange(ValueId value) const {
    return value >= 0 && value < static_cast<ValueId>(defined_.size());
  }
  const std::string& Name(ValueId value) const {
    return program_.value_name(value);
  }
  // False when it was defined already.
  bool Define(ValueId value) {
    bool fresh = !defined_[value];
    defined_[value] = true;
    return fresh;
  }

  absl::Status Stored(const Input& input) const {
    if (input.stored.empty()) return absl::OkStatus();
    if (!IsWeight(input)) {
      return Invalid("input %{} is padded, only weights can be",
                     Name(input.value));
    }
    Shape shape = program_.type(input.value).shape();
    bool fits = shape.size() == input.stored.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = 0 <= input.stored[d] && input.stored[d] <= shape[d];
    }
    if (fits) return absl::OkStatus();
    return Invalid("input %{} of shape {} is padded from {}", Name(input.value),
                   ShapeToString(shape), ShapeToString(input.stored));
  }

  // Refuses what RunAt does not take.
  absl::Status Origin(const Input& input) const {
    if (input.origin == nullptr) return absl::OkStatus();
    const WeightOrigin& origin = *input.origin;
    if (!IsWeight(input)) {
      return Invalid("input %{} has an origin, only weights can",
                     Name(input.value));
    }
    ASYRA_ASSIGN_OR_RETURN(int64_t elements, Elements(input, origin.shape));
    if (origin.transposed && origin.shape.size() != 2) {
      return Invalid("input %{}: its origin of shape {} is no matrix",
                     Name(input.value), ShapeToString(origin.shape));
    }
    for (const WeightOrigin::Cut& cut : origin.cuts) {
      ASYRA_ASSIGN_OR_RETURN(int64_t split, Elements(input, cut.split));
      bool fits = split == elements && cut.dim >= 0 &&
                  cut.dim < static_cast<int>(cut.split.size()) &&
                  cut.start >= 0 && cut.size > 0 &&
                  cut.size <= cut.split[cut.dim] &&
                  cut.start <= cut.split[cut.dim] - cut.size;
      if (!fits) {
        return Invalid("input %{}: no cut {}:{} of dim {} of {} in {} elements",
                       Name(input.value), cut.start, cut.start + cut.size,
                       cut.dim, ShapeToString(cut.split), elements);
      }
      elements = elements / cut.split[cut.dim] * cut.size;
    }
    if (elements == NumElements(program_.GivenShape(input))) {
      return absl::OkStatus();
    }
    return Invalid("input %{} of shape {} is a part of {} of {} elements",
                   Name(input.value), ShapeToString(program_.GivenShape(input)),
                   QuotedText(origin.tensor), elements);
  }

  absl::StatusOr<int64_t> Elements(const Input& input,
                                   const Shape& shape) const {
    constexpr int64_t kMost = int64_t{1} << 60;
    int64_t elements = 1;
    for (int64_t size : shape) {
      if (size < 0 || (size > 0 && elements > kMost / size)) {
        return Invalid("input %{}: its origin has shape {}", Name(input.value),
                       ShapeToString(shape));
      }
      elements *= size;
    }
    return elements;
  }

  absl::Status Names() const {
    if (!IsName(program_.name)) {
      return Invalid("the program's name \"{}\" is not a word", program_.name);
    }
    absl::flat_hash_set<std::string_view> seen;
    for (const Value& value : program_.values) {
      if (!IsValueName(value.name)) {
        return Invalid(
            "value name \"{}\" is not made of letters, digits, '_' and '.'",
            value.name);
      }
      if (!seen.insert(value.name).second) {
        return Invalid("two values are named %{}", value.name);
      }
    }
    if (program_.streams.size() > kMaxStreams) {
      return Invalid("{} streams, at most {} are supported",
                     program_.streams.size(), kMaxStreams);
    }
    seen.clear();
    for (const std::string& stream : program_.streams) {
      if (!IsName(stream)) {
        return Invalid("stream name \"{}\" is not a word", stream);
      }
      if (!seen.insert(stream).second) {
        return Invalid("two streams are named {}", stream);
      }
    }
    return absl::OkStatus();
  }

  absl::Status VerifyOp(const Op& op) {
    if (op.def == nullptr) return Invalid("it has no definition");
    for (ValueId value : op.operands) {
      ASYRA_RETURN_IF_ERROR(Use(op, value));
    }
    for (ValueId value : op.after) ASYRA_RETURN_IF_ERROR(Use(op, value));
    for (ValueId value : op.results) {
      if (!InRange(value)) {
        return Invalid("{}: a result has value id {}, there are {} values",
                       op.def->name, value, defined_.size());
      }
      if (!Define(value)) {
        return Invalid("{}: %{} is defined twice", op.def->name, Name(value));
      }
    }
    if (op.stream < kNoStream ||
        op.stream >= static_cast<int>(program_.streams.size())) {
      return Invalid("{}: stream id {}, there are {} streams", op.def->name,
                     op.stream, program_.streams.size());
    }
    return VerifySmMargin(op);
  }

  absl::Status VerifySmMargin(const Op& op) const {
    const AttrValue* given = op.attrs.Find("sm_margin");
    if (given == nullptr) return absl::OkStatus();
    const int64_t* margin = std::get_if<int64_t>(given);
    if (margin == nullptr)
      return absl::OkStatus();  // the kind is checked later
    if (*margin < 1 || *margin > kMaxSmMargin) {
      return Invalid("{}: sm_margin is {}, not 1 to {}", op.def->name, *margin,
                     kMaxSmMargin);
    }
    if (program_.stage < Stage::kScheduled) {
      return Invalid("{}: sm_margin in a program of stage {}", op.def->name,
                     ToString(program_.stage));
    }
    if (!op.is_collective() && !op.def->is_view && !op.def->is_wait) {
      return absl::OkStatus();
    }
    return Invalid("{}: sm_margin of an op that computes nothing",
                   op.def->name);
  }

  absl::Status Use(const Op& op, ValueId value) const {
    if (!InRange(value)) {
      return Invalid("{}: reads value id {}, there are {} values", op.def->name,
                     value, defined_.size());
    }
    if (!defined_[value]) {
      return Invalid("{}: %{} is used before it is defined", op.def->name,
                     Name(value));
    }
    return absl::OkStatus();
  }

  absl::Status Outputs() const {
    std::vector<ValueId> replaced_by(program_.values.size(), kNoValue);
    for (const Output& output : program_.outputs) {
      if (!InRange(output.value)) {
        return Invalid("an output has value id {}, there are {} values",
                       output.value, program_.values.size());
      }
      if (!output.name.empty() && !IsValueName(output.name)) {
        return Invalid("output %{} is called '{}', which is no name",
                       Name(output.value), output.name);
      }
      if (output.alias == kNoValue) continue;
      ASYRA_RETURN_IF_ERROR(Alias(output));
      ValueId& by = replaced_by[output.alias];
      if (by != kNoValue) {
        return Invalid("state %{} is replaced twice, by %{} and by %{}",
                       Name(output.alias), Name(by), Name(output.value));
      }
      by = output.value;
    }
    for (const Input& input : program_.inputs) {
      // A param stays as it is where a program only reads it.
      if (input.role == InputRole::kState &&
          replaced_by[input.value] == kNoValue) {
        return Invalid("state %{} has no output that replaces it",
                       Name(input.value));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Alias(const Output& output) const {
    auto state = std::find_if(
        program_.inputs.begin(), program_.inputs.end(),
        [&](const Input& input) { return input.value == output.alias; });
    if (state == program_.inputs.end() || !IsUpdated(*state)) {
      return Invalid("output %{} is an alias of {}, which is no state or param",
                     Name(output.value),
                     InRange(output.alias) ? "%" + Name(output.alias)
                                           : "a value out of range");
    }
    return absl::OkStatus();
  }

  const Program& program_;
  std::vector<bool> defined_;
};

}  // namespace

absl::Status VerifyStructure(const Program& program) {
  return Structure(program).Verify();
}

}  // namespace asyra
