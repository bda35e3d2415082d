#include "executor/measured_gate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/comm/begin_together.h"
#include "executor/comm/rank_places.h"
#include "executor/executor.h"
#include "executor/memory_plan.h"
#include "ir/printer.h"
#include "ir/support/hash.h"
#include "ir/support/median.h"
#include "ir/support/status.h"
#include "ir/support/units.h"

namespace asyra {
namespace {

constexpr char kKind[] = "gate";  // of files

// Kernels need workspaces, and libraries memory of their own, which are known
// only when it is taken: a part of what is left stays free.
constexpr int64_t kSparePart = 16;

double SteadyUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One start of the gate on one rank.
class Gate {
 public:
  Gate(absl::Span<const GateProgram> programs, Device& device,
       Communicator* world, const WeightStore* weights,
       const GateOptions& options)
      : programs_(programs),
        device_(device),
        world_(world),
        weights_(weights),
        options_(options) {
    for (const GateProgram& one : programs_) {
      result_.trials.push_back({.name = one.name});
    }
  }

  absl::StatusOr<GateResult> Choose() {
    if (programs_.empty()) return Invalid("there is no program to measure");
    if (options_.steps < 1) {
      return Invalid("{} steps are to be measured, it must be at least 1",
                     options_.steps);
    }
    ASYRA_RETURN_IF_ERROR(CheckTypes());
    ASYRA_RETURN_IF_ERROR(Agree());
    ASYRA_ASSIGN_OR_RETURN(bool found, Recall());
    if (found) return std::move(result_);
    ASYRA_RETURN_IF_ERROR(Measure());
    if (rank() == 0 && options_.cache != nullptr) {
      options_.cache->Keep(kKind, key_, Pack());
    }
    return std::move(result_);
  }

 private:
  int64_t rank() const { return world_ == nullptr ? 0 : world_->rank(); }

  absl::StatusOr<std::vector<std::string>> Exchange(std::string_view mine) {
    if (world_ == nullptr) return std::vector<std::string>{std::string(mine)};
    return world_->Exchange(mine);
  }

  // Programs of one model over one mesh. Its states may be sharded in several
  // ways.
  absl::Status CheckTypes() const {
    const Program& first = *programs_[0].program;
    for (const GateProgram& one : programs_) {
      const Program& program = *one.program;
      if (program.mesh != first.mesh) {
        return Invalid("{} is for {}, {} for {}", one.name,
                       ToString(program.mesh), programs_[0].name,
                       ToString(first.mesh));
      }
      for (const Input& input : program.inputs) {
        if (input.role == InputRole::kData) continue;
        const std::string& name = program.value_name(input.value);
        ValueId value = first.FindValue(name);
        const Type& type = program.type(input.value);
        if (value == kNoValue || first.type(value).Global() == type.Global()) {
          continue;
        }
        return Invalid("%{} is {} in {}, {} in {}", name,
                       ToString(type, program.mesh), one.name,
                       ToString(first.type(value), first.mesh),
                       programs_[0].name);
      }
    }
    return absl::OkStatus();
  }

  // Programs whose params and states are sharded alike, and so have one set.
  struct Family {
    std::vector<size_t> programs;
    std::map<std::string, Type> types;
    int64_t bytes = 0;  // of this rank
    std::shared_ptr<StateSet> states;
  };

  static bool Agrees(const Family& family, const Program& program) {
    return absl::c_all_of(program.inputs, [&](const Input& input) {
      if (input.role == InputRole::kData) return true;
      auto known = family.types.find(program.value_name(input.value));
      return known == family.types.end() ||
             known->second == program.type(input.value);
    });
  }

  // Each program goes to the first family that it agrees with.
  void FindFamilies() {
    for (size_t i = 0; i < programs_.size(); ++i) {
      const Program& program = *programs_[i].program;
      auto family = absl::c_find_if(
          families_, [&](const Family& one) { return Agrees(one, program); });
      if (family == families_.end()) {
        family = families_.insert(families_.end(), Family());
      }
      family->programs.push_back(i);
      for (const Input& input : program.inputs) {
        if (input.role == InputRole::kData) continue;
        const Type& type = program.type(input.value);
        bool is_new =
            family->types.emplace(program.value_name(input.value), type).second;
        if (is_new) family->bytes += LocalBytes(type, program.mesh);
      }
    }
  }

