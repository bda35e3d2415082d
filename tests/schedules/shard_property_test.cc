// Random programs on random meshes, planned under random costs, strategies and,
// every other one, random pins, or by propagation from these; partitioned, the
// reduce_scatters of some decomposed, tiled along the batch or the sequence,
// started, reordered and some of its tiles merged back: every stage verifies,
// and the result equals the program on one device exactly, on small integers,
// interpreted and on cpu ranks whose streams run as they like (on_streams.h).
// ASYRA_SEED in the environment repeats a run.
#include <cstdlib>
#include <random>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/analysis/lanes.h"
#include "passes/fuse/fuse.h"
#include "passes/schedule/memory/plan_memory.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/order/start_collectives.h"
#include "passes/schedule/tile/merge_tiles.h"
#include "passes/schedule/tile/tile.h"
#include "passes/schedule/transport/stream_layout.h"
#include "passes/search/schedule.h"
#include "passes/shard/decompose_over_hosts.h"
#include "passes/shard/decompose_reduce_scatter.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate_sharding.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/schedules/on_streams.h"
#include "tests/schedules/random_choice.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

class RandomModel : public RandomChoice {
 public:
  explicit RandomModel(uint64_t seed) : RandomChoice(seed) {}

  Program Build(int steps) {
    ids_ = builder_.Input("ids", Type(DType::kI64, {kBatch, kSeq}));
    ValueId table = Weight({8, 12});
    values_.push_back(ASYRA_VALUE(builder_.AddOne("embedding", {table, ids_})));
    for (int i = 0; i < steps; ++i) values_.push_back(Step());
    builder_.Output(values_.back());
    builder_.Output(Any());
    return std::move(builder_).Finish();
  }

  int constants() const { return constants_; }

  // Of some values: whole, or dimensions over axes that divide them.
  Pins RandomPins(const Program& program) {
    Pins pins(program.values.size());
    for (size_t v = 0; v < pins.size(); ++v) {
      if (Below(6) != 0) continue;
      Type type = program.type(static_cast<ValueId>(v));
      for (int axis = 0; axis < program.mesh.num_axes(); ++axis) {
        if (type.rank() == 0 || Below(2) == 0) continue;
        Dim& dim = type.dims[Below(type.dims.size())];
        dim.axes.push_back(static_cast<AxisId>(axis));
        if (dim.size % program.mesh.size(dim.axes) != 0) dim.axes.pop_back();
      }
      pins[v] = type;
    }
    return pins;
  }

 private:
  static constexpr int64_t kBatch = 4, kSeq = 12;

  ValueId Any() { return values_[Below(values_.size())]; }

  ValueId Weight(const Shape& shape) {
    return builder_.Input("w", Type(DType::kF64, shape), InputRole::kWeight);
  }

  ValueId Op(std::string_view op, std::vector<ValueId> operands,
             AttrMap attrs = {}) {
    return ASYRA_VALUE(builder_.AddOne(op, operands, std::move(attrs)));
  }

  // By a constant.
  ValueId Scaled(ValueId x) {
    ++constants_;
    Tensor two(DType::kF64, {});
    two.Set(0, 2);
    return Op("mul", {x, Op("constant", {}, {{"value", two}})});
  }

