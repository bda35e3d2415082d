#include "tools/run_tool.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"
#include "tools/progress.h"
#include "tools/standard_output.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace asyra {
namespace {

// The command that was given: the subcommand, where there is one.
std::string NameOf(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command : app.get_subcommands()) {
    name += " " + command->get_name();
  }
  return name;
}

// "usage: asyra-opt MODEL [OPTIONS], see asyra-opt --help".
std::string Usage(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  std::string what = fmt::format("{}", fmt::join(names, "|"));
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) what += option->get_name(true);
  }
  return fmt::format("usage: {0} {1} [OPTIONS], see {0} --help", app.get_name(),
                     what);
}

// CLI11 would list unknown arguments from last to first.
std::string What(const CLI::App& app, const CLI::ParseError& error) {
  auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (code != CLI::ExitCodes::ExtrasError) return error.what();
  return fmt::format("unknown: {}",
                     fmt::join(app.remaining(/*recurse=*/true), " "));
}

// A search makes and frees programs of some MiB, thousands of times: glibc
// would give each one's pages back and fault them in again, and merge all its
// small free chunks whenever a large one is freed.
void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 256 * kMiB);
  mallopt(M_TRIM_THRESHOLD, 512 * kMiB);
  mallopt(M_TOP_PAD, 16 * kMiB);
  mallopt(M_MXFAST, 0);
#endif
}

// The exit code, after the line of an error.
int End(const CLI::App& app, const absl::Status& status) {
  if (status.ok()) return 0;
  bool colours = ShowsColours(STDERR_FILENO);
  std::fprintf(stderr, "%s%s:%s %s\n", colours ? "\x1b[1;31m" : "",
               app.get_name().c_str(), colours ? "\x1b[0m" : "",
               std::string(MessageOf(status)).c_str());
  return 1;
}

// Turns exceptions that nothing has caught into an error, instead of an end of
// the process without a name.
absl::Status Caught(const std::function<absl::Status()>& tool) {
  try {
    return WithinMemory([&] { return tool(); });
  } catch (const std::exception& error) {
    return absl::InternalError(fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace

int RunTool(CLI::App& app, int argc, char** argv,
            const std::function<absl::Status()>& tool) {
  OpenStandardDescriptors();
  KeepFreedMemory();
  app.set_version_flag("--version", app.get_name() + " " ASYRA_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help
      std::ostringstream text;
      app.exit(error, text);
      PrintText(text.str());
      return End(app, CheckOutput());
    }
    std::string what = argc == 1 ? Usage(app)
                                 : fmt::format("{}; see {} --help",
                                               What(app, error), NameOf(app));
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), what.c_str());
    return 1;
  }
  absl::Status status = Caught(tool);
  Progress::Erase();
  absl::Status written = CheckOutput();
  return End(app, status.ok() ? written : status);
}

}  // namespace asyra
