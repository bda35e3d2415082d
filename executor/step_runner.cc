#include "executor/step_runner.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "executor/comm/agreement.h"
#include "executor/plan_kernel.h"
#include "ir/body.h"
#include "ir/copy_engine.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/printer.h"
#include "ir/streams.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

Type Bytes(int64_t count) { return Type(DType::kBool, {count}); }

}  // namespace

absl::StatusOr<std::unique_ptr<StepRunner>> StepRunner::Create(
    const Setup& setup) {
  std::unique_ptr<StepRunner> runner(new StepRunner(setup));
  ASYRA_RETURN_IF_ERROR(runner->MakeStreams());
  ASYRA_RETURN_IF_ERROR(runner->MakeOps());
  return runner;
}

absl::Status StepRunner::MakeStreams() {
  const std::vector<std::string>& names = setup_.program.streams;
  size_t count = std::max<size_t>(1, setup_.sync.last_on.size());
  // The first one is for ops without a stream, if there are any.
  size_t unnamed = count - std::min(count, names.size());
  for (size_t i = 0; i < count; ++i) {
    StreamId id = i < unnamed ? kNoStream : static_cast<StreamId>(i - unnamed);
    ASYRA_ASSIGN_OR_RETURN(
        std::unique_ptr<Stream> stream,
        setup_.device.CreateStream(
            id == kNoStream ? std::string(kComputeStream) : names[id],
            IsComputeStream(setup_.program, id) ? StreamUse::kCompute
                                                : StreamUse::kCollectives,
            setup_.failure));
    streams_.push_back(std::move(stream));
    finished_.push_back(setup_.device.CreateEvent(false));
  }
  begun_ = setup_.device.CreateEvent(false);
  if (setup_.options.profile) origin_ = setup_.device.CreateEvent(true);
  return absl::OkStatus();
}

absl::Status StepRunner::MakeOps() {
  const Program& program = setup_.program;
  std::vector<Event*> record_of(program.ops.size(), nullptr);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const SyncPlan::Point& point = setup_.sync.ops[i];
    const Op& op = program.ops[i];
    OpLaunch launch{.op = static_cast<int>(i),
                    .stream = point.stream,
                    .in_step = !IsConstant(op)};
    for (int wait : point.waits) launch.waits.push_back(record_of[wait]);
    if (point.record) {
      launch.record = setup_.device.CreateEvent(false);
      record_of[i] = launch.record.get();
    }
    if (launch.in_step && !op.def->is_view && setup_.options.profile) {
      launch.begin = setup_.device.CreateEvent(true);
      launch.end = setup_.device.CreateEvent(true);
    }
    ops_.push_back(std::move(launch));
  }
  ASYRA_RETURN_IF_ERROR(MakeKernels(/*of_collectives=*/false));
  ASYRA_RETURN_IF_ERROR(SyncKernelTuning());
  ASYRA_RETURN_IF_ERROR(MakeKernels(/*of_collectives=*/true));
  ASYRA_RETURN_IF_ERROR(MakeSelfCopies());
  ASYRA_RETURN_IF_ERROR(MakeQueues());
  PlaceWorkspaces();
  return absl::OkStatus();
}

absl::Status StepRunner::MakeKernels(bool of_collectives) {
  for (OpLaunch& launch : ops_) {
    const Op& op = setup_.program.ops[launch.op];
    if (op.def->is_view || op.is_collective() != of_collectives) continue;
    ASYRA_RETURN_IF_ERROR(MakeKernel(&launch));
  }
  return absl::OkStatus();
}

