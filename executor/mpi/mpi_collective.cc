#ifdef ASYRA_MPI
#include "executor/mpi/mpi_collective.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "executor/collective_geometry.h"
#include "executor/cpu/cpu_kernel.h"
#include "executor/cpu/sum.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Smaller sums are computed by every member for itself: one message more costs
// more.
constexpr int64_t kSharedSumBytes = 16 << 10;

// Rows of a block as one type: outer times middle runs, so far apart.
MPI_Datatype MakeBlockType(const CollectiveGeometry& g, int64_t middle_step,
                           int64_t outer_step) {
  int64_t bytes = SizeOf(g.dtype);
  MPI_Datatype element{}, run{}, rows{}, block{};
  MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &element);
  MPI_Type_contiguous(static_cast<int>(g.run_elements), element, &run);
  MPI_Type_create_hvector(static_cast<int>(g.middle), 1, middle_step * bytes,
                          run, &rows);
  MPI_Type_create_hvector(static_cast<int>(g.outer), 1, outer_step * bytes,
                          rows, &block);
  MPI_Type_commit(&block);
  for (MPI_Datatype* part : {&element, &run, &rows}) MPI_Type_free(part);
  return block;
}

class MpiCollective : public CpuKernel {
 public:
  MpiCollective(std::shared_ptr<MpiLink> link, const CollectiveUse& use,
                const CollectiveGeometry& geometry, int tag)
      : link_(std::move(link)),
        members_(use.members),
        label_(use.label),
        geometry_(geometry),
        element_bytes_(SizeOf(geometry.dtype)),
        tag_(tag),
        parts_(members_.size()) {
    me_ = std::find(members_.begin(), members_.end(), link_->rank()) -
          members_.begin();
    shared_ = geometry.sums && geometry.outer == 1 &&
              geometry.read_member == 0 &&
              geometry.run_elements * element_bytes_ >= kSharedSumBytes;
    link_->Locked([&] {
      sent_ =
          MakeBlockType(geometry, geometry.read_middle, geometry.read_outer);
      received_ =
          MakeBlockType(geometry, geometry.write_middle, geometry.write_outer);
    });
    messages_.Reserve(2 * members_.size());
  }
  ~MpiCollective() override {
    link_->Locked([this] {
      MPI_Type_free(&sent_);
      MPI_Type_free(&received_);
    });
  }

  // What the others add to a sum.
  int64_t workspace_bytes() const override {
    if (!geometry_.sums) return 0;
    int64_t elements =
        shared_ ? ShareOf(members() - 1).second : geometry_.block_elements();
    return members() * elements * element_bytes_;
  }

