#include "tools/report/recompute_report.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

nlohmann::json EstimateJson(const StepEstimate& estimate) {
  return {{"makespan_us", estimate.makespan_us},
          {"bound_us", estimate.bound_us},
          {"ops_us", estimate.ops_us},
          {"device_bytes", estimate.device_bytes}};
}

}  // namespace

std::string RecomputeText(const std::optional<RecomputeReport>& report) {
  if (!report.has_value() || report->count == 0) return "";
  constexpr size_t kShown = 4;
  std::vector<std::string> names = report->values;
  size_t more = names.size() - std::min(kShown, names.size());
  names.resize(names.size() - more);
  // Below 0 where what is computed again becomes part of other kernels.
  double again_us = std::max(0.0, report->dropped.ops_us - report->kept.ops_us);
  int64_t saved = report->kept.device_bytes - report->dropped.device_bytes;
  return fmt::format("  recompute {:>10}: {:.0f} % hidden, for {} less: {}{}\n",
                     TimeText(again_us), 100 * report->Hidden(),
                     BytesText(saved), absl::StrJoin(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string LossChunksText(int64_t chunks) {
  if (chunks == 1) return "";
  return fmt::format("  loss        in {} chunks of tokens, to save memory\n",
                     chunks);
}

nlohmann::json RecomputeJson(const std::optional<RecomputeReport>& report) {
  if (!report.has_value()) return nullptr;
  return {{"values", report->values},
          {"count", report->count},
          {"kept", EstimateJson(report->kept)},
          {"again", EstimateJson(report->dropped)},
          {"hidden", report->Hidden()}};
}

}  // namespace asyra
