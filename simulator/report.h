// A profile in a screen of text.
#pragma once

#include <string>
#include <vector>

#include "simulator/profile.h"

namespace asyra {

// Time against the bound, communication by mesh axes, what the makespan rests
// on, memory and what fills it, what communication is exposed and why. Ends
// with a newline.
std::string Report(const Profile& profile);

// Exposed collectives of one kind in all layers and tiles, for one reason.
struct ExposedGroup {
  std::string name;  // "layer*.o_proj.reduce_scatter.t*"
  std::string op, axes, why;
  int count = 0;
  double us = 0;
};
// The longest first; they sum up to the exposed time.
std::vector<ExposedGroup> ExposedGroups(const Profile& profile);

// A table of the first of them and a line for the others, ends with a newline;
// empty when nothing is exposed, or the profile does not say why.
std::string ExposureReport(const Profile& profile, size_t most_rows = 10);

// The ops of the critical path by what they are and what held them up, and
// how busy each resource is. Ends with a newline; empty when the profile has
// no critical path.
std::string CriticalPathReport(const Profile& profile);

}  // namespace asyra
