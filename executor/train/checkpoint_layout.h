// The layout of the files of a checkpoint: the place of each tensor follows
// from the names and types of all values, so that ranks need not tell each
// other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/train/checkpoint.h"

namespace asyra {

inline constexpr char kCheckpointPrefix[] = "step-";
inline constexpr char kCheckpointJson[] = "checkpoint.json";
inline constexpr int kCheckpointFormat = 1;
// Params, and states of the optimizer, which readers of models leave alone.
inline constexpr std::string_view kCheckpointGroups[] = {"model", "state"};

// "step-00001000".
std::string CheckpointName(int64_t step);
// "model.safetensors.index.json".
std::string IndexName(std::string_view group);

struct CheckpointLayout {
  struct File {
    std::string name;    // "model-00001-of-00002.safetensors"
    std::string header;  // its first bytes; data follows
    int64_t bytes = 0;   // of the whole file
  };
  std::vector<File> files;
  // Places by value: the file and where the tensor begins in it.
  struct Place {
    size_t file = 0;
    int64_t offset = 0;
  };
  std::vector<Place> places;
  // JSON of the groups that have values: name of the file, and its bytes.
  struct Index {
    std::string name, text;
  };
  std::vector<Index> indices;
};

// Errors: a value that is named twice or in no UTF-8, that is partial, or of
// which more is stored than there is.
absl::StatusOr<CheckpointLayout> LayOutCheckpoint(
    absl::Span<const CheckpointValue> values, int64_t max_file_bytes);

// The CRC-32 of the bytes of each tensor, by name.
using TensorChecksums = std::map<std::string, uint32_t>;

// The text of checkpoint.json, and back. Errors, without the file's name: no
// JSON, another format, a field that is missing, another checksum of the text
// itself.
std::string CheckpointJson(const CheckpointInfo& info,
                           const CheckpointLayout& layout,
                           const TensorChecksums& checksums);
struct CheckpointContents {
  CheckpointInfo info;
  struct File {
    std::string name;
    int64_t bytes = 0;
  };
  std::vector<File> files;
  std::optional<TensorChecksums> checksums;  // none: an older writer's
};
absl::StatusOr<CheckpointContents> ParseCheckpointJson(const std::string& text);

}  // namespace asyra
