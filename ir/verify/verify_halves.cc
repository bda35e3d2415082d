#include "ir/halves.h"
#include "ir/support/status.h"
#include "ir/verify/verify_rules.h"

namespace asyra {

absl::Status VerifyHalves(const Program& program) {
  std::vector<bool> in_halves = ValuesInHalves(program);
  for (const Op& op : program.ops) {
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ValueId value = op.operands[k];
      if (ReadsHalves(op, k) == in_halves[value]) continue;
      std::string name = "%" + program.value_name(value);
      return OpError(
          program, op,
          in_halves[value]
              ? name + " is stored in halves (ir/halves.h), it reads it whole"
              : name +
                    " is not stored in halves: it is neither an input nor "
                    "updated in them");
    }
  }
  for (const Output& output : program.outputs) {
    if (output.alias == kNoValue ||
        in_halves[output.value] == in_halves[output.alias]) {
      continue;
    }
    const std::string &from = program.value_name(output.value),
                      &to = program.value_name(output.alias);
    return Invalid("%{} replaces %{}, but only %{} is stored in halves", from,
                   to, in_halves[output.value] ? from : to);
  }
  return absl::OkStatus();
}

}  // namespace asyra