  // The key of the decision, from all ranks; and the least memory left.
  absl::Status Agree() {
    uint64_t hash = Fnv1a("");
    for (const GateProgram& one : programs_) {
      hash = Fnv1a(one.name + "\n" + ToString(*one.program), hash);
    }
    std::string mine = fmt::format("{:016x}\n{}\n{}", hash, device_.identity(),
                                   device_.BytesLeft() / options_.sharing);
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said, Exchange(mine));
    key_ = fmt::format("gate 1, {:016x}, {} + {} steps", hash, options_.warmup,
                       options_.steps);
    for (size_t r = 0; r < said.size(); ++r) {
      std::vector<std::string> lines = absl::StrSplit(said[r], '\n');
      int64_t left = 0;
      if (lines.size() != 3 || !absl::SimpleAtoi(lines[2], &left)) {
        return Invalid("rank {} tells of its gate: '{}'", r, said[r]);
      }
      if (lines[0] != fmt::format("{:016x}", hash)) {
        return Invalid(
            "ranks do not agree on the programs to measure: their hash is {} "
            "on rank {}, {:016x} on rank {}",
            lines[0], r, hash, rank());
      }
      left_bytes_ = r == 0 ? left : std::min(left_bytes_, left);
      key_ += fmt::format(", {}", lines[1]);
    }
    left_bytes_ -= left_bytes_ / kSparePart;
    if (world_ == nullptr) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(std::vector<RankPlace> places,
                           ExchangePlaces(*world_));
    key_ += fmt::format(", over {} at {}", world_->name(), ToString(places));
    return absl::OkStatus();
  }

  // Recalls the decision of the first rank, which all ranks follow.
  absl::StatusOr<bool> Recall() {
    std::optional<std::string> kept;
    if (rank() == 0 && options_.cache != nullptr && !options_.again) {
      kept = options_.cache->Find(kKind, key_);
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                           Exchange(kept.value_or("")));
    return Unpack(said[0]);
  }

  // Bytes of a program that are not shared with the others.
  absl::StatusOr<int64_t> OwnBytes(const Program& program) const {
    DefUse def_use(program);
    HappensBefore order(program, def_use);
    MemoryPlanOptions options{.alignment = kDeviceAlignment};
    for (const Input& input : program.inputs) {
      if (input.role != InputRole::kData) {
        options.outside.push_back(input.value);
      }
    }
    ASYRA_ASSIGN_OR_RETURN(MemoryPlan plan,
                           PlanMemory(program, order, def_use, options));
    return plan.arena_bytes + plan.resident_bytes;
  }

  // Leaves out what does not fit; whether the others fit together.
  absl::StatusOr<bool> FitMemory() {
    int64_t together = 0;
    bool any = false;
    for (Family& family : families_) {
      int64_t left = left_bytes_ - family.bytes;
      std::vector<size_t> fitting;
      for (size_t i : family.programs) {
        absl::StatusOr<int64_t> own = OwnBytes(executors_[i]->program());
        if (!own.ok()) return Annotate(own.status(), programs_[i].name);
        if (*own > left) {
          result_.trials[i].left_out =
              fmt::format("needs {}, {} are left", BytesText(*own),
                          BytesText(std::max<int64_t>(0, left)));
          continue;
        }
        together += *own;
        fitting.push_back(i);
      }
      family.programs = std::move(fitting);
      if (family.programs.empty()) continue;
      together += family.bytes;
      any = true;
    }
    if (any) return together <= left_bytes_;
    return absl::ResourceExhaustedError(
        fmt::format("no program fits the memory: {} {}", programs_[0].name,
                    result_.trials[0].left_out));
  }

  absl::Status Load() {
    for (const GateProgram& one : programs_) {
      absl::StatusOr<std::unique_ptr<Executor>> executor =
          Executor::Load(*one.program);
      if (!executor.ok()) return Annotate(executor.status(), one.name);
      executors_.push_back(*std::move(executor));
    }
    return absl::OkStatus();
  }

