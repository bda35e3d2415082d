#include "executor/train/token_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "ir/support/hash.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHeaderWords = 256;
constexpr int64_t kHeaderBytes = kHeaderWords * sizeof(int32_t);
// Tokens that are read from the disk at a time.
constexpr int64_t kChunk = int64_t{1} << 16;

// Bytes that Identity reads of all files, in parts that are spread over each of
// them, and the fewest parts of a file.
constexpr int64_t kHashedBytes = int64_t{64} << 20;
constexpr int64_t kHashedPart = int64_t{64} << 10;
constexpr int64_t kLeastParts = 3;

// The kinds of llm.c's files, by their first word.
struct LlmcKind {
  int32_t magic, version;
  int64_t token_bytes;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

bool IsPattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

// The folder that all files of a pattern are in.
fs::path RootOf(const fs::path& pattern) {
  fs::path root;
  for (const fs::path& part : pattern.parent_path()) {
    if (IsPattern(part.string())) break;
    root /= part;
  }
  return root.empty() ? fs::path(".") : root;
}

// Returns whether `path` matches `pattern`, part by part: no wildcard goes
// beyond a folder, except "**", which is any number of folders. Names that
// begin with a dot are hidden from wildcards.
bool Matches(fs::path::iterator pattern, fs::path::iterator pattern_end,
             fs::path::iterator path, fs::path::iterator path_end) {
  for (; pattern != pattern_end; ++pattern, ++path) {
    if (*pattern == "**") {
      ++pattern;
      for (;; ++path) {
        if (Matches(pattern, pattern_end, path, path_end)) return true;
        bool hidden = path == path_end || path->native().starts_with('.');
        if (hidden) return false;
      }
    }
    if (path == path_end) return false;
    if (::fnmatch(pattern->c_str(), path->c_str(), FNM_PERIOD) != 0) {
      return false;
    }
  }
  return path == path_end;
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& text) {
  std::error_code error;
  // A name is a name, also where it looks like a pattern.
  if (!IsPattern(text) || fs::exists(text, error)) {
    return std::vector<std::string>{text};
  }
  fs::path pattern = fs::path(text).lexically_normal();
  std::vector<std::string> files;
  fs::path root = RootOf(pattern);
  fs::recursive_directory_iterator entries(root, error), end;
  auto parts = std::distance(pattern.begin(), pattern.end());
  bool any_depth = text.find("**") != std::string::npos;
  for (; !error && entries != end; entries.increment(error)) {
    fs::path path = entries->path().lexically_normal();
    bool deepest = std::distance(path.begin(), path.end()) >= parts;
    if (deepest && !any_depth) entries.disable_recursion_pending();
    if (Matches(pattern.begin(), pattern.end(), path.begin(), path.end()) &&
        entries->is_regular_file(error)) {
      files.push_back(entries->path().lexically_normal().string());
    }
  }
  if (error) return Invalid("{}: {}: {}", text, root.string(), error.message());
  if (files.empty()) return NotFound("{}: no file is called so", text);
  std::sort(files.begin(), files.end());
  return files;
}

struct Contents {
  int64_t header_bytes = 0, token_bytes = 1, tokens = 0;
};

absl::StatusOr<int64_t> TokensIn(int64_t bytes, int64_t token_bytes) {
  if (bytes % token_bytes == 0) return bytes / token_bytes;
  return Invalid("{} bytes are no whole number of uint{} tokens", bytes,
                 token_bytes * 8);
}

absl::StatusOr<Contents> ReadHeader(std::string_view bytes,
                                    const LlmcKind& kind) {
  auto size = static_cast<int64_t>(bytes.size());
  if (size < kHeaderBytes) {
    return Invalid("it ends in the header of a token file, at byte {} of {}",
                   size, kHeaderBytes);
  }
  int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof(header));
  if (header[1] != kind.version) {
    return Invalid("version {} of a token file, known is {}", header[1],
                   kind.version);
  }
  ASYRA_ASSIGN_OR_RETURN(int64_t have,
                         TokensIn(size - kHeaderBytes, kind.token_bytes));
  if (header[2] != have) {
    return Invalid("the header says {} tokens, there are {}", header[2], have);
  }
  return Contents{kHeaderBytes, kind.token_bytes, have};
}

absl::StatusOr<Contents> ContentsOf(std::string_view bytes, TokenForm form) {
  auto size = static_cast<int64_t>(bytes.size());
  if (form == TokenForm::kBytes) return Contents{0, 1, size};
  if (form == TokenForm::kAuto) {
    int32_t magic = 0;
    if (bytes.size() >= sizeof(magic)) {
      std::memcpy(&magic, bytes.data(), sizeof(magic));
    }
    for (const LlmcKind& kind : kLlmcKinds) {
      if (kind.magic == magic) return ReadHeader(bytes, kind);
    }
    return Contents{0, 1, size};
  }
  int64_t token = form == TokenForm::kU16 ? 2 : 4;
  ASYRA_ASSIGN_OR_RETURN(int64_t tokens, TokensIn(size, token));
  return Contents{0, token, tokens};
}

template <typename T>
void Widen(const std::byte* from, absl::Span<int64_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int64_t>(token);
  }
}

