#include "ir/program_file.h"

#include "ir/parser.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "ir/weights/shard_reader.h"

namespace asyra {

absl::StatusOr<Program> ReadProgramText(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<Program> program = ParseProgram(text);
  if (!program.ok()) return Annotate(program.status(), path);
  ASYRA_RETURN_IF_ERROR(Annotate(Verify(*program), path));
  return program;
}

absl::StatusOr<Program> ReadProgramFile(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(Program program, ReadProgramText(path));
  ASYRA_RETURN_IF_ERROR(ReadWeightsBeside(path, &program));
  return program;
}

}  // namespace asyra