  absl::Status MakeStates(Family* family) {
    ASYRA_ASSIGN_OR_RETURN(family->states, StateSet::Create(device_));
    for (size_t i : family->programs) {
      ASYRA_RETURN_IF_ERROR(family->states->Join(executors_[i]->program()));
    }
    if (options_.set_states == nullptr) return absl::OkStatus();
    return options_.set_states(*family->states);
  }

  absl::Status Prepare(const Family& family, size_t i) {
    ExecutorOptions options{.states = family.states};
    return Annotate(executors_[i]->Prepare(device_, world_, weights_, options),
                    programs_[i].name);
  }

  // Copies of the inputs, which all programs have alike, do not count.
  absl::Status Step(size_t i) {
    absl::Status status = executors_[i]->CopyInputs(programs_[i].inputs);
    if (!status.ok()) return Annotate(status, programs_[i].name);
    if (world_ != nullptr) ASYRA_RETURN_IF_ERROR(BeginTogether(*world_));
    double begin_us = Now();
    status = executors_[i]->StartCopied();
    if (status.ok()) status = executors_[i]->Finish();
    if (!status.ok()) return Annotate(status, programs_[i].name);
    step_us_[i].push_back(Now() - begin_us);
    return absl::OkStatus();
  }

  double Now() const {
    return options_.now_us != nullptr ? options_.now_us() : SteadyUs();
  }

  // Steps of prepared programs in turn, each round beginning with another one.
  absl::Status StepInTurn(const std::vector<size_t>& which) {
    for (int64_t round = 0; round < options_.warmup + options_.steps; ++round) {
      for (size_t k = 0; k < which.size(); ++k) {
        ASYRA_RETURN_IF_ERROR(Step(which[(k + round) % which.size()]));
      }
    }
    for (size_t i : which) executors_[i].reset();
    return absl::OkStatus();
  }

  absl::Status MeasureTogether(const std::vector<size_t>& which) {
    for (Family& family : families_) {
      if (family.programs.empty()) continue;
      ASYRA_RETURN_IF_ERROR(MakeStates(&family));
      for (size_t i : family.programs) {
        ASYRA_RETURN_IF_ERROR(Prepare(family, i));
      }
    }
    return StepInTurn(which);
  }

  // One program after the other, with the states of one family at a time.
  absl::Status MeasureApart() {
    for (Family& family : families_) {
      if (family.programs.empty()) continue;
      ASYRA_RETURN_IF_ERROR(MakeStates(&family));
      for (size_t i : family.programs) {
        ASYRA_RETURN_IF_ERROR(Prepare(family, i));
        ASYRA_RETURN_IF_ERROR(StepInTurn({i}));
      }
      family.states.reset();
    }
    return absl::OkStatus();
  }

  absl::Status Measure() {
    ASYRA_RETURN_IF_ERROR(Load());
    FindFamilies();
    ASYRA_ASSIGN_OR_RETURN(bool together, FitMemory());
    std::vector<size_t> which;
    for (size_t i = 0; i < programs_.size(); ++i) {
      if (result_.trials[i].left_out.empty()) which.push_back(i);
    }
    step_us_.resize(programs_.size());
    ASYRA_RETURN_IF_ERROR(together ? MeasureTogether(which) : MeasureApart());
    executors_.clear();
    families_.clear();
    return Decide(which);
  }

