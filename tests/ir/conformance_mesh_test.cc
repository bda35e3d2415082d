// Ops whose samples are distributed over a mesh: collectives, and what goes
// with them.
#include <cmath>

#include "tests/ir/plans/half_by_half.h"

namespace asyra {
namespace {

// Values over a mesh: a tensor on every device, and what they mean together.
struct Spread {
  Type type;
  std::vector<Tensor> shards;
};

// Different summands on the devices of partial axes.
Spread RandomSpread(const Type& type, const OpCase& op_case, const Mesh& mesh,
                    uint64_t salt) {
  Spread spread{type, {}};
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    uint64_t summand = mesh.GroupIndex(device, type.partial);
    Tensor whole = op_case.Fill({type}, salt + summand)[0];
    spread.shards.push_back(Shard(whole, type, mesh, device));
  }
  return spread;
}

Tensor Meaning(const Spread& spread, const Mesh& mesh) {
  Type summand = spread.type;
  summand.partial.clear();
  Tensor sum(summand.dtype, summand.shape());
  for (int64_t part = 0; part < mesh.size(spread.type.partial); ++part) {
    // Every device looks at the one that differs from it by the summand.
    std::vector<Tensor> shards;
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      shards.push_back(
          spread.shards[mesh.Group(device, spread.type.partial)[part]]);
    }
    Tensor whole = Unshard(shards, summand, mesh);
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      EXPECT_TRUE(
          SameBytes(Shard(whole, summand, mesh, device), shards[device]))
          << "copies differ on device " << device;
    }
    for (int64_t i = 0; i < sum.num_elements(); ++i) {
      sum.Set(i, sum.Get(i) + whole.Get(i));
    }
  }
  return sum;
}

class OverMesh : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    mesh_ = GetParam().mesh();
    call_ = GetParam().Parse();
    absl::StatusOr<std::vector<Type>> inferred =
        InferTypes(*call_.def, call_.attrs, call_.operands, mesh_);
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    for (Type& type : *inferred) {
      results_.push_back({std::move(type), {}});
      results_.back().shards.resize(mesh_.num_devices());
    }
    for (size_t i = 0; i < call_.operands.size(); ++i) {
      operands_.push_back(
          RandomSpread(call_.operands[i], GetParam(), mesh_, 16 * i));
    }
    if (call_.def->group_reference != nullptr) {
      RunGroups();
    } else {
      RunDevices();
    }
  }

  void RunGroups() {
    const AxisList& axes = call_.attrs.Get<AxisList>("axes");
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      std::vector<int64_t> group = mesh_.Group(device, axes);
      for (size_t i = 0; i < operands_.size(); ++i) {
        std::vector<Tensor> operands, results(group.size());
        for (int64_t member : group) {
          operands.push_back(operands_[i].shards[member]);
        }
        ASYRA_CHECK_OK(call_.def->group_reference(
            {call_.attrs, operands, absl::MakeSpan(results)}));
        results_[i].shards[device] = results[mesh_.GroupIndex(device, axes)];
      }
    }
  }

  void RunDevices() {
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      std::vector<Tensor> operands;
      for (const Spread& spread : operands_) {
        operands.push_back(spread.shards[device]);
      }
      std::vector<Type> types;
      std::vector<Tensor> results;
      for (const Spread& made : results_) {
        types.push_back(made.type);
        Type local = made.type.Local(mesh_);
        results.emplace_back(local.dtype, local.shape());
      }
      ASYRA_CHECK_OK(call_.def->reference(
          {*call_.def, call_.attrs, call_.operands, types, operands,
           absl::MakeSpan(results), mesh_, device}));
      for (size_t i = 0; i < results_.size(); ++i) {
        results_[i].shards[device] = results[i];
      }
    }
  }

  // For what is no collective.
  void ExpectAsOnOneDevice() {
    std::vector<Type> operand_types, types;
    std::vector<Tensor> operands, want;
    for (const Spread& spread : operands_) {
      operand_types.push_back(spread.type.Global());
      operands.push_back(Meaning(spread, mesh_));
    }
    for (const Spread& spread : results_) {
      types.push_back(spread.type.Global());
      want.emplace_back(types.back().dtype, types.back().shape());
    }
    ASYRA_CHECK_OK(
        call_.def->reference({*call_.def, call_.attrs, operand_types, types,
                              operands, absl::MakeSpan(want), Mesh(), 0}));
    for (size_t i = 0; i < results_.size(); ++i) {
      // Sums over devices are rounded otherwise.
      EXPECT_TRUE(Near(Meaning(results_[i], mesh_), want[i], 1e-6));
    }
  }

  void ExpectPartsMoved() {
    const auto& axes = call_.attrs.Get<AxisList>("axes");
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      std::vector<int64_t> group = mesh_.Group(device, axes);
      auto to = (mesh_.GroupIndex(device, axes) + call_.attrs.Int("by")) %
                static_cast<int64_t>(group.size());
      for (size_t i = 0; i < results_.size(); ++i) {
        EXPECT_TRUE(SameBytes(results_[i].shards[group[to]],
                              operands_[i].shards[device]));
      }
    }
  }

  Mesh mesh_;
  ParsedCall call_;
  std::vector<Spread> operands_;
  std::vector<Spread> results_;
};

