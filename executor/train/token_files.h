// Tokens in files: the data that a model is trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/support/mapped_file.h"

namespace asyra {

enum class TokenForm : uint8_t {
  // Form by the header: a file of llm.c (256 int32: 20240520, version 1,
  // tokens; then uint16 each; or 20240801, version 7, then uint32), else bytes.
  kAuto,
  kBytes,  // each byte of any file is a token
  kU16,    // uint16 without a header, little-endian
  kU32,
};

// Files one behind the other as one sequence of tokens, which are read when
// they are asked for.
// Thread-safe.
class TokenFiles {
 public:
  // Files by name or by pattern (`*`, `?` and `[...]`, as in a shell; "**" for
  // folders in folders), each pattern's in the order of their names.
  // Errors, naming the file: the system's; a pattern without a file; a header
  // that says another number of tokens than there are, or another version; a
  // size that is no whole number of tokens; files of different forms; a file
  // without tokens beside others that are not bytes; none has a token.
  static absl::StatusOr<TokenFiles> Open(absl::Span<const std::string> patterns,
                                         TokenForm form = TokenForm::kAuto);

  int64_t size() const { return size_; }  // tokens of all files
  bool is_bytes() const { return is_bytes_; }
  size_t num_files() const { return files_.size(); }

  // Fills `to` with the tokens from `begin` on; they exist. Errors: a disk that
  // cannot be read; a token of `limit` or more, naming file and position.
  absl::Status Read(int64_t begin, int64_t limit, absl::Span<int64_t> to) const;

  // Equal for the same tokens, whatever their files are called: "20000 bytes in
  // 1 file, hash 0123456789abcdef", in which go the size of each file, the size
  // of its tokens and its bytes: all of a file that has no more than its
  // share of 64 MiB, or else parts of 64 KiB that are spread over it. Errors: a
  // disk that cannot be read.
  absl::StatusOr<std::string> Identity() const;

  // Returns the largest token of all; reads everything.
  absl::StatusOr<int64_t> Largest() const;

 private:
  struct File {
    std::string path;
    std::shared_ptr<const MappedFile> mapped;
    int64_t header_bytes = 0, token_bytes = 1;
    int64_t begin = 0, size = 0;  // tokens: of the files before, of this one
  };
  // Reads from one file, from its token `at` on.
  absl::Status ReadFrom(const File& file, int64_t at,
                        absl::Span<int64_t> to) const;

  std::vector<File> files_;
  int64_t size_ = 0;
  bool is_bytes_ = true;
};

}  // namespace asyra
