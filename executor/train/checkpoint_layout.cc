#include "executor/train/checkpoint_layout.h"

#include <charconv>
#include <set>

#include "executor/train/part_checksum.h"
#include "ir/support/json_object.h"
#include "ir/support/status.h"
#include "ir/weights/safetensors.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using nlohmann::json;
using Files = std::vector<std::vector<size_t>>;  // values of each

absl::Status CheckValues(absl::Span<const CheckpointValue> values) {
  std::set<std::string_view> names;
  for (const CheckpointValue& value : values) {
    if (!names.insert(value.name).second) {
      return Invalid("%{} is there twice", value.name);
    }
    Shape whole = value.type.shape();
    bool fits = value.stored.size() == whole.size();
    for (size_t d = 0; fits && d < whole.size(); ++d) {
      fits = value.stored[d] >= 0 && value.stored[d] <= whole[d];
    }
    if (!fits) {
      return Invalid("%{} has shape {}, {} of it cannot be stored", value.name,
                     ShapeToString(whole), ShapeToString(value.stored));
    }
    if (!value.type.partial.empty()) {
      return Invalid("%{} is partial: no rank has its value", value.name);
    }
  }
  return absl::OkStatus();
}

SafetensorsEntry EntryOf(const CheckpointValue& value) {
  return {value.tensor(), value.type.dtype, value.tensor_shape()};
}

// Returns for each value the first one of its tensor, by value.
std::vector<size_t> FirstOfTensor(absl::Span<const CheckpointValue> values) {
  std::map<std::string_view, size_t> first;
  std::vector<size_t> result;
  for (size_t i = 0; i < values.size(); ++i) {
    result.push_back(first.try_emplace(values[i].tensor(), i).first->second);
  }
  return result;
}

// The values of one group, cut into files.
Files CutIntoFiles(absl::Span<const CheckpointValue> values, bool params,
                   int64_t max_file_bytes) {
  Files files;
  int64_t bytes = 0;
  std::vector<size_t> first = FirstOfTensor(values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_param != params || first[i] != i) continue;
    int64_t more = EntryOf(values[i]).bytes();
    if (files.empty() || bytes + more > max_file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(i);
    bytes += more;
  }
  return files;
}

class LayoutMaker {
 public:
  explicit LayoutMaker(absl::Span<const CheckpointValue> values)
      : values_(values) {
    layout_.places.resize(values.size());
  }

  absl::Status AddGroup(std::string_view group, const Files& files) {
    if (files.empty()) return absl::OkStatus();
    json names = json::object();
    int64_t total = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", group,
                                     i + 1, files.size());
      for (size_t value : files[i]) {
        names[values_[value].tensor()] = name;
        total += EntryOf(values_[value]).bytes();
      }
      ASYRA_RETURN_IF_ERROR(AddFile(name, files[i]));
    }
    json index = {{"metadata", {{"total_size", total}}}, {"weight_map", names}};
    layout_.indices.push_back({IndexName(group), index.dump(2) + "\n"});
    return absl::OkStatus();
  }

  CheckpointLayout Take() && {
    std::vector<size_t> first = FirstOfTensor(values_);
    for (size_t i = 0; i < values_.size(); ++i) {
      layout_.places[i] = layout_.places[first[i]];
    }
    return std::move(layout_);
  }

 private:
  absl::Status AddFile(const std::string& name,
                       const std::vector<size_t>& values) {
    std::vector<SafetensorsEntry> entries;
    for (size_t value : values) entries.push_back(EntryOf(values_[value]));
    int64_t data = PlaceEntries(&entries);
    // Metadata of the framework that most readers of these files come from.
    ASYRA_ASSIGN_OR_RETURN(std::string header,
                           SafetensorsHeader(entries, {{"format", "pt"}}));
    auto begin = static_cast<int64_t>(header.size());
    std::map<std::string_view, int64_t> offsets;
    for (const SafetensorsEntry& entry : entries) {
      offsets[entry.name] = begin + entry.begin;
    }
    for (size_t value : values) {
      layout_.places[value] = {layout_.files.size(),
                               offsets.at(values_[value].tensor())};
    }
    layout_.files.push_back({name, std::move(header), begin + data});
    return absl::OkStatus();
  }

  absl::Span<const CheckpointValue> values_;
  CheckpointLayout layout_;
};

// A field of an object, or an error that names it.
absl::StatusOr<const json*> Field(const json& object, const char* name,
                                  json::value_t type) {
  auto found = object.find(name);
  if (found == object.end()) return Invalid("\"{}\" is missing", name);
  bool integer = type == json::value_t::number_unsigned;
  if (integer ? !found->is_number_unsigned() : found->type() != type) {
    return Invalid("\"{}\" is of another type", name);
  }
  return &*found;
}

absl::StatusOr<int64_t> Count(const json& object, const char* name) {
  ASYRA_ASSIGN_OR_RETURN(const json* field,
                         Field(object, name, json::value_t::number_unsigned));
  return static_cast<int64_t>(field->get<uint64_t>());
}

