#include "simulator/report.h"

#include "fmt/format.h"

namespace asyra {
namespace {

double Percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

std::string Bytes(int64_t bytes) {
  constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
  auto count = static_cast<double>(bytes);
  if (count >= kGiB) return fmt::format("{:.2f} GiB", count / kGiB);
  if (count >= kMiB) return fmt::format("{:.2f} MiB", count / kMiB);
  return fmt::format("{} bytes", bytes);
}

std::string Sources(const SimResult& result) {
  double all = 0;
  for (double us : result.source_us) all += us;
  std::string text;
  for (size_t i = 0; i < result.source_us.size(); ++i) {
    if (result.source_us[i] == 0) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ",
                        ToString(static_cast<OpCost::Source>(i)),
                        Percent(result.source_us[i], all));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::string Report(const SimResult& result, const Mesh& mesh) {
  auto time = [](std::string_view what, double us, const std::string& more) {
    return fmt::format("{:<15}{:>12.1f} us   {}\n", what, us, more);
  };
  std::string text =
      time("makespan", result.makespan_us,
           fmt::format("lower bound {:.1f} us", result.lower_bound_us));
  text += time("computation", result.compute_us,
               fmt::format("bubble {:.1f} %", 100 * result.bubble));
  text += time("communication", result.comm_us,
               fmt::format("exposed {:.1f} us", result.exposed_comm_us));
  for (const AxesExposure& axes : result.exposed) {
    text += time("  " + AxesToString(axes.axes, mesh), axes.comm_us,
                 fmt::format("exposed {:.1f} us", axes.exposed_us));
  }
  text += fmt::format("{:<15}{:>15}   weights {}\n", "peak memory",
                      Bytes(result.peak_bytes), Bytes(result.weight_bytes));
  text += fmt::format("{:<15}{:>12}      collectives {}\n", "kernels",
                      result.ops, result.collectives);
  return text + fmt::format("{:<15}{}\n", "priced by", Sources(result));
}

}  // namespace asyra
