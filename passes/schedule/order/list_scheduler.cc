#include "passes/schedule/order/list_scheduler.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/algorithm/container.h"
#include "ir/halves.h"
#include "ir/happens_before.h"
#include "ir/memory/buffer_map.h"
#include "ir/support/check.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

void AddOnce(std::vector<int>& list, int item) {
  if (!absl::c_linear_search(list, item)) list.push_back(item);
}

}  // namespace

bool HasPlace(const Op& op, const OpCost& cost) {
  return !cost.is_free() || op.def->name == kUpperHalf;
}

ListScheduler::ListScheduler(const CostedProgram& costed)
    : costed_(costed),
      bottom_level_us_(costed.program().ops.size(), 0),
      to_collective_us_(costed.program().ops.size(), 0),
      server_(costed.program().ops.size(), -1),
      servers_(static_cast<int>(costed.program().streams.size()) + 1) {
  const Program& program = costed.program();
  FindEdges();
  for (int op = before_.size(); op-- > 0;) {
    const OpCost& cost = costed.op_costs()[op];
    if (HasPlace(program.ops[op], cost)) {
      server_[op] = program.ops[op].stream + 1;
    }
    double to_collective_us = kNever;
    for (int later : after_[op]) {
      bottom_level_us_[op] =
          std::max(bottom_level_us_[op], bottom_level_us_[later]);
      to_collective_us = std::min(to_collective_us, to_collective_us_[later]);
    }
    bottom_level_us_[op] += cost.time_us;
    if (program.ops[op].is_collective()) continue;
    to_collective_us_[op] =
        cost.time_us + (to_collective_us < kNever ? to_collective_us : 0);
  }
  FindBuffers();
}

void ListScheduler::FindEdges() {
  const Program& program = costed_.program();
  Lists before(program.ops.size()), after(program.ops.size());
  auto add = [&](int earlier, int later) {
    if (earlier == later || absl::c_linear_search(before[later], earlier)) {
      return;
    }
    before[later].push_back(earlier);
    after[earlier].push_back(later);
  };
  int barrier = -1;
  for (int op = 0; op < static_cast<int>(before.size()); ++op) {
    for (int earlier : costed_.dependencies().DataOf(op)) add(earlier, op);
    if (barrier >= 0) add(barrier, op);
    if (!program.ops[op].def->is_barrier) continue;
    for (int i = barrier + 1; i < op; ++i) add(i, op);
    barrier = op;
  }
  // The new state is written over the old one.
  DefUse uses(program);
  for (const Output& output : program.outputs) {
    int writer = uses.def[output.value];
    if (output.alias == kNoValue || writer < 0) continue;
    for (int reader : uses.uses[output.alias]) {
      if (reader < writer) add(reader, writer);
    }
  }
  before_ = FlatLists(before);
  after_ = FlatLists(after);
}

// Finds the buffers as the simulator has them (ir/memory/buffer_map.h). In
// whatever order ops will be issued, any wait may be the first for its start,
// so all of them read its operands.
void ListScheduler::FindBuffers() {
  const Program& program = costed_.program();
  constexpr int kResident = -1;
  std::vector<int> buffer(program.values.size(), kResident);  // by owner
  BufferMap map(program, costed_.summed_in_place());
  Lists makes(program.ops.size()), reads(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    auto read = [&](ValueId value) {
      int its = buffer[map.OwnerOf(value)];
      if (its != kResident) AddOnce(reads[i], its);
    };
    map.Add(op);
    for (ValueId value : op.operands) read(value);
    if (const Op* start = map.StartOf(op); start != nullptr) {
      for (ValueId value : start->operands) read(value);
    }
    if (IsConstant(op)) continue;
    for (ValueId value : op.results) {
      if (map.OwnerOf(value) != value) continue;
      buffer[value] = static_cast<int>(buffer_bytes_.size());
      makes[i].push_back(buffer[value]);
      buffer_bytes_.push_back(LocalBytes(program.type(value), program.mesh));
    }
  }
  buffer_readers_.assign(buffer_bytes_.size(), 0);
  for (const std::vector<int>& list : reads) {
    for (int b : list) ++buffer_readers_[b];
  }
  for (const Output& output : program.outputs) {
    int b = buffer[map.OwnerOf(output.value)];
    if (b == kResident) continue;
    ++buffer_readers_[b];
    if (output.alias != kNoValue) buffer_bytes_[b] = 0;
  }
  made_bytes_.assign(program.ops.size(), 0);
  for (size_t i = 0; i < makes.size(); ++i) {
    for (int b : makes[i]) made_bytes_[i] += buffer_bytes_[b];
  }
  reads_ = FlatLists(reads);
}