  // All values are [batch, seq, d] with d 4, 8 or 12.
  ValueId Step() {
    ValueId x = Any();
    int64_t d = builder_.type(x).size(2);
    switch (Below(10)) {
      case 0:
        return Op("matmul", {x, Weight({d, Pick<int64_t>({4, 8, 12})})});
      case 1:
        return Op("matmul", {x, Weight({Pick<int64_t>({4, 8, 12}), d})},
                  {{"transpose_b", true}});
      case 2:
        return Below(2) == 0 ? Op("relu", {x}) : Scaled(x);
      case 3:
        return Op("neg", {x});
      case 4:
        return Op("add", {x, Weight({d})});
      case 5: {
        ValueId sum = Op("reduce_sum", {x}, {{"dims", Ints{2}}});
        return Op("sub", {x, sum});
      }
      case 6: {
        ValueId heads =
            Op("reshape", {x}, {{"shape", Ints{kBatch, kSeq, d / 4, 4}}});
        ValueId most = Op("reduce_max", {heads}, {{"dims", Ints{1}}});
        ValueId rest = Op("sub", {heads, most});
        return Op("reshape", {rest}, {{"shape", Ints{kBatch, kSeq, d}}});
      }
      case 7: {
        ValueId turned = Op("transpose", {x}, {{"perm", Ints{0, 2, 1}}});
        ValueId mixed = Op("matmul", {turned, Weight({kSeq, kSeq})});
        return Op("transpose", {mixed}, {{"perm", Ints{0, 2, 1}}});
      }
      case 8: {  // a mixture of 8 experts, one for each token
        ValueId expert =
            Op("reshape", {ids_}, {{"shape", Ints{kBatch, kSeq, 1}}});
        int64_t group = Pick<int64_t>({1, 3, 6});
        ValueId rows = Op("moe_dispatch", {x, expert},
                          {{"num_experts", int64_t{8}},
                           {"group_size", group},
                           {"capacity", Pick<int64_t>({1, 2})}});
        rows = Op("grouped_matmul",
                  {rows, Weight({8, d, Pick<int64_t>({4, 8, 12})})});
        ValueId weight = Op("reduce_sum", {x}, {{"dims", Ints{2}}});
        return Op("moe_combine", {rows, expert, weight},
                  {{"group_size", group}});
      }
      default: {
        ValueId y = Any();
        return builder_.type(y) == builder_.type(x) ? Op("add", {x, y})
                                                    : Op("relu", {x});
      }
    }
  }

  Builder builder_;
  int constants_ = 0;
  ValueId ids_ = kNoValue;  // in [0, 8)
  std::vector<ValueId> values_;
};

std::vector<Tensor> SmallIntegers(const Program& program, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    Tensor tensor(type.dtype, type.shape());
    bool ids = type.dtype == DType::kI64;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      int64_t value = static_cast<int64_t>(random() % (ids ? 8 : 5));
      tensor.Set(i, static_cast<double>(ids ? value : value - 2));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// Every pinned input, and some form of every other pinned value that is read,
// is as it was pinned.
void ExpectPinned(const Program& program, const Pins& pins,
                  const Program& local) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& pin = pins[program.inputs[i].value];
    if (!pin.has_value()) continue;
    EXPECT_EQ(local.type(local.inputs[i].value), *pin);
  }
  DefUse def_use(program);
  for (const Op& op : program.ops) {
    ValueId value = op.results[0];
    bool read = !def_use.uses[value].empty() || def_use.output_uses[value] > 0;
    if (!read || !pins[value].has_value()) continue;
    bool found = false;
    for (const Value& form : local.values) {
      found |= form.name.starts_with(program.value_name(value)) &&
               form.type == *pins[value];
    }
    EXPECT_TRUE(found) << program.value_name(value) << "\n" << ToString(local);
  }
}

// By cost, or for every third program by propagation from seeds.
absl::StatusOr<ShardingPlan> Plan(uint64_t seed, const Program& program,
                                  const PlanOptions& options) {
  if (seed % 3 == 0) {
    absl::StatusOr<Propagation> propagation =
        PropagateSharding(program, options.pins);
    if (!propagation.ok()) return propagation.status();
    return std::move(propagation->plan);
  }
  return PlanWithAnyExperts(program, options);
}

// What all programs together must have seen.
struct Seen {
  int planned = 0;        // the others have an axis that they cannot use
  int tiled[2] = {0, 0};  // along the batch, the sequence
  int in_blocks = 0;
  int merged = 0;
  int searched = 0;  // of them in tiles
  int fused = 0;
  int decomposed = 0;
  int hierarchical = 0;
  int two_streams = 0;
  int constants = 0;
  int renamed = 0;  // outputs whose value has another name than they
};

std::vector<std::string> OutputNames(const Program& program) {
  std::vector<std::string> names;
  for (const Output& output : program.outputs) {
    names.push_back(program.output_name(output));
  }
  return names;
}

