#include "ir/plans/plan_walk.h"

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int kNotRead = -2;  // a dimension that no part has chosen yet

// Ops of a body that read each other's results, as a body of their own.
struct BodyPart {
  GroupBody group;
  // In the whole body, for messages: by value and by op of the part.
  std::vector<int> values, ops;
};

// The rule of all values of a part, and its candidates for the walk.
class Walks {
 public:
  // `part` outlives it.
  Walks(const BodyPart& part, AxisRule rule)
      : part_(part), body_(part.group), rule_(std::move(rule)) {}

  absl::StatusOr<PlanWalk> Find(int64_t parts) {
    absl::Status first = Invalid("no collective has a dimension to walk");
    bool tried = false;
    for (FactorId factor : Candidates()) {
      absl::StatusOr<PlanWalk> walk = Along(factor, parts);
      if (walk.ok()) return walk;
      if (!tried) first = walk.status();
      tried = true;
    }
    return first;
  }

 private:
  const OperandFactors& DimsOf(int value) const { return rule_.results[value]; }

  // By the first collective: the dimensions that it names, or all of an
  // all_reduce.
  std::vector<FactorId> Candidates() const {
    std::vector<FactorId> found;
    for (const BodyOp& op : body_.body.ops) {
      if (op.def->collective == CollectiveKind::kNone) continue;
      const OperandFactors& dims = DimsOf(op.operands[0]);
      auto add = [&](int dim) {
        if (!dims[dim].empty()) found.push_back(dims[dim][0]);
      };
      bool named = false;
      for (const char* name : {"dim", "to", "from"}) {
        const AttrValue* value = op.attrs.Find(name);
        if (value == nullptr) continue;
        named = true;
        add(NormalizeDim(std::get<int64_t>(*value),
                         static_cast<int>(dims.size())));
      }
      for (size_t d = 0; !named && d < dims.size(); ++d) {
        add(static_cast<int>(d));
      }
      break;
    }
    return found;
  }

  absl::StatusOr<PlanWalk> Along(FactorId id, int64_t parts) const {
    const Factor& factor = rule_.factors[id];
    if (factor.kind != FactorKind::kParallel || factor.positional) {
      return Invalid(
          "the walked factor, of size {}, is {} in some op of the body",
          factor.size, factor.positional ? "positional" : "not parallel");
    }
    PlanWalk walk{body_.ranks, parts, {}, {}};
    if (factor.size % walk.chunks() != 0) {
      return Invalid(
          "the walked factor has size {}, which does not divide into {} shards "
          "of {} parts",
          factor.size, body_.ranks, parts);
    }
    for (int v = 0; v < body_.body.num_values(); ++v) {
      ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(id, v));
      walk.dim.push_back(dim);
    }
    ASYRA_RETURN_IF_ERROR(CheckOps(walk));
    return walk;
  }

  absl::StatusOr<int> DimOf(FactorId id, int value) const {
    int found = -1;
    const OperandFactors& dims = DimsOf(value);
    for (size_t d = 0; d < dims.size(); ++d) {
      for (size_t i = 0; i < dims[d].size(); ++i) {
        if (dims[d][i] != id) continue;
        if (i > 0 || found >= 0) {
          return Invalid("the walked factor is not outermost in dim {} of %{}",
                         d, part_.values[value]);
        }
        found = static_cast<int>(d);
      }
    }
    return found;
  }

  absl::Status CheckOps(const PlanWalk& walk) const {
    for (size_t i = 0; i < body_.body.ops.size(); ++i) {
      int value = body_.body.num_operands + static_cast<int>(i);
      const BodyOp& op = body_.body.ops[i];
      if (walk.dim[value] < 0) {
        return Invalid(
            "op {} of the body, {}: its result has no dimension of "
            "the walked factor",
            part_.ops[i], op.def->name);
      }
      if (!Reduces(op.def->collective)) continue;
      const Dim& dim = body_.types[value].dims[walk.dim[value]];
      if (op.def->collective == CollectiveKind::kAllReduce ||
          !dim.axes.empty()) {
        continue;
      }
      return Invalid(
          "op {} of the body, {}: it does not scatter the walked "
          "dimension, {}",
          part_.ops[i], op.def->name, walk.dim[value]);
    }
    return absl::OkStatus();
  }

  const BodyPart& part_;
  const GroupBody& body_;
  AxisRule rule_;
};

// By op of the body, the first op of its part.
std::vector<int> PartsOf(const Body& body) {
  std::vector<int> part(body.ops.size());
  for (size_t i = 0; i < body.ops.size(); ++i) {
    part[i] = static_cast<int>(i);
    for (int value : body.ops[i].operands) {
      int def = value - body.num_operands;
      if (def < 0 || part[def] == part[i]) continue;
      int from = std::max(part[def], part[i]);
      int to = std::min(part[def], part[i]);
      std::replace(part.begin(), part.begin() + i + 1, from, to);
    }
  }
  return part;
}

