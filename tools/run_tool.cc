#include "tools/run_tool.h"

#include <cstdio>

#include "ir/support/status.h"

namespace asyra {

int RunTool(CLI::App& app, int argc, char** argv,
            const std::function<absl::Status()>& tool) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return 1;
  }
  absl::Status status = tool();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(),
               std::string(MessageOf(status)).c_str());
  return 1;
}

}  // namespace asyra