absl::StatusOr<std::string> Text(const json& object, const char* name) {
  ASYRA_ASSIGN_OR_RETURN(const json* field,
                         Field(object, name, json::value_t::string));
  return field->get<std::string>();
}

// Fields of checkpoint.json for the checksums of tensors, and for its own: that
// of the other fields as dump() writes them.
constexpr char kTensors[] = "crc32";
constexpr char kOwn[] = "own_crc32";

std::string OwnChecksum(json all) {
  all.erase(kOwn);
  return fmt::format("{:08x}", ChecksumOf(all.dump()));
}

// Older writers leave out both checksums.
absl::Status CheckOwn(const json& all) {
  if (!all.contains(kOwn)) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(std::string written, Text(all, kOwn));
  std::string found = OwnChecksum(all);
  if (found == written) return absl::OkStatus();
  return Invalid("its checksum is {}, it was written with {}", found, written);
}

absl::StatusOr<TensorChecksums> ParseChecksums(const json& fields) {
  TensorChecksums checksums;
  for (const auto& [name, field] : fields.items()) {
    ASYRA_ASSIGN_OR_RETURN(std::string text, Text(fields, name.c_str()));
    uint32_t& checksum = checksums[name];
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Invalid("\"{}\" of {} is no checksum", text, name);
    }
  }
  return checksums;
}

}  // namespace

std::string CheckpointName(int64_t step) {
  return fmt::format("{}{:08}", kCheckpointPrefix, step);
}

std::string IndexName(std::string_view group) {
  return fmt::format("{}.safetensors.index.json", group);
}

absl::StatusOr<CheckpointLayout> LayOutCheckpoint(
    absl::Span<const CheckpointValue> values, int64_t max_file_bytes) {
  ASYRA_RETURN_IF_ERROR(CheckValues(values));
  LayoutMaker maker(values);
  for (std::string_view group : kCheckpointGroups) {
    bool params = group == kCheckpointGroups[0];
    ASYRA_RETURN_IF_ERROR(
        maker.AddGroup(group, CutIntoFiles(values, params, max_file_bytes)));
  }
  return std::move(maker).Take();
}

std::string CheckpointJson(const CheckpointInfo& info,
                           const CheckpointLayout& layout,
                           const TensorChecksums& checksums) {
  nlohmann::ordered_json text;
  text["format"] = kCheckpointFormat;
  text["step"] = info.step;
  text["program_hash"] = info.program_hash;
  text["extra"] = info.extra;
  text["files"] = nlohmann::ordered_json::array();
  auto add = [&](const std::string& name, int64_t bytes) {
    text["files"].push_back({{"name", name}, {"bytes", bytes}});
  };
  for (const auto& file : layout.files) add(file.name, file.bytes);
  for (const auto& index : layout.indices) {
    add(index.name, static_cast<int64_t>(index.text.size()));
  }
  text[kTensors] = nlohmann::ordered_json::object();
  for (const auto& [name, checksum] : checksums) {
    text[kTensors][name] = fmt::format("{:08x}", checksum);
  }
  // The text as a reader will have it, with what is no UTF-8 replaced.
  constexpr auto kReplace = json::error_handler_t::replace;
  text[kOwn] = OwnChecksum(json::parse(text.dump(-1, ' ', false, kReplace)));
  return text.dump(2, ' ', false, kReplace) + "\n";
}

absl::StatusOr<CheckpointContents> ParseCheckpointJson(
    const std::string& text) {
  ASYRA_ASSIGN_OR_RETURN(json all, ParseJsonObject(text));
  ASYRA_ASSIGN_OR_RETURN(int64_t format, Count(all, "format"));
  if (format != kCheckpointFormat) {
    return Invalid("format {} of a checkpoint, known is {}", format,
                   kCheckpointFormat);
  }
  ASYRA_RETURN_IF_ERROR(CheckOwn(all));
  CheckpointContents contents;
  ASYRA_ASSIGN_OR_RETURN(contents.info.step, Count(all, "step"));
  ASYRA_ASSIGN_OR_RETURN(contents.info.program_hash, Text(all, "program_hash"));
  ASYRA_ASSIGN_OR_RETURN(const json* extra,
                         Field(all, "extra", json::value_t::object));
  for (const auto& [name, value] : extra->items()) {
    ASYRA_ASSIGN_OR_RETURN(contents.info.extra[name],
                           Text(*extra, name.c_str()));
  }
  ASYRA_ASSIGN_OR_RETURN(const json* files,
                         Field(all, "files", json::value_t::array));
  for (const json& file : *files) {
    ASYRA_ASSIGN_OR_RETURN(std::string name, Text(file, "name"));
    ASYRA_ASSIGN_OR_RETURN(int64_t bytes, Count(file, "bytes"));
    contents.files.push_back({name, bytes});
  }
  if (!all.contains(kTensors)) return contents;
  ASYRA_ASSIGN_OR_RETURN(const json* checksums,
                         Field(all, kTensors, json::value_t::object));
  ASYRA_ASSIGN_OR_RETURN(contents.checksums, ParseChecksums(*checksums));
  return contents;
}

}  // namespace asyra