BodyPart PartOf(const GroupBody& whole, const std::vector<int>& parts,
                int first) {
  BodyPart part{.group = {.ranks = whole.ranks}};
  const Body& from = whole.body;
  std::vector<int> number(from.num_values(), -1);
  auto add = [&](int value) {
    if (number[value] >= 0) return;
    number[value] = static_cast<int>(part.values.size());
    part.values.push_back(value);
    part.group.types.push_back(whole.types[value]);
  };
  auto for_ops = [&](auto use) {
    for (size_t i = 0; i < from.ops.size(); ++i) {
      if (parts[i] == first) use(static_cast<int>(i));
    }
  };
  Body& body = part.group.body;
  for_ops([&](int op) {
    for (int value : from.ops[op].operands) {
      if (value < from.num_operands) add(value);
    }
  });
  body.num_operands = static_cast<int>(part.values.size());
  for_ops([&](int op) {
    add(from.num_operands + op);
    BodyOp copy = from.ops[op];
    for (int& value : copy.operands) value = number[value];
    part.ops.push_back(op);
    body.ops.push_back(std::move(copy));
  });
  return part;
}

absl::StatusOr<PlanWalk> WalkOfPart(const BodyPart& part, int64_t parts) {
  std::vector<Type> types;
  for (const Type& type : part.group.types) types.push_back(type.Global());
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, BodyValuesRule(part.group.body, types));
  return Walks(part, std::move(rule)).Find(parts);
}

// By value, how many collectives come before it.
std::vector<int> LevelsOf(const Body& body) {
  std::vector<int> levels(body.num_operands, 0);
  for (const BodyOp& op : body.ops) {
    int level = 0;
    for (int value : op.operands) level = std::max(level, levels[value]);
    bool is_collective = op.def->collective != CollectiveKind::kNone;
    levels.push_back(level + (is_collective ? 1 : 0));
  }
  return levels;
}

// A walk in which each part has its own factor. `part_of`: by op, its part.
absl::StatusOr<PlanWalk> WalkOfParts(const GroupBody& body,
                                     const std::vector<int>& part_of,
                                     int64_t parts) {
  PlanWalk walk{body.ranks, parts, {}, LevelsOf(body.body)};
  walk.dim.assign(body.body.num_values(), kNotRead);
  for (int i = 0; i < static_cast<int>(part_of.size()); ++i) {
    if (part_of[i] != i) continue;
    BodyPart part = PartOf(body, part_of, i);
    ASYRA_ASSIGN_OR_RETURN(PlanWalk own, WalkOfPart(part, parts));
    for (size_t v = 0; v < own.dim.size(); ++v) {
      int value = part.values[v];
      if (walk.dim[value] == kNotRead) walk.dim[value] = own.dim[v];
      if (walk.dim[value] == own.dim[v]) continue;
      return Invalid(
          "%{} is walked along dim {} for one part of the body and {} for "
          "another (-1: whole)",
          value, walk.dim[value], own.dim[v]);
    }
  }
  for (int& dim : walk.dim) dim = std::max(dim, -1);
  return walk;
}

Box Cut(Box box, const GroupBody& body, const PlanWalk& walk, int value,
        int64_t first, int64_t count) {
  int dim = walk.dim[value];
  if (dim < 0) return box;
  int64_t unit = body.types[value].size(dim) / walk.chunks();
  Box chunk = box;
  chunk.start[dim] = first * unit;
  chunk.size[dim] = count * unit;
  return Intersection(box, chunk);
}

}  // namespace

absl::StatusOr<PlanWalk> FindWalk(const GroupBody& body, int64_t parts) {
  if (parts < 1) return Invalid("parts is {}, it must be at least 1", parts);
  if (body.ranks < 2 || body.ranks > kMaxPlanRanks) {
    return Invalid("the group has {} ranks, a plan has from 2 to {}",
                   body.ranks, kMaxPlanRanks);
  }
  std::vector<int> part_of(body.body.ops.size(), 0);
  absl::StatusOr<PlanWalk> walk =
      WalkOfParts(body, part_of, parts);  // one, if that goes
  if (walk.ok()) return walk;
  part_of = PartsOf(body.body);
  bool is_one = absl::c_all_of(part_of, [](int part) { return part == 0; });
  return is_one ? walk : WalkOfParts(body, part_of, parts);
}

Box ChunkBox(const GroupBody& body, const PlanWalk& walk, int value, int rank,
             int64_t first, int64_t count) {
  return Cut(BoxOf(body.types[value], rank, body.ranks), body, walk, value,
             first, count);
}

Box ChunkOfAll(const GroupBody& body, const PlanWalk& walk, int value,
               int64_t first, int64_t count) {
  return Cut(BoxOf(body.types[value].Global(), 0, 1), body, walk, value, first,
             count);
}

}  // namespace asyra
