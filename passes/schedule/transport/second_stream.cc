#include "passes/schedule/transport/second_stream.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/algorithm/container.h"
#include "ir/body.h"
#include "ir/happens_before.h"
#include "ir/streams.h"

namespace asyra {
namespace {

class Finder {
 public:
  Finder(const Program& program, const std::vector<bool>& light)
      : program_(program),
        def_use_(program),
        stream_(MainComputeStream(program)),
        parent_(program.ops.size()) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      light_.push_back(light[i] && IsMine(program.ops[i]));
    }
  }

  std::vector<SideChain> Find() {
    FindReached();
    return Join();
  }

 private:
  // Returns whether the op is on this stream and may move; constants are
  // computed before the first step.
  bool IsMine(const Op& op) const {
    return op.stream == stream_ && !op.is_collective() && !op.def->is_barrier &&
           !IsConstant(op);
  }

  // Reached from a wait, and reaching a start, by light ops alone.
  void FindReached() {
    size_t n = program_.ops.size();
    std::vector<bool> from_wait(n), to_start(n);
    for (size_t i = 0; i < n; ++i) {
      const Op& op = program_.ops[i];
      if (!light_[i]) continue;
      from_wait[i] = op.def->is_wait;
      for (ValueId value : op.operands) {
        int def = def_use_.def[value];
        if (def >= 0 && from_wait[def]) from_wait[i] = true;
      }
    }
    for (size_t i = n; i-- > 0;) {
      if (!light_[i]) continue;
      for (ValueId value : program_.ops[i].results) {
        for (int use : def_use_.uses[value]) {
          if (program_.ops[use].start || to_start[use]) to_start[i] = true;
        }
      }
    }
    for (size_t i = 0; i < n; ++i)
      chosen_.push_back(from_wait[i] && to_start[i]);
  }

  int Root(int op) {
    while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
    return op;
  }

  std::vector<SideChain> Join() {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (!chosen_[i]) continue;
      for (ValueId value : program_.ops[i].operands) {
        int def = def_use_.def[value];
        if (def >= 0 && chosen_[def]) {
          parent_[Root(static_cast<int>(i))] = Root(def);
        }
      }
    }
    std::map<int, SideChain> chains;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (!chosen_[i]) continue;
      int op = static_cast<int>(i);
      SideChain& chain = chains[Root(op)];
      chain.ops.push_back(op);
      chain.signature += OpLabel(*program_.ops[i].def, program_.ops[i].attrs);
      chain.signature +=
          ToString(program_.ResultTypes(program_.ops[i]), program_.mesh);
    }
    std::vector<SideChain> found;
    for (auto& [root, chain] : chains) {
      // A wait alone does not need another stream.
      bool computes = absl::c_any_of(
          chain.ops, [&](int op) { return !program_.ops[op].def->is_view; });
      if (computes) found.push_back(std::move(chain));
    }
    return found;
  }

  const Program& program_;
  DefUse def_use_;
  StreamId stream_;
  std::vector<bool> light_, chosen_;  // by op
  std::vector<int> parent_;           // of a union-find over chosen ops
};

}  // namespace

std::vector<bool> OpsWithoutMatmuls(const Program& program) {
  std::vector<bool> ops;
  for (const Op& op : program.ops) {
    ops.push_back(!WorkOf(OpUse(program, op), program.mesh).matrix);
  }
  return ops;
}

std::vector<SideChain> FindSideChains(const Program& program,
                                      const std::vector<bool>& light) {
  return Finder(program, light).Find();
}

Program MoveToStream(const Program& program,
                     const std::vector<SideChain>& chains,
                     std::string_view stream) {
  Program moved = program;
  StreamId side = moved.Stream(stream);
  for (const SideChain& chain : chains) {
    for (int op : chain.ops) moved.ops[op].stream = side;
  }
  DefUse def_use(moved);
  for (Op& op : moved.ops) {
    std::vector<ValueId> awaited = AwaitedValues(op);
    for (ValueId value : op.operands) {
      int def = def_use.def[value];
      if (def < 0 || moved.ops[def].stream == op.stream ||
          IsConstant(moved.ops[def]) || absl::c_linear_search(awaited, value)) {
        continue;
      }
      awaited.push_back(value);
      op.after.push_back(value);
    }
  }
  return moved;
}

}  // namespace asyra
