#include "tools/report/plan_report.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"
#include "passes/analysis/repeats.h"
#include "passes/train/step_phase.h"
#include "simulator/cost/cost_model.h"
#include "simulator/report/text.h"

namespace asyra {
namespace {

struct Move {
  std::string_view op;
  std::string axes;
  ValueId value = kNoValue;
  ValueId result = kNoValue;
  double wire_bytes = 0;  // bytes that each device sends
};

struct Block {
  std::string_view phase;  // of a training step that is not in layers
  int ops = 0;
  int count = 1;
  std::vector<ValueId> in, weights, out;
  std::vector<Move> moves;
};

Move MoveOf(const Program& program, const Op& op) {
  const AxisList& axes = op.attrs.Get<AxisList>("axes");
  const Mesh& mesh = program.mesh;
  return {op.def->name, AxesToString(axes, mesh), op.operands[0], op.results[0],
          static_cast<double>(PayloadBytes(program, op)) *
              BusFactor(op.def->collective, mesh.size(axes))};
}

// Makes blocks of a program, in order.
class Blocks {
 public:
  explicit Blocks(const Program& program)
      : program_(program),
        phases_(PhasesOf(program)),
        unread_(program.values.size()) {
    for (const Input& input : program.inputs) {
      unread_[input.value] = IsWeight(input);
    }
    for (const Repeat& repeat : FindRepeats(program)) Add(repeat);
  }

  std::vector<Block> Take() && { return std::move(blocks_); }

 private:
  void Add(const Repeat& repeat) {
    if (repeat.count == 1 && !phases_.empty()) return AddPhases(repeat);
    Block block{.ops = repeat.period, .count = repeat.count};
    block.in = ValuesInto(program_, repeat);
    block.out = ValuesOutOf(program_, repeat);
    for (int i = repeat.begin; i < repeat.begin + repeat.period; ++i) {
      AddOp(program_.ops[i], &block);
    }
    blocks_.push_back(std::move(block));
  }

  // A block for each phase that has ops there.
  void AddPhases(const Repeat& repeat) {
    for (StepPhase phase :
         {StepPhase::kForward, StepPhase::kBackward, StepPhase::kUpdate}) {
      Block block{.phase = ToString(phase)};
      for (int i = repeat.begin; i < repeat.end(); ++i) {
        if (phases_[i] != phase) continue;
        ++block.ops;
        AddOp(program_.ops[i], &block);
      }
      if (block.ops > 0) blocks_.push_back(std::move(block));
    }
  }

  void AddOp(const Op& op, Block* block) {
    for (ValueId value : op.operands) {
      if (!unread_[value]) continue;
      block->weights.push_back(value);
      unread_[value] = false;  // printed where it is first read
    }
    if (op.is_collective()) block->moves.push_back(MoveOf(program_, op));
  }

