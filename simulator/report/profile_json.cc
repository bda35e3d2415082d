#include "simulator/report/profile_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/support/status.h"
#include "simulator/machine/json_fields.h"
#include "simulator/report/read_trace.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "asyra-profile";
constexpr int kVersion = 1;

double Rounded(double us) { return std::round(us * 1000) / 1000; }

Json StepsJson(const std::vector<ProfileStep>& steps) {
  Json json = Json::array();
  for (const ProfileStep& step : steps) {
    json.push_back({{"queue", step.queue},
                    {"name", step.name},
                    {"copy", step.is_copy},
                    {"start_us", Rounded(step.start_us)},
                    {"end_us", Rounded(step.end_us)}});
  }
  return json;
}

Json OpJson(const ProfileOp& op) {
  Json json = {{"name", op.name},
               {"op", op.op},
               {"type", op.type},
               {"stream", op.stream},
               {"start_us", Rounded(op.start_us)},
               {"end_us", Rounded(op.end_us)},
               {"alone_us", Rounded(op.alone_us)},
               {"critical", op.critical}};
  if (op.is_collective()) {
    json["axes"] = op.axes;
    json["bytes"] = op.bytes;
  }
  if (!op.kernel_axes.empty()) json["kernel_axes"] = op.kernel_axes;
  if (op.wait >= 0) json["wait"] = op.wait;
  if (Rounded(op.exposed_us) > 0) {
    json["exposed_us"] = Rounded(op.exposed_us);
    json["exposed_by"] = op.exposed_by;
  }
  if (!op.source.empty()) json["source"] = op.source;
  if (!op.limit.empty()) json["limit"] = op.limit;
  if (!op.waited_for.empty()) json["waited_for"] = op.waited_for;
  if (!op.steps.empty()) json["steps"] = StepsJson(op.steps);
  return json;
}

Json SharesJson(const std::vector<ProfileShare>& shares) {
  Json json = Json::array();
  for (const ProfileShare& share : shares) {
    json.push_back({{"name", share.name}, {"us", share.us}});
  }
  return json;
}

Json MemoryJson(const Profile& profile) {
  Json json = {{"peak_bytes", profile.peak_bytes},
               {"rounded_bytes", profile.rounded_bytes},
               {"arena_bytes", profile.arena_bytes},
               {"device_bytes", profile.device_bytes},
               {"weight_bytes", profile.weight_bytes},
               {"capacity_bytes", profile.capacity_bytes},
               {"peak_us", Rounded(profile.peak_us)},
               {"at_peak", Json::array()},
               {"points", Json::array()}};
  for (const ProfileBuffer& buffer : profile.at_peak) {
    json["at_peak"].push_back({{"name", buffer.name},
                               {"type", buffer.type},
                               {"kind", buffer.kind},
                               {"bytes", buffer.bytes}});
  }
  for (const MemoryPoint& point : profile.memory) {
    json["points"].push_back({Rounded(point.time_us), point.live_bytes});
  }
  return json;
}

