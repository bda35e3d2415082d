#include "executor/composite_kernel.h"

#include <deque>

#include "ir/body.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Location of a value of the body.
struct Place {
  enum : uint8_t { kOperand, kResult, kWorkspace } where = kWorkspace;
  int64_t at = 0;  // which one, or bytes into the workspace
};

class CompositeKernel : public Kernel {
 public:
  CompositeKernel(const KernelUse& use, const Body& body, Device& device)
      : use_(use), body_(body), device_(device) {}

  absl::Status Prepare() {
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Type> types,
        BodyTypes(body_, use_.global_operands(), use_.mesh()));
    for (int k = 0; k < body_.num_operands; ++k) {
      places_.push_back({Place::kOperand, k});
    }
    for (size_t i = 0; i < body_.ops.size(); ++i) {
      PlaceResult(i, types[body_.num_operands + i].Local(use_.mesh()));
    }
    int64_t of_parts = 0;
    for (size_t i = 0; i < body_.ops.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(AddPart(i, types));
      of_parts = std::max(of_parts, parts_.back()->workspace_bytes());
    }
    values_bytes_ = workspace_bytes_;
    workspace_bytes_ += of_parts;
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  bool is_whole() const override { return false; }
  bool is_native() const override {
    bool native = true;
    for (const auto& part : parts_) native &= part->is_native();
    return native;
  }
  void AddTuningResults(TuningResults* results) const override {
    for (const auto& part : parts_) part->AddTuningResults(results);
  }

  void Launch(const KernelArgs& args, Stream& stream) override {
    std::vector<PartArgs>& part_args = ArgsOfParts(args);
    for (size_t i = 0; i < parts_.size(); ++i) {
      Kernel& kernel = *parts_[i];
      if (kernel.label().empty() && !label().empty()) {
        kernel.set_label(
            fmt::format("{}: op {}, {}", label(), i, body_.ops[i].def->name));
      }
      kernel.Launch(part_args[i].args, stream);
    }
    auto* workspace = static_cast<std::byte*>(args.workspace);
    for (const auto& [from, result] : copies_) {
      device_.Copy(args.results[result], workspace + from,
                   use_.result(result).bytes(), stream);
    }
  }

 private:
  struct PartArgs {
    std::vector<void*> operands;
    void* result = nullptr;
    KernelArgs args;
  };

  // A launch: where its values are, and what it gives to each part.
  struct LaunchArgs {
    std::vector<void*> operands, results;
    void* workspace = nullptr;
    std::vector<PartArgs> parts;

    bool AreThoseOf(const KernelArgs& args) const {
      return workspace == args.workspace && operands == args.operands &&
             results == args.results;
    }
  };

  // Returns the arguments of the parts. They read them when they run, which may
  // be after a launch with others: pieces of a plan share their kernels.
  std::vector<PartArgs>& ArgsOfParts(const KernelArgs& args) {
    for (LaunchArgs& known : launches_) {
      if (known.AreThoseOf(args)) return known.parts;
    }
    LaunchArgs& launch = launches_.emplace_back(
        LaunchArgs{{args.operands.begin(), args.operands.end()},
                   {args.results.begin(), args.results.end()},
                   args.workspace});
    std::vector<PartArgs>& parts = launch.parts;
    parts.resize(parts_.size());
    auto* workspace = static_cast<std::byte*>(args.workspace);
    auto address = [&](const Place& place) -> void* {
      if (place.where == Place::kOperand) return args.operands[place.at];
      if (place.where == Place::kResult) return args.results[place.at];
      return workspace + place.at;
    };
    for (size_t i = 0; i < parts_.size(); ++i) {
      PartArgs& part = parts[i];
      for (int operand : body_.ops[i].operands) {
        part.operands.push_back(address(places_[operand]));
      }
      part.result = address(places_[body_.num_operands + i]);
      part.args = {part.operands, absl::MakeConstSpan(&part.result, 1),
                   workspace + values_bytes_};
    }
    return parts;
  }

  // Returns whether the fusion's result may overwrite an operand that is read
  // when op `index`, or one after it, runs.
  bool MayHide(size_t index, const Type& result) const {
    for (size_t i = index; i < body_.ops.size(); ++i) {
      if (i == index && body_.ops[i].def->in_place) continue;
      for (int value : body_.ops[i].operands) {
        if (value < body_.num_operands && use_.operand(value) == result) {
          return true;
        }
      }
    }
    return false;
  }

  void PlaceResult(size_t index, const Type& local) {
    int value = body_.num_operands + static_cast<int>(index);
    int result = -1;
    for (size_t r = 0; r < body_.results.size(); ++r) {
      if (body_.results[r] == value) result = static_cast<int>(r);
    }
    if (result >= 0 && !MayHide(index, local)) {
      places_.push_back({Place::kResult, result});
      return;
    }
    places_.push_back({Place::kWorkspace, workspace_bytes_});
    if (result >= 0) copies_.emplace_back(workspace_bytes_, result);
    workspace_bytes_ += RoundUp(local.bytes(), kWorkspaceAlignment);
  }

  absl::Status AddPart(size_t index, absl::Span<const Type> types) {
    BodyCall use(body_, index, types);
    const OpCall& call = use.call();
    ASYRA_ASSIGN_OR_RETURN(parts_.emplace_back(),
                           device_.PrepareKernel(use_.OfPart(call)));
    return absl::OkStatus();
  }

  KernelUse use_;
  Body body_;
  Device& device_;                              // outlives its kernels
  std::vector<Place> places_;                   // by value of the body
  std::vector<std::unique_ptr<Kernel>> parts_;  // by op
  std::deque<LaunchArgs> launches_;             // of different values
  // Copies from bytes of the workspace to a result.
  std::vector<std::pair<int64_t, int>> copies_;
  int64_t values_bytes_ = 0, workspace_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareComposite(const KernelUse& use,
                                                         Device& device) {
  ASYRA_RETURN_IF_ERROR(use.RequireDense());
  const Body* body = BodyOf(use.attrs());
  if (body == nullptr) {
    return Unimplemented("{} has no body", use.def().name);
  }
  auto kernel = std::make_unique<CompositeKernel>(use, *body, device);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra
