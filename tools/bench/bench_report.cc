#include "tools/bench/bench_report.h"

#include "ir/support/status.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

std::string Line(const MeasuredCall& call) {
  return fmt::format("{:>12} {:>4.0f} % {} {}\n", TimeText(call.timing.us),
                     100 * call.timing.spread,
                     call.ranks > 1 ? fmt::format("{:>2}", call.ranks) : "  ",
                     call.text);
}

// Returns the method of all points; that of kept ones may have been another.
std::string MethodOf(const BenchResult& result) {
  constexpr std::string_view kMethod =
      "asyra-bench: medians of 7 or more; kernels of programs in turn, as in "
      "steps, after a second of them, those of the grid alone, in recordings "
      "of many launches, on operands that lie apart; collectives in rows of a "
      "millisecond, 20 at most, behind barriers that last until all hosts have "
      "enqueued them, the slowest rank";
  const std::string& before = result.kept_method;
  if (result.kept == 0 || before.ends_with(kMethod)) {
    return std::string(result.kept == 0 ? kMethod : before);
  }
  return fmt::format("the first {} points: {}; the others: {}", result.kept,
                     before, kMethod);
}

std::string MemoryText(const BenchResult& result) {
  if (result.context_mib == 0) return "";
  std::string text = fmt::format(
      "MiB of each GPU: {} for the libraries that compute", result.context_mib);
  if (result.collective_memory.has_value()) {
    const LibraryMemory& memory = *result.collective_memory;
    text += fmt::format(
        ", {} for collectives, {} for exchanges; each communicator {}, its "
        "rings {}, trees {}, each peer of exchanges {}",
        memory.collectives, memory.exchanges, memory.communicator, memory.rings,
        memory.trees, memory.peer);
  }
  return text + "\n\n";
}

}  // namespace

std::string BenchText(const BenchResult& result) {
  std::string text = fmt::format(
      "{}, {}, {} {}: {} calls in {:.0f} s{}\n\n", result.device,
      result.libraries, result.ranks, result.ranks == 1 ? "rank" : "ranks",
      result.calls.size() - result.kept, result.seconds,
      result.kept > 0 ? fmt::format(", {} kept", result.kept) : "");
  text += fmt::format(
      "an op costs the host {}, {} in a recording; the device {}\n\n",
      TimeText(result.launches.eager_us), TimeText(result.launches.recorded_us),
      TimeText(result.launches.device_us));
  text += MemoryText(result);
  if (result.cta_gbps > 0) {
    text += fmt::format("a collective by one CTA: {:.1f} GB/s\n\n",
                        result.cta_gbps);
  }
  if (!result.loads.empty()) {
    text += PowerText(result.loads, *result.power) + "\n";
  }
  text += result.weights_from_inputs;
  text += "      median spread  ranks, call\n";
  for (size_t i = result.kept; i < result.calls.size(); ++i) {
    text += Line(result.calls[i]);
  }
  for (const MeasuredPair& pair : result.pairs) {
    text += fmt::format(
        "\n{}\n  {} alone, {} beside it, and it {} alone, {} beside\n  {}\n",
        pair.compute, TimeText(pair.timing.compute_us),
        TimeText(pair.timing.compute_beside_us),
        TimeText(pair.timing.collective_us),
        TimeText(pair.timing.collective_beside_us), pair.collective);
  }
  if (!result.overlaps.empty()) {
    text += "\n" + OverlapsText(result.overlaps);
  }
  if (!result.left_out.empty()) text += "\nnot measured:\n";
  for (const std::string& why : result.left_out) text += "  " + why + "\n";
  return text;
}

std::string BenchTable(const BenchResult& result) {
  using Json = nlohmann::json;
  auto quoted = [](const std::string& text) { return Json(text).dump(); };
  std::string text = "{\n  \"schema\": 2,\n";
  text += fmt::format("  \"device\": {},\n", quoted(result.device));
  text += fmt::format("  \"driver\": {},\n", quoted(result.driver));
  text += fmt::format("  \"libraries\": {},\n", quoted(result.libraries));
  text += fmt::format("  \"date\": {},\n", quoted(result.date));
  text += fmt::format("  \"method\": {},\n", quoted(MethodOf(result)));
  text += "  \"points\": [";
  for (size_t i = 0; i < result.calls.size(); ++i) {
    const MeasuredCall& call = result.calls[i];
    text += fmt::format("{}\n    {{\"call\": {}, ", i == 0 ? "" : ",",
                        quoted(call.text));
    if (call.ranks > 1) text += fmt::format("\"ranks\": {}, ", call.ranks);
    // A quicker call cannot be told from nothing.
    text += fmt::format("\"us\": {:.2f}", std::max(call.timing.us, 0.01));
    if (call.timing.mhz > 0) {
      text += fmt::format(", \"mhz\": {:.0f}", call.timing.mhz);
    }
    text += "}";
  }
  return text + "\n  ]\n}\n";
}

}  // namespace asyra
