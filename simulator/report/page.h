// Results as a page for a browser: one file that loads nothing.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "simulator/report/profile.h"

namespace asyra {

struct ProfilePageOptions {
  std::string title;  // of a page that begins with something else; may be empty
  std::string above;  // HTML that it begins with
  std::string heading;  // of the profiles; empty: their models
  // The names of two profiles.
  std::array<std::string, 2> names = {"before", "after"};
};

// One profile, or two: before and after. The timeline, the memory curve with
// what fills its peak, and tables. Two are compared and drawn to one scale,
// unless one takes more than ten times as long.
std::string ProfilePage(absl::Span<const Profile> profiles,
                        const ProfilePageOptions& options = {});

// Text as HTML, outside of attributes.
std::string EscapedHtml(std::string_view text);

// Time against memory of the points of a sweep, and their table. `json` is
// what asyra-sim sweep --json writes.
std::string SweepPage(std::string_view json);

}  // namespace asyra