// Reads members of JSON objects; remembers the first error and gives empty
// values after it.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  const Json& At(const Json& json, const std::string& place, const char* key,
                 bool (Json::*is)() const noexcept, const char* kind) {
    static const Json kNone;
    if (!json.is_object() || !json.contains(key)) {
      Fail("{}: {}{} is missing", place, key);
      return kNone;
    }
    if (!(json[key].*is)()) {
      Fail("{}: {}{} is no " + std::string(kind), place, key);
      return kNone;
    }
    return json[key];
  }
  double Number(const Json& json, const std::string& place, const char* key) {
    const Json& at = At(json, place, key, &Json::is_number, "number");
    return at.is_number() ? at.get<double>() : 0;
  }
  int64_t Integer(const Json& json, const std::string& place, const char* key) {
    const Json& at = At(json, place, key, &Json::is_number_integer, "integer");
    return at.is_number_integer() ? at.get<int64_t>() : 0;
  }
  std::string Text(const Json& json, const std::string& place,
                   const char* key) {
    const Json& at = At(json, place, key, &Json::is_string, "string");
    return at.is_string() ? at.get<std::string>() : "";
  }
  bool Flag(const Json& json, const std::string& place, const char* key) {
    const Json& at = At(json, place, key, &Json::is_boolean, "true or false");
    return at.is_boolean() && at.get<bool>();
  }
  // Returns the same as Text, empty if it is missing.
  std::string MaybeText(const Json& json, const std::string& place,
                        const char* key) {
    bool has = json.is_object() && json.contains(key);
    return has ? Text(json, place, key) : "";
  }
  const Json& List(const Json& json, const std::string& place,
                   const char* key) {
    static const Json kEmpty = Json::array();
    const Json& at = At(json, place, key, &Json::is_array, "list");
    return at.is_array() ? at : kEmpty;
  }

  void Fail(const std::string& text, const std::string& place,
            const char* key) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        fmt::format(fmt::runtime(text), origin_, place, key));
  }
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  std::string origin_;
  absl::Status status_;
};

void ReadSteps(Reader& read, const Json& json, const std::string& place,
               std::vector<ProfileStep>* steps) {
  if (!json.is_object() || !json.contains("steps")) return;
  const Json& list = read.List(json, place, "steps");
  for (size_t i = 0; i < list.size() && read.ok(); ++i) {
    std::string at = fmt::format("{}steps[{}].", place, i);
    ProfileStep& step = steps->emplace_back();
    step.queue = read.Text(list[i], at, "queue");
    step.name = read.Text(list[i], at, "name");
    step.is_copy = read.Flag(list[i], at, "copy");
    step.start_us = read.Number(list[i], at, "start_us");
    step.end_us = read.Number(list[i], at, "end_us");
    if (step.end_us < step.start_us) {
      read.Fail("{}: {}{} is before start_us", at, "end_us");
    }
  }
}

ProfileOp ReadOp(Reader& read, const Json& json, const std::string& place) {
  ProfileOp op;
  op.name = read.Text(json, place, "name");
  op.op = read.Text(json, place, "op");
  op.type = read.Text(json, place, "type");
  op.stream = static_cast<int>(read.Integer(json, place, "stream"));
  op.start_us = read.Number(json, place, "start_us");
  op.end_us = read.Number(json, place, "end_us");
  if (op.end_us < op.start_us) {
    read.Fail("{}: {}{} is before start_us", place, "end_us");
  }
  op.alone_us = read.Number(json, place, "alone_us");
  op.axes = read.MaybeText(json, place, "axes");
  if (op.is_collective()) op.bytes = read.Integer(json, place, "bytes");
  op.kernel_axes = read.MaybeText(json, place, "kernel_axes");
  if (json.is_object() && json.contains("wait")) {
    op.wait = static_cast<int>(read.Integer(json, place, "wait"));
  }
  op.exposed_by = read.MaybeText(json, place, "exposed_by");
  if (!op.exposed_by.empty()) {
    op.exposed_us = read.Number(json, place, "exposed_us");
  }
  op.source = read.MaybeText(json, place, "source");
  op.limit = read.MaybeText(json, place, "limit");
  op.waited_for = read.MaybeText(json, place, "waited_for");
  op.critical = read.Flag(json, place, "critical");
  ReadSteps(read, json, place, &op.steps);
  return op;
}

void ReadOps(Reader& read, const Json& json, Profile* profile) {
  const Json& list = read.List(json, "", "ops");
  int streams = static_cast<int>(profile->streams.size());
  int count = static_cast<int>(list.size());
  for (int i = 0; i < count && read.ok(); ++i) {
    std::string place = fmt::format("ops[{}].", i);
    profile->ops.push_back(ReadOp(read, list[i], place));
    const ProfileOp& op = profile->ops.back();
    if (op.stream < 0 || op.stream >= streams) {
      read.Fail("{}: {}{} is not one of `streams`", place, "stream");
    }
    if (op.wait < -1 || op.wait >= count) {
      read.Fail("{}: {}{} is not one of `ops`", place, "wait");
    }
  }
}

