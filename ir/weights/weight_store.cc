#include "ir/weights/weight_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/support/file.h"
#include "ir/support/json_object.h"
#include "ir/support/mapped_file.h"
#include "ir/support/status.h"
#include "ir/weights/safetensors.h"
#include "ir/weights/shard_reader.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using nlohmann::json;

// The limit of the format's own reader.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxRank = 16;

const json* Field(const json& object, const char* name) {
  auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

absl::StatusOr<DType> ReadDType(const json& entry) {
  const json* field = Field(entry, "dtype");
  if (field == nullptr || !field->is_string()) {
    return Invalid("dtype is missing");
  }
  const std::string& name = *field->get_ptr<const std::string*>();
  for (DType known : kAllDTypes) {
    if (SafetensorsName(known) == name) return known;
  }
  return Invalid("unknown element type {}", name);
}

// A list of integers in [0, 2^63).
absl::StatusOr<Shape> ReadInts(const json& entry, const char* name) {
  const json* field = Field(entry, name);
  if (field == nullptr || !field->is_array()) {
    return Invalid("{} is not a list", name);
  }
  Shape values;
  for (const json& value : *field) {
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > uint64_t{INT64_MAX}) {
      return Invalid(
          "{} holds {}, it takes integers from 0 to 2^63-1", name,
          value.dump(-1, ' ', false, json::error_handler_t::replace));
    }
    values.push_back(static_cast<int64_t>(value.get<uint64_t>()));
  }
  return values;
}

absl::StatusOr<SafetensorsEntry> ReadEntry(const std::string& name,
                                           const json& entry,
                                           int64_t data_bytes) {
  if (!entry.is_object()) return Invalid("its entry is not an object");
  ASYRA_ASSIGN_OR_RETURN(DType dtype, ReadDType(entry));
  ASYRA_ASSIGN_OR_RETURN(Shape shape, ReadInts(entry, "shape"));
  ASYRA_ASSIGN_OR_RETURN(Shape offsets, ReadInts(entry, "data_offsets"));
  if (shape.size() > kMaxRank) {
    return Invalid("rank {} exceeds {}", shape.size(), kMaxRank);
  }
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return Invalid("data_offsets [{}] are not a begin and an end",
                   fmt::join(offsets, ", "));
  }
  if (offsets[1] > data_bytes) {
    return Invalid("its data ends at byte {}, the file holds {} bytes of data",
                   offsets[1], data_bytes);
  }
  int64_t bytes = SizeOf(dtype);
  for (int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return Invalid("shape {} has more than 2^63 bytes", ShapeToString(shape));
    }
  }
  if (bytes != offsets[1] - offsets[0]) {
    return Invalid("{}{} has {} bytes, data_offsets span {}",
                   SafetensorsName(dtype), ShapeToString(shape), bytes,
                   offsets[1] - offsets[0]);
  }
  return SafetensorsEntry{name, dtype, std::move(shape), offsets[0]};
}

// The format wants each byte of the data to be of one tensor: where that is not
// so, all that follows may be shifted.
absl::Status CheckEachByteIsOfOne(std::vector<SafetensorsEntry> entries,
                                  int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.bytes()) <
                     std::pair(b.begin, b.bytes());
            });
  int64_t end = 0;
  std::string_view last;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin > end) {
      return Invalid(
          "tensor {}: its data begins at byte {}, those from {} on are of no "
          "tensor",
          entry.name, entry.begin, end);
    }
    if (entry.begin < end) {
      return Invalid(
          "tensor {}: its data begins at byte {}, that of tensor {} ends at "
          "byte {}",
          entry.name, entry.begin, last, end);
    }
    end = entry.begin + entry.bytes();
    last = entry.name;
  }
  if (end == data_bytes) return absl::OkStatus();
  if (entries.empty()) {
    return Invalid("it has {} bytes of data and no tensor", data_bytes);
  }
  return Invalid(
      "tensor {}: it is the last and ends at byte {}, the file holds {} bytes "
      "of data",
      last, end, data_bytes);
}

absl::StatusOr<std::shared_ptr<const WeightStore>> ReadMapped(
    const std::shared_ptr<const MappedFile>& file) {
  std::string_view bytes = file->bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return Invalid("{} bytes are too short for a safetensors file",
                   bytes.size());
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  if (length > kMaxHeaderBytes || length > bytes.size()) {
    return Invalid("a header of {} bytes, the file holds {} after its length",
                   length, bytes.size());
  }
  absl::StatusOr<json> header = ParseJsonObject(bytes.substr(0, length));
  if (!header.ok()) return Annotate(header.status(), "the header");
  std::string_view data = bytes.substr(length);
  auto weights = std::make_shared<WeightStore>();
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, json] : header->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<SafetensorsEntry> entry =
        ReadEntry(name, json, static_cast<int64_t>(data.size()));
    if (!entry.ok()) {
      return Annotate(entry.status(), fmt::format("tensor {}", name));
    }
    const char* first = data.data() + entry->begin;
    weights->Set(name, Tensor::View(entry->dtype, entry->shape,
                                    reinterpret_cast<const std::byte*>(first),
                                    file, first - file->bytes().data()));
    entries.push_back(*std::move(entry));
  }
  ASYRA_RETURN_IF_ERROR(CheckEachByteIsOfOne(
      std::move(entries), static_cast<int64_t>(data.size())));
  return weights;
}

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()),
          static_cast<size_t>(tensor.bytes())};
}

}  // namespace

const Tensor* WeightStore::Find(std::string_view name) const {
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void WeightStore::Set(std::string_view name, Tensor tensor) {
  tensors_.insert_or_assign(std::string(name), std::move(tensor));
}

absl::StatusOr<std::shared_ptr<const WeightStore>> ReadWeights(
    const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path));
  auto weights = ReadMapped(file);
  if (!weights.ok()) return Annotate(weights.status(), path);
  return weights;
}

absl::Status WriteWeights(const WeightStore& weights, const std::string& path) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : weights) {
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  }
  PlaceEntries(&entries);
  absl::StatusOr<std::string> header = SafetensorsHeader(entries);
  if (!header.ok()) return Annotate(header.status(), path);
  std::vector<std::string_view> pieces = {*header};
  std::vector<Tensor> whole;  // keeps those that are made
  for (const SafetensorsEntry& entry : entries) {
    ASYRA_ASSIGN_OR_RETURN(Tensor read, ReadWhole(*weights.Find(entry.name)));
    pieces.push_back(BytesOf(read));
    whole.push_back(std::move(read));
  }
  return WriteFileAtomically(path, pieces);
}

std::string WeightPathFor(const std::string& program_path) {
  constexpr std::string_view kSuffix = ".asyra";
  std::string_view stem = program_path;
  if (stem.size() > kSuffix.size() &&
      stem.substr(stem.size() - kSuffix.size()) == kSuffix) {
    stem.remove_suffix(kSuffix.size());
  }
  return fmt::format("{}.safetensors", stem);
}

}  // namespace asyra
