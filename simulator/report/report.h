// A profile as a page of text.
#pragma once

#include <string>
#include <vector>

#include "simulator/report/profile.h"

namespace asyra {

// Time against the bound, communication by mesh axes, sources of the costs,
// memory and the values in it, exposed communication and why. Ends with a
// newline.
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

// The overlaps by name, what their queues do, and how long none of them
// computes: before the first piece, between pieces, and behind the last. Ends
// with a newline; empty without overlaps that are carried out by plans.
std::string OverlapReport(const Profile& profile, size_t most_rows = 10);

// The ops of the critical path by kind and by what they waited for, and the
// load of each resource. Ends with a newline; empty if the profile has no
// critical path.
std::string CriticalPathReport(const Profile& profile);

}  // namespace asyra
