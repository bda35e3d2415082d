#include "tools/train_progress.h"

#include <algorithm>
#include <cstdio>

#include "fmt/format.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "tools/loss_page.h"

namespace asyra {

void TrainProgress::Add(const TrainMetrics& one) {
  metrics_.push_back(one);
  bool shown = one.step == 1 || one.step == steps_ ||
               one.step % std::max<int64_t>(1, settings_.every) == 0;
  if (!shown) return;
  fmt::print("step {:>5}  loss {:.4f}  norm {:.3f}  {:.0f} tokens/s\n",
             one.step, one.loss, one.norm, TokensPerSecond(one));
  std::fflush(stdout);
}

absl::Status TrainProgress::Write(const std::string& title) const {
  if (!settings_.csv.empty()) {
    std::string text = "step,loss,norm,tokens_per_s\n";
    for (const TrainMetrics& one : metrics_) {
      text += fmt::format("{},{:.17g},{:.17g},{:.1f}\n", one.step, one.loss,
                          one.norm, TokensPerSecond(one));
    }
    ASYRA_RETURN_IF_ERROR(WriteFileAtomically(settings_.csv, {text}));
  }
  if (settings_.html.empty()) return absl::OkStatus();
  return WriteFileAtomically(settings_.html, {LossPage(title, metrics_)});
}

double TrainProgress::TokensPerSecond(const TrainMetrics& one) const {
  return one.seconds > 0 ? static_cast<double>(tokens_) / one.seconds : 0;
}

}  // namespace asyra
