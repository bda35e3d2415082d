#include "tools/given_flags.h"

#include "CLI/CLI.hpp"

namespace asyra {

std::vector<std::string> GivenFlags(const std::vector<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    bool flag = !option->get_positional() && option->get_name() != "--help";
    if (flag && option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

}  // namespace asyra
