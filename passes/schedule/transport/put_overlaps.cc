#include "passes/schedule/transport/put_overlaps.h"

#include <iterator>

#include "absl/algorithm/container.h"
#include "ir/happens_before.h"

namespace asyra {
namespace {

// Returns the overlap in the program's values, after what it reads on other
// streams. A collective that was held back for a better order is so no longer.
Op OpOf(const Program& program, const DefUse& def_use, const OverlapSite& site,
        AttrMap attrs) {
  Op op{.def = FindOp("overlap")};
  op.attrs = std::move(attrs);
  op.operands.assign(site.operands.begin(), site.operands.end());
  op.results.assign(site.results.begin(), site.results.end());
  for (int part : site.ops) {
    if (!program.ops[part].start && !program.ops[part].def->is_wait) {
      op.stream = program.ops[part].stream;
    }
  }
  auto add = [&](ValueId value) {
    int def = def_use.def[value];
    if (def < 0 || program.ops[def].stream == op.stream ||
        IsConstant(program.ops[def]) ||
        absl::c_linear_search(op.after, value)) {
      return;
    }
    op.after.push_back(value);
  };
  for (ValueId value : op.operands) add(value);
  return op;
}

}  // namespace

void PutOverlaps(std::vector<FormedOverlap> formed, Program* program) {
  if (formed.empty()) return;
  DefUse def_use(*program);
  std::vector<bool> gone(program->ops.size(), false);
  // Several overlaps come before one op that reads what they gather: those that
  // others may read first.
  absl::c_stable_sort(formed, [](const auto& a, const auto& b) {
    return *a.site.ops.begin() < *b.site.ops.begin();
  });
  std::vector<std::vector<Op>> put(program->ops.size());
  for (FormedOverlap& overlap : formed) {
    const OverlapSite& site = overlap.site;
    for (int op : site.ops) gone[op] = true;
    put[site.at].push_back(
        OpOf(*program, def_use, site, std::move(overlap.attrs)));
  }
  std::vector<Op> ops;
  for (size_t i = 0; i < program->ops.size(); ++i) {
    absl::c_move(put[i], std::back_inserter(ops));
    if (!gone[i]) ops.push_back(std::move(program->ops[i]));
  }
  program->ops = std::move(ops);
  program->DropUnusedValues();
}

}  // namespace asyra