  // Every rank decides the same from the times of all.
  absl::Status Decide(const std::vector<size_t>& which) {
    std::vector<double> mine;
    for (size_t i : which) {
      mine.insert(mine.end(), step_us_[i].begin(), step_us_[i].end());
    }
    size_t bytes = mine.size() * sizeof(double);
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<std::string> said,
        Exchange({reinterpret_cast<const char*>(mine.data()), bytes}));
    std::vector<double> slowest(mine.size(), 0);
    for (size_t r = 0; r < said.size(); ++r) {
      if (said[r].size() != bytes) {
        return Invalid("rank {} tells {} bytes of times, rank {} {}", r,
                       said[r].size(), rank(), bytes);
      }
      std::vector<double> times(mine.size());
      std::memcpy(times.data(), said[r].data(), bytes);
      for (size_t i = 0; i < times.size(); ++i) {
        slowest[i] = std::max(slowest[i], times[i]);
      }
    }
    int64_t rounds = options_.warmup + options_.steps;
    for (size_t k = 0; k < which.size(); ++k) {
      auto begin = slowest.begin() + static_cast<int64_t>(k) * rounds;
      std::vector<double> counted(begin + options_.warmup, begin + rounds);
      GateTrial& trial = result_.trials[which[k]];
      trial.median_us = Median(counted);
      trial.min_us = *absl::c_min_element(counted);
    }
    result_.kept = *absl::c_min_element(which, [&](size_t a, size_t b) {
      return result_.trials[a].median_us < result_.trials[b].median_us;
    });
    return absl::OkStatus();
  }

  // A line for the decision, then one for each trial.
  std::string Pack() const {
    std::string text = fmt::format("{}\n", result_.kept);
    for (const GateTrial& trial : result_.trials) {
      text += fmt::format("{}\t{}\t{}\t{}\n", trial.median_us, trial.min_us,
                          trial.name, trial.left_out);
    }
    return text;
  }

  // Returns whether `text` is a decision between these programs; takes it.
  bool Unpack(const std::string& text) {
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    size_t kept = 0;
    if (lines.size() != programs_.size() + 2 ||
        !absl::SimpleAtoi(lines[0], &kept) || kept >= programs_.size()) {
      return false;
    }
    std::vector<GateTrial> trials;
    for (size_t i = 0; i < programs_.size(); ++i) {
      std::vector<std::string> fields = absl::StrSplit(lines[i + 1], '\t');
      GateTrial trial;
      if (fields.size() != 4 || fields[2] != programs_[i].name ||
          !absl::SimpleAtod(fields[0], &trial.median_us) ||
          !absl::SimpleAtod(fields[1], &trial.min_us)) {
        return false;
      }
      trial.name = fields[2];
      trial.left_out = fields[3];
      trials.push_back(std::move(trial));
    }
    result_ = {.kept = kept, .remembered = true, .trials = std::move(trials)};
    return true;
  }

  const absl::Span<const GateProgram> programs_;
  Device& device_;
  Communicator* const world_;
  const WeightStore* const weights_;
  const GateOptions& options_;
  std::string key_;
  int64_t left_bytes_ = 0;
  std::vector<Family> families_;                      // outlive the executors
  std::vector<std::unique_ptr<Executor>> executors_;  // null once they are done
  std::vector<std::vector<double>> step_us_;  // of this rank, by program
  GateResult result_;
};

}  // namespace

absl::StatusOr<GateResult> ChooseByMeasuring(
    absl::Span<const GateProgram> programs, Device& device, Communicator* world,
    const WeightStore* weights, const GateOptions& options) {
  absl::StatusOr<GateResult> result =
      Gate(programs, device, world, weights, options).Choose();
  // The other ranks would wait for this one.
  if (!result.ok() && world != nullptr) world->Abort(result.status());
  return result;
}

std::string ToString(const GateResult& result) {
  const GateTrial& kept = result.trials[result.kept];
  std::vector<std::string> others;
  for (size_t i = 0; i < result.trials.size(); ++i) {
    const GateTrial& trial = result.trials[i];
    if (i == result.kept) continue;
    others.push_back(
        trial.left_out.empty()
            ? fmt::format("{:.1f} % less than {} ({})",
                          100 * (1 - kept.median_us / trial.median_us),
                          trial.name, TimeText(trial.median_us))
            : fmt::format("{} was not measured: {}", trial.name,
                          trial.left_out));
  }
  return fmt::format("kept {}{}: median {}{}{}", kept.name,
                     result.remembered ? " (remembered)" : "",
                     TimeText(kept.median_us), others.empty() ? "" : ", ",
                     absl::StrJoin(others, ", "));
}

}  // namespace asyra
