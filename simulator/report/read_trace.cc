#include "simulator/report/read_trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/support/status.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

// Members of any type but the wanted one count as missing: traces come from
// many writers.
std::string Text(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key)) return "";
  const Json& at = json[key];
  if (at.is_string()) return at.get<std::string>();
  return at.is_number_integer() ? at.dump() : "";
}

const Json& Args(const Json& event) {
  static const Json kNone = Json::object();
  return event.contains("args") && event["args"].is_object() ? event["args"]
                                                             : kNone;
}

struct Kernel {
  std::string device, track;
  ProfileOp op;
};

bool IsKernel(const Json& event) {
  return event.is_object() && Text(event, "ph") == "X" &&
         Text(event, "cat") == "kernel";
}

// NCCL's kernels are named so, by it and by WriteChromeTrace.
bool IsCollective(const std::string& name) {
  return name.rfind("nccl", 0) == 0;
}

absl::StatusOr<Kernel> ReadKernel(const Json& event, std::string_view origin) {
  Kernel kernel;
  ProfileOp& op = kernel.op;
  op.op = Text(event, "name");
  for (const char* key : {"ts", "dur"}) {
    if (!event.contains(key) || !event[key].is_number()) {
      return Invalid("{}: kernel '{}': {} is no number", origin, op.op, key);
    }
  }
  op.start_us = event["ts"].get<double>();
  double duration = event["dur"].get<double>();
  if (duration < 0) {
    return Invalid("{}: kernel '{}': dur is {}", origin, op.op, duration);
  }
  op.end_us = op.start_us + duration;
  const Json& args = Args(event);
  op.name = Text(args, "value");
  if (op.name.empty()) op.name = op.op;
  op.type = Text(args, "type");
  op.source = Text(args, "source");
  op.limit = Text(args, "limit");
  op.critical = args.value("critical", Json()) == Json(true);
  if (IsCollective(op.op)) {
    op.axes = Text(args, "Process Group Name");
    if (op.axes.empty()) op.axes = "nccl";
    std::string collective = Text(args, "Collective name");
    if (!collective.empty()) op.op = collective;
  }
  kernel.device = Text(event, "pid");
  kernel.track = Text(event, "tid");
  return kernel;
}

// Numbers as numbers: "2" before "10".
bool Before(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::map<std::string, std::string> TrackNames(const Json& events,
                                              const std::string& device) {
  std::map<std::string, std::string> names;
  for (const Json& event : events) {
    if (!event.is_object() || Text(event, "ph") != "M" ||
        Text(event, "name") != "thread_name" || Text(event, "pid") != device) {
      continue;
    }
    names[Text(event, "tid")] = Text(Args(event), "name");
  }
  return names;
}

void ReadMemory(const Json& events, const std::string& device, double begin_us,
                Profile* profile) {
  for (const Json& event : events) {
    if (!event.is_object() || Text(event, "ph") != "C" ||
        Text(event, "name") != "memory" || Text(event, "pid") != device ||
        !event.contains("ts") || !event["ts"].is_number()) {
      continue;
    }
    Json live = Args(event).value("allocated", Json());
    if (!live.is_number_integer()) continue;
    MemoryPoint point{event["ts"].get<double>() - begin_us,
                      live.get<int64_t>()};
    if (point.live_bytes > profile->peak_bytes) {
      profile->peak_bytes = point.live_bytes;
      profile->peak_us = point.time_us;
    }
    profile->memory.push_back(point);
  }
}

}  // namespace

absl::StatusOr<Profile> ReadTrace(const Json& trace, std::string_view origin) {
  const Json& events = trace["traceEvents"];
  if (!events.is_array()) return Invalid("{}: traceEvents is no list", origin);
  std::vector<Kernel> kernels;
  for (const Json& event : events) {
    if (!IsKernel(event)) continue;
    ASYRA_ASSIGN_OR_RETURN(Kernel kernel, ReadKernel(event, origin));
    kernels.push_back(std::move(kernel));
  }
  if (kernels.empty()) return Invalid("{}: the trace has no kernel", origin);
  std::string device = kernels[0].device;
  for (const Kernel& kernel : kernels) {
    if (Before(kernel.device, device)) device = kernel.device;
  }
  std::erase_if(kernels,
                [&](const Kernel& kernel) { return kernel.device != device; });
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel& a, const Kernel& b) {
                     return a.op.start_us < b.op.start_us;
                   });

  Profile profile;
  profile.model = origin;
  if (trace.contains("distributedInfo")) {
    Json world = trace["distributedInfo"].is_object()
                     ? trace["distributedInfo"].value("world_size", Json())
                     : Json();
    if (world.is_number_integer()) profile.devices = world.get<int64_t>();
  }
  std::map<std::string, std::string> names = TrackNames(events, device);
  std::vector<std::string> tracks;
  double begin_us = kernels[0].op.start_us;
  for (Kernel& kernel : kernels) {
    auto at = std::find(tracks.begin(), tracks.end(), kernel.track);
    kernel.op.stream = static_cast<int>(at - tracks.begin());
    if (at == tracks.end()) {
      tracks.push_back(kernel.track);
      const std::string& name = names[kernel.track];
      profile.streams.push_back(name.empty() ? "stream " + kernel.track : name);
    }
    kernel.op.start_us -= begin_us;
    kernel.op.end_us -= begin_us;
    profile.ops.push_back(std::move(kernel.op));
  }
  ReadMemory(events, device, begin_us, &profile);
  SumUp(&profile);
  return profile;
}

}  // namespace asyra
