#include "tools/report/verdict.h"

#include "fmt/format.h"
#include "ir/support/units.h"

namespace asyra {
namespace {

// Ratios closer to 1 are not shown as gains.
constexpr double kLeastGain = 1.005;

std::string Comparison(double before_us, double after_us) {
  std::string before = TimeText(before_us);
  if (before_us >= after_us * kLeastGain) {
    return fmt::format("{:.2f}x faster than unscheduled ({})",
                       before_us / after_us, before);
  }
  if (after_us >= before_us * kLeastGain) {
    return fmt::format("{:.2f}x slower than unscheduled ({})",
                       after_us / before_us, before);
  }
  return fmt::format("as fast as unscheduled ({})", before);
}

// Said where small models would seem to take much.
std::string LibraryShare(const Profile& step, int64_t needs) {
  constexpr double kLeast = 0.1;
  int64_t libraries = step.device_bytes - step.arena_bytes;
  if (static_cast<double>(libraries) < kLeast * static_cast<double>(needs)) {
    return "";
  }
  return fmt::format(" ({} of it libraries and kernels)", BytesText(libraries));
}

std::string Memory(const Profile& step) {
  int64_t needs = step.device_bytes > 0 ? step.device_bytes : step.peak_bytes;
  if (step.capacity_bytes == 0) {
    return fmt::format("{} a device", BytesText(needs)) +
           LibraryShare(step, needs);
  }
  std::string text = BytesText(needs), of = BytesText(step.capacity_bytes);
  std::string_view unit = std::string_view(of).substr(of.rfind(' '));
  if (text.ends_with(unit)) text.resize(text.size() - unit.size());
  text += fmt::format(" of {} a device", of);
  if (needs > step.capacity_bytes) text += ", which DOES NOT FIT";
  return text + LibraryShare(step, needs);
}

}  // namespace

std::string VerdictText(const Steps& steps) {
  const Profile& after = steps.after;
  std::string text = TimeText(after.makespan_us) + " a step";
  if (steps.before.has_value()) {
    text += ", " + Comparison(steps.before->makespan_us, after.makespan_us);
  }
  if (after.lower_bound_us > 0) {
    text += fmt::format("; {:.0f} % above the lower bound",
                        100 * (after.makespan_us / after.lower_bound_us - 1));
  }
  if (after.peak_bytes > 0) text += "; " + Memory(after);
  return text + "\n";
}

std::string TargetText(const Profile& step) {
  std::string text =
      fmt::format("{} on {}, {} device{}", step.model, step.machine,
                  step.devices, step.devices == 1 ? "" : "s");
  if (!step.mesh.empty()) text += " " + step.mesh;
  if (step.step.known()) {
    text += fmt::format(", {}{} a second",
                        CountText(TokensPerSecond(step.step, step.makespan_us)),
                        step.step.unit());
  }
  return text + "\n";
}

}  // namespace asyra
