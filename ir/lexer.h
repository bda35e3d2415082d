// Tokens of the text form.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace asyra {

struct Token {
  enum Kind {
    kEnd,
    kName,    // words: tp, matmul, layer0.q, on
    kValue,   // %name, without the %
    kSymbol,  // @name, without the @; a bare @ is kPunct
    kNumber,  // 12, -3, 1.5e-6
    kString,  // unescaped
    kPunct,   // one character, or ->
    kError,
  } kind = kEnd;
  std::string text;
  int line = 1;
  int column = 1;
};

// Returns whether `text` is one word: the name of a stream, an axis or a
// program.
bool IsName(std::string_view text);
// The same after a '%', where digits may come first.
bool IsValueName(std::string_view text);
// The text as a kString that the lexer reads back.
std::string QuotedText(std::string_view text);

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { Next(); }
  // The token to be read next.
  const Token& peek() const { return token_; }
  Token Take();
  // Takes the token when it is that punctuation or word.
  bool TryPunct(std::string_view punct);
  bool TryWord(std::string_view word);
  // "line 3, column 7: ..."
  absl::Status Error(std::string_view what) const;
  absl::Status ErrorAt(const Token& token, std::string_view what) const;

 private:
  void Next();
  void SkipSpace();
  void Advance(size_t count);
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  Token token_;
};

}  // namespace asyra
