// Training of random ONNX models in f64 whose ops read parameters at every
// operand that may have a gradient: whatever moves the loss is a parameter
// under its name, its gradient is the slope of the loss, and meshes give the
// same. The slope is that of the model as it is imported, without passes.
//
// ASYRA_SEED repeats one model, ASYRA_SEEDS sets how many are drawn, ASYRA_SITE
// draws only from sites whose names contain it.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "frontends/onnx/op_table.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "ir/weight_origin.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/shard/pad_dimensions.h"
#include "passes/shard/partition.h"
#include "passes/shard/plan_sharding.h"
#include "passes/train/differentiate.h"
#include "tests/onnx_train/read_counts.h"
#include "tests/onnx_train/read_sites.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using Param = RandomOnnxModel::Param;

struct Seen {
  int models = 0, params = 0, constant = 0, planned = 0, refused = 0,
      padded = 0;
  ReadCounts reads;
};

struct Drawn {
  RandomChoice choice;
  RandomOnnxModel model;
  std::string sites;  // their names

  Drawn(uint64_t seed, int opset, const std::vector<ReadSite>& read)
      : choice(seed), model(&choice, opset) {
    // One that is always there, whose gradient goes through all that follows.
    model.Continue(
        model.Op("MatMul", {"x", model.Weight({RandomOnnxModel::kWidth,
                                               RandomOnnxModel::kWidth})}));
    for (const ReadSite& site : read) {
      model.Continue(site.read(model));
      sites += fmt::format("{}{}", sites.empty() ? "" : ", ", site.name);
    }
    model.Finish();
  }
};

// Data by name, parameters as they are stored; other weights are the program's.
std::vector<Tensor> InputsOf(const Program& program, const Drawn& drawn,
                             uint64_t seed) {
  RandomChoice choice(seed);
  std::map<std::string, Tensor> given;
  RandomOnnxModel::Shape shape = {
      RandomOnnxModel::kBatch, RandomOnnxModel::kSeq, RandomOnnxModel::kWidth};
  Tensor x(DType::kF64, shape), far(DType::kF64, shape);
  Tensor ids(DType::kI64, {shape[0], shape[1]});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.Set(i, choice.Uniform(-0.9, 0.9));
    far.Set(i, choice.Half() ? 2 : -2);
  }
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    ids.Set(i, static_cast<double>(choice.Below(RandomOnnxModel::kRows)));
  }
  given.emplace("x", std::move(x));
  given.emplace("far", std::move(far));
  given.emplace("ids", std::move(ids));
  for (const Param& param : drawn.model.params()) {
    given.emplace(param.name,
                  Tensor::FromDoubles(DType::kF64, param.shape, param.values));
  }
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    bool made = input.origin != nullptr && input.origin->made;
    auto found = made ? given.end() : given.find(UserName(program, input));
    Shape wanted = program.type(input.value).shape();
    inputs.push_back(
        found == given.end() ? Tensor()
        : found->second.shape() == wanted
            ? found->second
            : TakePart(OriginOf(program, input), found->second, wanted));
  }
  return inputs;
}

// The loss of the imported model with other numbers in one parameter.
double LossAt(const Drawn& drawn, uint64_t seed, size_t moved,
              const std::vector<double>& direction, double step) {
  std::vector<double> values = drawn.model.params()[moved].values;
  for (size_t i = 0; i < values.size(); ++i) values[i] += step * direction[i];
  Program program = ASYRA_VALUE(drawn.model.With(moved, values).Import());
  std::vector<Tensor> inputs = InputsOf(program, drawn, seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    // The file's numbers, not those before the step.
    if (program.inputs[i].role != InputRole::kData) inputs[i] = Tensor();
  }
  return ASYRA_VALUE(Interpret(program, inputs))[0].Get(0);
}

// The slope of the loss along `direction`, to the fourth order in the step.
double Slope(const Drawn& drawn, uint64_t seed, size_t moved,
             const std::vector<double>& direction) {
  constexpr double kStep = 2.5e-4;
  auto difference = [&](double step) {
    return (LossAt(drawn, seed, moved, direction, step) -
            LossAt(drawn, seed, moved, direction, -step)) /
           (2 * step);
  };
  return (4 * difference(kStep) - difference(2 * kStep)) / 3;
}

