#include "ir/lexer.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool IsValueName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameChar);
}

bool IsName(std::string_view text) {
  return IsValueName(text) && IsNameStart(text[0]);
}

void Lexer::Advance(size_t count) {
  for (size_t i = 0; i < count; ++i, ++at_) {
    ++column_;
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 1;
    }
  }
}

void Lexer::SkipSpace() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
      Advance(1);
    } else if (text_.substr(at_, 2) == "//") {
      size_t end = text_.find('\n', at_);
      Advance((end == std::string_view::npos ? text_.size() : end) - at_);
    } else {
      return;
    }
  }
}

void Lexer::Next() {
  SkipSpace();
  token_ = {Token::kEnd, "", line_, column_};
  if (at_ == text_.size()) return;
  char c = text_[at_];
  auto word_from = [&](size_t from) {
    size_t end = from;
    while (end < text_.size() && IsNameChar(text_[end])) ++end;
    return end;
  };
  size_t end = at_ + 1;
  size_t skip = 0;
  if ((c == '%' || c == '@') && word_from(at_ + 1) > at_ + 1 &&
      (c == '%' || IsNameStart(text_[at_ + 1]))) {
    token_.kind = c == '%' ? Token::kValue : Token::kSymbol;
    end = word_from(at_ + 1);
    skip = 1;
  } else if (IsNameStart(c)) {
    token_.kind = Token::kName;
    end = word_from(at_);
  } else if (IsDigit(c) ||
             (c == '-' && at_ + 1 < text_.size() &&
              (IsDigit(text_[at_ + 1]) || text_[at_ + 1] == 'i'))) {
    token_.kind = Token::kNumber;  // "-inf" included
    while (end < text_.size() && (IsNameChar(text_[end]) ||
                                  ((text_[end] == '-' || text_[end] == '+') &&
                                   text_[end - 1] == 'e'))) {
      ++end;
    }
  } else if (c == '"') {
    token_.kind = Token::kString;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
      if (text_[end] == '\\' && end + 1 < text_.size()) {
        ++end;
        token_.text += text_[end] == 'n' ? '\n' : text_[end];
      } else {
        token_.text += text_[end];
      }
      ++end;
    }
    if (end >= text_.size() || text_[end] != '"') {
      token_.kind = Token::kError;
      token_.text = "a string without end";
      Advance(text_.size() - at_);
      return;
    }
    Advance(end + 1 - at_);
    return;
  } else {
    token_.kind = Token::kPunct;
    if (text_.substr(at_, 2) == "->") end = at_ + 2;
  }
  token_.text = text_.substr(at_ + skip, end - at_ - skip);
  Advance(end - at_);
}

std::string QuotedText(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

Token Lexer::Take() {
  Token token = std::move(token_);
  Next();
  return token;
}

bool Lexer::TryPunct(std::string_view punct) {
  if (token_.kind != Token::kPunct || token_.text != punct) return false;
  Next();
  return true;
}

bool Lexer::TryWord(std::string_view word) {
  if (token_.kind != Token::kName || token_.text != word) return false;
  Next();
  return true;
}

absl::Status Lexer::ErrorAt(const Token& token, std::string_view what) const {
  return Invalid("line {}, column {}: {}", token.line, token.column, what);
}

absl::Status Lexer::Error(std::string_view what) const {
  if (token_.kind == Token::kError) return ErrorAt(token_, token_.text);
  // Names the expected and the actual token.
  if (what.find("expected") == std::string_view::npos) {
    return ErrorAt(token_, what);
  }
  std::string_view found =
      token_.kind == Token::kEnd ? "the end" : std::string_view(token_.text);
  return ErrorAt(token_, fmt::format("{}, found '{}'", what, found));
}

}  // namespace asyra
