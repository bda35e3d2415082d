// A what-if question without a GPU and without the compiler: how long does
// this tensor-parallel layer take on eight H100, and with twice the NVLink?
#include <cstdio>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/simulate.h"

namespace {

// Two matmuls of a layer over eight devices. The reduction of the first half
// of the batch runs beside the matmuls of the second.
constexpr char kProgram[] = R"(asyra 1 scheduled
mesh (tp=8)
program @layer(%a: bf16[4096, 8192], %b: bf16[4096, 8192],
    %up: bf16[8192, 28672@tp] weight, %down: bf16[28672@tp, 8192] weight)
    -> (bf16[4096, 8192], bf16[4096, 8192]) {
  %a1 = matmul(%a, %up) on compute : bf16[4096, 28672@tp]
  %a2 = matmul(%a1, %down) on compute : bf16[4096, 8192] partial(tp)
  %a3 = start all_reduce(%a2) {axes=tp} on tp : future bf16[4096, 8192]
  %b1 = matmul(%b, %up) on compute : bf16[4096, 28672@tp]
  %b2 = matmul(%b1, %down) on compute : bf16[4096, 8192] partial(tp)
  %b3 = start all_reduce(%b2) {axes=tp} on tp : future bf16[4096, 8192]
  %a4 = wait(%a3) on compute : bf16[4096, 8192]
  %b4 = wait(%b3) on compute : bf16[4096, 8192]
  return %a4, %b4
}
)";

absl::StatusOr<asyra::SimResult> StepOn(const asyra::Program& program,
                                        const std::vector<std::string>& edits) {
  auto machine = asyra::LoadMachine("h100x8", edits);
  if (!machine.ok()) return machine.status();
  return asyra::Simulate(program,
                         asyra::CostModel(*std::move(machine), program.mesh));
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main() {
  auto program = asyra::ParseProgram(kProgram);
  if (!program.ok()) return Fail(program.status());
  auto base = StepOn(*program, {});
  if (!base.ok()) return Fail(base.status());
  auto better = StepOn(*program, {"nvlink*=2"});
  if (!better.ok()) return Fail(better.status());
  std::printf("h100x8: %.0f us, %.0f us of communication exposed\n",
              base->makespan_us, base->exposed_comm_us);
  std::printf("twice the NVLink: %.0f us\n", better->makespan_us);
  return better->makespan_us < base->makespan_us ? 0 : 1;
}
