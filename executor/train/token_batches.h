// Inputs of a training's programs for each step, made from files of tokens:
// tokens, labels, and what goes with them.
#pragma once

#include <memory>
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

// One rank's batches of one program. Used by one thread. The label of a token
// is the next one; where the model itself compares each token with a later one
// (label_shift.h), labels are the tokens.
class TokenBatches {
 public:
  // Opens batches; sets `limit` of `options`. Errors: those of TokensOf and of
  // TokenReader; labels of another type or shape than those of the tokens; an
  // input that is neither tokens, labels, `rate`, a mask nor positions.
  static absl::StatusOr<std::unique_ptr<TokenBatches>> Open(
      std::shared_ptr<const TokenFiles> files, const Program& program,
      int64_t device, TokenReaderOptions options = {});

  // This rank's data inputs without `rate`, in the order of the program; those
  // of Trainer::inputs. Errors: those of TokenReader::Next.
  absl::StatusOr<std::vector<Tensor>> Next();

  // Returns the position behind the batches so far, for a checkpoint.
  DataPlace place() const { return {tokens_->position(), tokens_->order()}; }
  // Goes on where another run of the same files was. Error: its data was in
  // another order; both are named.
  absl::Status GoOnFrom(const DataPlace& place);

  // The same as of TokenReader.
  void Seek(int64_t position);
  int64_t windows() const { return tokens_->windows(); }
  int64_t epoch() const { return tokens_->epoch(); }
  // Returns whether labels are the tokens.
  bool model_shifts() const { return model_shifts_; }

 private:
  enum class Kind : uint8_t { kTokens, kLabels, kFixed };
  struct Part {
    Kind kind;
    Tensor fixed;  // the same in each batch
  };
  TokenBatches() = default;

  std::vector<Part> parts_;
  std::unique_ptr<TokenReader> tokens_;
  // Reader of labels that are sharded in another way than tokens; else null.
  std::unique_ptr<TokenReader> labels_;
  bool model_shifts_ = false;
};

}  // namespace asyra
