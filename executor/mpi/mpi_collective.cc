#ifdef ASYRA_MPI
#include "executor/mpi/mpi_collective.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "executor/comm/collective_geometry.h"
#include "executor/cpu/cpu_kernel.h"
#include "executor/cpu/sum.h"
#include "executor/cpu/workspace.h"
#include "executor/device.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Smaller reductions are computed by every member separately: another message
// costs more.
constexpr int64_t kSharedSumBytes = 16 << 10;

// Rows of a chunk as one type: outer times middle runs, so far apart.
MPI_Datatype MakeChunkType(const CollectiveGeometry& g, int64_t middle_step,
                           int64_t outer_step) {
  int64_t bytes = SizeOf(g.dtype);
  MPI_Datatype element{}, run{}, rows{}, chunk{};
  MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &element);
  MPI_Type_contiguous(static_cast<int>(g.run_elements), element, &run);
  MPI_Type_create_hvector(static_cast<int>(g.middle), 1, middle_step * bytes,
                          run, &rows);
  MPI_Type_create_hvector(static_cast<int>(g.outer), 1, outer_step * bytes,
                          rows, &chunk);
  MPI_Type_commit(&chunk);
  for (MPI_Datatype* part : {&element, &run, &rows}) MPI_Type_free(part);
  return chunk;
}

// The data movement of one operand to its result.
struct Part {
  CollectiveGeometry geometry;
  int64_t element_bytes = 1;
  bool shared = false;              // each member reduces a part
  MPI_Datatype sent{}, received{};  // chunks of the operand, of the result
  int64_t work_begin = 0;           // in the workspace
  // Addresses of the run that is going on.
  const std::byte* operand = nullptr;
  std::byte* result = nullptr;
  std::byte* work = nullptr;
};

// The messages of all operands are in flight together.
class MpiCollective : public CpuKernel {
 public:
  MpiCollective(std::shared_ptr<MpiLink> link, const CollectiveUse& use,
                const std::vector<CollectiveGeometry>& geometries, int tag)
      : link_(std::move(link)),
        members_(use.members),
        label_(use.label),
        tag_(tag),
        summands_(members_.size()) {
    me_ = std::find(members_.begin(), members_.end(), link_->rank()) -
          members_.begin();
    for (const CollectiveGeometry& geometry : geometries) AddPart(geometry);
    messages_.Reserve(2 * members_.size() * parts_.size());
  }
  std::string_view transport() const override { return kMpi; }
  ~MpiCollective() override {
    link_->Locked([this] {
      for (Part& part : parts_) {
        MPI_Type_free(&part.sent);
        MPI_Type_free(&part.received);
      }
    });
  }

