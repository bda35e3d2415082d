#include "frontends/onnx/dim_expression.h"

#include <algorithm>
#include <charconv>

#include "ir/support/status.h"

namespace asyra::onnx_import {
namespace {

constexpr int kMostDepth = 100;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool BeginsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

int64_t FloorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Evaluates by recursive descent; text that is no expression is an error too.
class Parser {
 public:
  // `checks_only`: sizes are not known, and quotients do not matter.
  Parser(std::string_view text,
         const std::function<int64_t(const std::string&)>& size_of,
         bool checks_only)
      : text_(text), size_of_(size_of), checks_only_(checks_only) {}

  absl::StatusOr<int64_t> Parse() {
    ASYRA_ASSIGN_OR_RETURN(int64_t value, Sum());
    if (Peek() != 0) return NoExpression();
    return value;
  }
  // Something besides a name or a number.
  bool has_operator() const { return has_operator_; }

 private:
  absl::Status NoExpression() const {
    return Invalid("'{}' is no expression of sizes", text_);
  }
  absl::Status TooLarge() const {
    return Invalid("'{}' is more than 2^63-1", text_);
  }

  // The next character that is no space, or 0.
  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }
  bool Take(std::string_view word) {
    Peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  absl::StatusOr<int64_t> Sum() {
    ASYRA_ASSIGN_OR_RETURN(int64_t value, Product());
    for (;;) {
      bool minus = Take("-");
      if (!minus && !Take("+")) return value;
      has_operator_ = true;
      ASYRA_ASSIGN_OR_RETURN(int64_t other, Product());
      if (minus ? __builtin_sub_overflow(value, other, &value)
                : __builtin_add_overflow(value, other, &value)) {
        return TooLarge();
      }
    }
  }

  absl::StatusOr<int64_t> Product() {
    ASYRA_ASSIGN_OR_RETURN(int64_t value, Factor());
    for (;;) {
      bool floor = Take("//"), exact = !floor && Take("/"),
           rest = !floor && !exact && Take("%");
      if (!floor && !exact && !rest && !Take("*")) return value;
      has_operator_ = true;
      ASYRA_ASSIGN_OR_RETURN(int64_t other, Factor());
      ASYRA_ASSIGN_OR_RETURN(value, floor || exact || rest
                                        ? Divided(value, other, exact, rest)
                                        : Times(value, other));
    }
  }

  absl::StatusOr<int64_t> Times(int64_t a, int64_t b) const {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return TooLarge();
    return product;
  }

  absl::StatusOr<int64_t> Divided(int64_t a, int64_t b, bool exact,
                                  bool rest) const {
    if (checks_only_) return a;
    if (b == 0) return Invalid("'{}' divides by 0", text_);
    if (b == -1) return rest ? 0 : Times(a, -1);
    int64_t quotient = FloorDivide(a, b);
    if (rest) return a - quotient * b;
    if (exact && floors_ == 0 && quotient * b != a) {
      return Invalid("'{}' divides {} by {}, which leaves a remainder", text_,
                     a, b);
    }
    return quotient;
  }

  absl::StatusOr<int64_t> Factor() {
    if (++depth_ > kMostDepth) return NoExpression();
    absl::StatusOr<int64_t> value = FactorAt(Peek());
    --depth_;
    return value;
  }

  absl::StatusOr<int64_t> FactorAt(char c) {
    if (Take("(")) return Closed(Sum());
    if (Take("-")) {
      has_operator_ = true;
      ASYRA_ASSIGN_OR_RETURN(int64_t value, Factor());
      return Times(value, -1);
    }
    if (IsDigit(c)) return Number();
    if (!BeginsName(c)) return NoExpression();
    size_t begin = at_;
    while (at_ < text_.size() && (BeginsName(text_[at_]) ||
                                  IsDigit(text_[at_]) || text_[at_] == '.')) {
      ++at_;
    }
    std::string name(text_.substr(begin, at_ - begin));
    if (Take("(")) return Call(name);
    return size_of_(name);
  }

  absl::StatusOr<int64_t> Closed(absl::StatusOr<int64_t> value) {
    if (value.ok() && !Take(")")) return NoExpression();
    return value;
  }

  absl::StatusOr<int64_t> Number() {
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return TooLarge();
    at_ += end - begin;
    // "2x" is a name that begins with a digit.
    if (at_ < text_.size() && BeginsName(text_[at_])) return NoExpression();
    return value;
  }

  absl::StatusOr<int64_t> Call(const std::string& name) {
    has_operator_ = true;
    if (name == "floor") {
      ++floors_;
      absl::StatusOr<int64_t> value = Closed(Sum());
      --floors_;
      return value;
    }
    bool max = name == "Max";
    if (!max && name != "Min") return NoExpression();
    ASYRA_ASSIGN_OR_RETURN(int64_t value, Sum());
    while (Take(",")) {
      ASYRA_ASSIGN_OR_RETURN(int64_t other, Sum());
      value = max ? std::max(value, other) : std::min(value, other);
    }
    return Closed(value);
  }

  const std::string_view text_;
  const std::function<int64_t(const std::string&)>& size_of_;
  const bool checks_only_;
  size_t at_ = 0;
  int depth_ = 0, floors_ = 0;
  bool has_operator_ = false;
};

}  // namespace

std::optional<std::vector<std::string>> NamesInDim(std::string_view text) {
  std::vector<std::string> names;
  std::function<int64_t(const std::string&)> note =
      [&](const std::string& name) -> int64_t {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
    return 0;
  };
  Parser parser(text, note, /*checks_only=*/true);
  bool parsed = parser.Parse().ok();
  if (!parsed || !parser.has_operator() || names.empty()) return std::nullopt;
  return names;
}

absl::StatusOr<int64_t> ValueOfDim(
    std::string_view text,
    const std::function<int64_t(const std::string&)>& size_of) {
  return Parser(text, size_of, /*checks_only=*/false).Parse();
}

}  // namespace asyra::onnx_import
