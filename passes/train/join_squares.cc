#include "passes/train/join_squares.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "passes/analysis/reach.h"

namespace asyra {
namespace {

constexpr size_t kMostTensors = 32;
constexpr int64_t kMostBytes = int64_t{512} << 20;
// May be kept for longer than without a joint op.
constexpr int64_t kSmallBytes = int64_t{1} << 20;

class SquareJoiner {
 public:
  explicit SquareJoiner(const Program& program)
      : from_(program),
        def_use_(program),
        gone_(program.ops.size(), false),
        builder_(Builder::Like(program)),
        map_(program.values.size(), kNoValue) {}

  // Finds the sums to join and returns the number of gradients in joint ops.
  int FindSums() {
    int joined = 0;
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      int add = static_cast<int>(i);
      if (IsAdd(add) && !IsInner(add)) joined += JoinSum(add);
    }
    return joined;
  }

  absl::StatusOr<Program> Rebuilt() {
    builder_.CopyInputs(from_, &map_);
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      auto group = groups_.find(static_cast<int>(i));
      auto sum = sums_.find(static_cast<int>(i));
      if (group != groups_.end()) {
        ASYRA_RETURN_IF_ERROR(AddGroup(from_.ops[i], group->second));
      } else if (sum != sums_.end()) {
        ASYRA_RETURN_IF_ERROR(AddSum(from_.ops[i], sum->second));
      } else if (!gone_[i]) {
        ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, from_.ops[i], &map_));
      }
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

 private:
  bool IsAdd(int op) const {
    return op >= 0 && from_.ops[op].def->name == "add" &&
           from_.type(from_.ops[op].results[0]).rank() == 0;
  }

  bool IsReadOnce(ValueId value) const {
    return def_use_.uses[value].size() == 1 && def_use_.output_uses[value] == 0;
  }

  // Returns whether nothing but another addition of such values reads it.
  bool IsInner(int add) const {
    ValueId sum = from_.ops[add].results[0];
    if (!IsReadOnce(sum)) return false;
    int reader = def_use_.uses[sum][0];
    return IsAdd(reader) &&
           from_.type(from_.ops[reader].results[0]) == from_.type(sum);
  }

  // Finds the terms of a sum from left to right, and the additions inside it.
  void Flatten(int add, std::vector<ValueId>* terms, std::vector<int>* inner) {
    for (ValueId term : from_.ops[add].operands) {
      int def = def_use_.def[term];
      if (IsAdd(def) && IsInner(def)) {
        inner->push_back(def);
        Flatten(def, terms, inner);
      } else {
        terms->push_back(term);
      }
    }
  }

  int JoinSum(int add) {
    std::vector<ValueId> terms;
    std::vector<int> inner;
    Flatten(add, &terms, &inner);
    std::vector<bool> reached(from_.values.size(), false);
    reached[from_.ops[add].results[0]] = true;
    std::vector<bool> after = Descendants(from_, reached);
    std::vector<ValueId> kept;
    int joined = 0;
    for (size_t k = 0; k < terms.size();) {
      size_t end = EndOfGroup(terms, k, add, after);
      if (end - k > 1) joined += static_cast<int>(end - k);
      kept.push_back(end - k > 1 ? MakeGroup(terms, k, end) : terms[k]);
      k = std::max(end, k + 1);
    }
    if (joined == 0) return 0;
    for (int op : inner) gone_[op] = true;
    sums_[add] = std::move(kept);
    return joined;
  }

  // Terms from `k` on that one op can compute.
  size_t EndOfGroup(const std::vector<ValueId>& terms, size_t k, int add,
                    const std::vector<bool>& after) const {
    int64_t bytes = 0;
    size_t end = k;
    while (end < terms.size() && end - k < kMostTensors &&
           CanJoin(terms[end], add, after)) {
      bytes += LocalBytes(from_.type(GradientOf(terms[end])), from_.mesh);
      if (end > k && bytes > kMostBytes) break;
      ++end;
    }
    return end;
  }

  ValueId GradientOf(ValueId squares) const {
    return from_.ops[def_use_.def[squares]].operands[0];
  }

  bool CanJoin(ValueId term, int add, const std::vector<bool>& after) const {
    int def = def_use_.def[term];
    if (def < 0 || from_.ops[def].def->name != "reduce_sum_square" ||
        !IsReadOnce(term) || from_.type(term).dtype != DType::kF32 ||
        from_.type(term) != from_.type(from_.ops[add].results[0])) {
      return false;
    }
    ValueId gradient = GradientOf(term);
    return LocalBytes(from_.type(gradient), from_.mesh) <= kSmallBytes ||
           absl::c_any_of(def_use_.uses[gradient],
                          [&](int use) { return after[use]; });
  }

  // Makes the joint op where the last of its terms was, and lets it stand for
  // that one.
  ValueId MakeGroup(const std::vector<ValueId>& terms, size_t begin,
                    size_t end) {
    ValueId last = *std::max_element(terms.begin() + begin, terms.begin() + end,
                                     [&](ValueId a, ValueId b) {
                                       return def_use_.def[a] < def_use_.def[b];
                                     });
    std::vector<ValueId>& gradients = groups_[def_use_.def[last]];
    for (size_t k = begin; k < end; ++k) {
      gone_[def_use_.def[terms[k]]] = true;
      gradients.push_back(GradientOf(terms[k]));
    }
    return last;
  }

  absl::Status AddGroup(const Op& last, const std::vector<ValueId>& gradients) {
    std::vector<ValueId> operands;
    for (ValueId gradient : gradients) operands.push_back(map_[gradient]);
    ValueId squares = last.results[0];
    ASYRA_ASSIGN_OR_RETURN(map_[squares],
                           builder_.AddOne("sum_squares", operands, {},
                                           from_.value_name(squares)));
    return absl::OkStatus();
  }

  absl::Status AddSum(const Op& add, const std::vector<ValueId>& terms) {
    ValueId sum = map_[terms[0]];
    const std::string& name = from_.value_name(add.results[0]);
    for (size_t k = 1; k < terms.size(); ++k) {
      ASYRA_ASSIGN_OR_RETURN(
          sum, builder_.AddOne("add", {sum, map_[terms[k]]}, {}, name));
    }
    map_[add.results[0]] = sum;
    return absl::OkStatus();
  }

  const Program& from_;
  DefUse def_use_;
  std::vector<bool> gone_;  // by op
  // Gradients by the op in whose place their squares are summed.
  std::map<int, std::vector<ValueId>> groups_;
  // The values added, by the last addition of a sum.
  std::map<int, std::vector<ValueId>> sums_;
  Builder builder_;
  std::vector<ValueId> map_;
};

}  // namespace

absl::StatusOr<bool> JoinSquares(Program& program, const PassOptions&,
                                 PassContext& context) {
  SquareJoiner joiner(program);
  int joined = joiner.FindSums();
  if (joined == 0) return false;
  ASYRA_ASSIGN_OR_RETURN(program, joiner.Rebuilt());
  context.Remark("{} sums of squares joined", joined);
  return true;
}

}  // namespace asyra