std::vector<ProfileShare> ReadShares(Reader& read, const Json& json,
                                     const char* key) {
  std::vector<ProfileShare> shares;
  for (const Json& share : read.List(json, "", key)) {
    shares.push_back({read.Text(share, std::string(key) + "[].", "name"),
                      read.Number(share, std::string(key) + "[].", "us")});
  }
  return shares;
}

void ReadMemory(Reader& read, const Json& json, Profile* profile) {
  profile->peak_bytes = read.Integer(json, "memory.", "peak_bytes");
  profile->rounded_bytes = read.Integer(json, "memory.", "rounded_bytes");
  profile->arena_bytes = read.Integer(json, "memory.", "arena_bytes");
  profile->device_bytes = read.Integer(json, "memory.", "device_bytes");
  profile->weight_bytes = read.Integer(json, "memory.", "weight_bytes");
  profile->capacity_bytes = read.Integer(json, "memory.", "capacity_bytes");
  profile->peak_us = read.Number(json, "memory.", "peak_us");
  for (const Json& buffer : read.List(json, "memory.", "at_peak")) {
    const std::string place = "memory.at_peak[].";
    profile->at_peak.push_back({read.Text(buffer, place, "name"),
                                read.Text(buffer, place, "type"),
                                read.Text(buffer, place, "kind"),
                                read.Integer(buffer, place, "bytes")});
  }
  for (const Json& point : read.List(json, "memory.", "points")) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() ||
        !point[1].is_number_integer()) {
      read.Fail("{}: {}{} is no pair of a time and bytes", "memory.",
                "points[]");
      return;
    }
    profile->memory.push_back(
        {point[0].get<double>(), point[1].get<int64_t>()});
  }
}

StepShape ReadStep(Reader& read, const Json& json) {
  StepShape step;
  step.batch = read.Integer(json, "step.", "batch");
  step.dtype = read.Text(json, "step.", "dtype");
  for (const Json& tokens : read.List(json, "step.", "tokens")) {
    if (!tokens.is_number_integer()) {
      read.Fail("{}: {}{} is no integer", "step.", "tokens[]");
      break;
    }
    step.tokens.push_back(tokens.get<int64_t>());
  }
  if (!json.contains("image")) return step;
  for (const Json& size : read.List(json, "step.", "image")) {
    if (!size.is_number_integer()) {
      read.Fail("{}: {}{} is no integer", "step.", "image[]");
      break;
    }
    step.image.push_back(size.get<int64_t>());
  }
  return step;
}

void ReadPower(Reader& read, const Json& json, Profile* profile) {
  const Json& power = read.At(json, "", "power", &Json::is_object, "object");
  profile->clock_mhz = read.Number(power, "power.", "clock_mhz");
  profile->most_mhz = read.Number(power, "power.", "most_mhz");
  profile->watts = read.Number(power, "power.", "watts");
}

Json PowerJson(const Profile& profile) {
  Json json = {{"clock_mhz", profile.clock_mhz},
               {"most_mhz", profile.most_mhz},
               {"watts", profile.watts}};
  double joules = EnergyPerToken(profile);
  if (joules > 0) json["joules_per_token"] = joules;
  return json;
}

