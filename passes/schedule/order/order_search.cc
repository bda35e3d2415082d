#include "passes/schedule/order/order_search.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "ir/support/check.h"
#include "ir/support/random.h"
#include "passes/analysis/lanes.h"
#include "passes/analysis/op_classes.h"
#include "passes/schedule/order/cost_noise.h"
#include "passes/schedule/order/list_scheduler.h"
#include "simulator/replay/memory.h"
#include "simulator/replay/replayer.h"
#include "simulator/replay/step_clock.h"

namespace asyra {
namespace {

// Classes of ops that move together: identical, of one lane. Only ops that have
// a place of their own (HasPlace).
class MovedClasses {
 public:
  explicit MovedClasses(const CostedProgram& costed)
      : lanes_(costed.program()) {
    constexpr int kRounds = 3;
    const Program& program = costed.program();
    std::vector<int> classes = OpClasses(program);
    std::vector<ClassKey> keys = ClassKeys(program, classes, kRounds);
    classes = RefineClasses(program, std::move(classes), kRounds);
    auto width = static_cast<size_t>(std::max(lanes_.count, 1)) + 1;
    std::vector<int> number;
    for (size_t i = 0; i < classes.size(); ++i) {
      // A lane is -1 or more.
      size_t key = static_cast<size_t>(classes[i]) * width +
                   static_cast<size_t>(lanes_.of_op[i] + 1);
      if (key >= number.size()) number.resize(key + 1, -1);
      if (number[key] < 0 && HasPlace(program.ops[i], costed.op_costs()[i])) {
        number[key] = count();
        auto lane = static_cast<uint64_t>(lanes_.of_op[i]) + 1;
        keys_.push_back({keys[i].exact + lane, keys[i].similar + lane});
      }
      of_op_.push_back(number[key]);
    }
  }

  int count() const { return static_cast<int>(keys_.size()); }
  // Returns the key of a class and lane.
  ClassKey KeyOf(int number) const { return keys_[number]; }
  int lanes() const { return lanes_.count; }
  int LaneOf(int op) const { return lanes_.of_op[op]; }
  int operator[](int op) const { return of_op_[op]; }  // -1: none

