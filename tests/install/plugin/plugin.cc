// A plugin of another application: a shared library in which the archives of
// ASYRA are linked. It runs one step on the cpu.
#include "executor/cpu/cpu_device.h"
#include "executor/executor.h"
#include "ir/parser.h"

namespace {

constexpr char kProgram[] = R"(asyra 1 global
program @twice(%x: f32[1]) -> (f32[1]) {
  %y = add(%x, %x) : f32[1]
  return %y
}
)";

absl::StatusOr<double> Twice(double x) {
  auto program = asyra::ParseProgram(kProgram);
  if (!program.ok()) return program.status();
  auto executor = asyra::Executor::Load(*std::move(program));
  if (!executor.ok()) return executor.status();
  auto device = asyra::CreateCpuDevice();
  absl::Status status = (*executor)->Prepare(*device, nullptr, nullptr);
  if (!status.ok()) return status;
  status = (*executor)->Step(
      {asyra::Tensor::FromDoubles(asyra::DType::kF32, {1}, {x})});
  if (!status.ok()) return status;
  auto y = (*executor)->Output(size_t{0});
  if (!y.ok()) return y.status();
  return y->Get(0);
}

}  // namespace

extern "C" double plugin_twice(double x) { return Twice(x).value_or(-1); }
