#include "executor/tcp/tcp_collective.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "executor/comm/collective_geometry.h"
#include "executor/cpu/cpu_kernel.h"
#include "executor/cpu/sum.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class TcpCollective : public CpuKernel {
 public:
  TcpCollective(TcpMail& mail, int64_t tag, int64_t rank,
                const CollectiveUse& use,
                std::vector<CollectiveGeometry> geometries)
      : mail_(mail),
        tag_(tag),
        members_(use.members),
        label_(use.label),
        geometries_(std::move(geometries)) {
    me_ = std::find(members_.begin(), members_.end(), rank) - members_.begin();
  }

  std::string_view transport() const override { return kSockets; }

  absl::Status Run(const KernelArgs& args) override {
    // All is sent before a result is written, which may be an operand.
    std::vector<std::string> own(geometries_.size());
    for (size_t p = 0; p < geometries_.size(); ++p) {
      const auto* operand = static_cast<const char*>(args.operands[p]);
      for (int64_t j = 1; j < members(); ++j) {
        int64_t to = (me_ + j) % members();
        if (!Moves(p, me_, to)) continue;
        ASYRA_RETURN_IF_ERROR(
            mail_.Post(members_[to], tag_, Chunk(p, operand, to)));
      }
      if (Moves(p, me_, me_)) own[p] = Chunk(p, operand, me_);
    }
    for (size_t p = 0; p < geometries_.size(); ++p) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> chunks,
                             Chunks(p, std::move(own[p])));
      auto* result = static_cast<std::byte*>(args.results[p]);
      geometries_[p].sums ? Sum(p, chunks, result) : Place(p, chunks, result);
    }
    return absl::OkStatus();
  }

 private:
  int64_t members() const { return static_cast<int64_t>(members_.size()); }
  int64_t RunBytes(size_t p) const {
    return geometries_[p].run_elements * SizeOf(geometries_[p].dtype);
  }

  bool Moves(size_t p, int64_t from, int64_t to) const {
    return geometries_[p].Moves(from, to, members());
  }

  // The runs of the operand that belong to a member, one behind the other.
  std::string Chunk(size_t p, const char* operand, int64_t member) const {
    const CollectiveGeometry& geometry = geometries_[p];
    int64_t size = SizeOf(geometry.dtype);
    std::string chunk;
    if (RunBytes(p) == 0) return chunk;
    chunk.reserve(geometry.runs() * RunBytes(p));
    for (int64_t r = 0; r < geometry.runs(); ++r) {
      chunk.append(operand + geometry.ReadAt(member, r) * size, RunBytes(p));
    }
    return chunk;
  }

  // This rank's chunk of every member that has one for it.
  absl::StatusOr<std::vector<std::string>> Chunks(size_t p, std::string own) {
    std::vector<std::string> chunks(members());
    auto bytes = static_cast<size_t>(geometries_[p].runs() * RunBytes(p));
    chunks[me_] = std::move(own);
    for (int64_t from = 0; from < members(); ++from) {
      if (from == me_ || !Moves(p, from, me_)) continue;
      ASYRA_ASSIGN_OR_RETURN(chunks[from],
                             mail_.Collect(members_[from], tag_, label_));
      if (chunks[from].size() == bytes) continue;
      return absl::InternalError(
          fmt::format("{}: rank {} has sent {} bytes, there should be {}",
                      label_, members_[from], chunks[from].size(), bytes));
    }
    return chunks;
  }

  void Sum(size_t p, const std::vector<std::string>& chunks,
           std::byte* result) const {
    const CollectiveGeometry& geometry = geometries_[p];
    if (RunBytes(p) == 0) return;
    std::vector<const std::byte*> summands(chunks.size());
    for (int64_t r = 0; r < geometry.runs(); ++r) {
      for (size_t j = 0; j < chunks.size(); ++j) {
        summands[j] = reinterpret_cast<const std::byte*>(chunks[j].data()) +
                      r * RunBytes(p);
      }
      SumParts(geometry.dtype, summands, geometry.run_elements,
               result + geometry.WriteAt(0, r) * SizeOf(geometry.dtype));
    }
  }

  void Place(size_t p, const std::vector<std::string>& chunks,
             std::byte* result) const {
    const CollectiveGeometry& geometry = geometries_[p];
    if (RunBytes(p) == 0) return;
    for (int64_t from = 0; from < members(); ++from) {
      if (!Moves(p, from, me_)) continue;
      for (int64_t r = 0; r < geometry.runs(); ++r) {
        std::memcpy(result + geometry.WriteAt(from, r) * SizeOf(geometry.dtype),
                    chunks[from].data() + r * RunBytes(p), RunBytes(p));
      }
    }
  }

  TcpMail& mail_;
  const int64_t tag_;
  const std::vector<int64_t> members_;
  int64_t me_ = 0;  // among the members
  const std::string label_;
  const std::vector<CollectiveGeometry> geometries_;  // by operand
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareTcpCollective(
    TcpMail& mail, int64_t tag, int64_t rank, const CollectiveUse& use) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<CollectiveGeometry> geometries,
                         GeometriesOf(use));
  return std::make_unique<TcpCollective>(mail, tag, rank, use,
                                         std::move(geometries));
}

}  // namespace asyra
