// Tokens in the slots of their experts, and back (ir/ops/moe.cc).
#include <cstring>

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// The rows of the choices [lead, tokens, k] of one rank in buffers [lead,
// experts, slots, hidden], of whose experts it holds some.
class Routing {
 public:
  static constexpr int64_t kNoRow = -1;

  // `buffers` are the operand or result of the local type `local`; operand 1
  // holds the choices.
  Routing(const KernelUse& use, const Type& global, const Type& local,
          int64_t capacity)
      : dtype_(use.operand(1).dtype),
        total_(global.size(global.rank() - 3)),
        first_(use.Start(global, global.rank() - 3)),
        experts_(local.size(local.rank() - 3)),
        slots_(local.size(local.rank() - 2)),
        capacity_(capacity) {
    const Type& choices = use.operand(1);
    k_ = choices.size(choices.rank() - 1);
    per_lead_ = k_ * choices.size(choices.rank() - 2);
    per_group_ = k_ * use.attrs().Int("group_size");
    count_ = choices.num_elements();
  }

  int64_t k() const { return k_; }
  // Slots of each expert that a group has taken.
  int64_t scratch_bytes() const { return total_ * 8; }

  // Calls visit(choice, its row among all of the buffers, or kNoRow).
  template <typename Visit>
  absl::Status ForEach(const void* choices, int64_t* taken, Visit visit) const {
    int64_t groups = per_group_ > 0 ? per_lead_ / per_group_ : 0;
    for (int64_t i = 0; i < count_; ++i) {
      if (i % per_group_ == 0) std::fill_n(taken, total_, int64_t{0});
      int64_t expert = IntegerAt(dtype_, choices, i);
      if (expert < 0 || expert >= total_) {
        return Invalid("expert {} is not in [0, {})", expert, total_);
      }
      int64_t slot = taken[expert]++;
      int64_t own = expert - first_;
      bool here = slot < capacity_ && own >= 0 && own < experts_;
      int64_t group = i / per_group_ % groups;
      visit(i, here ? (i / per_lead_ * experts_ + own) * slots_ +
                          group * capacity_ + slot
                    : kNoRow);
    }
    return absl::OkStatus();
  }

 private:
  DType dtype_;
  int64_t total_, first_, experts_, slots_, capacity_;
  int64_t k_, per_lead_, per_group_, count_;
};

int64_t CapacityOf(const KernelUse& use) {
  const Type& rows = use.global_operands()[0];
  const Type& choices = use.global_operands()[1];
  int64_t groups =
      choices.size(choices.rank() - 2) / use.attrs().Int("group_size");
  return groups > 0 ? rows.size(rows.rank() - 2) / groups : 1;
}

int64_t HiddenOf(const Type& type) { return type.size(type.rank() - 1); }

class DispatchKernel : public CpuKernel {
 public:
  explicit DispatchKernel(const KernelUse& use)
      : routing_(use, use.global_results()[0], use.result(0),
                 use.attrs().Int("capacity")),
        row_bytes_(HiddenOf(use.operand(0)) * SizeOf(use.operand(0).dtype)),
        bytes_(use.result(0).bytes()) {}
  int64_t workspace_bytes() const override { return routing_.scratch_bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    if (bytes_ == 0) return absl::OkStatus();
    auto* to = static_cast<std::byte*>(args.results[0]);
    const auto* from = static_cast<const std::byte*>(args.operands[0]);
    std::memset(to, 0, bytes_);
    return routing_.ForEach(
        args.operands[1], static_cast<int64_t*>(args.workspace),
        [&](int64_t choice, int64_t row) {
          if (row == Routing::kNoRow) return;
          std::memcpy(to + row * row_bytes_,
                      from + choice / routing_.k() * row_bytes_, row_bytes_);
        });
  }

 private:
  Routing routing_;
  int64_t row_bytes_, bytes_;
};

class CollectKernel : public CpuKernel {
 public:
  explicit CollectKernel(const KernelUse& use)
      : routing_(use, use.global_operands()[0], use.operand(0),
                 CapacityOf(use)),
        row_bytes_(HiddenOf(use.operand(0)) * SizeOf(use.operand(0).dtype)) {}
  int64_t workspace_bytes() const override { return routing_.scratch_bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    auto* to = static_cast<std::byte*>(args.results[0]);
    const auto* from = static_cast<const std::byte*>(args.operands[0]);
    if (row_bytes_ == 0) return absl::OkStatus();
    return routing_.ForEach(
        args.operands[1], static_cast<int64_t*>(args.workspace),
        [&](int64_t choice, int64_t row) {
          std::byte* at = to + choice * row_bytes_;
          if (row == Routing::kNoRow) {
            std::memset(at, 0, row_bytes_);
          } else {
            std::memcpy(at, from + row * row_bytes_, row_bytes_);
          }
        });
  }

 private:
  Routing routing_;
  int64_t row_bytes_;
};

// Each token's choices are next to each other: its sum is kept in double until
// the last of them.
class CombineKernel : public CpuKernel {
 public:
  explicit CombineKernel(const KernelUse& use)
      : routing_(use, use.global_operands()[0], use.operand(0),
                 CapacityOf(use)),
        dtype_(use.operand(0).dtype),
        hidden_(HiddenOf(use.operand(0))) {
    taken_at_ = layout_.Add(routing_.scratch_bytes());
    sum_at_ = layout_.Add(hidden_ * 8);
    row_at_ = layout_.Add(hidden_ * 8);
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    auto* sum = WorkspaceAt<double>(args.workspace, sum_at_);
    auto* values = WorkspaceAt<double>(args.workspace, row_at_);
    int64_t k = routing_.k();
    return routing_.ForEach(
        args.operands[1], WorkspaceAt<int64_t>(args.workspace, taken_at_),
        [&](int64_t choice, int64_t row) {
          if (choice % k == 0) std::fill_n(sum, hidden_, 0.0);
          if (row != Routing::kNoRow) {
            double weight = 0;
            Load(dtype_, ElementAt(dtype_, args.operands[2], choice), 1,
                 &weight);
            Load(dtype_, ElementAt(dtype_, args.operands[0], row * hidden_),
                 hidden_, values);
            for (int64_t h = 0; h < hidden_; ++h) sum[h] += weight * values[h];
          }
          if (choice % k != k - 1) return;
          Store(dtype_, sum, hidden_,
                ElementAt(dtype_, args.results[0], choice / k * hidden_));
        });
  }

 private:
  Routing routing_;
  DType dtype_;
  int64_t hidden_;
  WorkspaceLayout layout_;
  int64_t taken_at_, sum_at_, row_at_;
};

template <typename K>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

// Some choice, so that all of a result is written.
bool HasChoices(const KernelUse& use) {
  return use.operand(1).num_elements() > 0;
}

}  // namespace

std::vector<CpuKernelDef> MoeKernels() {
  return {{"moe_dispatch", HasChoices, Prepare<DispatchKernel>},
          {"moe_collect", HasChoices, Prepare<CollectKernel>},
          {"moe_combine", HasChoices, Prepare<CombineKernel>}};
}

}  // namespace asyra::cpu