std::string FormText(const Contents& contents) {
  return contents.token_bytes == 1
             ? "bytes"
             : fmt::format("uint{} tokens", contents.token_bytes * 8);
}

}  // namespace

absl::StatusOr<TokenFiles> TokenFiles::Open(
    absl::Span<const std::string> patterns, TokenForm form) {
  TokenFiles files;
  Contents first;
  std::string first_path;
  for (const std::string& pattern : patterns) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> paths, FilesOf(pattern));
    for (const std::string& path : paths) {
      ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapped,
                             MappedFile::Open(path));
      absl::StatusOr<Contents> contents = ContentsOf(mapped->bytes(), form);
      if (!contents.ok()) return Annotate(contents.status(), path);
      // A file without tokens has no form.
      if (contents->tokens > 0) {
        if (first_path.empty()) {
          first = *contents;
          first_path = path;
        } else if (contents->token_bytes != first.token_bytes) {
          return Invalid("{} has {}, {} has {}", path, FormText(*contents),
                         first_path, FormText(first));
        }
      }
      files.files_.push_back({path, std::move(mapped), contents->header_bytes,
                              contents->token_bytes, files.size_,
                              contents->tokens});
      files.size_ += contents->tokens;
    }
  }
  if (files.files_.empty()) return Invalid("no file of tokens is named");
  files.is_bytes_ = first.token_bytes == 1;
  for (const File& file : files.files_) {
    // A text may be empty; a shard of tokens was not written to its end.
    bool may_be_empty = files.is_bytes_ && files.size_ > 0;
    if (file.size > 0 || may_be_empty) continue;
    return Invalid("{}: it has no tokens", file.path);
  }
  return files;
}

absl::Status TokenFiles::Read(int64_t begin, int64_t limit,
                              absl::Span<int64_t> to) const {
  auto file = std::upper_bound(
      files_.begin(), files_.end(), begin,
      [](int64_t at, const File& one) { return at < one.begin; });
  for (--file; !to.empty(); ++file) {
    int64_t at = begin - file->begin;
    auto count =
        std::min<int64_t>(file->size - at, static_cast<int64_t>(to.size()));
    absl::Span<int64_t> part = to.subspan(0, count);
    ASYRA_RETURN_IF_ERROR(ReadFrom(*file, at, part));
    for (int64_t i = 0; i < count; ++i) {
      if (part[i] < limit) continue;
      return Invalid("{}: token {} is {}, the model has {} of them", file->path,
                     at + i, part[i], limit);
    }
    begin += count;
    to.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status TokenFiles::ReadFrom(const File& file, int64_t at,
                                  absl::Span<int64_t> to) const {
  std::vector<std::byte> bytes(
      std::min<int64_t>(kChunk, static_cast<int64_t>(to.size())) *
      file.token_bytes);
  while (!to.empty()) {
    absl::Span<int64_t> part = to.subspan(0, kChunk);
    absl::Span<std::byte> raw(bytes.data(), part.size() * file.token_bytes);
    ASYRA_RETURN_IF_ERROR(
        file.mapped->Read(file.header_bytes + at * file.token_bytes, raw));
    if (file.token_bytes == 1) Widen<uint8_t>(raw.data(), part);
    if (file.token_bytes == 2) Widen<uint16_t>(raw.data(), part);
    if (file.token_bytes == 4) Widen<uint32_t>(raw.data(), part);
    at += static_cast<int64_t>(part.size());
    to.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenFiles::Identity() const {
  uint64_t hash = Fnv1a("");
  std::vector<std::byte> bytes;
  int64_t most = std::max(kLeastParts, kHashedBytes / kHashedPart /
                                           static_cast<int64_t>(files_.size()));
  for (const File& file : files_) {
    int64_t size = file.header_bytes + file.size * file.token_bytes;
    hash = Fnv1a(fmt::format("{} {} ", size, file.token_bytes), hash);
    int64_t parts = std::min(most, (size + kHashedPart - 1) / kHashedPart);
    int64_t last = std::max<int64_t>(0, size - kHashedPart);
    for (int64_t i = 0; i < parts; ++i) {
      // Parts of a file that is read as a whole overlap.
      int64_t at = parts == 1 ? 0 : last * i / (parts - 1);
      bytes.resize(std::min(kHashedPart, size - at));
      ASYRA_RETURN_IF_ERROR(file.mapped->Read(at, absl::MakeSpan(bytes)));
      hash = Fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                   hash);
    }
  }
  return fmt::format("{} {} in {} {}, hash {:016x}", size_,
                     is_bytes_ ? "bytes" : "tokens", files_.size(),
                     files_.size() == 1 ? "file" : "files", hash);
}

absl::StatusOr<int64_t> TokenFiles::Largest() const {
  std::vector<int64_t> tokens(std::min(size_, kChunk));
  int64_t largest = 0;
  for (int64_t at = 0; at < size_; at += kChunk) {
    absl::Span<int64_t> part(tokens.data(), std::min(kChunk, size_ - at));
    ASYRA_RETURN_IF_ERROR(Read(at, INT64_MAX, part));
    largest = std::max(largest, *std::max_element(part.begin(), part.end()));
  }
  return largest;
}

}  // namespace asyra