absl::StatusOr<Profile> ReadOwn(const Json& json, std::string_view origin) {
  Reader read(origin);
  if (read.Integer(json, "", "version") != kVersion && read.ok()) {
    return Invalid("{}: version is {}, this program reads {}", origin,
                   json["version"].dump(), kVersion);
  }
  Profile profile;
  profile.model = read.Text(json, "", "model");
  profile.machine = read.Text(json, "", "machine");
  profile.mesh = read.Text(json, "", "mesh");
  profile.devices = read.Integer(json, "", "devices");
  profile.makespan_us = read.Number(json, "", "makespan_us");
  profile.lower_bound_us = read.Number(json, "", "lower_bound_us");
  profile.compute_us = read.Number(json, "", "compute_us");
  profile.comm_us = read.Number(json, "", "comm_us");
  profile.exposed_comm_us = read.Number(json, "", "exposed_comm_us");
  profile.bubble = read.Number(json, "", "bubble");
  profile.mfu = read.Number(json, "", "mfu");
  profile.collectives = static_cast<int>(read.Integer(json, "", "collectives"));
  for (const Json& stream : read.List(json, "", "streams")) {
    if (!stream.is_string()) read.Fail("{}: {}{} is no name", "", "streams[]");
    profile.streams.push_back(stream.is_string() ? stream.get<std::string>()
                                                 : "");
  }
  for (const Json& axes : read.List(json, "", "exposed")) {
    const std::string place = "exposed[].";
    profile.exposed.push_back({read.Text(axes, place, "axes"),
                               read.Number(axes, place, "comm_us"),
                               read.Number(axes, place, "exposed_us")});
  }
  if (json.contains("noise")) profile.noise = read.Number(json, "", "noise");
  if (json.contains("power")) ReadPower(read, json, &profile);
  if (json.contains("step")) profile.step = ReadStep(read, json["step"]);
  if (json.contains("notes")) {
    for (const Json& note : read.List(json, "", "notes")) {
      if (!note.is_string()) read.Fail("{}: {}{} is no text", "", "notes[]");
      profile.notes.push_back(note.is_string() ? note.get<std::string>() : "");
    }
  }
  profile.sources = ReadShares(read, json, "sources");
  profile.resources = ReadShares(read, json, "resources");
  ReadMemory(read, read.At(json, "", "memory", &Json::is_object, "object"),
             &profile);
  ReadOps(read, json, &profile);
  if (!read.ok()) return read.status();
  return profile;
}

}  // namespace

std::string ProfileJson(const Profile& profile) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"model", profile.model},
               {"machine", profile.machine},
               {"mesh", profile.mesh},
               {"devices", profile.devices},
               {"makespan_us", profile.makespan_us},
               {"lower_bound_us", profile.lower_bound_us},
               {"compute_us", profile.compute_us},
               {"comm_us", profile.comm_us},
               {"exposed_comm_us", profile.exposed_comm_us},
               {"bubble", profile.bubble},
               {"mfu", profile.mfu},
               {"collectives", profile.collectives},
               {"streams", profile.streams},
               {"exposed", Json::array()},
               {"sources", SharesJson(profile.sources)},
               {"resources", SharesJson(profile.resources)},
               {"memory", MemoryJson(profile)},
               {"ops", Json::array()}};
  for (const ProfileExposure& axes : profile.exposed) {
    json["exposed"].push_back({{"axes", axes.axes},
                               {"comm_us", axes.comm_us},
                               {"exposed_us", axes.exposed_us}});
  }
  for (const ProfileOp& op : profile.ops) json["ops"].push_back(OpJson(op));
  if (profile.noise > 0) json["noise"] = profile.noise;
  if (profile.clock_mhz > 0) json["power"] = PowerJson(profile);
  if (profile.step.known()) {
    json["step"] = ToJson(profile.step);
    json["tokens_per_s"] = TokensPerSecond(profile.step, profile.makespan_us);
  }
  if (!profile.notes.empty()) json["notes"] = profile.notes;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Profile> ReadProfile(std::string_view text,
                                    std::string_view origin) {
  ASYRA_RETURN_IF_ERROR(CheckJson(text, origin));
  Json json = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("traceEvents")) {
    return ReadTrace(json, origin);
  }
  if (json.is_object() && json.value("format", Json()) == Json(kFormat)) {
    return ReadOwn(json, origin);
  }
  return Invalid("{}: neither a profile (\"format\": \"{}\") nor a trace",
                 origin, kFormat);
}

}  // namespace asyra
