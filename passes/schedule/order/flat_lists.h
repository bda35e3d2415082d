// Lists of numbers that are stored one after another in memory, since a search
// reads them all at every step.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace asyra {

class FlatLists {
 public:
  FlatLists() = default;
  explicit FlatLists(const std::vector<std::vector<int>>& lists) {
    first_.reserve(lists.size() + 1);
    for (const std::vector<int>& list : lists) {
      items_.insert(items_.end(), list.begin(), list.end());
      first_.push_back(static_cast<int>(items_.size()));
    }
  }

  absl::Span<const int> operator[](int list) const {
    return {items_.data() + first_[list],
            static_cast<size_t>(first_[list + 1] - first_[list])};
  }
  int size() const { return static_cast<int>(first_.size()) - 1; }

 private:
  std::vector<int> first_ = {0};  // by list, and the end of the last
  std::vector<int> items_;
};

}  // namespace asyra
