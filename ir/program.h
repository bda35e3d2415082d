// A program: straight-line SPMD code over one mesh. A plain value: cheap to
// copy, compared and printed deterministically. Passes mostly build a new
// program from an old one (see ir/builder.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ir/attr.h"
#include "ir/mesh.h"
#include "ir/op_def.h"
#include "ir/type.h"

namespace asyra {

class WeightStore;
struct WeightOrigin;

inline constexpr ValueId kNoValue = -1;
using StreamId = int16_t;
inline constexpr StreamId kNoStream = -1;
// Order between streams costs one integer per op and stream.
inline constexpr size_t kMaxStreams = 256;

// Each stage has its own verifier rules (ir/verify/verifier.h).
enum class Stage : uint8_t {
  kGlobal,     // one logical device: no axes, no collectives
  kLocal,      // each op satisfies its axis rule; collectives explicit
  kScheduled,  // program order is issue order; every op has a stream
  kAllocated,  // every value has an offset in the arena
};
std::string_view ToString(Stage stage);

struct Value {
  std::string name;  // unique in the program
  Type type;
  int64_t offset = -1;  // bytes into the arena; stage allocated only
};

enum class InputRole : uint8_t {
  kData,    // given anew at each step
  kWeight,  // given once; read only
  kState,   // given once; an output aliases it
  kParam,   // a weight under training: a weight to every pass, which an output
            // may alias like a state's; its first value is that of the weight
};

struct Input {
  ValueId value = kNoValue;
  InputRole role = InputRole::kData;
  // The shape in which a weight's data is given, if smaller than its type: the
  // remainder is zero. Empty: as its type.
  Shape stored = {};
  // The tensor of the model's file that it is made of (ir/weight_origin.h);
  // null: the one of the input's name, unchanged.
  std::shared_ptr<const WeightOrigin> origin = nullptr;
};

// Returns whether it is a weight, under training or not.
inline bool IsWeight(const Input& input) {
  return input.role == InputRole::kWeight || input.role == InputRole::kParam;
}
// Returns whether a step leaves a new value in it, which an output says.
inline bool IsUpdated(const Input& input) {
  return input.role == InputRole::kState || input.role == InputRole::kParam;
}

struct Output {
  ValueId value = kNoValue;
  // The state or param input this output replaces for the next step, or
  // kNoValue.
  ValueId alias = kNoValue;
  // The name for users, independent of its value's name; empty: that of the
  // value (Program::output_name).
  std::string name = {};
};

struct Op {
  const OpDef* def = nullptr;
  absl::InlinedVector<ValueId, 4> operands;
  absl::InlinedVector<ValueId, 1> results;
  AttrMap attrs;  // complete: defaults are filled in
  StreamId stream = kNoStream;
  // `start`: runs asynchronously; each result is a future for a later `wait`.
  bool start = false;
  // Ops that define these values have finished before this one begins.
  absl::InlinedVector<ValueId, 1> after;

  bool is_collective() const {
    return def->collective != CollectiveKind::kNone;
  }
};

struct Program {
  std::string name = "main";
  Stage stage = Stage::kGlobal;
  Mesh mesh;
  std::vector<std::string> streams;
  std::vector<Value> values;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Op> ops;
  // Data of weight inputs by value name; may be null, or lack some.
  std::shared_ptr<const WeightStore> weights;

  const Type& type(ValueId value) const { return values[value].type; }
  const std::string& value_name(ValueId value) const {
    return values[value].name;
  }
  const std::string& output_name(const Output& output) const {
    return output.name.empty() ? value_name(output.value) : output.name;
  }
  // Adds an output that is called `name`; empty: as its value.
  void AddOutput(ValueId value, ValueId alias, std::string_view name);
  // The shape in which an input's data is given.
  Shape GivenShape(const Input& input) const;
  // The value of that name, or kNoValue. Linear.
  ValueId FindValue(std::string_view name) const;
  // The stream of that name, added when it is new.
  StreamId Stream(std::string_view name);

  // Drops values that are neither an input nor the result of an op, which
  // remain when passes erase ops. Ids change.
  void DropUnusedValues();

  std::vector<Type> OperandTypes(const Op& op) const;
  std::vector<Type> ResultTypes(const Op& op) const;
};

// The op's use as definitions see it, holding the types it points to.
class OpUse {
 public:
  OpUse(const Program& program, const Op& op)
      : operands_(program.OperandTypes(op)),
        results_(program.ResultTypes(op)),
        call_{*op.def, op.attrs, operands_, results_} {}
  OpUse(const OpUse&) = delete;
  OpUse& operator=(const OpUse&) = delete;
  const OpCall& call() const { return call_; }
  // NOLINTNEXTLINE(google-explicit-constructor): it stands for the call.
  operator const OpCall&() const { return call_; }

 private:
  std::vector<Type> operands_;
  std::vector<Type> results_;
  OpCall call_;
};

// Returns whether a result of `op` may overwrite an operand of its own local
// type that nothing else reads (OpDef::in_place); both by number.
bool MayOverwrite(const Program& program, const Op& op, size_t operand,
                  size_t result);

// Definition and readers of each value, computed once per program.
struct DefUse {
  explicit DefUse(const Program& program);
  // The first wait in program order for any future of a `start`; it waits for
  // the whole start, and operands stay in memory until then. -1 if there is
  // none.
  int FirstWait(const Op& start) const;

  std::vector<int> def;                           // op index; -1 for inputs
  std::vector<absl::InlinedVector<int, 2>> uses;  // op indices, ascending
  std::vector<int> output_uses;                   // times it is an output
};

}  // namespace asyra
