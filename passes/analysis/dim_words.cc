#include "passes/analysis/dim_words.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"

namespace asyra {
namespace {

constexpr std::string_view kBatch[] = {"batch", "batches", "batchsize", "bs",
                                       "bsz"};

constexpr std::string_view kSequence[] = {
    "seq",    "sequence", "seqlen", "time", "timestep", "timesteps", "token",
    "tokens", "frame",    "frames", "past", "len",      "length"};

// Words that do not decide between the dimensions.
constexpr std::string_view kQualifiers[] = {
    // how many
    "size", "num", "nb", "n", "number", "count", "total", "max", "min", "dim",
    "axis", "dynamic", "padded", "packed", "new", "current", "present",
    // of what
    "cache", "kv", "key", "query", "encoder", "decoder", "enc", "dec", "source",
    "target", "src", "tgt", "input", "output", "in", "out", "text", "audio",
    "image", "video", "speech", "prompt", "context"};

std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words;
  bool inside = false, small = false;
  for (char c : name) {
    bool letter = absl::ascii_isalpha(c);
    bool begins = letter && (!inside || (small && absl::ascii_isupper(c)));
    if (begins) words.emplace_back();
    if (letter) words.back() += absl::ascii_tolower(c);
    inside = letter;
    small = letter && absl::ascii_islower(c);
  }
  return words;
}

}  // namespace

DimLabel LabelOfName(std::string_view name) {
  if (absl::c_linear_search(name, '*')) return DimLabel::kNone;
  bool batch = false, sequence = false;
  for (const std::string& word : WordsOf(name)) {
    if (absl::c_linear_search(kBatch, word)) {
      batch = true;
    } else if (absl::c_linear_search(kSequence, word)) {
      sequence = true;
    } else if (!absl::c_linear_search(kQualifiers, word)) {
      return DimLabel::kNone;
    }
  }
  if (batch == sequence) return DimLabel::kNone;
  return batch ? DimLabel::kBatch : DimLabel::kSequence;
}

}  // namespace asyra