 private:
  Lanes lanes_;
  std::vector<int> of_op_;
  std::vector<ClassKey> keys_;  // by class
};

uint64_t HashOf(absl::Span<const int> order) {
  uint64_t hash = 0;
  for (int op : order) {
    hash = (hash ^ static_cast<uint64_t>(op)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

class Search {
 public:
  Search(const CostedProgram& costed, const OrderSearchOptions& options)
      : costed_(costed),
        speeds_(costed.op_costs()),
        replayer_(costed, &speeds_),
        options_(options),
        scheduler_(costed),
        classes_(costed),
        random_(options.seed, 0) {}

  OrderSearchResult Run(const std::vector<NamedOrder>& seeds) {
    ASYRA_CHECK(!seeds.empty());
    for (const NamedOrder& seed : seeds) {
      Try(seed.name, seed.order, /*robust=*/false);
    }
    if (classes_.count() > 1 && Left()) {
      layer_us_ = LayerUs();
      TryGivenRules();
      TryRules();
      Climb();
    }
    result_.rule = std::move(rule_);
    return std::move(result_);
  }

 private:
  // Draws from the unit interval.
  double Random() { return random_.Word(drawn_++) * 0x1p-32; }

  ReplayOptions TimeAlone(double limit_us = kAnyUs) const {
    ReplayOptions replay = options_.replay;
    replay.limit_us = limit_us;
    replay.critical_path = false;
    return replay;
  }

  // Returns the order's makespans summed up over samples of cost noise, or
  // something above the limit if they are more.
  double NoisyUs(const std::vector<int>& order, double limit_us) {
    if (noisy_.empty()) AddNoise();
    double sum = 0;
    for (Replayer& replayer : noisy_replayers_) {
      sum += replayer.Run(order, TimeAlone(limit_us - sum)).makespan_us;
      if (sum > limit_us) break;
    }
    return sum;
  }

  void AddNoise() {
    noisy_.reserve(kSamples);
    for (uint64_t seed = 1; seed <= kSamples; ++seed) {
      noisy_.emplace_back(
          costed_, NoisyCosts(costed_.program(), costed_.op_costs(), seed));
      noisy_replayers_.emplace_back(noisy_.back(), &speeds_);
    }
  }

  // Returns whether an order that is faster than the best is so under cost
  // noise too.
  bool IsSteady(const std::vector<int>& order) {
    if (!noisy_us_.has_value()) {
      noisy_us_ = NoisyUs(result_.best.order, kAnyUs);
    }
    double us = NoisyUs(order, *noisy_us_);
    if (us > *noisy_us_) return false;
    noisy_us_ = us;
    return true;
  }

  // True when it is the best so far: faster, and also under cost noise. What an
  // order must reach only rises, so that one tried before is not it.
  bool Try(const std::string& name, std::vector<int> order,
           bool robust = true) {
    if (!tried_.insert(HashOf(order)).second) {
      ++result_.steps;
      return false;
    }
    // Once something fits, what is slower is of no interest, nor its memory.
    bool any = result_.steps > 0;
    double limit_us = any && result_.fits
                          ? std::min(result_.makespan_us, options_.limit_us)
                          : kAnyUs;
    const SimResult& simulated = replayer_.Run(order, TimeAlone(limit_us));
    ++result_.steps;
    if (simulated.makespan_us > limit_us) return false;
    int64_t peak = ReplayMemory(costed_, simulated.spans).peak_bytes;
    if (!any || peak < result_.least_peak_bytes) {
      result_.least_peak_bytes = peak;
    }
    bool fits = options_.memory_bytes == 0 || peak <= options_.memory_bytes;
    over_budget_ |= !fits;
    Merit merit{simulated.makespan_us, peak, fits};
    if (any && !merit.BetterThan(result_)) return false;
    if (robust && fits && result_.fits) {
      if (!IsSteady(order)) return false;
    } else {
      noisy_us_.reset();
    }
    result_.best = {name, std::move(order)};
    static_cast<Merit&>(result_) = merit;
    delayed_.reset();
    return true;
  }

  // Classes of the collectives that the best order's critical path waits for
  // while their communicator or stream is busy with another.
  const std::vector<int>& Delayed() {
    if (delayed_.has_value()) return *delayed_;
    delayed_.emplace();
    ReplayOptions replay = TimeAlone();
    replay.critical_path = true;
    SimResult simulated = Replay(costed_, result_.best.order, replay);
    for (int op : simulated.critical_path) {
      OpSpan::Cause cause = simulated.spans[op].cause;
      if (classes_[op] >= 0 && costed_.replay_ops()[op].communicator >= 0 &&
          (cause == OpSpan::kCommunicator || cause == OpSpan::kStream) &&
          !absl::c_linear_search(*delayed_, classes_[op])) {
        delayed_->push_back(classes_[op]);
      }
    }
    return *delayed_;
  }

  bool TryRule(const OrderRule& rule) {
    std::vector<double> bias(costed_.op_costs().size(), 0);
    std::vector<double> release(bias.size(), 0);
    for (int op = 0; op < static_cast<int>(bias.size()); ++op) {
      if (!rule.classes.empty() && classes_[op] >= 0) {
        bias[op] = rule.classes[classes_[op]].gain_us;
      }
      if (classes_.LaneOf(op) > 0) {
        bias[op] -= (rule.stagger_us + rule.lead_us) * classes_.LaneOf(op);
        release[op] = std::max(0.0, rule.stagger_us * classes_.LaneOf(op));
      }
    }
    ListOptions list{.lookahead_us = rule.lookahead_us,
                     .collective_stretch = rule.stretch,
                     .collective_lookahead = rule.collective_lookahead,
                     .bias = bias,
                     .release_us = release,
                     .memory_bytes = ResultBytes(),
                     .window = rule.window};
    return Try("search", scheduler_.Run(list));
  }

  // Returns the bytes that results may take of the budget.
  int64_t ResultBytes() const {
    if (options_.memory_bytes == 0) return 0;
    return std::max<int64_t>(
        1, options_.memory_bytes - ResidentBytes(costed_.program()));
  }

  // Returns the critical path of one lane through one layer, roughly: what most
  // classes have once.
  double LayerUs() const {
    double longest = 0;
    for (double us : scheduler_.bottom_level_us())
      longest = std::max(longest, us);
    std::vector<int> members(classes_.count(), 0);
    for (int op = 0; op < static_cast<int>(costed_.op_costs().size()); ++op) {
      if (classes_[op] >= 0) ++members[classes_[op]];
    }
    auto most = std::max_element(members.begin(), members.end());
    return longest / std::max(1, *most);
  }

  bool Left() const { return result_.steps < options_.steps; }

  void TryGivenRules() {
    for (const OrderRule& given : options_.rules) {
      if (!Left()) return;
      OrderRule rule = OwnClasses(given);
      if (TryRule(rule) || rule_.classes.empty()) Keep(std::move(rule));
    }
  }

  // Returns the rule with the classes of this program, by number.
  OrderRule OwnClasses(OrderRule rule) {
    std::vector<ClassPriority> given = std::move(rule.classes);
    rule.classes.clear();
    std::vector<bool> found(classes_.count(), given.empty());
    for (int c = 0; c < classes_.count(); ++c) {
      rule.classes.push_back({classes_.KeyOf(c), 0});
    }
    for (auto key : {&ClassKey::exact, &ClassKey::similar}) {
      Find(key, &given, &found, &rule.classes);
    }
    for (const ClassPriority& left : given) result_.lost += left.gain_us != 0;
    return rule;
  }

  // Moves gains to classes with the same key, in order of appearance.
  static void Find(uint64_t ClassKey::*key, std::vector<ClassPriority>* given,
                   std::vector<bool>* found,
                   std::vector<ClassPriority>* classes) {
    absl::flat_hash_map<uint64_t, std::deque<size_t>> open;
    for (size_t c = 0; c < classes->size(); ++c) {
      if (!(*found)[c]) open[(*classes)[c].key.*key].push_back(c);
    }
    std::erase_if(*given, [&](const ClassPriority& one) {
      auto at = open.find(one.key.*key);
      if (at == open.end() || at->second.empty()) return false;
      size_t c = at->second.front();
      at->second.pop_front();
      (*found)[c] = true;
      (*classes)[c].gain_us = one.gain_us;
      return true;
    });
  }

  void TryRules() {
    // Times in layers.
    struct Between {
      double stagger, lead, collective_lookahead;
    };
    constexpr Between kLanes[] = {{0, 0, 0}, {0, 0.5, 0}, {0, 0.5, 8},
                                  {0, 0, 8}, {0.5, 0, 0}, {0.25, 0, 0},
                                  {1, 0, 0}, {0, 0, 2}};
    for (double stretch : {1.0, 1.3}) {
      for (double lookahead : {0.0, 0.02, 0.1}) {
        for (auto [stagger, lead, collective_lookahead] : kLanes) {
          if (stagger + lead > 0 && classes_.lanes() < 2) continue;
          if (!Left()) return;
          OrderRule rule{lookahead * layer_us_, stretch, stagger * layer_us_,
                         lead * layer_us_, collective_lookahead};
          rule = OwnClasses(std::move(rule));
          if (TryRule(rule) || rule_.classes.empty()) Keep(std::move(rule));
          if (over_budget_) TryWindows();
        }
      }
    }
  }

  // Tries windows. An op that is ready long before it is needed fills gaps, and
  // keeps memory until then; so does one that is put off. Narrow windows fit
  // where program order does.
  void TryWindows() {
    if (std::exchange(windows_tried_, true)) return;
    for (int window : {256, 128, 64, 32, 16, 8, 4}) {
      if (!Left()) return;
      OrderRule rule = rule_;
      rule.window = window;
      if (TryRule(rule)) Keep(std::move(rule));
    }
  }

  void Keep(OrderRule rule) { rule_ = std::move(rule); }

  // Local search: a random move of the best rule so far, kept where the order
  // that it gives is better.
  void Climb() {
    constexpr double kSizes[] = {0.05, 0.2, 1.0};  // of a layer
    if (rule_.classes.empty()) return;
    while (Left()) {
      OrderRule rule = rule_;
      auto size = static_cast<size_t>(Random() * 3);
      double change_us = (2 * Random() - 1) * kSizes[size] * layer_us_;
      DrawMove().apply(*this, rule, change_us);
      if (TryRule(rule)) Keep(std::move(rule));
    }
  }

  struct Move {
    std::string_view name;
    int weight;  // of a draw, beside those of the others
    void (*apply)(Search& search, OrderRule& rule, double change_us);
  };

  // Mostly of one class or two; now and then of what holds for all ops, or of
  // what the step waits for.
  static absl::Span<const Move> Moves() {
    static constexpr Move kMoves[] = {
        {"lookahead", 50,
         [](Search&, OrderRule& rule, double change_us) {
           rule.lookahead_us =
               std::max(0.0, rule.lookahead_us + change_us / 10);
         }},
        {"collective lookahead", 15,
         [](Search& search, OrderRule& rule, double change_us) {
           double change = change_us / search.layer_us_ * 8;
           rule.collective_lookahead =
               std::max(0.0, rule.collective_lookahead + change);
         }},
        {"stagger", 20,
         [](Search& search, OrderRule& rule, double change_us) {
           if (search.classes_.lanes() > 1) rule.stagger_us += change_us;
         }},
        {"lead", 15,
         [](Search& search, OrderRule& rule, double change_us) {
           if (search.classes_.lanes() > 1) rule.lead_us += change_us;
         }},
        {"delayed collective", 60,
         [](Search& search, OrderRule& rule, double change_us) {
           const std::vector<int>& delayed = search.Delayed();
           if (delayed.empty()) {
             search.DrawClass(rule) += change_us;
             return;
           }
           auto drawn = static_cast<size_t>(
               search.Random() * static_cast<double>(delayed.size()));
           rule.classes[delayed[drawn]].gain_us += std::abs(change_us);
         }},
        {"class", 600,
         [](Search& search, OrderRule& rule, double change_us) {
           search.DrawClass(rule) += change_us;
         }},
        {"two classes", 300,
         [](Search& search, OrderRule& rule, double change_us) {
           search.DrawClass(rule) += change_us;
           search.DrawClass(rule) -= change_us;
         }},
    };
    return kMoves;
  }

  const Move& DrawMove() {
    int sum = 0;
    for (const Move& move : Moves()) sum += move.weight;
    double left = Random() * sum;
    for (const Move& move : Moves()) {
      left -= move.weight;
      if (left < 0) return move;
    }
    ASYRA_CHECK(false);  // Random() is less than 1.
  }

  double& DrawClass(OrderRule& rule) {
    auto c = static_cast<size_t>(Random() * classes_.count());
    return rule.classes[c].gain_us;
  }

  static constexpr uint64_t kSamples = 3;
  static constexpr double kAnyUs = std::numeric_limits<double>::infinity();

  const CostedProgram& costed_;
  SharedSpeeds speeds_;  // noise changes times alone
  Replayer replayer_;
  // Samples of cost noise, made when the first is needed.
  std::vector<CostedProgram> noisy_;
  std::vector<Replayer> noisy_replayers_;
  const OrderSearchOptions& options_;
  ListScheduler scheduler_;
  MovedClasses classes_;
  RandomStream random_;
  uint64_t drawn_ = 0;
  double layer_us_ = 0;
  OrderRule rule_;
  OrderSearchResult result_;
  absl::flat_hash_set<uint64_t> tried_;      // orders, by hash
  std::optional<double> noisy_us_;           // of the best, once it is known
  std::optional<std::vector<int>> delayed_;  // the same
  bool over_budget_ = false, windows_tried_ = false;
};

}  // namespace

bool Merit::BetterThan(const Merit& other) const {
  if (fits != other.fits) return fits;
  if (!fits) return peak_bytes < other.peak_bytes;
  if (makespan_us != other.makespan_us) return makespan_us < other.makespan_us;
  return peak_bytes < other.peak_bytes;
}

OrderSearchResult SearchOrder(const CostedProgram& costed,
                              const std::vector<NamedOrder>& seeds,
                              const OrderSearchOptions& options) {
  // The search itself is at the clock of the costs: all orders take the same
  // energy, so that the fastest is the fastest at its own clock, too.
  OrderSearchOptions at_clock = options;
  if (std::isfinite(options.limit_us)) {
    at_clock.limit_us *=
        options.limit_us / UsAtItsClock(costed, options.limit_us);
  }
  OrderSearchResult result = Search(costed, at_clock).Run(seeds);
  result.makespan_us = UsAtItsClock(costed, result.makespan_us);
  return result;
}

}  // namespace asyra
