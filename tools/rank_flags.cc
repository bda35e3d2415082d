#include "tools/rank_flags.h"

#include <cmath>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"

namespace asyra {
namespace {

constexpr std::string_view kOfTraining[] = {
    // The programs are compared.
    "MODEL",
    // The tokens are compared, whatever their files are called.
    "--data", "--evaluate-data",
    // Rank 0 alone reports.
    "--every", "--log", "--csv", "--html", "--profile",
    // Nothing but what the compiler prints or leaves.
    "--print-after", "--print-changed", "--dump-dir", "--simulate-each",
    // Ranks agree on what is tuned before it is used.
    "--tuning", "--save-tuning",
    // The way a rank is connected, and how long it waits.
    "--communicator", "--secret", "--timeout",
    // It connects no ranks.
    "--dry-run"};

constexpr std::string_view kOfRuns[] = {
    // The programs are compared.
    "MODEL",
    // Rank 0 alone reports and writes.
    "--json", "--profile", "--output", "--output-form",
    // Nothing but what the compiler prints or leaves.
    "--print-after", "--print-changed", "--dump-dir", "--simulate-each",
    // Ranks agree on what is tuned before it is used.
    "--tuning", "--save-tuning",
    // The values are compared, whatever their files are called.
    "--input", "--check",
    // The way a rank is connected, and how long it waits.
    "--communicator", "--secret", "--timeout"};

// Numbers in one spelling: 1e-3 is 0.001.
std::string Canonical(const std::string& text) {
  double number = 0;
  if (int64_t integer = 0; absl::SimpleAtoi(text, &integer)) {
    return fmt::format("{}", integer);
  }
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) return text;
  return fmt::format("{}", number);
}

// One that was not given has the default that --help says, if any.
std::string ValueOf(const CLI::Option& option) {
  if (option.count() == 0) {
    bool is_switch = option.get_expected_max() == 0;
    if (!is_switch) return Canonical(option.get_default_str());
    // One that has a --no- is on.
    return option.get_fnames().empty() ? "false" : "true";
  }
  std::vector<std::string> values;
  for (const std::string& value : option.results()) {
    values.push_back(Canonical(value));
  }
  return absl::StrJoin(values, " ");
}

}  // namespace

std::vector<NamedChoice> FlagsToAgreeOn(
    const CLI::App& app, absl::Span<const std::string_view> may_differ) {
  for (std::string_view name : may_differ) {
    app.get_option(std::string(name));  // a missing one is a fault
  }
  std::vector<NamedChoice> flags = {{"the tool", app.version()}};
  for (const CLI::Option* option : app.get_options()) {
    std::string name = option->get_name();
    bool is_compared = !absl::c_linear_search(may_differ, name) &&
                       name != "--help" && name != "--version";
    if (is_compared) flags.push_back({std::move(name), ValueOf(*option)});
  }
  return flags;
}

absl::Span<const std::string_view> TrainFlagsThatMayDiffer() {
  return kOfTraining;
}

absl::Span<const std::string_view> RunFlagsThatMayDiffer() { return kOfRuns; }

}  // namespace asyra