int OutputIndex(const Program& program, const std::string& name) {
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.output_name(program.outputs[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Under its name, as a whole or in parts.
bool IsTrained(const Program& program, const std::string& name) {
  return absl::c_any_of(program.inputs, [&](const Input& input) {
    return input.role == InputRole::kParam && UserName(program, input) == name;
  });
}

// Joined of parts that the passes made; none where it has no gradient.
std::optional<Tensor> GradientOf(const Program& program,
                                 const std::vector<Tensor>& outputs,
                                 const Param& param) {
  std::optional<Tensor> gradient;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kParam) continue;
    if (UserName(program, input) != param.name) continue;
    int output =
        OutputIndex(program, GradientName(program.value_name(input.value)));
    if (output < 0) continue;
    if (!gradient.has_value()) gradient = Tensor(DType::kF64, param.shape);
    PutPart(OriginOf(program, input), outputs[output], &*gradient);
  }
  return gradient;
}

// Expects the parameter to be trained by its slope.
void CheckParam(const Program& program, const std::vector<Tensor>& outputs,
                Drawn& drawn, uint64_t seed, size_t index, Seen* seen) {
  const Param& param = drawn.model.params()[index];
  bool trained = IsTrained(program, param.name);
  if (!param.trained) {
    EXPECT_FALSE(trained) << param.name << " is no parameter";
    return;
  }
  ++seen->params;
  std::vector<double> direction(param.values.size());
  for (double& one : direction) one = drawn.choice.Uniform(-1, 1);
  double slope = Slope(drawn, seed, index, direction), along = 0, size = 0;
  constexpr double kRounding = 1e-10;
  std::optional<Tensor> gradient = GradientOf(program, outputs, param);
  if (!gradient.has_value()) {
    ++seen->constant;
    EXPECT_LT(std::abs(slope), kRounding)
        << param.name << (trained ? " has no gradient" : " is not trained");
    return;
  }
  for (size_t i = 0; i < direction.size(); ++i) {
    double one = gradient->Get(static_cast<int64_t>(i));
    along += one * direction[i];
    size += one * one;
  }
  // Relative to the gradient's length: along a direction at a right angle to
  // it the slope is small by cancellation.
  EXPECT_LT(std::abs(slope - along), 1e-6 * std::sqrt(size) + kRounding)
      << param.name << ": slope " << slope << ", gradient along it " << along;
}

// Expects the same outputs over a mesh of two devices.
void CheckMesh(Program program, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& want, const char* axis, Seen* seen) {
  program.mesh = *Mesh::Create({{axis, 2}});
  PlanOptions options;
  options.zero = 0;
  PassContext context;
  absl::StatusOr<ShardingPlan> plan = PlanSharding(program, options, context);
  if (!plan.ok()) {
    EXPECT_THAT(plan.status().ToString(), testing::HasSubstr("shards nothing"));
    ++seen->refused;
    return;
  }
  ++seen->planned;
  absl::StatusOr<Program> local = Partition(program, *plan, options.costs);
  ASSERT_TRUE(local.ok()) << axis << ": " << local.status();
  absl::StatusOr<std::vector<Tensor>> got = Interpret(*local, inputs);
  ASSERT_TRUE(got.ok()) << axis << ": " << got.status();
  for (size_t i = 0; i < want.size(); ++i) {
    double largest = 1e-6, error = 0;
    for (int64_t k = 0; k < want[i].num_elements(); ++k) {
      largest = std::max(largest, std::abs(want[i].Get(k)));
      error = std::max(error, std::abs(want[i].Get(k) - (*got)[i].Get(k)));
    }
    EXPECT_LE(error, 1e-10 * largest)
        << axis << ": " << program.output_name(program.outputs[i]);
  }
}

// The model as passes read it, or its loss and gradients of it; none, with a
// failure, where there are none.
std::optional<Program> Raised(const Drawn& drawn) {
  absl::StatusOr<Program> program = drawn.model.builder().Import();
  PassContext context;
  if (program.ok()) {
    absl::Status status = RunPasses(*program, RaisePasses(), context);
    if (!status.ok()) program = status;
  }
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return std::nullopt;
  return *std::move(program);
}

std::optional<Program> WithGradients(Program program) {
  TrainOptions options;
  options.what = TrainOptions::What::kGradients;
  PassContext context;
  absl::Status status = RunPasses(program, TrainPasses(options), context);
  if (status.ok()) status = Verify(program);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return std::nullopt;
  return program;
}

// Expects `got` to be `want`, with zeros behind dimensions that are larger.
void ExpectPadded(const Tensor& got, const Tensor& want,
                  const std::string& name) {
  ASSERT_EQ(got.rank(), want.rank()) << name;
  double largest = 1e-6, error = 0;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    bool inside = true;
    for (int d = got.rank() - 1; d >= 0; --d) {
      int64_t index = rest % got.size(d);
      inside = inside && index < want.size(d);
      at += index * stride;
      rest /= got.size(d);
      stride *= want.size(d);
    }
    if (!inside) {
      ASSERT_EQ(got.Get(i), 0) << name << ": in the padding";
      continue;
    }
    largest = std::max(largest, std::abs(want.Get(at)));
    error = std::max(error, std::abs(want.Get(at) - got.Get(i)));
  }
  EXPECT_LE(error, 1e-10 * largest) << name;
}

