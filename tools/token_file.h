// Files of tokens that a model is trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

// Tokens in a row: a file of llm.c (a header of 256 int32, of which the first
// three are 20240520, the version 1 and the number of tokens; then uint16
// each), or any other file, whose bytes are tokens.
class TokenFile {
 public:
  // Errors: the system's; a header that says more tokens than there are.
  static absl::StatusOr<TokenFile> Open(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t largest() const { return largest_; }
  bool is_bytes() const { return is_bytes_; }

  struct Batch {
    Tensor tokens, labels;  // i64 [rows, length]; labels are one token on
  };
  // Rows one behind the other, batch after batch; from the beginning again
  // where less than a batch is left. Error: the file is shorter than one.
  absl::StatusOr<Batch> At(int64_t batch, int64_t rows, int64_t length) const;

 private:
  std::vector<uint16_t> tokens_;
  int64_t largest_ = 0;
  bool is_bytes_ = true;
};

}  // namespace asyra