  // Summands of the other members.
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  absl::Status Run(const KernelArgs& args) override {
    for (size_t p = 0; p < parts_.size(); ++p) {
      Part& part = parts_[p];
      part.operand = static_cast<const std::byte*>(args.operands[p]);
      part.result = static_cast<std::byte*>(args.results[p]);
      part.work = static_cast<std::byte*>(args.workspace) + part.work_begin;
    }
    absl::Status status = Move();
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

  void AddPart(const CollectiveGeometry& geometry) {
    Part part{.geometry = geometry, .element_bytes = SizeOf(geometry.dtype)};
    part.shared = geometry.sums && geometry.outer == 1 &&
                  geometry.read_member == 0 &&
                  geometry.run_elements * part.element_bytes >= kSharedSumBytes;
    link_->Locked([&] {
      part.sent =
          MakeChunkType(geometry, geometry.read_middle, geometry.read_outer);
      part.received =
          MakeChunkType(geometry, geometry.write_middle, geometry.write_outer);
    });
    part.work_begin = workspace_bytes_;
    if (geometry.sums) {
      int64_t bytes = members() * WorkElements(part) * part.element_bytes;
      workspace_bytes_ += RoundUp(bytes, kDeviceAlignment);
    }
    parts_.push_back(part);
  }

  absl::Status Move() {
    bool any_shared = false;
    for (const Part& part : parts_) {
      ASYRA_RETURN_IF_ERROR(part.shared          ? SendShares(part)
                            : part.geometry.sums ? SendSummands(part)
                                                 : GatherChunks(part));
      any_shared |= part.shared;
    }
    ASYRA_RETURN_IF_ERROR(Finish());
    for (const Part& part : parts_) {
      if (part.shared) {
        ASYRA_RETURN_IF_ERROR(SumAndSendShare(part));
      } else if (part.geometry.sums) {
        SumChunks(part);
      }
    }
    return any_shared ? Finish() : absl::OkStatus();
  }

  // Calls begin(member) for all others, each rank beginning with its
  // neighbour, so that they do not all send to the same one.
  template <typename F>
  absl::Status ForOthers(F begin) {
    for (int64_t j = 1; j < members(); ++j) {
      ASYRA_RETURN_IF_ERROR(begin((me_ + j) % members()));
    }
    return absl::OkStatus();
  }

  bool Moves(const Part& part, int64_t from, int64_t to) const {
    return part.geometry.Moves(from, to, members());
  }
  absl::Status SendChunks(const Part& part) {
    return ForOthers([&](int64_t to) -> absl::Status {
      if (!Moves(part, me_, to)) return absl::OkStatus();
      return link_->Send(
          part.operand + part.geometry.ReadAt(to, 0) * part.element_bytes, 1,
          part.sent, members_[to], tag_, &messages_);
    });
  }
  absl::Status Finish() {
    absl::Status status = link_->Await(label_, &messages_);
    messages_.Clear();
    return status;
  }

  absl::Status GatherChunks(const Part& part) {
    const CollectiveGeometry& geometry = part.geometry;
    int64_t size = part.element_bytes;
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) -> absl::Status {
      if (!Moves(part, from, me_)) return absl::OkStatus();
      return link_->Receive(part.result + geometry.WriteAt(from, 0) * size, 1,
                            part.received, members_[from], tag_, &messages_);
    }));
    ASYRA_RETURN_IF_ERROR(SendChunks(part));
    if (!Moves(part, me_, me_)) return absl::OkStatus();
    int64_t run = geometry.run_elements * size;
    for (int64_t r = 0; r < geometry.runs() && run > 0; ++r) {
      std::memcpy(part.result + geometry.WriteAt(me_, r) * size,
                  part.operand + geometry.ReadAt(me_, r) * size, run);
    }
    return absl::OkStatus();
  }

  // The summands of each member in the workspace, by number of elements.
  int64_t WorkElements(const Part& part) const {
    return part.shared ? ShareOf(members() - 1, part).second
                       : part.geometry.chunk_elements();
  }
  static std::byte* Work(const Part& part, int64_t member, int64_t elements) {
    return part.work + member * elements * part.element_bytes;
  }

  absl::Status SendSummands(const Part& part) {
    int64_t elements = part.geometry.chunk_elements();
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) {
      return link_->Receive(Work(part, from, elements),
                            static_cast<int>(elements * part.element_bytes),
                            MPI_BYTE, members_[from], tag_, &messages_);
    }));
    return SendChunks(part);
  }

  void SumChunks(const Part& part) {
    const CollectiveGeometry& geometry = part.geometry;
    int64_t elements = geometry.chunk_elements(), size = part.element_bytes;
    int64_t run = geometry.run_elements;
    for (int64_t r = 0; r < geometry.runs(); ++r) {
      for (int64_t j = 0; j < members(); ++j) {
        summands_[j] = j == me_ ? part.operand + geometry.ReadAt(j, r) * size
                                : Work(part, j, elements) + r * run * size;
      }
      SumParts(geometry.dtype, summands_, run,
               part.result + geometry.WriteAt(0, r) * size);
    }
  }

  // The elements that member `i` reduces for all; the last one has most.
  std::pair<int64_t, int64_t> ShareOf(int64_t i, const Part& part) const {
    int64_t elements = part.geometry.run_elements;
    int64_t share = elements / members(), begin = share * i;
    return {begin, i + 1 < members() ? share : elements - begin};
  }

  absl::Status SendShares(const Part& part) {
    int64_t elements = ShareOf(me_, part).second;
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) {
      return link_->Receive(Work(part, from, elements),
                            static_cast<int>(elements * part.element_bytes),
                            MPI_BYTE, members_[from], tag_, &messages_);
    }));
    return ForOthers([&](int64_t to) {
      auto share = ShareOf(to, part);
      return link_->Send(part.operand + share.first * part.element_bytes,
                         static_cast<int>(share.second * part.element_bytes),
                         MPI_BYTE, members_[to], tag_, &messages_);
    });
  }

  absl::Status SumAndSendShare(const Part& part) {
    int64_t size = part.element_bytes;
    auto [mine, elements] = ShareOf(me_, part);
    for (int64_t j = 0; j < members(); ++j) {
      summands_[j] =
          j == me_ ? part.operand + mine * size : Work(part, j, elements);
    }
    std::byte* sum = part.result + mine * size;
    SumParts(part.geometry.dtype, summands_, elements, sum);
    ASYRA_RETURN_IF_ERROR(ForOthers([&](int64_t from) {
      auto share = ShareOf(from, part);
      return link_->Receive(part.result + share.first * size,
                            static_cast<int>(share.second * size), MPI_BYTE,
                            members_[from], tag_, &messages_);
    }));
    int64_t bytes = elements * size;
    return ForOthers([&](int64_t to) {
      return link_->Send(sum, static_cast<int>(bytes), MPI_BYTE, members_[to],
                         tag_, &messages_);
    });
  }

  std::shared_ptr<MpiLink> link_;
  std::vector<int64_t> members_;
  int64_t me_ = 0;  // among the members
  std::string label_;
  int tag_;
  std::vector<Part> parts_;
  int64_t workspace_bytes_ = 0;
  MpiMessages messages_;
  std::vector<const std::byte*> summands_;  // scratch, by member
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMpiCollective(
    std::shared_ptr<MpiLink> link, const CollectiveUse& use) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<CollectiveGeometry> geometries,
                         GeometriesOf(use));
  for (const CollectiveGeometry& geometry : geometries) {
    int64_t bytes = geometry.chunk_elements() * SizeOf(geometry.dtype);
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    if (bytes > kMost) {
      return Unimplemented("{}: a message of {} bytes, MPI counts up to {}",
                           use.label, bytes, kMost);
    }
  }
  ASYRA_ASSIGN_OR_RETURN(int tag, link->NewTag());
  return std::make_unique<MpiCollective>(std::move(link), use, geometries, tag);
}

}  // namespace asyra
#endif
