#include "tests/attacks/damage.h"

#include <algorithm>
#include <cctype>

namespace asyra {
namespace {

// Numbers at the edges of types, and beyond; and words that have a meaning.
constexpr std::string_view kWords[] = {"0",
                                       "-1",
                                       "1",
                                       "2",
                                       "3",
                                       "7",
                                       "16",
                                       "255",
                                       "1000000",
                                       "2147483647",
                                       "2147483648",
                                       "4294967296",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "9223372036854775808",
                                       "1e308",
                                       "1e-308",
                                       "-0.0",
                                       "nan",
                                       "inf",
                                       "0.5",
                                       "",
                                       "[]",
                                       "{}",
                                       "null",
                                       "true",
                                       "\"\"",
                                       "f32",
                                       "bf16",
                                       "i64",
                                       "bool",
                                       "f64",
                                       "tp",
                                       "dp",
                                       "%x",
                                       "compute",
                                       "start",
                                       "wait",
                                       "state",
                                       "weight",
                                       "param",
                                       "partial(tp)",
                                       "@tp",
                                       "f32[0]",
                                       "f32[]",
                                       "matmul",
                                       "all_gather",
                                       "all_reduce",
                                       "reshape",
                                       "transpose",
                                       "concat",
                                       "alias",
                                       "after"};

using Random = std::mt19937_64;

size_t Below(Random& random, size_t limit) {
  return limit == 0 ? 0 : random() % limit;
}

// A run of letters and digits at or after `at`: its begin and end.
std::pair<size_t, size_t> WordAt(const std::string& bytes, size_t at,
                                 bool digits) {
  auto is = [&](char c) {
    auto byte = static_cast<unsigned char>(c);
    return digits ? std::isdigit(byte) != 0 : std::isalnum(byte) != 0;
  };
  while (at < bytes.size() && !is(bytes[at])) ++at;
  size_t end = at;
  while (end < bytes.size() && is(bytes[end])) ++end;
  while (at > 0 && at < end && is(bytes[at - 1])) --at;
  return {at, end};
}

void ChangeBytes(std::string* bytes, Random& random) {
  size_t at = Below(random, bytes->size());
  for (size_t count = 1 + Below(random, 4); count > 0; --count) {
    if (at >= bytes->size()) return;
    (*bytes)[at++] = static_cast<char>(random());
  }
}

void ChangeBit(std::string* bytes, Random& random) {
  if (bytes->empty()) return;
  (*bytes)[Below(random, bytes->size())] ^=
      static_cast<char>(1 << (random() % 8));
}

void ReplaceWord(std::string* bytes, Random& random, bool digits) {
  auto [begin, end] = WordAt(*bytes, Below(random, bytes->size()), digits);
  if (begin == end) return;
  bytes->replace(begin, end - begin, kWords[Below(random, std::size(kWords))]);
}

// Puts another word of the file in its place.
void SwapWords(std::string* bytes, Random& random) {
  auto [from, from_end] = WordAt(*bytes, Below(random, bytes->size()), false);
  std::string word = bytes->substr(from, from_end - from);
  auto [to, to_end] = WordAt(*bytes, Below(random, bytes->size()), false);
  if (to < to_end) bytes->replace(to, to_end - to, word);
}

void MoveRange(std::string* bytes, Random& random) {
  size_t at = Below(random, bytes->size());
  std::string range = bytes->substr(at, 1 + Below(random, 64));
  if (random() % 2 == 0) bytes->erase(at, range.size());
  bytes->insert(Below(random, bytes->size() + 1), range);
}

// Lines are what text programs are made of.
void MoveLine(std::string* bytes, Random& random) {
  auto line_at = [&](size_t at) {
    size_t begin = bytes->rfind('\n', at);
    return begin == std::string::npos ? 0 : begin + 1;
  };
  size_t from = line_at(Below(random, bytes->size()));
  size_t end = std::min(bytes->find('\n', from), bytes->size());
  std::string line = bytes->substr(from, end - from) + "\n";
  if (random() % 2 == 0) bytes->erase(from, line.size());
  bytes->insert(line_at(Below(random, bytes->size())), line);
}

void DamageOnce(std::string* bytes, Random& random) {
  switch (random() % 9) {
    case 0:
      return ChangeBytes(bytes, random);
    case 1:
      return ChangeBit(bytes, random);
    case 2:
    case 3:
      return ReplaceWord(bytes, random, /*digits=*/true);
    case 4:
      return ReplaceWord(bytes, random, /*digits=*/false);
    case 5:
      return SwapWords(bytes, random);
    case 6:
      return MoveRange(bytes, random);
    case 7:
      return MoveLine(bytes, random);
    default:
      if (random() % 4 == 0) bytes->resize(Below(random, bytes->size()));
  }
}

}  // namespace

std::string Damage(std::string bytes, uint64_t seed) {
  Random random(seed);
  do {
    DamageOnce(&bytes, random);
  } while (random() % 3 == 0);
  return bytes;
}

}  // namespace asyra