// The ops that may start next on one server: ops that are ready by a time that
// only grows, by priority, and those that are ready later, by time.
class ListQueue {
 public:
  struct Entry {
    double priority = 0, ready_us = 0;
    int op = 0;
    // Returns whether it goes before `other`, both being ready.
    bool Before(const Entry& other) const {
      return priority != other.priority ? priority > other.priority
                                        : op < other.op;
    }
  };

  void Add(const Entry& entry) {
    later_.push_back(entry);
    std::push_heap(later_.begin(), later_.end(), ReadyLater);
  }

  // Returns when one can start if the server is free at that time; never:
  // kNever.
  double FirstUs(double free_us) const {
    double first = later_.empty() ? kNever : later_.front().ready_us;
    if (!ready_.empty() && latest_us_ <= free_us) return free_us;
    for (const Entry& entry : ready_) {
      if (entry.ready_us <= free_us) return free_us;
      first = std::min(first, entry.ready_us);
    }
    return std::max(first, free_us);
  }

  // Takes all that are ready by then into account.
  void Advance(double by_us) {
    while (!later_.empty() && later_.front().ready_us <= by_us) {
      latest_us_ = std::max(latest_us_, later_.front().ready_us);
      ready_.push_back(later_.front());
      std::push_heap(ready_.begin(), ready_.end(), LowerPriority);
      std::pop_heap(later_.begin(), later_.end(), ReadyLater);
      later_.pop_back();
    }
  }

  // Returns the entries that are ready, in no order but that the first has the
  // highest priority.
  absl::Span<const Entry> ready() const { return ready_; }

  int Take(size_t index) {
    int op = ready_[index].op;
    if (index == 0) {
      std::pop_heap(ready_.begin(), ready_.end(), LowerPriority);
      ready_.pop_back();
    } else {
      ready_[index] = ready_.back();
      ready_.pop_back();
      std::make_heap(ready_.begin(), ready_.end(), LowerPriority);
    }
    return op;
  }

 private:
  static bool LowerPriority(const Entry& a, const Entry& b) {
    return b.Before(a);
  }
  static bool ReadyLater(const Entry& a, const Entry& b) {
    return a.ready_us > b.ready_us;
  }

  std::vector<Entry> ready_, later_;  // heaps
  double latest_us_ = -kNever;        // when the last of ready_ is, or was
};

// One pass over the program.
class ListRun {
 public:
  ListRun(const ListScheduler& scheduler, const ListOptions& options)
      : s_(scheduler),
        options_(options),
        ops_(scheduler.costed_.replay_ops()),
        waiting_for_(s_.before_.size()),
        ready_us_(s_.before_.size(), 0),
        emitted_(s_.before_.size(), 0),
        queues_(s_.servers_),
        free_at_us_(s_.servers_, 0),
        done_(s_.before_.size(), 0),
        readers_(s_.buffer_readers_) {
    order_.reserve(s_.before_.size());
  }

  std::vector<int> Run() {
    int count = static_cast<int>(waiting_for_.size());
    for (int op = 0; op < count; ++op) {
      waiting_for_[op] = static_cast<int>(s_.before_[op].size());
    }
    if (!options_.release_us.empty()) {
      ready_us_.assign(options_.release_us.begin(), options_.release_us.end());
    }
    for (int op = 0; op < count; ++op) {
      if (s_.before_[op].empty()) BecomesReady(op, 0);
    }
    while (TakeNext()) {
    }
    for (int op = 0; op < count; ++op) Emit(op);
    ASYRA_CHECK(static_cast<int>(order_.size()) == count);
    return std::move(order_);
  }

 private:
  // Lets the server act that can act first.
  bool TakeNext() {
    int best = -1;
    double when = kNever;
    for (int server = 0; server < s_.servers_; ++server) {
      double at = queues_[server].FirstUs(free_at_us_[server]);
      if (at < when) {
        when = at;
        best = server;
      }
    }
    if (best < 0) return false;
    queues_[best].Advance(when + options_.lookahead_us);
    Start(best, queues_[best].Take(Choose(queues_[best].ready())));
    return true;
  }

  double Priority(int op) const {
    return s_.bottom_level_us_[op] -
           options_.collective_lookahead * s_.to_collective_us_[op] +
           (options_.bias.empty() ? 0 : options_.bias[op]);
  }

  // Bytes that are alive after the op beyond those before it.
  int64_t Growth(int op) const { return Made(op) - Freed(op); }

  int64_t Made(int op) const { return s_.made_bytes_[op]; }