// Outputs are called as those of the model, and stay so as text.
void ExpectNames(const Program& model, const Program& program, Seen* seen) {
  EXPECT_EQ(OutputNames(program), OutputNames(model));
  absl::StatusOr<Program> read = ParseProgram(ToString(program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(OutputNames(*read), OutputNames(model));
  for (const Output& output : program.outputs) {
    seen->renamed += !output.name.empty();
  }
}

// Tiles the program along the batch or the sequence; false where these do not
// cut, as a plan may shard them over any axis.
bool TileSome(RandomModel& model, Program* program, Seen* seen) {
  int dim = model.Pick<int>({0, 1});
  PassContext context;
  Program tiled = *program;
  absl::StatusOr<bool> changed =
      Tile(tiled,
           {{"tiles", model.Pick<int64_t>({2, 2, 3})},
            {"dim", std::string(dim == 0 ? "batch" : "sequence")}},
           context);
  if (!changed.ok() || !*changed) return false;
  EXPECT_EQ(Verify(tiled), absl::OkStatus()) << ToString(tiled);
  *program = std::move(tiled);
  ++seen->tiled[dim];
  for (const Op& op : program->ops) {
    if (!op.def->is_untile || op.attrs.Int("blocks") == 1) continue;
    ++seen->in_blocks;
    break;
  }
  return true;
}

// Merges some of what all lanes have in common.
void MergeSome(RandomModel& model, Program* program, Seen* seen) {
  Lanes lanes(*program);
  auto tiles = TilesOf(*program, lanes);
  std::vector<std::vector<int>> ops(lanes.count);
  for (size_t i = 0; i < program->ops.size(); ++i) {
    if (lanes.of_op[i] != kNoLane) ops[lanes.of_op[i]].push_back(i);
  }
  std::vector<TileGroup> groups;
  for (size_t k = 0; k < ops[0].size(); ++k) {
    TileGroup group;
    for (const std::vector<int>& lane : ops) {
      if (k < lane.size()) group.push_back(lane[k]);
    }
    const Op& first = program->ops[group[0]];
    bool identical = group.size() == ops.size() && !first.is_collective() &&
                     !first.def->is_wait && !first.def->is_tile;
    for (int op : group) {
      identical &= program->ops[op].def == first.def &&
                   program->ops[op].attrs == first.attrs;
      for (ValueId value : program->ops[op].results)
        identical &= tiles[value].has_value();
    }
    if (identical && model.Pick({0, 1}) == 1)
      groups.push_back(std::move(group));
  }
  absl::StatusOr<Program> merged = TileMerger(*program).Merge(groups);
  if (!merged.ok()) return;  // in a cycle, or tiles of different values
  *program = *std::move(merged);
  seen->merged += !groups.empty();
}

// Decomposes all reduce_scatters, or those that copy engines can carry.
void DecomposeSome(bool copyable, const CostModel& costs, Program* program,
                   Seen* seen) {
  PassContext context;
  context.costs = &costs;
  absl::StatusOr<bool> changed =
      DecomposeReduceScatter(*program, {{"copyable", copyable}}, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(Verify(*program), absl::OkStatus()) << ToString(*program);
  seen->decomposed += *changed;
  if (copyable) return;
  for (const Op& op : program->ops) {
    EXPECT_NE(op.def->collective, CollectiveKind::kReduceScatter)
        << ToString(*program, op);
  }
}

// On hosts of so many devices; costs are then over the mesh that this makes.
void SplitOverHosts(int64_t host, CostModel* costs, Program* program,
                    Seen* seen) {
  PassContext context{.costs = costs};
  absl::StatusOr<bool> changed =
      DecomposeOverHosts(*program, {{"host", host}, {"always", true}}, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(Verify(*program), absl::OkStatus()) << ToString(*program);
  EXPECT_EQ(context.costs->mesh(), program->mesh);
  *costs = CostModel(*context.costs);
  seen->hierarchical += *changed;
}

// By cost.
void FuseSome(const CostModel& costs, Program* program, Seen* seen) {
  PassContext context;
  context.costs = &costs;
  absl::StatusOr<bool> changed = Fuse(*program,
                                      {{"max_ops", int64_t{16}},
                                       {"measured_only", false},
                                       {"epilogues", std::string("estimated")}},
                                      context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(Verify(*program), absl::OkStatus()) << ToString(*program);
  seen->fused += *changed;
}

// Tiled, ordered and merged in any way the passes offer.
void ScheduleByHand(RandomModel& model, const CostModel& costs,
                    Program* program, Seen* seen) {
  Program& scheduled = *program;
  PassContext context;
  context.costs = &costs;
  bool tiled = TileSome(model, &scheduled, seen);
  EXPECT_TRUE(
      StartCollectives(scheduled, {{"early", model.Pick({0, 1}) == 1}}, context)
          .ok());
  EXPECT_TRUE(
      Reorder(scheduled,
              {{"scheduler", model.Pick(Schedulers())}, {"steps", int64_t{40}}},
              context)
          .ok());
  EXPECT_EQ(Verify(scheduled), absl::OkStatus()) << ToString(scheduled);
  if (tiled && model.Pick({0, 1}) == 1) {
    MergeSome(model, &scheduled, seen);
    EXPECT_EQ(Verify(scheduled), absl::OkStatus()) << ToString(scheduled);
  }
}

// As the search sees it: its ops, of which starts and waits are some, take
// memory of the libraries too.
bool BaselineFits(const ScheduleResult& result,
                  const ScheduleOptions& options) {
  for (const ScheduleChoice& choice : result.candidates) {
    if (choice.name != "baseline") continue;
    return !options.capacity_bytes.has_value() ||
           choice.device_bytes <= *options.capacity_bytes;
  }
  return false;
}

// Scheduled by search: never worse than a baseline that fits, nor over the
// budget.
void ScheduleIt(RandomModel& model, const CostModel& costs, Program* program,
                Seen* seen) {
  PassContext context;
  context.costs = &costs;
  SimResult baseline = Simulate(*program, costs);
  int64_t device_bytes =
      ReportMemory(*program, baseline, costs.machine()).device_bytes;
  ScheduleOptions options;
  options.search_steps = 60;
  options.tiles = model.Pick({0, 0, 2, 3});
  options.tile_dim = model.Pick<std::string>({"auto", "batch", "sequence"});
  if (model.Pick({0, 1}) == 1) {
    // Tenths of what values take: the rest is the libraries' in any order.
    options.capacity_bytes =
        device_bytes + baseline.peak_bytes * model.Pick({-1, 0, 2}) / 10;
  }
  absl::StatusOr<ScheduleResult> result = Schedule(*program, options, context);
  if (!result.ok()) {
    EXPECT_TRUE(options.capacity_bytes.has_value() || options.tiles > 0)
        << result.status();
    return;
  }
  if (options.tiles == 0 && BaselineFits(*result, options)) {
    EXPECT_LE(result->optimized.makespan_us, baseline.makespan_us * (1 + 1e-9));
  }
  if (options.capacity_bytes.has_value()) {
    int64_t capacity = *options.capacity_bytes;
    EXPECT_LE(ReportMemory(result->program, result->optimized, costs.machine(),
                           capacity)
                  .device_bytes,
              capacity);
  }
  EXPECT_EQ(result->optimized.makespan_us,
            Simulate(result->program, costs).makespan_us);
  seen->searched += result->tiles > 1;
  *program = std::move(result->program);
}

// Some ops between collectives on a second compute stream.
void MoveSome(RandomModel& model, const CostModel& costs, Program* program,
              Seen* seen) {
  StreamLayout layout = model.Pick(OtherLayouts());
  *program = LayOut(*program, layout, EstimateCosts(*program, costs));
  EXPECT_EQ(Verify(*program), absl::OkStatus()) << ToString(*program);
  seen->two_streams += absl::c_linear_search(program->streams, "compute2");
}

// At offsets that values share.
void Allocate(Program* program) {
  PassContext context;
  absl::StatusOr<bool> changed = PlanMemoryPass(*program, {}, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
}

void CheckOne(uint64_t seed, Seen* seen) {
  RandomModel model(seed);
  Program single = model.Build(8);
  Program program = single;
  program.mesh = model.RandomMesh();
  PlanOptions options;
  options.costs = model.RandomCosts();
  if (seed % 2 == 0) options.pins = model.RandomPins(program);
  model.SetStrategies(program.mesh, &options);
  absl::StatusOr<ShardingPlan> plan = Plan(seed, program, options);
  if (!plan.ok()) return;
  ++seen->planned;
  absl::StatusOr<Program> local = Partition(program, *plan, options.costs);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(Verify(*local), absl::OkStatus()) << ToString(*local);
  ExpectNames(single, *local, seen);
  if (!options.pins.empty()) ExpectPinned(program, options.pins, *local);
  CostModel costs(*LoadMachine(model.Pick<std::string>({"h200x8", "l20x8"})),
                  program.mesh);
  Program scheduled = *local;
  if (seed % 5 < 3) DecomposeSome(seed % 5 == 0, costs, &scheduled, seen);
  if (seed % 2 == 1) {
    SplitOverHosts(seed % 3 == 0 ? 4 : 2, &costs, &scheduled, seen);
  }
  if (model.Pick({0, 1}) == 1) FuseSome(costs, &scheduled, seen);
  if (seed % 3 == 0) {
    ScheduleIt(model, costs, &scheduled, seen);
    if (scheduled.stage == Stage::kLocal) return;
  } else {
    ScheduleByHand(model, costs, &scheduled, seen);
  }
  if (model.Pick({0, 1}) == 1) MoveSome(model, costs, &scheduled, seen);
  if (model.Pick({0, 1}) == 1) Allocate(&scheduled);
  EXPECT_EQ(Verify(scheduled), absl::OkStatus()) << ToString(scheduled);
  ExpectNames(single, scheduled, seen);
  std::vector<Tensor> inputs = SmallIntegers(single, seed);
  absl::StatusOr<std::vector<Tensor>> want = Interpret(single, inputs);
  absl::StatusOr<std::vector<Tensor>> got = Interpret(scheduled, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(scheduled);
  for (size_t i = 0; i < want->size(); ++i) {
    // Equal values: a sum of -0 from every device is 0.
    EXPECT_EQ((*want)[i].ToDoubles(), (*got)[i].ToDoubles())
        << "output " << i << "\n"
        << ToString(scheduled);
  }
  seen->constants += model.constants() > 0;
  EXPECT_EQ(DifferenceOnStreams(scheduled, inputs, *want, seed), "");
}

TEST(ShardProperty, RandomProgramsComputeTheSameOnEveryMesh) {
  const char* given = std::getenv("ASYRA_SEED");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  int all = kSanitized ? 30 : 150;
  int programs = given != nullptr ? 1 : all;
  Seen seen;
  for (int i = 0; i < programs; ++i) {
    SCOPED_TRACE(fmt::format("ASYRA_SEED={}", first + i));
    CheckOne(first + i, &seen);
    if (HasFailure()) return;
  }
  if (given != nullptr) return;
  EXPECT_GE(seen.planned, programs / 2);
  // What passes did is seen without sanitizers, of the same programs and more.
  if (!kSanitized) {
    EXPECT_GE(seen.tiled[0], programs / 12);
    EXPECT_GE(seen.tiled[1], programs / 10);
    EXPECT_GE(seen.in_blocks, programs / 20);
    EXPECT_GE(seen.merged, programs / 20);
    EXPECT_GE(seen.searched, programs / 40);
    EXPECT_GE(seen.fused, programs / 20);
    EXPECT_GE(seen.decomposed, programs / 20);
    EXPECT_GE(seen.hierarchical, programs / 40);
    EXPECT_GE(seen.two_streams, programs / 40);
    EXPECT_GE(seen.constants, programs / 10);
    EXPECT_GE(seen.renamed, programs / 20);
  }
}

}  // namespace
}  // namespace asyra