// Expects padding of each size to change nothing and to have no gradient.
void CheckPadding(const Program& raised, const Program& program,
                  const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& want, Seen* seen) {
  std::set<int64_t> sizes;
  for (const Input& input : raised.inputs) {
    if (!IsWeight(input)) continue;
    for (const Dim& dim : raised.type(input.value).dims) {
      if (dim.size > 1) sizes.insert(dim.size);
    }
  }
  for (int64_t size : sizes) {
    SCOPED_TRACE(fmt::format("{} padded to {}", size, size + 1));
    auto padded = ASYRA_VALUE(PadDimensions(raised, size, size + 1, true));
    if (!padded.has_value()) continue;
    ++seen->padded;
    std::optional<Program> gradients = WithGradients(*std::move(padded));
    if (!gradients.has_value()) continue;
    absl::StatusOr<std::vector<Tensor>> got = Interpret(*gradients, inputs);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ExpectPadded((*got)[i], want[i], program.output_name(program.outputs[i]));
    }
  }
}

void CheckModel(uint64_t seed, int opset, const std::vector<ReadSite>& sites,
                Seen* seen) {
  Drawn drawn(seed, opset, sites);
  SCOPED_TRACE(
      fmt::format("ASYRA_SEED={}, opset {}: {}", seed, opset, drawn.sites));
  std::set<std::string> names;
  for (const Param& param : drawn.model.params()) {
    if (param.trained) names.insert(param.name);
  }
  CountReads(drawn.model.builder().model.graph(), names, &seen->reads);
  ++seen->models;
  std::optional<Program> raised = Raised(drawn);
  if (!raised.has_value()) return;
  std::optional<Program> program = WithGradients(*raised);
  if (!program.has_value()) return;
  std::vector<Tensor> inputs = InputsOf(*program, drawn, seed);
  absl::StatusOr<std::vector<Tensor>> outputs = Interpret(*program, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  for (const char* axis : {"dp", "tp"}) {
    CheckMesh(*program, inputs, *outputs, axis, seen);
  }
  CheckPadding(*raised, *program, inputs, *outputs, seen);
  for (size_t i = 0; i < drawn.model.params().size(); ++i) {
    CheckParam(*program, *outputs, drawn, seed, i, seen);
  }
}

std::vector<ReadSite> ChosenSites() {
  const char* part = std::getenv("ASYRA_SITE");
  std::vector<ReadSite> sites = ReadSites();
  if (part == nullptr) return sites;
  std::erase_if(sites, [&](const ReadSite& site) {
    return !absl::StrContains(site.name, part);
  });
  return sites;
}

// Those of one seed. Seeds that follow each other take all of them in turn, in
// another order each time.
std::vector<ReadSite> SitesOf(uint64_t seed, const std::vector<ReadSite>& all) {
  constexpr uint64_t kSites = 6;
  std::vector<ReadSite> sites;
  for (uint64_t at = seed * kSites; at < (seed + 1) * kSites; ++at) {
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(at / all.size()));
    sites.push_back(all[order[at % all.size()]]);
  }
  return sites;
}

