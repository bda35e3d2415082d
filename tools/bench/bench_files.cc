#include "tools/bench/bench_files.h"

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_table.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/machine_edit.h"

namespace asyra {
namespace {

// The text of --machine's file, or a plain one, as --set edits it, which the
// new one begins with.
absl::StatusOr<std::string> BaseOf(const BenchOptions& options,
                                   const BenchResult& result) {
  std::vector<std::string> edits = MachineEdits(options.compile);
  bool plain = options.device == "cpu";
  std::string before;
  if (!plain || options.keep) {
    ASYRA_ASSIGN_OR_RETURN(before, MachineText(options.compile.machine));
  }
  if (plain) return EditMachine(PlainMachine(result, before), edits);
  // Only the host's number of GPUs is known, unless another one is given.
  if (result.whole_host && result.ranks > 1) {
    edits.insert(edits.begin(), fmt::format("host.gpus={}", result.ranks));
  }
  return EditMachine(before, edits);
}

// Checks whether they can be read, as long as nothing is overwritten.
absl::Status CheckFiles(const std::string& machine, const std::string& table,
                        const std::filesystem::path& path) {
  ASYRA_ASSIGN_OR_RETURN(Machine read, ParseMachine(machine, path.string()));
  ASYRA_ASSIGN_OR_RETURN(Measurements points,
                         ReadMeasurements(table, path.string()));
  return Annotate(CostTable::Calibrate(points, read).status(), path.string());
}

}  // namespace

absl::Status WriteMachine(const BenchOptions& options,
                          const BenchResult& result,
                          const std::filesystem::path& path) {
  std::filesystem::path table = path;
  table.replace_extension(".table");
  ASYRA_ASSIGN_OR_RETURN(std::string base, BaseOf(options, result));
  ASYRA_ASSIGN_OR_RETURN(std::string machine,
                         BenchMachine(result, path.stem().string(),
                                      table.filename().string(), base));
  std::string points = BenchTable(result);
  ASYRA_RETURN_IF_ERROR(CheckFiles(machine, points, path));
  ASYRA_RETURN_IF_ERROR(WriteFileAtomically(table.string(), {points}));
  return WriteFileAtomically(path.string(), {machine});
}

}  // namespace asyra
