#include "simulator/replay/exposure.h"

#include <algorithm>
#include <set>

#include "ir/support/check.h"
#include "simulator/replay/dependencies.h"

namespace asyra {
namespace {

// A change of the state below, and its time.
struct Event {
  enum Kind : uint8_t {
    kComputes,      // an op of computation starts to run, or ends
    kCommunicates,  // the same of a collective
    kRunnable,      // an op could run, or no longer only could
    kUnissued,      // an op has its data but was not issued, or now was
    kLive,          // memory
  };
  double time_us;
  Kind kind;
  bool begins;
  int op;  // of kLive: index of the point
};

class Explainer {
 public:
  Explainer(const Program& program, const SimResult& result,
            const ExposureOptions& options)
      : program_(program),
        result_(result),
        options_(options),
        dependencies_(program),
        found_(program.ops.size()),
        late_us_(program.ops.size(), 0),
        late_(program.ops.size(), Exposure::kOrder) {
    ASYRA_CHECK(result.op_costs.size() == program.ops.size());
    Prepare();
  }

  std::vector<ExposedCollective> Run() {
    std::sort(
        events_.begin(), events_.end(),
        [](const Event& a, const Event& b) { return a.time_us < b.time_us; });
    double now = 0;
    for (const Event& event : events_) {
      if (computing_ == 0 && !running_.empty()) Expose(event.time_us - now);
      now = event.time_us;
      Apply(event);
    }
    std::vector<ExposedCollective> exposed;
    for (ExposedCollective& collective : found_) {
      if (collective.us > 0) exposed.push_back(collective);
    }
    return exposed;
  }

 private:
  void Add(double from_us, double until_us, Event::Kind kind, int op) {
    if (from_us >= until_us) return;
    events_.push_back({from_us, kind, true, op});
    events_.push_back({until_us, kind, false, op});
  }

  void Prepare() {
    std::vector<double> data_us(program_.ops.size(), 0);
    double issued_us = 0;
    for (int op = 0; op < static_cast<int>(program_.ops.size()); ++op) {
      const OpCost& cost = result_.op_costs[op];
      const OpSpan& span = result_.spans[op];
      issued_us += cost.launch_us;
      for (int before : dependencies_.AwaitedBy(op)) {
        // An op without duration is done when its data is available,
        // independent of its stream.
        double there = result_.op_costs[before].time_us == 0
                           ? data_us[before]
                           : result_.spans[before].end_us;
        data_us[op] = std::max(data_us[op], there);
      }
      found_[op].op = op;
      if (cost.time_us == 0) continue;
      if (cost.is_compute) {
        Add(span.start_us, span.end_us, Event::kComputes, op);
        Add(data_us[op], std::min(issued_us, span.start_us), Event::kUnissued,
            op);
        Add(std::max(data_us[op], issued_us), span.start_us, Event::kRunnable,
            op);
      } else {
        Add(span.start_us, span.end_us, Event::kCommunicates, op);
        late_us_[op] = span.start_us - data_us[op];
        late_[op] = WhyLate(span);
      }
    }
    for (size_t i = 0; i < result_.memory.size(); ++i) {
      events_.push_back(
          {result_.memory[i].time_us, Event::kLive, true, static_cast<int>(i)});
    }
  }

  // Returns why a collective began after its data was available, if it did.
  Exposure WhyLate(const OpSpan& span) const {
    bool behind_another =
        span.after >= 0 && program_.ops[span.after].is_collective();
    switch (span.cause) {
      case OpSpan::kHost:
        return Exposure::kHost;
      case OpSpan::kCommunicator:
        return Exposure::kCommunicator;
      case OpSpan::kStream:
        return behind_another ? Exposure::kCommunicator : Exposure::kOrder;
      case OpSpan::kBegin:
      case OpSpan::kData:  // a view of it was queued behind computation
        return Exposure::kOrder;
    }
    return Exposure::kOrder;
  }

  void Apply(const Event& event) {
    int change = event.begins ? 1 : -1;
    switch (event.kind) {
      case Event::kComputes:
        computing_ += change;
        break;
      case Event::kCommunicates:
        if (event.begins) {
          running_.push_back(event.op);
        } else {
          std::erase(running_, event.op);
        }
        break;
      case Event::kUnissued:
        unissued_ += change;
        break;
      case Event::kRunnable:
        if (event.begins) {
          runnable_.insert({ResultBytes(event.op), event.op});
        } else {
          runnable_.erase({ResultBytes(event.op), event.op});
        }
        break;
      case Event::kLive:
        live_bytes_ = result_.memory[event.op].live_bytes;
        break;
    }
  }

  int64_t ResultBytes(int op) const {
    int64_t bytes = 0;
    for (ValueId value : program_.ops[op].results) {
      bytes += LocalBytes(program_.type(value), program_.mesh);
    }
    return bytes;
  }

  void Expose(double elapsed_us) {
    double share = elapsed_us / static_cast<double>(running_.size());
    for (int op : running_) {
      found_[op].us += share;
      auto charge = [&](Exposure why, double us) {
        found_[op].by_us[static_cast<int>(why)] += us;
      };
      if (!runnable_.empty()) {
        bool fits =
            options_.budget_bytes == 0 ||
            live_bytes_ + runnable_.begin()->first <= options_.budget_bytes;
        charge(fits ? Exposure::kOrder : Exposure::kMemory, share);
        continue;
      }
      if (unissued_ > 0) {
        charge(Exposure::kHost, share);
        continue;
      }
      double late = std::min(share, late_us_[op]);
      late_us_[op] -= late;
      charge(late_[op], late);
      bool small = result_.op_costs[op].limit == OpCost::kLatency;
      charge(small ? Exposure::kSmall : Exposure::kDependence, share - late);
    }
  }

  const Program& program_;
  const SimResult& result_;
  const ExposureOptions& options_;
  Dependencies dependencies_;
  std::vector<Event> events_;
  std::vector<ExposedCollective> found_;  // by op
  // Time by which a collective could have begun earlier, not yet accounted for,
  // and the reason.
  std::vector<double> late_us_;
  std::vector<Exposure> late_;
  // Now:
  int computing_ = 0;
  int unissued_ = 0;
  std::vector<int> running_;                    // collectives
  std::set<std::pair<int64_t, int>> runnable_;  // bytes of results, op
  int64_t live_bytes_ = 0;
};

}  // namespace

std::string_view ToString(Exposure exposure) {
  constexpr std::string_view kNames[kNumExposures] = {
      "independent work is issued later",
      "memory budget",
      "issued too late by the host",
      "communicator busy",
      "too small to split",
      "no independent work"};
  return kNames[static_cast<int>(exposure)];
}

Exposure ExposedCollective::reason() const {
  auto most = std::max_element(by_us.begin(), by_us.end());
  return static_cast<Exposure>(most - by_us.begin());
}

std::vector<ExposedCollective> ExplainExposure(const Program& program,
                                               const SimResult& result,
                                               const ExposureOptions& options) {
  return Explainer(program, result, options).Run();
}

}  // namespace asyra