// Names of ops whose operands have no derivative: they give no numbers, or
// numbers that do not change, or take only what is known before the model runs.
const std::set<std::string>& WithoutDerivative() {
  static const auto* ops = new std::set<std::string>{":And",
                                                     ":ArgMax",
                                                     ":ArgMin",
                                                     ":Constant",
                                                     ":Equal",
                                                     ":EyeLike",
                                                     ":GreaterOrEqual",
                                                     ":ConstantOfShape",
                                                     ":IsInf",
                                                     ":IsNaN",
                                                     ":LessOrEqual",
                                                     ":NonZero",
                                                     ":Not",
                                                     ":Or",
                                                     ":Range",
                                                     ":SequenceEmpty",
                                                     ":Shape",
                                                     ":Size",
                                                     ":Xor",
                                                     ":SequenceLength"};
  return *ops;
}

std::vector<std::string> NeverCovered(const ReadCounts& reads) {
  std::set<std::string> left;
  for (const onnx_import::OpSpelling& spelling : onnx_import::Spellings()) {
    left.insert(fmt::format("{}:{}", spelling.domain, spelling.name));
  }
  for (const std::string& op : WithoutDerivative()) left.erase(op);
  for (const auto& [place, count] : reads) left.erase(place.first);
  return {left.begin(), left.end()};
}

TEST(OnnxTrainProperty, EachOpAloneTrainsWhatItReads) {
  Seen seen;
  uint64_t seed = 1000000;
  for (const ReadSite& site : ChosenSites()) {
    CheckModel(++seed, 24, {site}, &seen);
  }
  printf(
      "%d models, %d parameters, %d of them constant, %d plans, %d refused, "
      "%d paddings\n",
      seen.models, seen.params, seen.constant, seen.planned, seen.refused,
      seen.padded);
  if (std::getenv("ASYRA_SITE") != nullptr) return;
  EXPECT_THAT(NeverCovered(seen.reads), testing::IsEmpty());
}

TEST(OnnxTrainProperty, WhateverMovesTheLossIsTrainedByItsSlope) {
  const char* given = std::getenv("ASYRA_SEED");
  const char* count = std::getenv("ASYRA_SEEDS");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
  uint64_t models = given != nullptr   ? 1
                    : count != nullptr ? std::strtoull(count, nullptr, 10)
                    : kSanitized       ? 8
                                       : 40;
  std::vector<ReadSite> all = ChosenSites();
  Seen seen;
  for (uint64_t seed = first; seed < first + models; ++seed) {
    std::vector<ReadSite> sites = SitesOf(seed, all);
    int since = 13;
    for (const ReadSite& site : sites) since = std::max(since, site.since);
    int opset = since > 18 ? 24 : std::vector{18, 17, 24}[seed % 3];
    CheckModel(seed, std::max(since, opset), sites, &seen);
  }
  printf(
      "seeds %lu to %lu: %d parameters, %d of them constant, %d plans, "
      "%d refused, %d paddings; operands that read parameters: %s\n",
      first, first + models - 1, seen.params, seen.constant, seen.planned,
      seen.refused, seen.padded, ToString(seen.reads).c_str());
  if (models < 40 || std::getenv("ASYRA_SITE") != nullptr) return;
  EXPECT_GE(seen.planned, models);
  EXPECT_GE(seen.padded, models / 2);
  EXPECT_THAT(NeverCovered(seen.reads), testing::IsEmpty());
}

}  // namespace
}  // namespace asyra
