// Inputs of a training's programs for each step, made from files of tokens:
// tokens, labels, and what goes with them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/train/data_place.h"
#include "executor/train/token_files.h"
#include "executor/train/token_reader.h"
#include "ir/program.h"

namespace asyra {

// Returns the integer data input that holds the tokens, [rows, length]. Errors:
// none, or several.
absl::StatusOr<const Input*> TokensOf(const Program& program);

// Returns the rows of the smallest table that `tokens` themselves look up: each
// token is below it. Tables of positions do not count. INT64_MAX where there is
// none.
int64_t TokenLimit(const Program& program, ValueId tokens);

// Returns the classes of the logits whose labels are given with each batch:
// each of them is below it, as far as the program says. Labels that the program
// has or computes do not count. INT64_MAX where no cross entropy has any.
int64_t ClassLimit(const Program& program);

// Returns an input that is the same in each batch of `tokens` [rows, length],
// whole: `attention_mask`, integers of the tokens' shape, ones for tokens that
// are seen, which all are; `position_ids`, integers [..., length], 0 to length
// - 1.
// Error: another name, or another type or shape; both are named.
absl::StatusOr<Tensor> FixedInput(const std::string& name, const Type& type,
                                  const Type& tokens);

// Returns the label without loss of the cross entropy whose labels are given
// with each batch; none where there is no such label, or several.
std::optional<int64_t> IgnoredLabel(const Program& program);

// One rank's batches of one program. Used by one thread. The label of a token
// is the next one; where the model itself compares each token with a later one
// (label_shift.h), labels are the tokens.
//
// With `document_end`, input `document_starts` (passes/raise/mask_documents.h)
// is filled, `position_ids` begin anew in each document, and where a label can
// be ignored, no token has that of another document.
class TokenBatches {
 public:
  // Opens batches; sets `limit` of `options`. Errors: those of TokensOf and of
  // TokenReader; labels, starts or, with document_end, positions of another
  // type or shape than those of the tokens, starts without document_end and the
  // other way round; an input that is neither tokens, labels, `rate`, a mask,
  // starts nor positions.
  static absl::StatusOr<std::unique_ptr<TokenBatches>> Open(
      std::shared_ptr<const TokenFiles> files, const Program& program,
      int64_t device, TokenReaderOptions options = {});

  // This rank's data inputs without `rate`, in the order of the program; those
  // of Trainer::inputs. Errors: those of TokenReader::Next.
  absl::StatusOr<std::vector<Tensor>> Next();

  // Returns the position behind the batches so far, for a checkpoint.
  DataPlace place() const { return {tokens().position(), tokens().order()}; }
  // Goes on where another run of the same files was. Error: its data was in
  // another order; both are named.
  absl::Status GoOnFrom(const DataPlace& place);

  // The same as of TokenReader.
  void Seek(int64_t position);
  int64_t windows() const { return tokens().windows(); }
  int64_t epoch() const { return tokens().epoch(); }
  // Returns whether labels are the tokens.
  bool model_shifts() const { return model_shifts_; }

 private:
  enum class Kind : uint8_t { kTokens, kLabels, kStarts, kPlaces, kFixed };
  struct Part {
    Kind kind;
    // The same in each batch; of places, those in rows of one document.
    Tensor fixed = {};
    size_t reader = 0;  // of what is not fixed
  };
  TokenBatches() = default;
  const TokenReader& tokens() const { return *readers_[0]; }
  // The arguments of Open, and the types that readers_ read.
  struct Source;
  absl::StatusOr<Part> PartOf(const Input& input, const Input& tokens,
                              Source& source);
  // Returns the number of the reader of rows that are sharded like `type`.
  absl::StatusOr<size_t> ReaderOf(const Type& type, Source& source);
  Tensor ValueOf(const Part& part, const TokenReader::Batch& batch) const;
  Tensor LabelsOf(const TokenReader::Batch& batch) const;

  std::vector<Part> parts_;
  // The first one of the tokens, others of inputs that are sharded in other
  // ways.
  std::vector<std::unique_ptr<TokenReader>> readers_;
  bool model_shifts_ = false;
  // The last token of a document, and the label for one of another document.
  std::optional<int64_t> document_end_, ignored_;
};

}  // namespace asyra
