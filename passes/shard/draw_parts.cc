#include "passes/shard/draw_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace asyra {
namespace {

bool CutsItself(const Op& op) {
  return FindAttr(*op.def, "cut") != nullptr &&
         FindAttr(*op.def, "axes") != nullptr;
}

// `shard` is done by `source` from here on.
void Absorb(const Op& shard, Op* source) {
  Ints dims = source->attrs.Get<Ints>("cut");
  AxisList axes = source->attrs.Get<AxisList>("axes");
  for (AxisId axis : shard.attrs.Get<AxisList>("axes")) {
    dims.push_back(shard.attrs.Int("dim"));
    axes.push_back(axis);
  }
  source->attrs.Set("cut", dims);
  source->attrs.Set("axes", axes);
  source->results = shard.results;
}

}  // namespace

void DrawParts(Program* program) {
  DefUse def_use(*program);
  std::vector<int> source_of = def_use.def;  // grows with what is absorbed
  std::vector<bool> gone(program->ops.size(), false);
  for (size_t i = 0; i < program->ops.size(); ++i) {
    const Op& op = program->ops[i];
    if (op.def->name != "shard") continue;
    ValueId whole = op.operands[0];
    bool alone = def_use.uses[whole].size() == 1 &&
                 def_use.output_uses[whole] == 0 && source_of[whole] >= 0;
    if (!alone || !CutsItself(program->ops[source_of[whole]])) continue;
    Absorb(op, &program->ops[source_of[whole]]);
    source_of[op.results[0]] = source_of[whole];
    gone[i] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < program->ops.size(); ++i) {
    if (gone[i]) continue;
    if (kept != i) program->ops[kept] = std::move(program->ops[i]);
    ++kept;
  }
  if (kept == program->ops.size()) return;
  program->ops.resize(kept);
  program->DropUnusedValues();
}

}  // namespace asyra
