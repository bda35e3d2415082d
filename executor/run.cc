#include "executor/run.h"

#include <chrono>

#include "executor/comm/thread_world.h"
#include "executor/run_case.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class Run {
 public:
  Run(absl::Span<const RunCase> cases, Platform& platform,
      const RunOptions& options)
      : platform_(platform), options_(options) {
    for (const RunCase& given : cases) cases_.emplace_back(given, options);
  }

  absl::StatusOr<std::vector<RunResult>> OnThreads() {
    ASYRA_RETURN_IF_ERROR(Begin());
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(ranks_));
    std::vector<std::vector<RankResult>> results(ranks_);
    ASYRA_RETURN_IF_ERROR(RunLocalRanks(
        ranks_,
        {options_.timeout_s, options_.inject_comm_us,
         options_.inject_jitter_us},
        [&](Communicator& world) -> absl::Status {
          ASYRA_ASSIGN_OR_RETURN(
              results[world.rank()],
              RunRank(world, world.rank(), ranks_, world.rank() == 0));
          return absl::OkStatus();
        }));
    return Collect(results);
  }

  absl::StatusOr<std::vector<RunResult>> AsRankOf(Communicator& world) {
    ASYRA_RETURN_IF_ERROR(Begin());
    int64_t sharing = RanksHere(world);
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(sharing));
    ASYRA_ASSIGN_OR_RETURN(std::vector<RankResult> mine,
                           RunRank(world, options_.local_rank, sharing, true));
    std::vector<std::vector<RankResult>> results(world.size());
    for (size_t i = 0; i < cases_.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> bytes,
                             world.Exchange(cases_[i].Pack(mine[i])));
      for (size_t rank = 0; rank < bytes.size(); ++rank) {
        ASYRA_ASSIGN_OR_RETURN(results[rank].emplace_back(),
                               cases_[i].Unpack(bytes[rank]));
      }
    }
    return Collect(results);
  }

  absl::StatusOr<GateResult> ChooseOnThreads(const GateOptions& gate) {
    ASYRA_RETURN_IF_ERROR(Begin());
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(ranks_));
    std::vector<GateResult> results(ranks_);
    ASYRA_RETURN_IF_ERROR(RunLocalRanks(
        ranks_, {options_.timeout_s, options_.inject_comm_us},
        [&](Communicator& world) -> absl::Status {
          ASYRA_ASSIGN_OR_RETURN(results[world.rank()],
                                 ChooseRank(world, world.rank(), ranks_, gate));
          return absl::OkStatus();
        }));
    return std::move(results[0]);
  }

  absl::StatusOr<GateResult> ChooseAsRankOf(Communicator& world,
                                            const GateOptions& gate) {
    ASYRA_RETURN_IF_ERROR(Begin());
    int64_t sharing = RanksHere(world);
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(sharing));
    return ChooseRank(world, options_.local_rank, sharing, gate);
  }

 private:
  int64_t RanksHere(const Communicator& world) const {
    return options_.ranks_on_host > 0 ? options_.ranks_on_host : world.size();
  }

  absl::Status Begin() {
    for (SharedCase& one : cases_) {
      ASYRA_RETURN_IF_ERROR(one.TakeInputs());
      int64_t ranks = one.program().mesh.num_devices();
      if (ranks_ == 0) ranks_ = ranks;
      if (ranks != ranks_) {
        return Invalid("program @{} is for {} devices, @{} for {}",
                       one.program().name, ranks, cases_[0].program().name,
                       ranks_);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<RankResult>> RunRank(Communicator& control,
                                                  int64_t local_rank,
                                                  int64_t ranks_on_host,
                                                  bool reports) {
    auto begin = std::chrono::steady_clock::now();
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                           platform_.MakeDevice(local_rank, ranks_on_host));
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                           platform_.Connect(control, *device));
    Communicator& world = connected == nullptr ? control : *connected;
    std::vector<RankCase> cases;
    for (SharedCase& one : cases_) {
      ASYRA_RETURN_IF_ERROR(cases.emplace_back(one, control.rank())
                                .Prepare(*device, world, options_));
    }
    for (int64_t step = 0; step < options_.repeat; ++step) {
      if (reports && options_.progress) options_.progress(step);
      for (RankCase& one : cases) {
        ASYRA_RETURN_IF_ERROR(one.Step(world, options_));
        if (step > 0 || &one != &cases.front() || !reports) continue;
        first_step_us_ = std::chrono::duration<double, std::micro>(
                             std::chrono::steady_clock::now() - begin)
                             .count();
      }
    }
    std::vector<RankResult> results;
    for (RankCase& one : cases) {
      ASYRA_ASSIGN_OR_RETURN(results.emplace_back(), one.Finish(reports));
    }
    return results;
  }

  absl::StatusOr<GateResult> ChooseRank(Communicator& control,
                                        int64_t local_rank,
                                        int64_t ranks_on_host,
                                        GateOptions gate) {
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                           platform_.MakeDevice(local_rank, ranks_on_host));
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                           platform_.Connect(control, *device));
    Communicator& world = connected == nullptr ? control : *connected;
    std::vector<GateProgram> programs;
    WeightStore weights;
    for (const SharedCase& one : cases_) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> data,
                             one.DataOf(control.rank()));
      programs.push_back({one.name(), &one.program(), std::move(data)});
      one.AddWeights(&weights);
    }
    gate.sharing = device->name() == "cpu" ? ranks_on_host : 1;
    gate.set_states = [&](StateSet& states) -> absl::Status {
      for (const SharedCase& one : cases_) {
        ASYRA_RETURN_IF_ERROR(one.SetStates(states, world));
      }
      return absl::OkStatus();
    };
    return ChooseByMeasuring(programs, *device, &world, &weights, gate);
  }

  // Collects the results of each rank, then of each program.
  absl::StatusOr<std::vector<RunResult>> Collect(
      const std::vector<std::vector<RankResult>>& results) {
    std::vector<RunResult> collected;
    for (size_t i = 0; i < cases_.size(); ++i) {
      std::vector<RankResult> of_case;
      for (const auto& of_rank : results) of_case.push_back(of_rank[i]);
      ASYRA_ASSIGN_OR_RETURN(collected.emplace_back(),
                             cases_[i].Collect(of_case));
      collected.back().first_step_us = first_step_us_;
    }
    return collected;
  }

  Platform& platform_;
  const RunOptions& options_;
  std::vector<SharedCase> cases_;
  double first_step_us_ = 0;  // of the rank that reports
  int64_t ranks_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<RunResult>> RunOnThreads(
    absl::Span<const RunCase> cases, Platform& platform,
    const RunOptions& options) {
  return Run(cases, platform, options).OnThreads();
}

