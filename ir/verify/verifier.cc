#include "ir/verify/verifier.h"

#include "fmt/format.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify/verify_rules.h"

namespace asyra {

absl::Status OpError(const Program& program, const Op& op,
                     std::string_view message) {
  return Invalid("{}: {}", ToString(program, op), message);
}

std::string Definer(const Program& program, int op, ValueId value) {
  if (op >= 0) return ToString(program, program.ops[op]);
  return "input %" + program.value_name(value);
}

absl::Status Verify(const Program& program) {
  ASYRA_RETURN_IF_ERROR(VerifyStructure(program));
  ASYRA_RETURN_IF_ERROR(VerifyTypes(program));
  ASYRA_RETURN_IF_ERROR(VerifyHalves(program));
  if (program.stage < Stage::kLocal) return absl::OkStatus();
  DefUse def_use(program);
  ASYRA_RETURN_IF_ERROR(VerifyStarts(program, def_use));
  ASYRA_RETURN_IF_ERROR(VerifyWalks(program, def_use));
  if (program.stage < Stage::kScheduled) return absl::OkStatus();
  HappensBefore order(program, def_use);
  ASYRA_RETURN_IF_ERROR(VerifyStreams(program, def_use, order));
  if (program.stage < Stage::kAllocated) return absl::OkStatus();
  return VerifyMemory(program, def_use, order);
}

}  // namespace asyra
