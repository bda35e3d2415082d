#include "passes/schedule/order/start_collectives.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/streams.h"
#include "ir/support/check.h"
#include "passes/schedule/order/hold_walks.h"

namespace asyra {
namespace {

// Returns a name with the axes in mesh order: (tp,ep) and (ep,tp) join the same
// devices.
std::string StreamName(AxisList axes, const Mesh& mesh) {
  std::sort(axes.begin(), axes.end());
  std::string name;
  for (AxisId axis : axes) {
    if (!name.empty()) name += '_';
    name += mesh.name(axis);
  }
  return name;
}

class Starter {
 public:
  Starter(const Program& from, bool early)
      : from_(from),
        early_(early),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue),
        future_(from.values.size(), kNoValue),
        ready_(from.values.size()),
        missing_(from.ops.size(), 0) {
    Program& to = builder_.mutable_program();
    to.stage = Stage::kScheduled;
    compute_ = to.Stream(kComputeStream);
    for (size_t i = 0; i < from.ops.size(); ++i) {
      const Op& op = from.ops[i];
      if (!op.is_collective() || !early) continue;
      missing_[i] = op.operands.size();
      for (ValueId value : op.operands) ready_[value].push_back(i);
    }
  }

  Program Run() {
    for (const Input& input : from_.inputs) {
      map_[input.value] = builder_.Input(from_, input);
      StartReaders(input.value);
    }
    for (const Op& op : from_.ops) {
      if (op.is_collective()) {
        if (!early_) {
          Start(op);
          for (ValueId value : op.results) Arrived(value);
        }
        continue;
      }
      Op copy = op;
      for (ValueId& value : copy.operands) value = Arrived(value);
      copy.stream = compute_;
      Append(op, std::move(copy));
      for (ValueId value : op.results) StartReaders(value);
    }
    for (const Output& output : from_.outputs) {
      builder_.Output(Arrived(output.value),
                      output.alias == kNoValue ? kNoValue : map_[output.alias],
                      from_.output_name(output));
    }
    return std::move(builder_).Finish();
  }

 private:
  void Append(const Op& op, Op copy) {
    std::vector<std::string> names;
    std::vector<Type> types = from_.ResultTypes(op);
    for (ValueId value : op.results) names.push_back(from_.value_name(value));
    std::vector<ValueId> results =
        builder_.Append(std::move(copy), types, names);
    for (size_t i = 0; i < results.size(); ++i)
      map_[op.results[i]] = results[i];
  }

  // Starts the collectives that read a value that has just been made, if it is
  // the last that they need.
  void StartReaders(ValueId value) {
    for (size_t i : ready_[value]) {
      const Op& op = from_.ops[i];
      if (--missing_[i] > 0) continue;
      Start(op);
      // A collective that reads this one's result starts when that is ready.
      for (ValueId result : op.results) {
        if (ready_[result].empty()) continue;
        Arrived(result);
        StartReaders(result);
      }
    }
  }

  void Start(const Op& op) {
    Op start = op;
    start.start = true;
    for (ValueId& value : start.operands) value = Arrived(value);
    start.stream = builder_.mutable_program().Stream(
        StreamName(op.attrs.Get<AxisList>("axes"), from_.mesh));
    std::vector<Type> types = from_.ResultTypes(op);
    std::vector<std::string> names;
    for (size_t r = 0; r < types.size(); ++r) {
      types[r].future = true;
      names.push_back(from_.value_name(op.results[r]) + ".future");
    }
    std::vector<ValueId> futures =
        builder_.Append(std::move(start), types, names);
    for (size_t r = 0; r < futures.size(); ++r) {
      future_[op.results[r]] = futures[r];
    }
  }

  // Returns the value in the new program, with a wait if it is in flight.
  ValueId Arrived(ValueId value) {
    if (map_[value] == kNoValue) {
      ASYRA_CHECK(future_[value] != kNoValue);
      Op wait;
      wait.def = FindOp("wait");
      wait.operands = {future_[value]};
      wait.stream = compute_;
      map_[value] = builder_.Append(std::move(wait), {from_.type(value)},
                                    {from_.value_name(value)})[0];
    }
    return map_[value];
  }

  const Program& from_;
  const bool early_;
  Builder builder_;
  std::vector<ValueId> map_;     // old value to new, once it is available
  std::vector<ValueId> future_;  // old value to the future it comes from
  // Collectives that read a value, and how many operands each still lacks.
  std::vector<std::vector<size_t>> ready_;
  std::vector<size_t> missing_;
  StreamId compute_ = kNoStream;
};

}  // namespace

absl::StatusOr<bool> StartCollectives(Program& program,
                                      const PassOptions& options,
                                      PassContext& context) {
  bool any = std::any_of(program.ops.begin(), program.ops.end(),
                         [](const Op& op) { return op.is_collective(); });
  program = Starter(program, options.Bool("early")).Run();
  HoldWalks(program);
  if (!any) context.Remark("start_collectives: the program has no collectives");
  return true;
}

}  // namespace asyra
