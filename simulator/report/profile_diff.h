// Two profiles of the same model, op by op.
#pragma once

#include <string>
#include <vector>

#include "simulator/report/profile.h"

namespace asyra {

// The ops of one name in each profile, tiles of an op together: "q_proj" of
// one and "q_proj.t0", "q_proj.t1" of the other.
struct OpDifference {
  std::string name;
  std::string op;
  int before_count = 0, after_count = 0;  // 0: it is in one of them only
  double before_us = 0, after_us = 0;
  double before_critical_us = 0, after_critical_us = 0;

  double change_us() const { return after_us - before_us; }
  bool left_critical() const {
    return before_critical_us > 0 && after_critical_us == 0;
  }
  bool joined_critical() const {
    return before_critical_us == 0 && after_critical_us > 0;
  }
};

// Largest change first.
std::vector<OpDifference> Differences(const Profile& before,
                                      const Profile& after);

// Totals side by side, the ops that changed most, and the ops that left and
// joined the critical path. Ends with a newline.
std::string DifferenceReport(const Profile& before, const Profile& after);

// {"before", "after": totals; "ops": all differences}, names as in OpDifference
// and in profiles. Ends with a newline.
std::string DifferenceJson(const Profile& before, const Profile& after);
// Returns its "ops" alone.
std::string DifferencesJson(const Profile& before, const Profile& after);

}  // namespace asyra
