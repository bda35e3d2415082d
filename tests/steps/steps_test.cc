// What steps may not do, however many there are: allocate, use other memory
// than was planned, grow, give other results.
#include <unistd.h>

#include <barrier>
#include <fstream>

#include "absl/container/flat_hash_map.h"
#include "executor/comm/thread_world.h"
#include "executor/cpu/cpu_device.h"
#include "executor/executor.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "tests/steps/allocations.h"
#include "tools/compile.h"

namespace asyra {
namespace {

struct Case {
  const char* name;
  CompileFlags options;
};

void PrintTo(const Case& given, std::ostream* out) { *out << given.name; }

CompileFlags Model(std::string model, std::vector<std::string> dims, int64_t tp,
                   int64_t sp, int tiles) {
  CompileFlags options;
  options.model = std::move(model);
  options.dims = std::move(dims);
  options.tp = tp;
  options.sp = sp;
  options.tiles = tiles;
  // Steps do the same whether the search for their order was long or short.
  options.search_steps = 200;
  return options;
}

std::string Exported(const std::string& name) {
  return ASYRA_SOURCE_DIR "/models/" + name + "/model.onnx";
}

CompileFlags Training(CompileFlags options) {
  options.train = TrainOptions{};
  return options;
}

std::vector<Case> TinyModels() {
  std::vector<std::string> dims = {"batch=4", "seq=64"};
  CompileFlags experts = Model("qwen3-moe-tiny", {}, 1, 1, 1);
  experts.ep = 4;
  return {{"llama", Model(Exported("llama-tiny-op18"), dims, 2, 2, 2)},
          {"gpt2", Model(Exported("gpt2-tiny-op18"), dims, 2, 1, 1)},
          {"gpt3", Model("gpt3-tiny", {}, 2, 1, 2)},
          {"experts", experts},
          {"llama_training",
           Training(Model(Exported("llama-tiny-op18"), dims, 1, 2, 2))},
          {"experts_training", Training(experts)}};
}

// Steps of a program on the ranks of a local world, each with its executor.
class Ranks {
 public:
  explicit Ranks(Program program)
      : program_(std::move(program)), inputs_(RandomInputs(program_, 1, 4)) {
    if (program_.weights != nullptr) weights_ = *program_.weights;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = program_.inputs[i];
      const std::string& name = program_.value_name(input.value);
      if (IsWeight(input) && weights_.Find(name) == nullptr)
        weights_.Set(name, inputs_[i]);
      // With a random one the loss would come and go.
      if (name == kRate) {
        inputs_[i] = Tensor::FromDoubles(inputs_[i].dtype(), {}, {1e-3});
      }
    }
  }

  int64_t count() const { return program_.mesh.num_devices(); }

  // Calls body(rank, executor, its data) on every rank, prepared.
  absl::Status Run(const std::function<absl::Status(
                       int64_t, Executor&, absl::Span<const Tensor>)>& body) {
    return RunLocalRanks(count(), {}, [&](Communicator& world) -> absl::Status {
      ASYRA_ASSIGN_OR_RETURN(auto executor, Executor::Load(program_));
      ASYRA_RETURN_IF_ERROR(executor->Prepare(*device_, &world, &weights_));
      std::vector<Tensor> data;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const Input& input = program_.inputs[i];
        if (input.role != InputRole::kData) continue;
        data.push_back(Shard(inputs_[i], program_.type(input.value),
                             program_.mesh, world.rank()));
      }
      return body(world.rank(), *executor, data);
    });
  }

 private:
  Program program_;
  std::vector<Tensor> inputs_;
  WeightStore weights_;
  std::unique_ptr<Device> device_ = CreateCpuDevice({.threads_per_stream = 1});
};

// Compiled by the first test of the case.
const Program& Compiled(const Case& given) {
  static absl::flat_hash_map<std::string, Program> programs;
  auto [it, is_new] = programs.try_emplace(given.name);
  if (is_new) it->second = ASYRA_VALUE(Compile(given.options)).program;
  return it->second;
}

class Steps : public testing::TestWithParam<Case> {
 protected:
  Ranks ranks_{Compiled(GetParam())};
};

