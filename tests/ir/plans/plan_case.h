// Bodies of overlaps, small, and what they mean: the ops run one after the
// other on interpreted devices.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/overlap.h"
#include "ir/plans/plan_templates.h"
#include "ir/support/check.h"

namespace asyra {

// The mesh (g=n); AxisList{0} is the group's.
inline Mesh GroupMesh(int ranks) {
  return ASYRA_VALUE(Mesh::Create({{"g", ranks}}));
}

inline Type Sharded(Type type, int dim) {
  type.dims[dim].axes = {0};
  return type;
}

struct PlanCase {
  std::string name;
  Mesh mesh;
  Body body;
  std::vector<Type> operands;

  int ranks() const { return static_cast<int>(mesh.num_devices()); }
  GroupBody Group() const {
    return ASYRA_VALUE(GroupBodyOf(body, operands, mesh));
  }
};

inline BodyOp MakeBodyOp(std::string_view name, std::vector<int> operands,
                         AttrMap attrs = {}) {
  BodyOp op{FindOp(name), {operands.begin(), operands.end()}, std::move(attrs)};
  ASYRA_CHECK_OK(CompleteAttrs(*op.def, &op.attrs));
  return op;
}

inline PlanCase GatherMatmuls(int n, int64_t rows, int count = 2,
                              DType dtype = DType::kF32) {
  int64_t k = 5, columns = 2 * n;
  PlanCase made{"gather", GroupMesh(n), {}, {}};
  made.operands = {Sharded(Type(dtype, {rows, k}), 0)};
  made.body.num_operands = 1 + count;
  int gathered = made.body.num_operands;
  made.body.ops.push_back(MakeBodyOp(
      "all_gather", {0}, {{"dim", int64_t{0}}, {"axes", AxisList{0}}}));
  for (int i = 0; i < count; ++i) {
    made.operands.push_back(Sharded(Type(dtype, {k, columns}), 1));
    made.body.ops.push_back(MakeBodyOp("matmul", {gathered, 1 + i}));
    made.body.results.push_back(gathered + 1 + i);
  }
  return made;
}

// Rows of 8 floats: chunks of rows begin at multiples of 16 bytes.
inline PlanCase AlignedGatherMatmul(int n, int64_t rows) {
  PlanCase made = GatherMatmuls(n, rows, 1);
  made.operands = {Sharded(Type(DType::kF32, {rows, 8}), 0),
                   Sharded(Type(DType::kF32, {8, 4 * n}), 1)};
  return made;
}

// A view between the gather and the matmul.
inline PlanCase GatherViewMatmul(int n, int64_t rows) {
  PlanCase made = AlignedGatherMatmul(n, rows);
  made.name = "gather_view";
  made.operands[0] = Sharded(Type(DType::kF32, {rows, 2, 4}), 0);
  made.body.ops = {made.body.ops[0],
                   MakeBodyOp("reshape", {2}, {{"shape", Ints{rows, 8}}}),
                   MakeBodyOp("matmul", {3, 1})};
  made.body.results = {4};
  return made;
}

// The gathered value is a result too.
inline PlanCase GatherAndKeep(int n, int64_t rows) {
  PlanCase made = GatherMatmuls(n, rows, 1);
  made.name = "gather_and_keep";
  made.body.results.push_back(made.body.num_operands);
  return made;
}

// What is gathered is computed before, and kept.
inline PlanCase ReluGatherMatmul(int n, int64_t rows) {
  PlanCase made = GatherMatmuls(n, rows, 1);
  made.name = "relu_gather";
  BodyOp gather = made.body.ops[0];
  gather.operands = {2};
  made.body.ops = {MakeBodyOp("relu", {0}), gather,
                   MakeBodyOp("matmul", {3, 1})};
  made.body.results = {4, 3};
  return made;
}

inline PlanCase MatmulReduce(int n, int64_t rows, bool all,
                             DType dtype = DType::kF32) {
  PlanCase made{all ? "all_reduce" : "scatter", GroupMesh(n), {}, {}};
  made.operands = {Sharded(Type(dtype, {2, rows, 3 * n}), 2),
                   Sharded(Type(dtype, {3 * n, 4}), 0)};
  AttrMap attrs = {{"axes", AxisList{0}}};
  if (!all) attrs.Set("dim", int64_t{1});
  made.body = {2,
               {MakeBodyOp("matmul", {0, 1}),
                MakeBodyOp(all ? "all_reduce" : "reduce_scatter", {2}, attrs)},
               {3}};
  return made;
}

inline PlanCase MatmulExchange(int n, int64_t rows, DType dtype = DType::kF32) {
  PlanCase made = MatmulReduce(n, rows, true, dtype);
  made.name = "exchange";
  made.body = {
      2,
      {MakeBodyOp("matmul", {0, 1}),
       MakeBodyOp("stack_partial", {2}, {{"axes", AxisList{0}}}),
       MakeBodyOp(
           "all_to_all", {3},
           {{"from", int64_t{0}}, {"to", int64_t{2}}, {"axes", AxisList{0}}}),
       MakeBodyOp("reduce_sum", {4}, {{"dims", Ints{0}}, {"keep", false}})},
      {5}};
  return made;
}

// All rows through both matmuls of an MLP.
inline PlanCase GatherMatmulScatter(int n, int64_t rows,
                                    DType dtype = DType::kF32) {
  PlanCase made{"both", GroupMesh(n), {}, {}};
  made.operands = {Sharded(Type(dtype, {rows, 5}), 0),
                   Sharded(Type(dtype, {5, 2 * n}), 1),
                   Sharded(Type(dtype, {2 * n, 3}), 0)};
  AttrMap attrs = {{"dim", int64_t{0}}, {"axes", AxisList{0}}};
  made.body = {
      3,
      {MakeBodyOp("all_gather", {0}, attrs), MakeBodyOp("matmul", {3, 1}),
       MakeBodyOp("relu", {4}), MakeBodyOp("matmul", {5, 2}),
       MakeBodyOp("reduce_scatter", {6}, attrs)},
      {7}};
  return made;
}

// Gradients of two weights of one input, each scattered to its owner: parts of
// a body that are walked along factors of their own. The columns of a gradient
// that a piece reads are not dense.
inline PlanCase WeightGradients(int n, int64_t rows,
                                DType dtype = DType::kF32) {
  PlanCase made{"weight_gradients", GroupMesh(n), {}, {}};
  made.operands = {Sharded(Type(dtype, {2 * n, 3, 4 * rows}), 0),
                   Sharded(Type(dtype, {2 * n, 3, 8 * rows}), 0),
                   Sharded(Type(dtype, {2 * n, 3, 5}), 0)};
  AttrMap attrs = {{"dim", int64_t{0}}, {"axes", AxisList{0}}};
  made.body = {3,
               {MakeBodyOp("matmul_wgrad", {0, 2}),
                MakeBodyOp("reduce_scatter", {3}, attrs),
                MakeBodyOp("matmul_wgrad", {1, 2}),
                MakeBodyOp("reduce_scatter", {5}, attrs)},
               {4, 6}};
  return made;
}

// Scattered along the columns: those of the second factor that a piece reads
// are not dense, and neither is what it writes.
inline PlanCase MatmulScatterColumns(int n, int64_t columns) {
  PlanCase made{"scatter_columns", GroupMesh(n), {}, {}};
  made.operands = {Sharded(Type(DType::kF32, {3, 2 * n}), 1),
                   Sharded(Type(DType::kF32, {2 * n, 4 * columns}), 0)};
  AttrMap attrs = {{"dim", int64_t{1}}, {"axes", AxisList{0}}};
  made.body = {
      2,
      {MakeBodyOp("matmul", {0, 1}), MakeBodyOp("reduce_scatter", {2}, attrs)},
      {3}};
  return made;
}

// A sum and a gather that have nothing to do with each other.
inline PlanCase ScatterBesideGather(int n, int64_t rows) {
  PlanCase made = MatmulScatterColumns(n, rows);
  made.name = "scatter_beside_gather";
  made.operands.push_back(Sharded(Type(DType::kF32, {2 * rows, 3}), 0));
  AttrMap attrs = {{"dim", int64_t{0}}, {"axes", AxisList{0}}};
  made.body = {3,
               {MakeBodyOp("matmul", {0, 1}), MakeBodyOp("relu", {2}),
                made.body.ops[1], MakeBodyOp("all_gather", {4}, attrs)},
               {5, 6}};
  made.body.ops[2].operands = {3};
  return made;
}

// Attention between exchanges of the sequence for the heads. Two query heads
// share a key head.
inline PlanCase Ulysses(int n, int64_t heads) {
  PlanCase made{"ulysses", GroupMesh(n), {}, {}};
  Type q(DType::kF32, {1, 2 * n, 2 * heads, 2});
  Type k(DType::kF32, {1, 2 * n, heads, 2});
  made.operands = {Sharded(q, 1), Sharded(k, 1), Sharded(k, 1)};
  AttrMap there = {
      {"from", int64_t{1}}, {"to", int64_t{2}}, {"axes", AxisList{0}}};
  AttrMap back = {
      {"from", int64_t{2}}, {"to", int64_t{1}}, {"axes", AxisList{0}}};
  made.body = {3,
               {MakeBodyOp("all_to_all", {0}, there),
                MakeBodyOp("all_to_all", {1}, there),
                MakeBodyOp("all_to_all", {2}, there),
                MakeBodyOp("attention", {3, 4, 5}, {{"scale", 0.5}}),
                MakeBodyOp("all_to_all", {6}, back)},
               {7}};
  return made;
}

// What each rank holds of small random integers, by rank and operand.
inline std::vector<Tensor> WholeOperands(const PlanCase& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> whole;
  for (const Type& type : c.operands) {
    Tensor tensor(type.dtype, type.shape());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.Set(i, static_cast<double>(random() % 7) - 3);
    }
    whole.push_back(std::move(tensor));
  }
  return whole;
}

