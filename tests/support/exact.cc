#include "tests/support/exact.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ir/support/check.h"

namespace asyra {
namespace {

class Solver {
 public:
  explicit Solver(const CostedProgram& costed)
      : costed_(costed),
        count_(static_cast<int>(costed.op_costs().size())),
        before_(count_, 0),
        after_(count_, 0),
        tails_(count_, 0),
        ends_(count_, 0),
        free_(costed.program().streams.size() + 1 +
                  costed.dependencies().communicators().size(),
              0) {
    ASYRA_CHECK(count_ <= 30);
    for (int op = count_; op-- > 0;) {
      for (int earlier : costed.dependencies().DataOf(op)) {
        before_[op] |= 1u << earlier;
        after_[earlier] |= 1u << op;
        tails_[earlier] = std::max(tails_[earlier], tails_[op] + TimeOf(op));
      }
    }
    best_.makespan_us = std::numeric_limits<double>::infinity();
  }

  ExactSchedule Run() {
    Extend(0, 0);
    return best_;
  }

 private:
  double TimeOf(int op) const { return costed_.op_costs()[op].time_us; }
  double& StreamFree(int op) {
    return free_[costed_.program().ops[op].stream + 1];
  }
  // The communicator's, or the stream's again.
  double& GroupFree(int op) {
    int group = costed_.dependencies().CommunicatorOf(op);
    return group < 0 ? StreamFree(op)
                     : free_[costed_.program().streams.size() + 1 + group];
  }

  double Earliest(int op) {
    double start = std::max(StreamFree(op), GroupFree(op));
    for (int earlier : costed_.dependencies().DataOf(op)) {
      start = std::max(start, ends_[earlier]);
    }
    return start;
  }

  // No completion of what is done ends before this.
  double Bound(uint32_t done, double makespan) {
    std::vector<double> busy = free_;
    for (int op = 0; op < count_; ++op) {
      if (done >> op & 1) continue;
      makespan = std::max(makespan, Earliest(op) + TimeOf(op) + tails_[op]);
      double& server = busy[&GroupFree(op) - free_.data()];
      makespan = std::max(makespan, server += TimeOf(op));
    }
    return makespan;
  }

  // Whether the same ops were done before with everything at least as early.
  bool IsDominated(uint32_t done, double makespan) {
    std::vector<double> state = free_;
    state.push_back(makespan);
    for (int op = 0; op < count_; ++op) {
      bool matters = (done >> op & 1) && (after_[op] & ~done);
      state.push_back(matters ? ends_[op] : 0);
    }
    std::vector<std::vector<double>>& known = known_[done];
    for (const std::vector<double>& other : known) {
      if (std::equal(other.begin(), other.end(), state.begin(),
                     [](double a, double b) { return a <= b; })) {
        return true;
      }
    }
    known.push_back(std::move(state));
    return false;
  }

  void Extend(uint32_t done, double makespan) {
    if (static_cast<int>(order_.size()) == count_) {
      if (makespan < best_.makespan_us) best_ = {makespan, order_};
      return;
    }
    if (Bound(done, makespan) >= best_.makespan_us ||
        IsDominated(done, makespan)) {
      return;
    }
    for (int op = 0; op < count_; ++op) {
      if ((done >> op & 1) || (before_[op] & ~done)) continue;
      double stream = StreamFree(op), group = GroupFree(op);
      ends_[op] = Earliest(op) + TimeOf(op);
      StreamFree(op) = GroupFree(op) = ends_[op];
      order_.push_back(op);
      Extend(done | 1u << op, std::max(makespan, ends_[op]));
      order_.pop_back();
      GroupFree(op) = group;
      StreamFree(op) = stream;
      ends_[op] = 0;
    }
  }

  const CostedProgram& costed_;
  int count_;
  std::vector<uint32_t> before_, after_;  // sets of ops
  std::vector<double> tails_;             // after an op has ended
  std::vector<double> ends_;              // of what is done, else 0
  std::vector<double> free_;              // streams, then communicators
  std::vector<int> order_;
  std::unordered_map<uint32_t, std::vector<std::vector<double>>> known_;
  ExactSchedule best_;
};

}  // namespace

ExactSchedule SolveExactly(const CostedProgram& costed) {
  return Solver(costed).Run();
}

}  // namespace asyra
