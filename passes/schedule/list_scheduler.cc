#include "passes/schedule/list_scheduler.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "ir/happens_before.h"
#include "ir/support/check.h"
#include "simulator/cost_model.h"

namespace asyra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

void AddOnce(std::vector<int>& list, int item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) {
    list.push_back(item);
  }
}

}  // namespace

ListScheduler::ListScheduler(const CostedProgram& costed)
    : costed_(costed),
      before_(costed.program().ops.size()),
      after_(costed.program().ops.size()),
      bottom_level_us_(costed.program().ops.size(), 0),
      to_collective_us_(costed.program().ops.size(), 0),
      server_(costed.program().ops.size(), -1) {
  const Program& program = costed.program();
  int count = static_cast<int>(program.ops.size());
  int streams = static_cast<int>(program.streams.size()) + 1;
  const Dependencies& dependencies = costed.dependencies();
  servers_ = streams + static_cast<int>(dependencies.communicators().size());
  int barrier = -1;
  for (int op = 0; op < count; ++op) {
    for (int earlier : dependencies.DataOf(op)) AddEdge(earlier, op);
    if (barrier >= 0) AddEdge(barrier, op);
    if (program.ops[op].def->is_barrier) {
      for (int i = barrier + 1; i < op; ++i) AddEdge(i, op);
      barrier = op;
    }
    if (costed.op_costs()[op].is_free()) continue;
    server_[op] = program.ops[op].stream + 1;
  }
  // The new state is written over the old one.
  DefUse uses(program);
  for (const Output& output : program.outputs) {
    int writer = uses.def[output.value];
    if (output.alias == kNoValue || writer < 0) continue;
    for (int reader : uses.uses[output.alias]) {
      if (reader < writer) AddEdge(reader, writer);
    }
  }
  for (int op = count; op-- > 0;) {
    double time_us = costed.op_costs()[op].time_us, to_collective_us = kNever;
    for (int later : after_[op]) {
      bottom_level_us_[op] =
          std::max(bottom_level_us_[op], bottom_level_us_[later]);
      to_collective_us = std::min(to_collective_us, to_collective_us_[later]);
    }
    bottom_level_us_[op] += time_us;
    if (program.ops[op].is_collective()) continue;
    to_collective_us_[op] =
        time_us + (to_collective_us < kNever ? to_collective_us : 0);
  }
  FindBuffers();
}

void ListScheduler::AddEdge(int before, int after) {
  if (before == after) return;
  auto& list = before_[after];
  if (std::find(list.begin(), list.end(), before) != list.end()) return;
  list.push_back(before);
  after_[before].push_back(after);
}

// As simulator/memory.h: views and waits have their operand's buffer, and the
// operands of a start are read until its wait.
void ListScheduler::FindBuffers() {
  const Program& program = costed_.program();
  constexpr int kResident = -1;
  std::vector<int> buffer(program.values.size(), kResident);
  std::vector<const Op*> start_of(program.values.size(), nullptr);
  makes_.resize(program.ops.size());
  reads_.resize(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    auto read = [&](ValueId value) {
      if (buffer[value] != kResident) AddOnce(reads_[i], buffer[value]);
    };
    for (ValueId value : op.operands) read(value);
    for (ValueId value : op.results) start_of[value] = op.start ? &op : nullptr;
    if (op.def->is_wait && start_of[op.operands[0]] != nullptr) {
      for (ValueId value : start_of[op.operands[0]]->operands) read(value);
    }
    if (op.def->is_view || op.def->is_wait) {
      buffer[op.results[0]] = buffer[op.operands[0]];
    } else if (!IsConstant(op)) {
      for (ValueId value : op.results) {
        buffer[value] = static_cast<int>(buffer_bytes_.size());
        makes_[i].push_back(buffer[value]);
        buffer_bytes_.push_back(LocalBytes(program.type(value), program.mesh));
      }
    }
  }
  buffer_readers_.assign(buffer_bytes_.size(), 0);
  for (const std::vector<int>& reads : reads_) {
    for (int b : reads) ++buffer_readers_[b];
  }
  for (const Output& output : program.outputs) {
    int b = buffer[output.value];
    if (b == kResident) continue;
    ++buffer_readers_[b];
    if (output.alias != kNoValue) buffer_bytes_[b] = 0;
  }
}

// One pass over the program.
class ListRun {
 public:
  ListRun(const ListScheduler& scheduler, const ListOptions& options)
      : s_(scheduler),
        options_(options),
        op_costs_(scheduler.costed_.op_costs()),
        waiting_for_(s_.before_.size()),
        ready_us_(s_.before_.size(), 0),
        emitted_(s_.before_.size(), false),
        candidates_(s_.servers_),
        free_at_us_(s_.servers_, 0),
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
  // The server that can act first acts. One whose ops would all take more
  // memory than there is waits for the others to free some; if all wait, the
  // first goes on.
  bool TakeNext() {
    int best = Earliest(/*must_fit=*/options_.memory_bytes > 0);
    if (best < 0) best = Earliest(/*must_fit=*/false);
    if (best < 0) return false;
    Start(best, Choose(best, When(best) + options_.lookahead_us));
    return true;
  }

  // The server that can act first, or -1; of those that have an op that fits.
  int Earliest(bool must_fit) const {
    int best = -1;
    double when = kNever;
    for (int server = 0; server < s_.servers_; ++server) {
      double at = When(server);
      if (at >= when || (must_fit && !CanFit(server, at))) continue;
      when = at;
      best = server;
    }
    return best;
  }

