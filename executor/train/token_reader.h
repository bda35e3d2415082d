// Batches of tokens for one rank of a run, read ahead by a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/train/token_files.h"
#include "ir/tensor.h"

namespace asyra {

// Some of the windows that the files consist of: window i is the tokens from
// i * length on, and one more as the label of its last token.
struct WindowRange {
  int64_t first = 0;
  int64_t count = -1;  // to the last one
};

struct TokenReaderOptions {
  // An epoch takes each window once, in an order that follows from the seed
  // and the epoch's number, or one behind the other.
  bool shuffle = false;
  int64_t seed = 1;
  WindowRange windows;
  // The model's tokens: larger ones are errors.
  int64_t limit = INT64_MAX;
  // The last token of each document, if batches have their starts.
  std::optional<int64_t> document_end = {};
  // Batches that are ready before they are asked for.
  int prefetch = 2;
};

// Windows of the files, of which a batch of the whole run takes as many as it
// has rows; each rank reads its rows and columns of them alone. Which windows a
// batch has depends on its position only, not on the mesh. A batch may end one
// epoch and begin the next. Used by one thread.
class TokenReader {
 public:
  // `tokens` is the type of the program's input, i64 [rows, length], whose
  // axes say what `device` gets of it. The labels are of the same type.
  // Errors: another type; fewer tokens than a window and one more; a range
  // beyond the windows; all numbers are named.
  static absl::StatusOr<std::unique_ptr<TokenReader>> Open(
      std::shared_ptr<const TokenFiles> files, const Type& tokens,
      const Mesh& mesh, int64_t device, const TokenReaderOptions& options = {});
  virtual ~TokenReader() = default;

  struct Batch {
    // This rank's parts, i64 [rows, length]. Starts are the places in the
    // window where the tokens' documents begin; empty without document_end.
    Tensor tokens, labels, starts;
    int64_t column = 0;  // of the window, where they begin
  };
  // Returns the batch at position(), which then goes on by the rows of a batch.
  // Errors: those of TokenFiles::Read.
  virtual absl::StatusOr<Batch> Next() = 0;

  // Windows that the batches so far have taken. Saved and given to Seek, a
  // reader of the same files and seed goes on with the same batches, on any
  // mesh.
  virtual int64_t position() const = 0;
  virtual void Seek(int64_t position) = 0;

  virtual int64_t windows() const = 0;  // of an epoch
  // "1000 windows of 64 tokens, shuffled by seed 7": readers of the same files
  // that say the same take the same windows.
  virtual const std::string& order() const = 0;
  int64_t epoch() const { return position() / windows(); }
};

// Returns how many documents windows of `length` tokens have, about, at least
// 1, where each document ends with token `end`. Reads parts that are spread
// over the files, a million tokens of them. Errors: those of TokenFiles::Read.
absl::StatusOr<int64_t> DocumentsOfAWindow(const TokenFiles& files, int64_t end,
                                           int64_t length);

// Returns the number of windows of `length` in the files.
int64_t NumWindows(const TokenFiles& files, int64_t length);

}  // namespace asyra