  // Returns the bytes of the buffers that no other op is still to read.
  int64_t Freed(int op) const {
    int64_t bytes = 0;
    for (int b : s_.reads_[op]) {
      if (readers_[b] == 1) bytes += s_.buffer_bytes_[b];
    }
    return bytes;
  }

  bool Fits(int op) const {
    return options_.memory_bytes == 0 || Made(op) == 0 ||
           live_bytes_ + Made(op) <= options_.memory_bytes;
  }

  // Chooses the ready op that fits and has the highest priority; if none fits,
  // the one after which least is alive: a weight gradient that is the last to
  // read its operands goes before what makes more.
  size_t Choose(absl::Span<const ListQueue::Entry> ready) const {
    if (Fits(ready[0].op)) return 0;
    size_t best = 0;
    bool best_fits = false;
    for (size_t i = 1; i < ready.size(); ++i) {
      bool fits = Fits(ready[i].op);
      if (!Before(ready[i], fits, ready[best], best_fits)) continue;
      best = i;
      best_fits = fits;
    }
    return best;
  }

  bool Before(const ListQueue::Entry& a, bool a_fits, const ListQueue::Entry& b,
              bool b_fits) const {
    if (a_fits != b_fits) return a_fits;
    if (!a_fits && Growth(a.op) != Growth(b.op)) {
      return Growth(a.op) < Growth(b.op);
    }
    return a.Before(b);
  }

  void Start(int server, int op) {
    double time_us = ops_[op].time_us;
    if (ops_[op].communicator >= 0) time_us *= options_.collective_stretch;
    double end = std::max(ready_us_[op], free_at_us_[server]) + time_us;
    free_at_us_[server] = end;
    Emit(op);
    Ends(op, end);
  }

  bool InWindow(int op) const {
    return options_.window == 0 || op < first_left_ + options_.window;
  }

  void BecomesReady(int op, double at_us) {
    ready_us_[op] = std::max(ready_us_[op], at_us);
    if (!InWindow(op)) {
      outside_.push_back(op);
      std::push_heap(outside_.begin(), outside_.end(), std::greater<>());
      return;
    }
    if (s_.server_[op] < 0) {
      Ends(op, ready_us_[op]);
    } else {
      queues_[s_.server_[op]].Add({Priority(op), ready_us_[op], op});
    }
  }

  void Ends(int op, double at_us) {
    live_bytes_ += Made(op);
    for (int b : s_.reads_[op]) {
      if (--readers_[b] == 0) live_bytes_ -= s_.buffer_bytes_[b];
    }
    for (int later : s_.after_[op]) {
      ready_us_[later] = std::max(ready_us_[later], at_us);
      if (--waiting_for_[later] == 0) BecomesReady(later, at_us);
    }
    if (options_.window > 0) Move(op, at_us);
  }

  // Moves the window behind all that is done.
  void Move(int op, double at_us) {
    done_[op] = 1;
    done_us_ = std::max(done_us_, at_us);
    auto count = static_cast<int>(done_.size());
    for (; first_left_ < count && done_[first_left_]; ++first_left_) {
      // The operands of a start stay in memory until its wait.
      if (ops_[first_left_].is_wait) Emit(first_left_);
    }
    while (!outside_.empty() && InWindow(outside_.front())) {
      int next = outside_.front();
      std::pop_heap(outside_.begin(), outside_.end(), std::greater<>());
      outside_.pop_back();
      BecomesReady(next, done_us_);
    }
  }

  // Emits an op after what it depends on: free ops are emitted when they are
  // needed.
  void Emit(int op) {
    if (emitted_[op]) return;
    emitted_[op] = 1;
    for (int earlier : s_.before_[op]) Emit(earlier);
    order_.push_back(op);
  }

  const ListScheduler& s_;
  const ListOptions& options_;
  absl::Span<const ReplayOp> ops_;
  std::vector<int> waiting_for_;
  std::vector<double> ready_us_;
  std::vector<char> emitted_;       // by op
  std::vector<ListQueue> queues_;   // by server
  std::vector<double> free_at_us_;  // by server
  // The begin of the window, the ops that wait outside of it (a heap), and the
  // time when it last moved.
  int first_left_ = 0;
  std::vector<int> outside_;
  double done_us_ = 0;
  std::vector<char> done_;    // by op; with a window
  std::vector<int> readers_;  // left, by buffer
  int64_t live_bytes_ = 0;
  std::vector<int> order_;
};

std::vector<int> ListScheduler::Run(const ListOptions& options) const {
  return ListRun(*this, options).Run();
}

}  // namespace asyra
