#include "ir/plans/plan_interpreter.h"

#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "ir/plans/plan_exchanges.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class PlanMachine {
 public:
  PlanMachine(const ChunkPlan& plan, const RunPlanOptions& options)
      : plan_(plan),
        options_(options),
        exchanges_(plan),
        random_(options.seed) {
    posted_.assign(plan.signals.size(), 0);
  }

  absl::StatusOr<std::vector<std::vector<Tensor>>> Run(
      absl::Span<const std::vector<Tensor>> operands) {
    MakeMemory(operands);
    MakeConnections();
    ASYRA_RETURN_IF_ERROR(RunSteps());
    std::vector<std::vector<Tensor>> results(plan_.ranks);
    for (int r = 0; r < plan_.ranks; ++r) {
      results[r].resize(plan_.body.results.size());
      for (size_t b = 0; b < plan_.buffers[r].size(); ++b) {
        const PlanBuffer& buffer = plan_.buffers[r][b];
        if (buffer.role != PlanBuffer::kResult) continue;
        results[r][buffer.index] = Read({r, static_cast<int>(b), buffer.box});
      }
    }
    return results;
  }

 private:
  struct Connection {
    int rank;
    std::vector<int> steps;
    size_t next = 0;
  };

  void MakeMemory(absl::Span<const std::vector<Tensor>> operands) {
    memory_.resize(plan_.ranks);
    for (int r = 0; r < plan_.ranks; ++r) {
      // All bits set: NaN as a float.
      workspaces_.emplace_back(plan_.workspace_bytes, std::byte{0xFF});
    }
    for (int r = 0; r < plan_.ranks; ++r) {
      for (const PlanBuffer& buffer : plan_.buffers[r]) {
        if (buffer.role == PlanBuffer::kScratch) {
          memory_[r].push_back(workspaces_[r].data() + buffer.offset);
          continue;
        }
        owned_.emplace_back(BytesOf(plan_, buffer), std::byte{0xFF});
        if (buffer.role == PlanBuffer::kOperand) {
          const Tensor& given = operands[r][buffer.index];
          std::memcpy(owned_.back().data(), given.data(), given.bytes());
        }
        memory_[r].push_back(owned_.back().data());
      }
    }
  }

  void MakeConnections() {
    for (int r = 0; r < plan_.ranks; ++r) {
      size_t first = connections_.size();
      size_t count =
          options_.connections > 0 ? options_.connections : plan_.queues.size();
      for (size_t c = 0; c < count; ++c) connections_.push_back({r, {}});
      for (size_t i = 0; i < plan_.steps[r].size(); ++i) {
        connections_[first + plan_.steps[r][i].queue % count].steps.push_back(
            static_cast<int>(i));
      }
    }
  }

  absl::Status RunSteps() {
    waiting_.resize(plan_.signals.size());
    for (size_t c = 0; c < connections_.size(); ++c) GoOn(c);
    while (!ready_.empty()) {
      std::swap(ready_[random_() % ready_.size()], ready_.back());
      size_t c = ready_.back();
      ready_.pop_back();
      Connection& connection = connections_[c];
      int index = connection.steps[connection.next++];
      const PlanStep& step = plan_.steps[connection.rank][index];
      if (step.kind == PlanStep::kExchange) {
        EndExchange(step.count, c);
        continue;
      }
      absl::Status status = RunStep(step);
      if (!status.ok()) {
        return Annotate(status, Describe(plan_, connection.rank, index));
      }
      GoOn(c);
      if (step.kind != PlanStep::kPost) continue;
      for (size_t waits : std::exchange(waiting_[step.signal], {})) GoOn(waits);
    }
    for (const Connection& connection : connections_) {
      if (connection.next == connection.steps.size()) continue;
      return Invalid(
          "{}: it waits for ever",
          Describe(plan_, connection.rank, connection.steps[connection.next]));
    }
    return absl::OkStatus();
  }

  // The connection's next step may run now, or when its signal has been posted.
  void GoOn(size_t c) {
    const Connection& connection = connections_[c];
    if (connection.next == connection.steps.size()) return;
    const PlanStep& step =
        plan_.steps[connection.rank][connection.steps[connection.next]];
    if (step.kind == PlanStep::kExchange) return Come(step.count, c);
    bool waits =
        step.kind == PlanStep::kWait && posted_[step.signal] < step.count;
    (waits ? waiting_[step.signal] : ready_).push_back(c);
  }

  // The last rank that comes to an exchange moves all of its messages.
  void Come(int number, size_t c) {
    std::vector<size_t>& come = come_[number];
    come.push_back(c);
    if (come.size() == exchanges_.Parts(number).size()) ready_.push_back(c);
  }
  void EndExchange(int number, size_t last) {
    for (const PlanExchanges::Part& part : exchanges_.Parts(number)) {
      const PlanStep& step = plan_.steps[part.rank][part.step];
      for (size_t i = 0; i < step.reads.size(); ++i) {
        Write(step.writes[i], Read(step.reads[i]));
      }
    }
    for (size_t c : come_[number]) {
      if (c != last) ++connections_[c].next;
      GoOn(c);
    }
  }

  absl::Status RunStep(const PlanStep& step) {
    switch (step.kind) {
      case PlanStep::kPost:
        ++posted_[step.signal];
        return absl::OkStatus();
      case PlanStep::kWait:
      case PlanStep::kExchange:
        return absl::OkStatus();
      case PlanStep::kCopy:
        Write(step.write, Read(step.reads[0]));
        return absl::OkStatus();
      case PlanStep::kSum:
        return Sum(step);
      case PlanStep::kPiece:
        return Piece(step);
    }
    return absl::OkStatus();
  }

  absl::Status Sum(const PlanStep& step) {
    Tensor sum(plan_.dtype(step.write), step.write.box.size);
    std::vector<double> total(sum.num_elements(), 0);
    for (const PlanRegion& region : step.reads) {
      std::vector<double> part = Read(region).ToDoubles();
      for (size_t i = 0; i < total.size(); ++i) total[i] += part[i];
    }
    sum.SetAll(total);
    Write(step.write, sum);
    return absl::OkStatus();
  }

  absl::Status Piece(const PlanStep& step) {
    PieceCall piece(plan_, step);
    const OpCall& call = piece.call();
    std::vector<Tensor> operands;
    for (const PlanRegion& region : step.reads) {
      operands.push_back(Read(region));
    }
    const Type& type = call.results[0];
    Tensor result(type.dtype, type.shape());
    if (call.def.is_view) {
      result = operands[0].Reshaped(type.shape());
    } else if (call.def.reference == nullptr) {
      return Unimplemented("{} has no reference", call.def.name);
    } else {
      ASYRA_RETURN_IF_ERROR(
          call.def.reference({call.def, call.attrs, call.operands, call.results,
                              operands, absl::MakeSpan(&result, 1), mesh_, 0}));
    }
    Write(step.write, result);
    return absl::OkStatus();
  }

  Tensor Read(const PlanRegion& region) const {
    Tensor tensor(plan_.dtype(region), region.box.size);
    CopyBox(memory_[region.rank][region.buffer], plan_.buffer(region).box,
            tensor.mutable_data(), region.box, region.box,
            SizeOf(tensor.dtype()));
    return tensor;
  }
  void Write(const PlanRegion& region, const Tensor& tensor) {
    CopyBox(tensor.data(), region.box, memory_[region.rank][region.buffer],
            plan_.buffer(region).box, region.box, SizeOf(tensor.dtype()));
  }

  const ChunkPlan& plan_;
  const RunPlanOptions& options_;
  const PlanExchanges exchanges_;
  std::mt19937_64 random_;
  Mesh mesh_;
  std::vector<std::vector<std::byte>> workspaces_, owned_;
  std::vector<std::vector<std::byte*>> memory_;  // by rank and buffer
  std::vector<Connection> connections_;
  std::vector<size_t> ready_;                 // connections that may go on
  std::vector<std::vector<size_t>> waiting_;  // connections, by signal
  std::map<int, std::vector<size_t>> come_;   // connections, by exchange
  std::vector<int> posted_;                   // by signal
};

}  // namespace

absl::StatusOr<std::vector<std::vector<Tensor>>> RunPlan(
    const ChunkPlan& plan, absl::Span<const std::vector<Tensor>> operands,
    const RunPlanOptions& options) {
  if (operands.size() != static_cast<size_t>(plan.ranks)) {
    return Invalid("operands of {} ranks given, the plan has {}",
                   operands.size(), plan.ranks);
  }
  return PlanMachine(plan, options).Run(operands);
}

}  // namespace asyra