  const Program& program_;
  std::vector<StepPhase> phases_;
  std::vector<bool> unread_;
  std::vector<Block> blocks_;
};

std::vector<Block> BlocksOf(const Program& program) {
  return Blocks(program).Take();
}

// "bf16[1, 8192@tp, 4096]", as the program prints it.
std::string TypeOf(const Program& program, ValueId value) {
  return ToString(program.type(value), program.mesh);
}

std::string ValueRows(const Program& program, std::string_view title,
                      const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) {
    text += fmt::format("    {:<8} %{:<34} {}\n", title,
                        program.value_name(value), TypeOf(program, value));
    title = "";
  }
  return text;
}

std::string MoveRow(const Program& program, const Move& move,
                    const std::string& name, const std::string& count) {
  std::string from = TypeOf(program, move.value);
  std::string to = TypeOf(program, move.result);
  // The element type once.
  return fmt::format("    {:<14} over {:<5} %{}{}\n      {} -> {}, {} sent\n",
                     move.op, move.axes, name, count, from,
                     to.substr(to.find('[')), BytesText(move.wire_bytes));
}

// Rows that are the same but for numbers in the names, as those of layers are,
// as one: %layer*.up. `row_of` makes one of a name and ", 12 of them".
template <typename T, typename NameOf, typename RowOf>
std::string MergedRows(const std::vector<T>& all, NameOf name_of,
                       RowOf row_of) {
  struct Group {
    const T* first;
    int count = 0;
  };
  std::vector<Group> groups;  // in order
  std::map<std::string, size_t> group_of;
  for (const T& one : all) {
    std::string key = row_of(one, StarName(name_of(one)), "");
    auto [found, added] = group_of.try_emplace(key, groups.size());
    if (added) groups.push_back({&one});
    ++groups[found->second].count;
  }
  std::string text;
  for (const Group& group : groups) {
    std::string name(name_of(*group.first));
    text += group.count == 1 ? row_of(*group.first, name, "")
                             : row_of(*group.first, StarName(name),
                                      fmt::format(", {} of them", group.count));
  }
  return text;
}

// Lists the weights of a phase, in which layers are not told apart.
std::string WeightRows(const Program& program,
                       const std::vector<ValueId>& weights) {
  std::string_view title = "weights";
  std::string text = MergedRows(
      weights, [&](ValueId value) { return program.value_name(value); },
      [&](ValueId value, const std::string& name, const std::string& count) {
        return fmt::format("             %{:<34} {}{}\n", name,
                           TypeOf(program, value), count);
      });
  if (!text.empty()) text.replace(4, title.size(), title);
  return text;
}

std::string MoveRows(const Program& program, const std::vector<Move>& moves) {
  return MergedRows(
      moves, [&](const Move& move) { return program.value_name(move.value); },
      [&](const Move& move, const std::string& name, const std::string& count) {
        return MoveRow(program, move, name, count);
      });
}

std::string BlockText(const Program& program, const Block& block) {
  std::string text = fmt::format(
      "  {}{}{} op{}{}\n",
      block.phase.empty() ? "" : fmt::format("{}: ", block.phase),
      block.count > 1 ? fmt::format("{} x ", block.count) : "", block.ops,
      block.ops == 1 ? "" : "s",
      block.moves.empty() ? ""
                          : fmt::format(", {} collective{}", block.moves.size(),
                                        block.moves.size() == 1 ? "" : "s"));
  text += ValueRows(program, "in", block.in);
  if (!block.phase.empty()) {
    return text + WeightRows(program, block.weights) +
           MoveRows(program, block.moves);
  }
  text += ValueRows(program, "weights", block.weights);
  for (const Move& move : block.moves) {
    text += MoveRow(program, move, program.value_name(move.value), "");
  }
  return text + ValueRows(program, "out", block.out);
}

// Totals of the whole program, by op and axes.
struct Total {
  int count = 0;
  double wire_bytes = 0;
};
using Totals = std::map<std::pair<std::string, std::string>, Total>;

Totals TotalsOf(const std::vector<Block>& blocks) {
  Totals totals;
  for (const Block& block : blocks) {
    for (const Move& move : block.moves) {
      Total& total = totals[{std::string(move.op), move.axes}];
      total.count += block.count;
      total.wire_bytes += move.wire_bytes * block.count;
    }
  }
  return totals;
}

nlohmann::json ValuesJson(const Program& program,
                          const std::vector<ValueId>& values) {
  nlohmann::json json = nlohmann::json::array();
  for (ValueId value : values) {
    json.push_back({{"value", program.value_name(value)},
                    {"type", TypeOf(program, value)}});
  }
  return json;
}

nlohmann::json MovesJson(const Program& program,
                         const std::vector<Move>& moves) {
  nlohmann::json json = nlohmann::json::array();
  for (const Move& move : moves) {
    json.push_back({{"op", move.op},
                    {"axes", move.axes},
                    {"value", program.value_name(move.value)},
                    {"from", TypeOf(program, move.value)},
                    {"to", TypeOf(program, move.result)},
                    {"wire_bytes", move.wire_bytes}});
  }
  return json;
}

}  // namespace

std::string PlanText(const Program& program) {
  std::vector<Block> blocks = BlocksOf(program);
  std::string text = fmt::format(
      " plan over {}\n",
      program.mesh.num_devices() == 1 ? "one device" : ToString(program.mesh));
  for (const Block& block : blocks) text += BlockText(program, block);
  for (const auto& [key, total] : TotalsOf(blocks)) {
    text += fmt::format("  in all {:>5} {} over {}, {} sent by each device\n",
                        total.count, key.first, key.second,
                        BytesText(total.wire_bytes));
  }
  return text;
}

nlohmann::json PlanJson(const Program& program) {
  std::vector<Block> blocks = BlocksOf(program);
  nlohmann::json json = {{"blocks", nlohmann::json::array()},
                         {"collectives", nlohmann::json::array()}};
  for (const Block& block : blocks) {
    json["blocks"].push_back({{"phase", block.phase},
                              {"repeats", block.count},
                              {"ops", block.ops},
                              {"in", ValuesJson(program, block.in)},
                              {"weights", ValuesJson(program, block.weights)},
                              {"collectives", MovesJson(program, block.moves)},
                              {"out", ValuesJson(program, block.out)}});
  }
  for (const auto& [key, total] : TotalsOf(blocks)) {
    json["collectives"].push_back({{"op", key.first},
                                   {"axes", key.second},
                                   {"count", total.count},
                                   {"wire_bytes", total.wire_bytes}});
  }
  return json;
}

}  // namespace asyra
