// Flags of ranks that are processes: each has a command line of its own.
#pragma once

#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "absl/types/span.h"
#include "executor/comm/choices.h"

namespace asyra {

// The tool, and all options of the parsed `app`, each by its name and its
// value, or default, as text, but those of `may_differ`: what they decide is
// compared otherwise, or is of one rank alone. All others must be equal: a new
// flag is compared unless it is listed. Every name listed is one of the app's.
std::vector<NamedChoice> FlagsToAgreeOn(
    const CLI::App& app, absl::Span<const std::string_view> may_differ);

// Lists the flags of asyra-train and asyra-run that ranks may have different
// values of; rank_flags.cc says why.
absl::Span<const std::string_view> TrainFlagsThatMayDiffer();
absl::Span<const std::string_view> RunFlagsThatMayDiffer();

}  // namespace asyra