inline std::vector<std::vector<Tensor>> Spread(const PlanCase& c,
                                               absl::Span<const Tensor> whole) {
  std::vector<std::vector<Tensor>> by_rank(c.ranks());
  for (int r = 0; r < c.ranks(); ++r) {
    for (size_t k = 0; k < whole.size(); ++k) {
      by_rank[r].push_back(Shard(whole[k], c.operands[k], c.mesh, r));
    }
  }
  return by_rank;
}

// The results of the body, whole.
inline std::vector<Tensor> Meaning(const PlanCase& c,
                                   absl::Span<const Tensor> whole) {
  Builder builder(c.mesh, Stage::kLocal);
  std::vector<ValueId> values;
  for (const Type& type : c.operands)
    values.push_back(builder.Input("x", type));
  for (const BodyOp& op : c.body.ops) {
    std::vector<ValueId> operands;
    for (int value : op.operands) operands.push_back(values[value]);
    values.push_back(
        ASYRA_VALUE(builder.AddOne(op.def->name, operands, op.attrs)));
  }
  for (int value : c.body.results) builder.Output(values[value]);
  return ASYRA_VALUE(Interpret(std::move(builder).Finish(), whole));
}

// Operands of quarters, whose products and sums need more than 8 bits.
inline std::vector<Tensor> Quarters(const PlanCase& c) {
  std::vector<Tensor> whole = WholeOperands(c, 3);
  for (Tensor& tensor : whole) {
    std::vector<double> values = tensor.ToDoubles();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<double>(i % 13) / 4;
    }
    tensor = Tensor::FromDoubles(tensor.dtype(), tensor.shape(), values);
  }
  return whole;
}

// Returns a shape without groups for each order, route and carrier.
inline std::vector<PlanShape> ShapesWithoutGroups(const PlanCase& c,
                                                  int64_t parts) {
  std::vector<PlanShape> shapes;
  int n = c.ranks();
  auto add = [&](PlanShape shape) {
    if (shape.exchanges && shape.route == PlanRoute::kPull) return;
    if (shape.route == PlanRoute::kTwoLevels) {
      shape.inner = n % 2 == 0 ? n / 2 : n;
    }
    shapes.push_back(shape);
    shape.sums_in_pieces = true;
    if (CheckPlanShape(c.Group(), shape).ok()) shapes.push_back(shape);
  };
  for (PlanOrder order :
       {PlanOrder::kOwnFirst, PlanOrder::kOwnLast, PlanOrder::kSame}) {
    for (PlanRoute route : {PlanRoute::kDirect, PlanRoute::kPull,
                            PlanRoute::kRing, PlanRoute::kTwoLevels}) {
      for (bool exchanges : {false, true}) {
        add({.order = order,
             .route = route,
             .parts = parts,
             .exchanges = exchanges});
      }
    }
  }
  return shapes;
}

}  // namespace asyra
