// The executor in somebody's own training loop: gradient descent of one linear
// layer, data parallel over four ranks that are threads of this process. The
// weights stay on the device; each rank holds its part of the batch.
#include <cstdio>

#include "executor/comm/thread_world.h"
#include "executor/cpu/cpu_device.h"
#include "executor/executor.h"
#include "ir/parser.h"

namespace {

// Loss: mean((x w - y)^2) over the global batch of 8.
constexpr char kProgram[] = R"(asyra 1 local
mesh (dp=4)
program @train(%w: f32[2, 1] state, %x: f32[8@dp, 2], %y: f32[8@dp, 1])
    -> (f32[2, 1], f32[]) {
  %guess = matmul(%x, %w) : f32[8@dp, 1]
  %error = sub(%guess, %y) : f32[8@dp, 1]
  %square = mul(%error, %error) : f32[8@dp, 1]
  %part = reduce_mean(%square) {dims=[0, 1], keep=false} : f32[] partial(dp)
  %loss = all_reduce(%part) {axes=dp} : f32[]
  %gradient_part = matmul(%x, %error) {transpose_a=true}
      : f32[2, 1] partial(dp)
  %gradient = all_reduce(%gradient_part) {axes=dp} : f32[2, 1]
  %rate = constant() {value=f32[](0.05)} : f32[]
  %change = mul(%gradient, %rate) : f32[2, 1]
  %next = sub(%w, %change) : f32[2, 1]
  return %next alias %w, %loss
}
)";

// y = 3 a - 2 b for the rows (a, b) of this rank.
void MakeBatch(int64_t rank, asyra::Tensor* x, asyra::Tensor* y) {
  for (int64_t row = 0; row < 2; ++row) {
    double a = static_cast<double>(rank) - 1.5;
    double b = static_cast<double>(row) * 2 - 1;
    x->Set(row * 2, a);
    x->Set(row * 2 + 1, b);
    y->Set(row, 3 * a - 2 * b);
  }
}

absl::Status TrainOnRank(asyra::Device& device, asyra::Communicator& world) {
  auto program = asyra::ParseProgram(kProgram);
  if (!program.ok()) return program.status();
  auto executor = asyra::Executor::Load(*std::move(program));
  if (!executor.ok()) return executor.status();
  absl::Status status = (*executor)->Prepare(device, &world, nullptr);
  if (!status.ok()) return status;

  asyra::Tensor x(asyra::DType::kF32, {2, 2}), y(asyra::DType::kF32, {2, 1});
  MakeBatch(world.rank(), &x, &y);
  for (int step = 0; step < 60; ++step) {
    status = (*executor)->Step({x, y});
    if (!status.ok()) return status;
  }
  auto weights = (*executor)->State("w");
  if (!weights.ok()) return weights.status();
  auto loss = (*executor)->Output(1);
  if (!loss.ok()) return loss.status();
  if (world.rank() == 0) {
    std::printf("weights %.3f %.3f, loss %.6f\n", weights->Get(0),
                weights->Get(1), loss->Get(0));
  }
  return loss->Get(0) < 1e-4 ? absl::OkStatus()
                             : absl::InternalError("it did not converge");
}

}  // namespace

int main() {
  auto device = asyra::CreateCpuDevice({.threads_per_stream = 1});
  absl::Status status = asyra::RunLocalRanks(
      4, {},
      [&](asyra::Communicator& world) { return TrainOnRank(*device, world); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