TEST_P(Steps, AllocateNothing) {
  std::barrier together(ranks_.count());
  int64_t before = 0, after = 0;
  absl::Status status = ranks_.Run(
      [&](int64_t rank, Executor& executor, absl::Span<const Tensor> data) {
        absl::Status result = executor.Step(data);
        together.arrive_and_wait();
        if (rank == 0) before = AllocationsSoFar();
        together.arrive_and_wait();
        for (int i = 0; i < 5 && result.ok(); ++i) result = executor.Step(data);
        together.arrive_and_wait();
        if (rank == 0) after = AllocationsSoFar();
        together.arrive_and_wait();
        return result;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(before, 0);  // it counts
  EXPECT_EQ(after - before, 0);
}

TEST_P(Steps, UseTheMemoryThatWasPlanned) {
  absl::Status status = ranks_.Run([&](int64_t rank, Executor& executor,
                                       absl::Span<const Tensor> data) {
    ASYRA_RETURN_IF_ERROR(executor.Step(data));
    ASYRA_ASSIGN_OR_RETURN(MemoryUse used, executor.MeasureMemory());
    EXPECT_EQ(used.arena_bytes, executor.memory().arena_bytes) << rank;
    EXPECT_EQ(used.resident_bytes, executor.memory().resident_bytes) << rank;
    EXPECT_LE(used.workspace_bytes, executor.memory().workspace_bytes) << rank;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Steps, testing::ValuesIn(TinyModels()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Of this process, in memory.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A training step: its state would drift or grow if anything did.
constexpr char kTrain[] = R"(asyra 1 local
mesh (tp=2)
program @train(%x: f32[4, 8@tp], %t: f32[4, 4], %w: f32[8@tp, 4] state,
    %m: f32[8@tp, 4] state, %v: f32[8@tp, 4] state, %n: i64[] state)
    -> (f32[8@tp, 4], f32[8@tp, 4], f32[8@tp, 4], i64[], f32[]) {
  %one = constant() {value=i64[](1)} : i64[]
  %rate = constant() {value=f32[](0.01)} : f32[]
  %next = add(%n, %one) : i64[]
  %p = matmul(%x, %w) : f32[4, 4] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[4, 4]
  %e = sub(%y, %t) : f32[4, 4]
  %xt = transpose(%x) {perm=[1, 0]} : f32[8@tp, 4]
  %g = matmul(%xt, %e) : f32[8@tp, 4]
  %w1, %m1, %v1 = adamw(%w, %g, %m, %v, %rate, %next) : f32[8@tp, 4],
      f32[8@tp, 4], f32[8@tp, 4]
  %e2 = mul(%e, %e) : f32[4, 4]
  %loss = reduce_mean(%e2) {dims=[0, 1], keep=false} : f32[]
  return %w1 alias %w, %m1 alias %m, %v1 alias %v, %next alias %n, %loss
}
)";

// Runs steps twice from the state that a run begins with: memory stays as it is
// after a tenth of them, both give the same bytes of the output `loss`, every
// hundredth time, and it falls. `count` is the state that counts steps.
void ExpectSteady(Program program, int steps, const std::string& loss_name,
                  const std::string& count_name) {
  constexpr int64_t kNoise = 256 << 10;  // what other parts of libc may take
  Ranks ranks(std::move(program));
  std::array<std::vector<Tensor>, 2> losses;  // of two runs from one state
  int64_t early = 0, late = 0;
  for (std::vector<Tensor>& run : losses) {
    absl::Status status =
        ranks.Run([&](int64_t rank, Executor& executor,
                      absl::Span<const Tensor> data) -> absl::Status {
          if (rank == 0) run.reserve(steps);
          for (int step = 0; step < steps; ++step) {
            ASYRA_RETURN_IF_ERROR(executor.Step(data));
            if (rank == 0 && step % 100 == 99) {
              ASYRA_ASSIGN_OR_RETURN(Tensor loss, executor.Output(loss_name));
              run.push_back(std::move(loss));
            }
            if (rank == 0 && step == steps / 10) early = ResidentBytes();
            if (rank == 0 && step == steps - 1) late = ResidentBytes();
          }
          ASYRA_ASSIGN_OR_RETURN(Tensor count, executor.State(count_name));
          EXPECT_EQ(count.GetInt(0), steps);
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LE(late - early, kNoise);
  }
  ASSERT_EQ(losses[0].size(), losses[1].size());
  for (size_t i = 0; i < losses[0].size(); ++i) {
    EXPECT_TRUE(SameBytes(losses[0][i], losses[1][i])) << "of " << i;
  }
  EXPECT_LT(losses[0].back().Get(0), losses[0].front().Get(0));
}

TEST(ManySteps, NeitherGrowNorDrift) {
  ExpectSteady(ASYRA_VALUE(ParseProgram(kTrain)), 10000, "loss", "n");
}

TEST(ManySteps, OfACompiledTrainingStepNeitherGrowNorDrift) {
  CompileFlags options =
      Training(Model("llama3-tiny", {"layers=1", "seq=16"}, 2, 1, 1));
  ExpectSteady(ASYRA_VALUE(Compile(options)).program, 1000, "loss", "step");
}

TEST(ManySteps, OptimizersUpdateInPlace) {
  Program program = ASYRA_VALUE(ParseProgram(kTrain));
  Ranks ranks(program);
  absl::Status status = ranks.Run([&](int64_t, Executor& executor,
                                      absl::Span<const Tensor> data) {
    // Inputs and constants: no room for copies of w, m and v.
    int64_t inputs = 0;
    for (const Input& input : program.inputs) {
      inputs += (program.type(input.value).Local(program.mesh).bytes() + 63) /
                64 * 64;
    }
    constexpr int64_t kConstants = 2 * 64;
    EXPECT_EQ(executor.memory().resident_bytes, inputs + kConstants);
    return executor.Step(data);
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace asyra
