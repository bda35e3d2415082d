#include "passes/schedule/transport/join_overlaps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"

namespace asyra {
namespace {

// A larger group keeps its operands for longer, and gains little.
constexpr size_t kMostSites = 2;

class Joiner {
 public:
  explicit Joiner(const Program& program)
      : program_(program),
        def_use_(program),
        awaited_(program.values.size(), static_cast<int>(program.ops.size())) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (ValueId value : program.ops[i].after) {
        awaited_[value] = std::min(awaited_[value], static_cast<int>(i));
      }
    }
  }

  // Joins both into one site, where the later one is; none if something reads a
  // result of the first before that, they are on two streams, or they have no
  // plan.
  std::optional<OverlapSite> Join(const OverlapSite& first,
                                  const OverlapSite& second) const {
    if (first.order != PlanOrder::kOwnLast || second.order != first.order ||
        StreamOf(first) != StreamOf(second)) {
      return std::nullopt;
    }
    OverlapSite joined = first;
    joined.at = std::max(first.at, second.at);
    joined.ops.insert(second.ops.begin(), second.ops.end());
    for (const OverlapSite* site : {&first, &second}) {
      if (!IsUnreadBefore(joined.at, *site)) return std::nullopt;
    }
    Append(second, &joined);
    if (!HasPlan(program_, joined)) return std::nullopt;
    return joined;
  }

 private:
  // Returns the stream of its ops and of the waits for their results.
  StreamId StreamOf(const OverlapSite& site) const {
    return program_.ops[site.at].stream;
  }

  bool IsUnreadBefore(int at, const OverlapSite& site) const {
    return absl::c_all_of(site.results, [&](ValueId value) {
      return awaited_[value] > at &&
             absl::c_all_of(def_use_.uses[value],
                            [&](int reader) { return reader > at; });
    });
  }

  // Appends the ops of `site`. What they read that is an operand of `joined`
  // already becomes no second one.
  static void Append(const OverlapSite& site, OverlapSite* joined) {
    size_t had = joined->operands.size();
    std::vector<int> number;  // by value of the body of `site`
    for (ValueId value : site.operands) {
      auto known = absl::c_find(joined->operands, value);
      number.push_back(static_cast<int>(known - joined->operands.begin()));
      if (known == joined->operands.end()) joined->operands.push_back(value);
    }
    auto added = static_cast<int>(joined->operands.size() - had);
    Body& body = joined->body;
    auto old = static_cast<int>(had);
    auto shift = [&](int& value) { value += value >= old ? added : 0; };
    for (BodyOp& op : body.ops) absl::c_for_each(op.operands, shift);
    absl::c_for_each(body.results, shift);
    body.num_operands += added;
    for (BodyOp op : site.body.ops) {
      for (int& value : op.operands) value = number[value];
      number.push_back(body.num_values());
      body.ops.push_back(std::move(op));
    }
    for (int value : site.body.results) body.results.push_back(number[value]);
    absl::c_copy(site.results, std::back_inserter(joined->results));
  }

  const Program& program_;
  DefUse def_use_;
  std::vector<int> awaited_;  // by value, the first op that comes after it
};

}  // namespace

std::vector<FormedOverlap> JoinedOverlaps(const Program& program,
                                          std::vector<OverlapSite> sites,
                                          OverlapChoice& choice) {
  absl::c_sort(sites, [](const OverlapSite& a, const OverlapSite& b) {
    return a.at < b.at;
  });
  Joiner joiner(program);
  std::vector<FormedOverlap> formed;
  for (size_t i = 0; i < sites.size();) {
    std::vector<OverlapSite> joined = {sites[i]};
    while (joined.size() < kMostSites && i + joined.size() < sites.size()) {
      auto more = joiner.Join(joined.back(), sites[i + joined.size()]);
      if (!more.has_value()) break;
      joined.push_back(*std::move(more));
    }
    // The most that gain together.
    while (joined.size() > 1) {
      std::optional<AttrMap> attrs = choice.ChooseHidden(joined.back());
      if (attrs.has_value()) {
        formed.push_back({joined.back(), *std::move(attrs)});
        break;
      }
      joined.pop_back();
    }
    i += joined.size();
  }
  return formed;
}

}  // namespace asyra
