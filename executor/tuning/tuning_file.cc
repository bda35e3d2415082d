#include "executor/tuning/tuning_file.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr std::string_view kFirstLine = "asyra tuning 1";

// The line without its end; false where there is none.
bool TakeLine(std::string_view* text, std::string_view* line) {
  size_t end = text->find('\n');
  if (end == std::string_view::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  return true;
}

bool TakeBytes(std::string_view* text, uint64_t count, std::string* bytes) {
  if (count > text->size()) return false;
  *bytes = std::string(text->substr(0, count));
  text->remove_prefix(count);
  return true;
}

std::string SummaryOf(size_t entries, std::string_view body) {
  return fmt::format("{} entries, {} bytes, {:016x}", entries, body.size(),
                     Fnv1a(body));
}

bool TakeEntry(std::string_view* text, CacheEntry* entry) {
  std::string_view line;
  if (!TakeLine(text, &line)) return false;
  std::vector<std::string> words = absl::StrSplit(std::string(line), ' ');
  uint64_t key = 0, value = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &key) ||
      !absl::SimpleAtoi(words[2], &value)) {
    return false;
  }
  entry->kind = std::string(words[0]);
  return TakeBytes(text, key, &entry->key) &&
         TakeBytes(text, value, &entry->value);
}

}  // namespace

std::string ToBytes(const TuningFile& file) {
  std::string body;
  for (const CacheEntry& entry : file.entries) {
    body += fmt::format("{} {} {}\n", entry.kind, entry.key.size(),
                        entry.value.size());
    body += entry.key;
    body += entry.value;
  }
  return fmt::format("{}\n{}\n{}\n", kFirstLine, file.identity,
                     SummaryOf(file.entries.size(), body)) +
         body;
}

absl::StatusOr<TuningFile> ParseTuningFile(std::string_view bytes) {
  TuningFile file;
  std::string_view line, identity, summary;
  if (!TakeLine(&bytes, &line) || line != kFirstLine) {
    return Invalid("it begins with '{}', not with '{}'", line.substr(0, 40),
                   kFirstLine);
  }
  if (!TakeLine(&bytes, &identity) || !TakeLine(&bytes, &summary)) {
    return Invalid("it is cut short");
  }
  file.identity = std::string(identity);
  std::string_view rest = bytes;
  CacheEntry entry;
  while (!rest.empty() && TakeEntry(&rest, &entry)) {
    file.entries.push_back(std::move(entry));
  }
  std::string is = SummaryOf(file.entries.size(), bytes);
  if (rest.empty() && is == summary) return file;
  return Invalid("it is cut short or changed: it has {}, it should have {}", is,
                 summary);
}

absl::Status CheckServes(const TuningFile& file, std::string_view identity) {
  if (file.identity == identity) return absl::OkStatus();
  return Invalid("it is for '{}', the device is '{}'", file.identity, identity);
}

}  // namespace asyra
