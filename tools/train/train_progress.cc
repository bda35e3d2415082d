#include "tools/train/train_progress.h"

#include <unistd.h>

#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "tools/standard_output.h"
#include "tools/train/loss_page.h"

namespace asyra {
namespace {

// JSON has no NaN.
nlohmann::ordered_json Number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

}  // namespace

absl::Status TrainProgress::Begin() {
  every_ = settings_.every > 0          ? settings_.every
           : isatty(STDOUT_FILENO) == 1 ? 1
                                        : 10;
  if (settings_.log.empty()) return absl::OkStatus();
  return log_.Open(settings_.log);
}

void TrainProgress::Log(const nlohmann::ordered_json& line) {
  if (log_.is_open()) log_.Write(line.dump());
}

void TrainProgress::Add(const TrainMetrics& one) {
  bool kept = !settings_.csv.empty() || !settings_.html.empty() ||
              !settings_.check.empty();
  if (kept) metrics_.push_back(one);
  Log({{"step", one.step},
       {"loss", Number(one.loss)},
       {"norm", Number(one.norm)},
       {"rate", one.rate},
       {"seconds", one.seconds},
       {"tokens_per_s", one.tokens_per_s},
       {"mfu", one.mfu},
       {"skipped", one.skipped}});
  bool shown = std::exchange(is_first_, false) || one.step == steps_ ||
               one.step % every_ == 0 || one.skipped;
  if (!shown) return;
  Print("step {:>5}  loss {:.4f}  norm {:.3f}  {:.0f} tokens/s{}{}\n", one.step,
        one.loss, one.norm, one.tokens_per_s,
        one.mfu > 0 ? fmt::format("  MFU {:.1f} %", 100 * one.mfu) : "",
        !one.skipped     ? ""
        : one.count == 0 ? "  no label counts: nothing was changed"
                         : "  not finite: nothing was changed");
  FlushOutput();
}

void TrainProgress::AddEvaluation(int64_t step, double loss) {
  if (!settings_.html.empty()) evaluations_.emplace_back(step, loss);
  Log({{"step", step}, {"evaluation_loss", Number(loss)}});
  Print("step {:>5}  evaluation loss {:.4f}\n", step, loss);
  FlushOutput();
}

void TrainProgress::AddCheckpoint(int64_t step, const std::string& folder) {
  Log({{"step", step}, {"checkpoint", folder}});
}

absl::Status TrainProgress::Write(const std::string& title,
                                  std::vector<Profile> timelines) const {
  if (!settings_.csv.empty()) {
    std::string text = "step,loss,norm,tokens_per_s\n";
    for (const TrainMetrics& one : metrics_) {
      text += fmt::format("{},{:.17g},{:.17g},{:.1f}\n", one.step, one.loss,
                          one.norm, one.tokens_per_s);
    }
    ASYRA_RETURN_IF_ERROR(WriteTextFile(settings_.csv, text));
  }
  if (settings_.html.empty()) return absl::OkStatus();
  return WriteTextFile(settings_.html, LossPage({title, metrics_, evaluations_,
                                                 std::move(timelines)}));
}

}  // namespace asyra
