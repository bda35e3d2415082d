// A profile in a screen of text.
#pragma once

#include <string>

#include "simulator/profile.h"

namespace asyra {

// Time against the bound, communication by mesh axes, what the makespan rests
// on, memory and what fills it. Ends with a newline.
std::string Report(const Profile& profile);

// The ops of the critical path by what they are and what held them up, and
// how busy each resource is. Ends with a newline; empty when the profile has
// no critical path.
std::string CriticalPathReport(const Profile& profile);

}  // namespace asyra
