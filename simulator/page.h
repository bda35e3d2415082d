// Results as a page for a browser: one file that loads nothing.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "simulator/profile.h"

namespace asyra {

// One profile, or two: before and after, drawn to one scale. The timeline, the
// memory curve with what fills its peak, and tables.
std::string ProfilePage(absl::Span<const Profile> profiles);

// Time against memory of the points of a sweep, and their table. `json` is
// what asyra-sim sweep --json writes.
std::string SweepPage(std::string_view json);

}  // namespace asyra
