// Machines with the measurements that correct their formulas.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "simulator/cost/cost_table.h"
#include "simulator/machine/machine.h"

namespace asyra {

// A machine by the name of an embedded file, or from disk when the argument
// ends in ".machine", with `edits` made to it in order (machine_edit.h):
// {"gpu.hbm_gbps=4000", "nodes=4"}. Its measurements are loaded too; for a file
// on disk they are beside it. A file may name a machine as its "base" and then
// holds only the differences; measurements of the base are used as after an
// edit. Errors name the file, the key and the problem.
absl::StatusOr<Machine> LoadMachine(std::string_view name_or_path,
                                    absl::Span<const std::string> edits = {});

// The table that a machine names, which LoadMachine finds. Errors: those of
// LoadMachine; NotFound where it names none.
absl::StatusOr<Measurements> LoadMeasurements(std::string_view machine);

}  // namespace asyra
