#include "tools/report/batches_report.h"

#include <algorithm>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/analysis/step_shape.h"
#include "passes/training_mfu.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/memory.h"
#include "tools/report/train_report.h"

namespace asyra {
namespace {

int64_t DeviceBytes(const CompileResult& compiled) {
  return ReportMemory(compiled.program, *compiled.simulated,
                      compiled.costs->machine())
      .device_bytes;
}

}  // namespace

BatchesReport ReportBatches(const CompileResult& accumulate,
                            const CompiledModel& last, int64_t batches) {
  const Machine& machine = last.costs->machine();
  BatchesReport report{BatchTimesOf(accumulate, last, batches)};
  int64_t others = KeptBytes(last.program, /*sums_only=*/false) -
                   KeptBytes(accumulate.program, /*sums_only=*/false);
  report.device_bytes =
      std::max(DeviceBytes(last), DeviceBytes(accumulate) + others);
  double batch_us = report.total_us() / static_cast<double>(batches);
  report.mfu = TrainingMfu(last.program, machine, batch_us);
  StepShape shape = StepShapeOf(last.raised, last.dim_names);
  if (shape.known()) {
    report.unit = shape.unit();
    report.tokens_per_s_device =
        TokensPerSecond(shape, batch_us) /
        static_cast<double>(last.program.mesh.num_devices());
  }
  return report;
}

absl::Status CheckCapacity(const Profile& step,
                           const std::optional<BatchesReport>& batches) {
  ASYRA_RETURN_IF_ERROR(CheckCapacity(step));
  int64_t capacity = step.capacity_bytes;
  if (capacity == 0 || !batches.has_value() ||
      batches->device_bytes <= capacity) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(fmt::format(
      "{} does not fit: a batch that adds up gradients takes {} on a device of "
      "{}",
      step.model, BytesText(batches->device_bytes), BytesText(capacity)));
}

std::string BatchesText(const BatchesReport& report) {
  std::string text = fmt::format(" step of {} batches\n", report.batches);
  TimeColumn times(report.total_us());
  text += fmt::format("  {:<9} {:>10}: {} {}, {} in all\n", "add up",
                      times.Text(report.accumulate_us), report.batches - 1,
                      report.batches == 2 ? "time" : "times",
                      times.Text(static_cast<double>(report.batches - 1) *
                                 report.accumulate_us));
  text += fmt::format("  {:<9} {:>10}: with the update\n", "last",
                      times.Text(report.last_us));
  text += fmt::format("  {:<9} {:>10}: sums of gradients, {}\n", "clear",
                      times.Text(report.clear_us), BytesText(report.sum_bytes));
  text += fmt::format("  {:<9} {:>10}: MFU {:.1f} %", "in all",
                      times.Text(report.total_us()), 100 * report.mfu);
  if (report.tokens_per_s_device > 0) {
    text += fmt::format(", {}{} a second and device",
                        CountText(report.tokens_per_s_device), report.unit);
  }
  return text + fmt::format(", {} a device\n", BytesText(report.device_bytes));
}

nlohmann::json BatchesJson(const BatchesReport& report) {
  return {{"batches", report.batches},
          {"accumulate_us", report.accumulate_us},
          {"last_us", report.last_us},
          {"clear_us", report.clear_us},
          {"total_us", report.total_us()},
          {"mfu", report.mfu},
          {"tokens_per_s_device", report.tokens_per_s_device},
          {"sum_bytes", report.sum_bytes},
          {"device_bytes", report.device_bytes}};
}

}  // namespace asyra