  absl::Status Run(const KernelArgs& args) override {
    operand_ = static_cast<const std::byte*>(args.operands[0]);
    result_ = static_cast<std::byte*>(args.results[0]);
    work_ = static_cast<std::byte*>(args.workspace);
    absl::Status status = shared_          ? SumShares()
                          : geometry_.sums ? SumBlocks()
                                           : GatherBlocks();
    // All members have come when their messages have.
    double us = link_->options().inject_comm_us;
    if (status.ok() && us > 0) {
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::micro>(us));
    }
    return status;
  }

 private:
  int64_t members() const { return static_cast<int64_t>(members_.size()); }

  // Calls begin(member) for all others, each rank beginning with its
  // neighbour, so that they do not all send to the same one.
  template <typename F>
  absl::Status ForOthers(F begin) {
    for (int64_t j = 1; j < members(); ++j) {
      ASYRA_RETURN_IF_ERROR(begin((me_ + j) % members()));
    }
    return absl::OkStatus();
  }

  absl::Status SendBlocks() {
    return ForOthers([&](int64_t to) {
      return link_->Send(operand_ + geometry_.ReadAt(to, 0) * element_bytes_, 1,
                         sent_, members_[to], tag_, &messages_);
    });
  }
  absl::Status Finish() {
    absl::Status status = link_->Await(label_, &messages_);
    messages_.Clear();
    return status;
  }

  absl::Status GatherBlocks() {
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) {
      return link_->Receive(
          result_ + geometry_.WriteAt(from, 0) * element_bytes_, 1, received_,
          members_[from], tag_, &messages_);
    }));
    ASYRA_RETURN_IF_ERROR(SendBlocks());
    int64_t run = geometry_.run_elements * element_bytes_;
    for (int64_t r = 0; r < geometry_.rows() && run > 0; ++r) {
      std::memcpy(result_ + geometry_.WriteAt(me_, r) * element_bytes_,
                  operand_ + geometry_.ReadAt(me_, r) * element_bytes_, run);
    }
    return Finish();
  }

  std::byte* Work(int64_t member, int64_t elements) const {
    return work_ + member * elements * element_bytes_;
  }

  absl::Status SumBlocks() {
    int64_t elements = geometry_.block_elements();
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) {
      return link_->Receive(Work(from, elements),
                            static_cast<int>(elements * element_bytes_),
                            MPI_BYTE, members_[from], tag_, &messages_);
    }));
    ASYRA_RETURN_IF_ERROR(SendBlocks());
    ASYRA_RETURN_IF_ERROR(Finish());
    int64_t run = geometry_.run_elements;
    for (int64_t r = 0; r < geometry_.rows(); ++r) {
      for (int64_t j = 0; j < members(); ++j) {
        parts_[j] = j == me_
                        ? operand_ + geometry_.ReadAt(j, r) * element_bytes_
                        : Work(j, elements) + r * run * element_bytes_;
      }
      SumParts(geometry_.dtype, parts_, run,
               result_ + geometry_.WriteAt(0, r) * element_bytes_);
    }
    return absl::OkStatus();
  }

  // The elements whose sum member `i` computes for all; the last one has most.
  std::pair<int64_t, int64_t> ShareOf(int64_t i) const {
    int64_t share = geometry_.run_elements / members();
    int64_t begin = share * i;
    return {begin, i + 1 < members() ? share : geometry_.run_elements - begin};
  }

  absl::Status SumShares() {
    auto [mine, elements] = ShareOf(me_);
    int64_t bytes = elements * element_bytes_;
    for (int64_t from = 0; from < members(); ++from) {
      parts_[from] =
          from == me_ ? operand_ + mine * element_bytes_ : Work(from, elements);
      if (from == me_) continue;
      ASYRA_RETURN_IF_ERROR(link_->Receive(Work(from, elements),
                                           static_cast<int>(bytes), MPI_BYTE,
                                           members_[from], tag_, &messages_));
    }
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t to) {
      auto share = ShareOf(to);
      return link_->Send(operand_ + share.first * element_bytes_,
                         static_cast<int>(share.second * element_bytes_),
                         MPI_BYTE, members_[to], tag_, &messages_);
    }));
    ASYRA_RETURN_IF_ERROR(Finish());
    std::byte* sum = result_ + mine * element_bytes_;
    SumParts(geometry_.dtype, parts_, elements, sum);
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) {
      auto share = ShareOf(from);
      return link_->Receive(result_ + share.first * element_bytes_,
                            static_cast<int>(share.second * element_bytes_),
                            MPI_BYTE, members_[from], tag_, &messages_);
    }));
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t to) {
      return link_->Send(sum, static_cast<int>(bytes), MPI_BYTE, members_[to],
                         tag_, &messages_);
    }));
    return Finish();
  }

  std::shared_ptr<MpiLink> link_;
  std::vector<int64_t> members_;
  int64_t me_ = 0;  // among the members
  std::string label_;
  CollectiveGeometry geometry_;
  int64_t element_bytes_;
  int tag_;
  bool shared_ = false;
  MPI_Datatype sent_{}, received_{};  // blocks of operands and of results
  MpiMessages messages_;
  std::vector<const std::byte*> parts_;  // scratch
  // Of the run that is going on.
  const std::byte* operand_ = nullptr;
  std::byte* result_ = nullptr;
  std::byte* work_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMpiCollective(
    std::shared_ptr<MpiLink> link, const CollectiveUse& use) {
  ASYRA_ASSIGN_OR_RETURN(
      CollectiveGeometry geometry,
      GeometryOf(use.use, static_cast<int64_t>(use.members.size())));
  int64_t bytes = geometry.block_elements() * SizeOf(geometry.dtype);
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (bytes > kMost) {
    return Unimplemented("{}: a message of {} bytes, MPI counts up to {}",
                         use.label, bytes, kMost);
  }
  ASYRA_ASSIGN_OR_RETURN(int tag, link->NewTag());
  return std::make_unique<MpiCollective>(std::move(link), use, geometry, tag);
}

}  // namespace asyra
#endif