absl::StatusOr<std::vector<RunResult>> RunAsRank(
    absl::Span<const RunCase> cases, Platform& platform, Communicator& world,
    const RunOptions& options) {
  return Run(cases, platform, options).AsRankOf(world);
}

absl::StatusOr<GateResult> ChooseOnThreads(absl::Span<const RunCase> cases,
                                           Platform& platform,
                                           const GateOptions& gate,
                                           const RunOptions& options) {
  return Run(cases, platform, options).ChooseOnThreads(gate);
}

absl::StatusOr<GateResult> ChooseAsRank(absl::Span<const RunCase> cases,
                                        Platform& platform, Communicator& world,
                                        const GateOptions& gate,
                                        const RunOptions& options) {
  return Run(cases, platform, options).ChooseAsRankOf(world, gate);
}

absl::StatusOr<RunResult> RunOnThreads(const Program& program,
                                       absl::Span<const Tensor> inputs,
                                       Platform& platform,
                                       const RunOptions& options) {
  RunCase one{&program, inputs};
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<RunResult> results,
      RunOnThreads(absl::MakeConstSpan(&one, 1), platform, options));
  return std::move(results[0]);
}

absl::StatusOr<RunResult> RunAsRank(const Program& program,
                                    absl::Span<const Tensor> inputs,
                                    Platform& platform, Communicator& world,
                                    const RunOptions& options) {
  RunCase one{&program, inputs};
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<RunResult> results,
      RunAsRank(absl::MakeConstSpan(&one, 1), platform, world, options));
  return std::move(results[0]);
}

}  // namespace asyra
