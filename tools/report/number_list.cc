#include "tools/report/number_list.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using nlohmann::json;

// Numbers of one kind, by rows: i64 unless one of them is no integer.
class Numbers {
 public:
  bool Add(const std::string& word) {
    int64_t integer = 0;
    double real = 0;
    if (word == "true" || word == "false") {
      integer = word == "true";
      real = static_cast<double>(integer);
    } else if (absl::SimpleAtoi(word, &integer)) {
      real = static_cast<double>(integer);
    } else if (absl::SimpleAtod(word, &real)) {
      integers_only_ = false;
    } else {
      return false;
    }
    integers_.push_back(integer);
    reals_.push_back(real);
    return true;
  }

  int64_t size() const { return static_cast<int64_t>(reals_.size()); }

  Tensor InShape(const Shape& shape) const {
    return integers_only_ ? Tensor::FromInts(DType::kI64, shape, integers_)
                          : Tensor::FromDoubles(DType::kF64, shape, reals_);
  }

 private:
  std::vector<int64_t> integers_;
  std::vector<double> reals_;
  bool integers_only_ = true;
};

// Adds what `list` holds, whose depth in the brackets is `depth`. The first
// list of each depth says how long all of them are.
absl::Status AddNested(const json& list, size_t depth, Shape* shape,
                       Numbers* numbers) {
  bool first = depth == shape->size();
  auto length = static_cast<int64_t>(list.size());
  if (first) shape->push_back(length);
  if ((*shape)[depth] != length) {
    return Invalid("lists of {} and of {} elements side by side",
                   (*shape)[depth], length);
  }
  bool deepest = list.empty() || !list[0].is_array();
  if (!first && (depth + 1 < shape->size()) == deepest && !list.empty()) {
    return Invalid("numbers and lists side by side");
  }
  for (const json& one : list) {
    if (one.is_array() == deepest) {
      return Invalid("numbers and lists side by side");
    }
    if (!deepest) {
      ASYRA_RETURN_IF_ERROR(AddNested(one, depth + 1, shape, numbers));
    } else if (!numbers->Add(one.dump())) {
      return Invalid("'{}' is no number", one.dump());
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<Tensor> ReadNumberRow(const std::string& text) {
  Numbers numbers;
  std::vector<std::string> words = absl::StrSplit(text, ',');
  for (const std::string& word : words) {
    if (!numbers.Add(word)) return std::nullopt;
  }
  return numbers.InShape({numbers.size()});
}

absl::StatusOr<Tensor> ReadNestedNumbers(const std::string& text) {
  json list = json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) {
    return Invalid("it is no list of numbers, as [[1, 2], [3, 4]] is one");
  }
  Shape shape;
  Numbers numbers;
  ASYRA_RETURN_IF_ERROR(AddNested(list, 0, &shape, &numbers));
  return numbers.InShape(shape);
}

}  // namespace asyra