  // When it can act; kNever without an op.
  double When(int server) const {
    double first = kNever;
    for (int op : candidates_[server]) first = std::min(first, ready_us_[op]);
    return std::max(first, free_at_us_[server]);
  }

  bool CanFit(int server, double at_us) const {
    for (int op : candidates_[server]) {
      if (ready_us_[op] <= at_us + options_.lookahead_us && Fits(op)) {
        return true;
      }
    }
    return false;
  }

  bool Fits(int op) const {
    return options_.memory_bytes == 0 || Made(op) == 0 ||
           live_bytes_ + Made(op) <= options_.memory_bytes;
  }

  double Priority(int op) const {
    return s_.bottom_level_us_[op] -
           options_.collective_lookahead * s_.to_collective_us_[op] +
           (options_.bias.empty() ? 0 : options_.bias[op]);
  }

  // Bytes that are alive after the op beyond those before it.
  int64_t Growth(int op) const { return Made(op) - Freed(op); }

  int64_t Made(int op) const {
    int64_t bytes = 0;
    for (int b : s_.makes_[op]) bytes += s_.buffer_bytes_[b];
    return bytes;
  }

  // Of what no other op is still to read.
  int64_t Freed(int op) const {
    int64_t bytes = 0;
    for (int b : s_.reads_[op]) {
      if (readers_[b] == 1) bytes += s_.buffer_bytes_[b];
    }
    return bytes;
  }

  // Of the candidates ready by then, one that fits and has the highest
  // priority; where none fits, the one after which least is alive: a weight
  // gradient that is the last to read its operands goes before what makes more.
  int Choose(int server, double by_us) {
    std::vector<int>& list = candidates_[server];
    size_t best = list.size();
    bool best_fits = false;
    for (size_t i = 0; i < list.size(); ++i) {
      int op = list[i];
      if (ready_us_[op] > by_us) continue;
      bool fits = Fits(op);
      if (best < list.size() && !Before(op, fits, list[best], best_fits)) {
        continue;
      }
      best = i;
      best_fits = fits;
    }
    int op = list[best];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(best));
    return op;
  }

  bool Before(int a, bool a_fits, int b, bool b_fits) const {
    if (a_fits != b_fits) return a_fits;
    if (!a_fits && Growth(a) != Growth(b)) return Growth(a) < Growth(b);
    double x = Priority(a), y = Priority(b);
    return x != y ? x > y : a < b;
  }

  void Start(int server, int op) {
    double time_us = op_costs_[op].time_us;
    if (s_.costed_.program().ops[op].is_collective()) {
      time_us *= options_.collective_stretch;
    }
    double begin = std::max(ready_us_[op], free_at_us_[server]);
    // It may have waited for memory.
    if (options_.memory_bytes > 0 && Made(op) > 0) {
      begin = std::max(begin, now_us_);
    }
    now_us_ = std::max(now_us_, begin);
    double end = begin + time_us;
    free_at_us_[server] = end;
    for (; !done_.empty() && done_.top().first <= begin; done_.pop()) {
      Emit(done_.top().second);
    }
    Emit(op);
    Ends(op, end);
  }

  void BecomesReady(int op, double at_us) {
    ready_us_[op] = std::max(ready_us_[op], at_us);
    if (s_.server_[op] < 0) {
      if (options_.wait_after_us >= 0 &&
          s_.costed_.program().ops[op].def->is_wait) {
        done_.emplace(ready_us_[op] + options_.wait_after_us, op);
      }
      Ends(op, ready_us_[op]);
    } else {
      candidates_[s_.server_[op]].push_back(op);
    }
  }

  void Ends(int op, double at_us) {
    for (int b : s_.makes_[op]) live_bytes_ += s_.buffer_bytes_[b];
    for (int b : s_.reads_[op]) {
      if (--readers_[b] == 0) live_bytes_ -= s_.buffer_bytes_[b];
    }
    for (int later : s_.after_[op]) {
      ready_us_[later] = std::max(ready_us_[later], at_us);
      if (--waiting_for_[later] == 0) BecomesReady(later, at_us);
    }
  }

  // After what it depends on: free ops are emitted when they are needed.
  void Emit(int op) {
    if (emitted_[op]) return;
    emitted_[op] = true;
    for (int earlier : s_.before_[op]) Emit(earlier);
    order_.push_back(op);
  }

  const ListScheduler& s_;
  const ListOptions& options_;
  absl::Span<const OpCost> op_costs_;
  std::vector<int> waiting_for_;
  std::vector<double> ready_us_;
  std::vector<bool> emitted_;
  std::vector<std::vector<int>> candidates_;  // by server
  std::vector<double> free_at_us_;            // by server
  std::vector<int> readers_;                  // left, by buffer
  // Waits, by when they are emitted at the latest; the first on top.
  using Wait = std::pair<double, int>;
  std::priority_queue<Wait, std::vector<Wait>, std::greater<>> done_;
  int64_t live_bytes_ = 0;
  double now_us_ = 0;  // the last start
  std::vector<int> order_;
};

std::vector<int> ListScheduler::Run(const ListOptions& options) const {
  return ListRun(*this, options).Run();
}

}  // namespace asyra