absl::Status StepRunner::MakeKernel(OpLaunch* launch) {
  const Op& op = setup_.program.ops[launch->op];
  KernelUse use(setup_.program, op, setup_.rank);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      Unimplemented("there is no communicator");
  std::string label = Brief(setup_.program, op);
  if (IsOverlap(*op.def)) {
    if (setup_.world != nullptr) kernel = OverlapKernel(use, launch->op, label);
    if (kernel.ok()) (*kernel)->set_label(label);
  } else if (!op.is_collective()) {
    kernel = setup_.device.PrepareKernel(use);
    if (kernel.ok()) (*kernel)->set_label(label);
  } else if (setup_.world != nullptr) {
    const auto& axes = op.attrs.Get<AxisList>("axes");
    CollectiveUse collective{use, setup_.program.mesh.Group(setup_.rank, axes),
                             launch->op, label, OnlyWait(op) >= 0};
    kernel = setup_.world->PrepareCollective(collective);
    if (AsksForCopyEngine(op.attrs)) {
      ASYRA_ASSIGN_OR_RETURN(launch->obstacle,
                             setup_.world->CopyEngineObstacle(collective));
    }
  }
  if (!kernel.ok()) return Annotate(kernel.status(), label);
  launch->launch = std::make_unique<Launch>();
  launch->launch->kernel = *std::move(kernel);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> StepRunner::OverlapKernel(
    const KernelUse& use, int op, const std::string& label) {
  std::vector<int64_t> members =
      use.mesh().Group(setup_.rank, AxesOf(*BodyOf(use.attrs())));
  if (IsOneKernel(use.attrs())) {
    return setup_.world->PrepareOneKernel({use, std::move(members), op, label});
  }
  return PreparePlanKernel(use, std::move(members), setup_.device,
                           *setup_.world);
}

int StepRunner::OnlyWait(const Op& op) const {
  return op.start && op.results.size() == 1 ? def_use_.FirstWait(op) : -1;
}

absl::Status StepRunner::MakeSelfCopies() {
  for (OpLaunch& launch : ops_) {
    if (launch.launch == nullptr || !launch.launch->kernel->has_self_copy()) {
      continue;
    }
    if (self_copies_ == nullptr) {
      ASYRA_ASSIGN_OR_RETURN(
          self_copies_,
          setup_.device.CreateStream("self-copies", StreamUse::kSelfCopies,
                                     setup_.failure));
    }
    launch.self_copy_begin = setup_.device.CreateEvent(false);
    launch.self_copy_end = setup_.device.CreateEvent(false);
    OpLaunch& wait = ops_[OnlyWait(setup_.program.ops[launch.op])];
    wait.waits.push_back(launch.self_copy_end.get());
  }
  return absl::OkStatus();
}

absl::Status StepRunner::MakeQueues() {
  size_t most = 0;
  for (const OpLaunch& op : ops_) {
    if (op.launch == nullptr) continue;
    most = std::max<size_t>(most, op.launch->kernel->queues());
  }
  std::vector<Stream*> queues;
  for (size_t i = 0; i < most; ++i) {
    ASYRA_ASSIGN_OR_RETURN(
        std::unique_ptr<Stream> queue,
        setup_.device.CreateStream(fmt::format("queue {}", i + 1),
                                   StreamUse::kCollectives, setup_.failure));
    queues.push_back(queue.get());
    queues_.push_back(std::move(queue));
  }
  for (const OpLaunch& op : ops_) {
    if (op.launch == nullptr) continue;
    op.launch->kernel->UseQueues(queues);
    if (setup_.options.profile) op.launch->kernel->RecordParts();
  }
  return absl::OkStatus();
}

// Replicas of a value are equal only where ranks compute it by the same
// algorithm. All ranks measure at the same time; those with another result than
// the first one prepare such kernels again.
absl::Status StepRunner::SyncKernelTuning() {
  if (setup_.world == nullptr) return absl::OkStatus();
  TuningResults mine;
  for (const OpLaunch& op : ops_) {
    if (op.launch != nullptr) op.launch->kernel->AddTuningResults(&mine);
  }
  ASYRA_ASSIGN_OR_RETURN(TuningResults agreed, SyncTuning(*setup_.world, mine));
  if (agreed == mine) return absl::OkStatus();
  setup_.device.SetTuningResults(agreed);
  for (OpLaunch& op : ops_) {
    if (op.launch == nullptr) continue;
    TuningResults its;
    op.launch->kernel->AddTuningResults(&its);
    bool same = absl::c_all_of(
        its, [&](const auto& one) { return agreed[one.first] == one.second; });
    if (!same) ASYRA_RETURN_IF_ERROR(MakeKernel(&op));
  }
  return absl::OkStatus();
}

void StepRunner::PlaceWorkspaces() {
  std::vector<int64_t> workspace(streams_.size(), 0);
  for (const OpLaunch& op : ops_) {
    if (op.launch == nullptr) continue;
    workspace[op.stream] =
        std::max(workspace[op.stream], op.launch->kernel->workspace_bytes());
  }
  for (int64_t bytes : workspace) {
    workspace_at_.push_back(workspace_bytes_);
    workspace_bytes_ += RoundUp(bytes, kWorkspaceAlignment);
  }
}

std::vector<std::string> StepRunner::OpsWhere(
    bool (*holds)(const Op& op, const Kernel& kernel)) const {
  std::vector<std::string> names;
  for (const OpLaunch& op : ops_) {
    if (!op.in_step || op.launch == nullptr) continue;
    const Op& found = setup_.program.ops[op.op];
    if (!holds(found, *op.launch->kernel)) continue;
    names.push_back(OpLabel(*found.def, found.attrs));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> StepRunner::fallback_ops() const {
  return OpsWhere(
      [](const Op&, const Kernel& kernel) { return !kernel.is_native(); });
}

std::vector<CollectiveRun> StepRunner::collectives() const {
  std::map<
      std::tuple<std::string, std::string_view, std::string_view, std::string>,
      int>
      counts;
  for (const OpLaunch& launch : ops_) {
    const Op& op = setup_.program.ops[launch.op];
    bool one_kernel = IsOneKernel(op.attrs);
    if (!op.is_collective() && !one_kernel) continue;
    if (launch.launch == nullptr) continue;
    const AxisList axes =
        one_kernel ? AxesOf(*BodyOf(op.attrs)) : op.attrs.Get<AxisList>("axes");
    std::string label = fmt::format("{}({})", OpLabel(*op.def, op.attrs),
                                    AxesToString(axes, setup_.program.mesh));
    std::string_view asked = one_kernel                    ? kPeerMemory
                             : AsksForCopyEngine(op.attrs) ? kCopyEngine
                                                           : kLibrary;
    ++counts[{std::move(label), asked, launch.launch->kernel->transport(),
              launch.obstacle}];
  }
  std::vector<CollectiveRun> runs;
  for (const auto& [key, count] : counts) {
    const auto& [label, asked, ran, obstacle] = key;
    runs.push_back({label, asked, ran, obstacle, count});
  }
  return runs;
}

std::vector<std::string> StepRunner::fallback_collectives() const {
  return OpsWhere([](const Op& op, const Kernel& kernel) {
    return AsksForCopyEngine(op.attrs) && kernel.transport() != kCopyEngine;
  });
}

std::vector<std::string> StepRunner::split_fusions() const {
  return OpsWhere(
      [](const Op&, const Kernel& kernel) { return !kernel.is_whole(); });
}

void* StepRunner::AddressOf(const Placement& placement) const {
  if (placement.region == Region::kOutside) return outside_[placement.offset];
  std::byte* base = placement.region == Region::kArena ? arena_ : resident_;
  // A region without bytes has no address.
  return base == nullptr ? nullptr : base + placement.offset;
}

absl::Status StepRunner::Bind(std::byte* arena, std::byte* resident,
                              std::byte* workspace,
                              std::vector<void*> outside) {
  const Program& program = setup_.program;
  arena_ = arena;
  resident_ = resident;
  outside_ = std::move(outside);
  root_.resize(program.values.size());
  for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<ValueId>(v);
  cell_of_.resize(program.values.size());
  for (uint64_t*& cell : cell_of_) cell = &cells_.emplace_back(0);
  for (OpLaunch& launch : ops_) {
    const Op& op = program.ops[launch.op];
    if (op.def->is_view) {
      root_[op.results[0]] = root_[op.operands[0]];
      continue;
    }
    BindOp(op, launch.launch.get(), workspace + workspace_at_[launch.stream]);
    Launch& bound = *launch.launch;
    absl::Status status = bound.kernel->Bind(bound.args);
    if (!status.ok()) return Annotate(status, bound.kernel->label());
    OpLaunch* last = &launch;
    if (bound.kernel->has_self_copy()) last = &ops_[OnlyWait(op)];
    ASYRA_RETURN_IF_ERROR(AddProbes(op, &launch, last));
  }
  ASYRA_RETURN_IF_ERROR(AddStepProbes());
  std::vector<Stream*> streams;
  for (auto& stream : streams_) streams.push_back(stream.get());
  if (self_copies_ != nullptr) streams.push_back(self_copies_.get());
  for (auto& queue : queues_) streams.push_back(queue.get());
  ASYRA_ASSIGN_OR_RETURN(
      step_, setup_.device.Record(streams, [this] { EnqueueOps(); }));
  return absl::OkStatus();
}

void StepRunner::BindOp(const Op& op, Launch* launch, std::byte* workspace) {
  for (ValueId value : op.operands) {
    launch->operands.push_back(AddressOf(setup_.memory.values[value]));
  }
  for (ValueId value : op.results) {
    launch->results.push_back(AddressOf(setup_.memory.values[value]));
  }
  launch->args = {launch->operands, launch->results, workspace};
}

absl::Status StepRunner::AddMemoryProbe(
    Probe probe, const Type& local, void* address, uint64_t* cell,
    std::string label, std::vector<std::unique_ptr<Launch>>* to) {
  auto launch = std::make_unique<Launch>();
  ASYRA_ASSIGN_OR_RETURN(launch->kernel,
                         setup_.device.PrepareProbe({probe, local, cell}));
  launch->kernel->set_label(std::move(label));
  launch->operands = {address};
  launch->args.operands = launch->operands;
  to->push_back(std::move(launch));
  return absl::OkStatus();
}

absl::Status StepRunner::AddProbe(Probe probe, ValueId value, std::string label,
                                  std::vector<std::unique_ptr<Launch>>* to) {
  // The checksum of a view is that of the value whose buffer it is in.
  bool is_finite = probe == Probe::kFinite;
  Type type = setup_.program.type(is_finite ? value : root_[value]);
  if (is_finite && setup_.in_halves[value]) type.dtype = DType::kBF16;
  return AddMemoryProbe(probe, type.Local(setup_.program.mesh),
                        AddressOf(setup_.memory.values[value]),
                        cell_of_[root_[value]], std::move(label), to);
}

bool StepRunner::IsOverwritten(const Op& op, ValueId operand) const {
  const std::vector<Placement>& at = setup_.memory.values;
  return std::any_of(op.results.begin(), op.results.end(),
                     [&](ValueId value) { return at[value] == at[operand]; });
}

bool StepRunner::Overwrites(const Op& op, ValueId result) const {
  const std::vector<Placement>& at = setup_.memory.values;
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId value) { return at[value] == at[result]; });
}

absl::Status StepRunner::AddProbes(const Op& op, OpLaunch* launch,
                                   OpLaunch* last) {
  std::string text = Brief(setup_.program, op);
  auto named = [&](std::string_view what, ValueId value) {
    return fmt::format("{}: {} %{}", text, what,
                       setup_.program.value_name(value));
  };
  if (setup_.options.debug_memory) {
    for (ValueId value : op.operands) {
      ASYRA_RETURN_IF_ERROR(AddProbe(Probe::kVerify, value,
                                     named("operand", value), &launch->before));
      if (IsOverwritten(op, value)) continue;
      ASYRA_RETURN_IF_ERROR(AddProbe(Probe::kVerify, value,
                                     named("operand", value), &last->after));
    }
    for (ValueId value : op.results) {
      const Placement& at = setup_.memory.values[value];
      auto* address = static_cast<std::byte*>(AddressOf(at));
      uint64_t* guard = &cells_.emplace_back(0);
      // Bytes behind the memory of others are not ours to fill.
      int64_t guard_bytes =
          at.region == Region::kOutside ? 0 : setup_.guard_bytes;
      Type after = Bytes(guard_bytes);
      if (!Overwrites(op, value)) {
        ASYRA_RETURN_IF_ERROR(
            AddMemoryProbe(Probe::kPoison, Bytes(at.bytes + guard_bytes),
                           address, nullptr, "", &launch->before));
      }
      ASYRA_RETURN_IF_ERROR(AddMemoryProbe(
          Probe::kSeal, after, address + at.bytes, guard, "", &launch->before));
      ASYRA_RETURN_IF_ERROR(
          AddMemoryProbe(Probe::kVerify, after, address + at.bytes, guard,
                         named("memory after", value), &last->after));
      ASYRA_RETURN_IF_ERROR(AddProbe(Probe::kSeal, value, "", &last->after));
    }
  }
  // A constant is what the program says.
  if (!setup_.options.check_finite || IsConstant(op)) return absl::OkStatus();
  for (ValueId value : op.results) {
    ASYRA_RETURN_IF_ERROR(
        AddProbe(Probe::kFinite, value, named("result", value), &last->after));
  }
  return absl::OkStatus();
}

absl::Status StepRunner::AddStepProbes() {
  if (!setup_.options.debug_memory) return absl::OkStatus();
  for (const Input& input : setup_.program.inputs) {
    ASYRA_RETURN_IF_ERROR(AddProbe(Probe::kSeal, input.value, "", &at_begin_));
  }
  for (const asyra::Output& output : setup_.program.outputs) {
    ASYRA_RETURN_IF_ERROR(AddProbe(
        Probe::kVerify, output.value,
        fmt::format("output %{}", setup_.program.value_name(output.value)),
        &at_end_));
  }
  return absl::OkStatus();
}

void StepRunner::EnqueueKernel(OpLaunch& op, Stream& stream) {
  for (auto& probe : op.before) probe->kernel->Launch(probe->args, stream);
  if (op.launch != nullptr) {
    if (op.self_copy_begin != nullptr) {
      stream.Record(*op.self_copy_begin);
      self_copies_->Wait(*op.self_copy_begin);
      op.launch->kernel->LaunchSelfCopy(op.launch->args, *self_copies_);
      self_copies_->Record(*op.self_copy_end);
    }
    if (op.begin != nullptr) stream.Record(*op.begin);
    op.launch->kernel->Launch(op.launch->args, stream);
    if (op.end != nullptr) stream.Record(*op.end);
  }
  for (auto& probe : op.after) probe->kernel->Launch(probe->args, stream);
}

void StepRunner::EnqueueConstants() {
  for (OpLaunch& op : ops_) {
    if (!op.in_step) EnqueueKernel(op, home());
  }
}

// A constant has no kernel in the step, but other ops may wait for its position
// on the stream (ir/happens_before.h).
void StepRunner::Enqueue(OpLaunch& op) {
  Stream& stream = *streams_[op.stream];
  for (Event* wait : op.waits) stream.Wait(*wait);
  if (op.in_step) EnqueueKernel(op, stream);
  if (op.record != nullptr) stream.Record(*op.record);
}

void StepRunner::EnqueueOps() {
  for (auto& probe : at_begin_) probe->kernel->Launch(probe->args, home());
  if (origin_ != nullptr) home().Record(*origin_);
  home().Record(*begun_);
  for (size_t s = 1; s < streams_.size(); ++s) streams_[s]->Wait(*begun_);
  for (OpLaunch& op : ops_) Enqueue(op);
  for (size_t s = 1; s < streams_.size(); ++s) {
    streams_[s]->Record(*finished_[s]);
    home().Wait(*finished_[s]);
  }
  for (auto& probe : at_end_) probe->kernel->Launch(probe->args, home());
}

std::vector<OpTime> StepRunner::Profile() const {
  std::vector<OpTime> times;
  if (!setup_.options.profile) return times;
  for (const OpLaunch& op : ops_) {
    if (op.begin == nullptr) continue;
    std::string_view transport =
        op.launch == nullptr ? "" : op.launch->kernel->transport();
    times.push_back({op.op, op.begin->UsSince(*origin_),
                     op.end->UsSince(*origin_), transport});
    if (op.launch == nullptr) continue;
    for (KernelPart& part : op.launch->kernel->parts()) {
      times.back().parts.push_back({std::move(part.queue), std::move(part.name),
                                    part.is_copy, part.begin->UsSince(*origin_),
                                    part.end->UsSince(*origin_)});
    }
  }
  return times;
}

}  // namespace asyra