TEST_P(OverMesh, ResultsHaveTheInferredLocalTypes) {
  for (const Spread& result : results_) {
    Type local = result.type.Local(mesh_);
    for (const Tensor& shard : result.shards) {
      EXPECT_EQ(shard.dtype(), local.dtype);
      EXPECT_EQ(shard.shape(), local.shape());
    }
  }
}

// Summed over its first dimension.
Tensor SumOfParts(const Tensor& parts) {
  Tensor sum(parts.dtype(),
             Shape(parts.shape().begin() + 1, parts.shape().end()));
  for (int64_t i = 0; i < parts.num_elements(); ++i) {
    int64_t at = i % sum.num_elements();
    sum.Set(at, sum.Get(at) + parts.Get(i));
  }
  return sum;
}

TEST_P(OverMesh, CollectivesKeepTheGlobalValue) {
  // Tiles cut and join each device's shard, whatever that is globally.
  if (call_.def->is_tile || call_.def->is_untile) {
    const Spread& result = results_[0];
    int rank = result.type.rank();
    int dim = NormalizeDim(call_.attrs.Int("dim"), rank);
    int64_t blocks = call_.attrs.Int("blocks");
    // Block `b` of a shard, or part `part` of `of` of it.
    auto block = [&](const Tensor& shard, int64_t b, int64_t part = 0,
                     int64_t of = 1) {
      int64_t size = shard.size(dim) / (blocks * of);
      return shard.Slice(dim, (b * of + part) * size, size);
    };
    for (size_t i = 0; i < result.shards.size(); ++i) {
      for (int64_t b = 0; b < blocks; ++b) {
        const Tensor& first = operands_[0].shards[i];
        Tensor want =
            call_.def->is_tile
                ? block(first, b, call_.attrs.Int("part"),
                        call_.attrs.Int("of"))
                : Tensor::Concat(
                      {block(first, b), block(operands_[1].shards[i], b)}, dim);
        EXPECT_TRUE(SameBytes(block(result.shards[i], b), want));
      }
    }
  } else if (!operands_[0].type.partial.empty() &&
             results_[0].type.rank() > operands_[0].type.rank()) {
    // The summands of the value, side by side.
    EXPECT_TRUE(Near(SumOfParts(Meaning(results_[0], mesh_)),
                     Meaning(operands_[0], mesh_), 0));
  } else if (call_.def->group_reference == nullptr &&
             (call_.def->distribute == nullptr ||
              results_[0].type.shape() != operands_[0].type.shape())) {
    ExpectAsOnOneDevice();
  } else if (call_.def->collective == CollectiveKind::kShift) {
    ExpectPartsMoved();
  } else {
    ASSERT_EQ(results_.size(), operands_.size());
    for (size_t i = 0; i < results_.size(); ++i) {
      EXPECT_NE(results_[i].type, call_.operands[i]);
      EXPECT_TRUE(
          Near(Meaning(results_[i], mesh_), Meaning(operands_[i], mesh_), 0));
    }
  }
}

TEST_P(OverMesh, TextRoundTrips) {
  ExpectTextRoundTrip(OneOp(call_, mesh_, Stage::kLocal));
}

TEST_P(OverMesh, TilesMakeTheWhole) {
  if (call_.def->is_wait) GTEST_SKIP() << "a future is not cut";
  std::vector<Type> types;
  for (const Spread& result : results_) types.push_back(result.type);
  std::vector<Tensor> whole;
  for (const Spread& spread : operands_) {
    whole.push_back(GetParam().Fill({spread.type})[0]);
  }
  AxisRule rule =
      ASYRA_VALUE(AxisRuleOf({*call_.def, call_.attrs, call_.operands, types}));
  int compared =
      ExpectTilesMakeTheWhole(OneOp(call_, mesh_, Stage::kLocal), rule, whole);
  // None of them changes the global value: some tiles can be cut. Not of
  // several values at once.
  if (call_.def->group_reference != nullptr) {
    EXPECT_EQ(compared > 0, results_.size() == 1);
  }
}

TEST_P(OverMesh, WorkIsFinite) {
  std::vector<Type> types;
  for (const Spread& result : results_) types.push_back(result.type);
  Work work = WorkOf({*call_.def, call_.attrs, call_.operands, types}, mesh_);
  for (double amount : {work.flops, work.read_bytes, work.write_bytes}) {
    EXPECT_TRUE(std::isfinite(amount));
    EXPECT_GE(amount, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, OverMesh, testing::ValuesIn(Cases(true)),
                         CaseName);

}  // namespace
}  // namespace asyra
