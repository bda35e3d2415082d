#include "executor/cuda/comm/copy_collective.h"

#include "absl/container/inlined_vector.h"
#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/comm/peer_copy.h"
#include "executor/cuda/kernels/strided_copy.h"
#include "executor/device.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

constexpr int64_t kMeetings = 3;  // at most: of Meeting

// Addresses of a member, as this process reaches them.
struct Addresses {
  void* result = nullptr;
  void* workspace = nullptr;
  uint32_t* flags = nullptr;
};

// Movement from this rank's operand to a member, and where it arrives.
struct Geometry {
  CollectiveKind kind;
  DType dtype;
  int64_t members, self;
  CollectiveGeometry runs;
  int64_t chunk_bytes;  // of one member
  bool sums = false;    // chunks arrive in the workspace first
  bool whole = false;   // sums are sent to all members
  bool split = false;   // CollectiveUse::split

  bool Writes(int64_t from, int64_t to) const {
    return runs.Moves(from, to, members);
  }
  int64_t slot_bytes() const {
    return RoundUp(chunk_bytes, kWorkspaceAlignment);
  }
};

Geometry GeometryFor(const CollectiveUse& use, const CollectiveGeometry& runs,
                     int self) {
  Geometry g{.kind = use.use.def().collective,
             .dtype = runs.dtype,
             .members = static_cast<int64_t>(use.members.size()),
             .self = self,
             .runs = runs,
             .chunk_bytes = runs.chunk_elements() * SizeOf(runs.dtype),
             .sums = runs.sums,
             .split = use.split};
  if (g.kind != CollectiveKind::kAllReduce) return g;
  // In equal parts, each summed by one member.
  g.whole = true;
  g.chunk_bytes /= g.members;
  g.runs.run_elements /= g.members;
  g.runs.read_member = g.runs.run_elements;
  return g;
}

// Adds the chunks that have arrived to this rank's own, in the order of the
// members.
absl::StatusOr<GeneratedKernel> SumOf(const Geometry& g) {
  const CollectiveGeometry& runs = g.runs;
  Loop loop{.rows = {},
            .columns = {runs.outer, runs.middle, runs.run_elements}};
  Shape dense = {runs.middle * runs.run_elements, runs.run_elements, 1};
  Expression expression;
  expression.Store(expression.SumOfOperands(g.dtype, g.members), g.dtype);
  loop.operands.assign(g.members, {dense});
  loop.operands[g.self] = {{runs.read_outer, runs.read_middle, 1}};
  loop.results.push_back({dense});
  return GeneratedKernel::Create(expression, Collapsed(loop));
}

class CopyCollective : public CudaKernel {
 public:
  CopyCollective(Geometry geometry, std::vector<int64_t> ranks, PeerUse own)
      : g_(geometry), ranks_(std::move(ranks)), own_(own) {}

  absl::Status Prepare() {
    // One for each member and barrier.
    ASYRA_ASSIGN_OR_RETURN(flags_, own_.flags->Take(kMeetings * g_.members));
    if (!g_.sums) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(sum_, SumOf(g_));
    return absl::OkStatus();
  }

  std::string_view transport() const override { return kCopyEngine; }
  int64_t workspace_bytes() const override {
    return g_.sums ? (g_.members - 1) * g_.slot_bytes() : 0;
  }

  absl::Status Bind(const KernelArgs& args) override {
    // Without bytes, its address may be past the end of all memory.
    void* workspace = workspace_bytes() > 0 ? args.workspace : nullptr;
    ASYRA_ASSIGN_OR_RETURN(
        opened_,
        own_.memory->Exchange(ranks_, {args.results[0], workspace, flags_}));
    for (size_t member = 0; member < ranks_.size(); ++member) {
      const std::vector<PeerAddress>& theirs = opened_[member];
      if (theirs.size() != 3) {
        return Invalid("rank {} tells {} addresses, 3 are expected",
                       ranks_[member], theirs.size());
      }
      peers_.push_back({theirs[0].address, theirs[1].address,
                        static_cast<uint32_t*>(theirs[2].address)});
    }
    return absl::OkStatus();
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    // A copy within a GPU is always a kernel, never a copy engine. Launched now
    // it finds CTA slots before the next computation.
    if (!g_.sums && !has_self_copy() && g_.Writes(g_.self, g_.self)) {
      ASYRA_RETURN_IF_ERROR(SendChunk(g_.self, args, stream));
    }
    // Everybody's memory is free to be written to.
    ASYRA_RETURN_IF_ERROR(Meet(Meeting::kFree, stream));
    // To the next member first, so that not all write to the same one.
    for (int64_t i = 1; i < g_.members; ++i) {
      int64_t to = (g_.self + i) % g_.members;
      if (!g_.Writes(g_.self, to)) continue;
      ASYRA_RETURN_IF_ERROR(SendChunk(to, args, stream));
    }
    ASYRA_RETURN_IF_ERROR(Meet(Meeting::kWritten, stream));
    if (!g_.sums) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(AddChunks(args, stream));
    if (!g_.whole) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(SendSum(args, stream));
    return Meet(Meeting::kSummed, stream);
  }

  // The self-copy: next to a matmul its kernel waits until the matmul ends, and
  // so would everything behind it on the collective's stream. The driver's copy
  // kernel would then delay small ops until it is done, and takes twice as long
  // for few long rows.
  bool has_self_copy() const override {
    return g_.split && !g_.sums && g_.Writes(g_.self, g_.self);
  }
  absl::Status EnqueueSelfCopy(const KernelArgs& args,
                               cudaStream_t stream) override {
    return has_self_copy() ? SendChunk(g_.self, args, stream)
                           : absl::OkStatus();
  }

 private:
  enum class Meeting : int8_t {
    kFree,     // results are free to be written to
    kWritten,  // and written
    kSummed,   // sums are written
  };

  // A meeting of each member with those that write to it, and with those that
  // it writes to: later work sees everything that they wrote before it. A flag
  // is set only between two meetings over other flags, so that the next launch
  // can reuse it.
  absl::Status Meet(Meeting meeting, cudaStream_t stream) {
    absl::InlinedVector<uint32_t*, 8> mine, theirs;
    bool before = meeting == Meeting::kFree;
    int64_t first = static_cast<int64_t>(meeting) * g_.members;
    for (int64_t member = 0; member < g_.members; ++member) {
      if (member == g_.self) continue;
      bool to = g_.Writes(g_.self, member), from = g_.Writes(member, g_.self);
      if (before ? to : from) mine.push_back(flags_ + first + member);
      if (before ? from : to) {
        theirs.push_back(peers_[member].flags + first + g_.self);
      }
    }
    ASYRA_RETURN_IF_ERROR(own_.flags->Raise(theirs, stream));
    return own_.flags->Await(mine, stream);
  }

  // Returns the place of the chunk of `from` in the workspace of `owner`.
  std::byte* Slot(void* workspace, int64_t from, int64_t owner) const {
    int64_t slot = from < owner ? from : from - 1;
    return static_cast<std::byte*>(workspace) + slot * g_.slot_bytes();
  }

  absl::Status SendChunk(int64_t to, const KernelArgs& args,
                         cudaStream_t stream) {
    const CollectiveGeometry& runs = g_.runs;
    int64_t size = SizeOf(g_.dtype);
    StridedCopy copy{.outer = runs.outer,
                     .middle = runs.middle,
                     .run_bytes = runs.run_elements * size,
                     .from_outer = runs.read_outer * size,
                     .from_middle = runs.read_middle * size,
                     .to_outer = runs.write_outer * size,
                     .to_middle = runs.write_middle * size};
    const auto* from = static_cast<const std::byte*>(args.operands[0]) +
                       to * runs.read_member * size;
    if (g_.sums) {
      copy.to_middle = copy.run_bytes;
      copy.to_outer = copy.middle * copy.run_bytes;
      return CopyByEngine(copy, from, Slot(peers_[to].workspace, g_.self, to),
                          stream);
    }
    int64_t place = g_.self * runs.write_member * size;
    if (to == g_.self) {
      ASYRA_CUDA(CopyStrided(
          copy, from, static_cast<std::byte*>(args.results[0]) + place, stream,
          has_self_copy() ? CopyPace::kAside : CopyPace::kFull));
      return absl::OkStatus();
    }
    return CopyByEngine(
        copy, from, static_cast<std::byte*>(peers_[to].result) + place, stream);
  }

  // The part of the result that is this rank's.
  std::byte* OwnPart(void* result) const {
    return static_cast<std::byte*>(result) +
           (g_.whole ? g_.self * g_.chunk_bytes : 0);
  }

  absl::Status AddChunks(const KernelArgs& args, cudaStream_t stream) {
    absl::InlinedVector<void*, 8> chunks;
    for (int64_t member = 0; member < g_.members; ++member) {
      chunks.push_back(member == g_.self
                           ? static_cast<std::byte*>(args.operands[0]) +
                                 g_.self * g_.runs.read_member *
                                     SizeOf(g_.dtype)
                           : Slot(args.workspace, member, g_.self));
    }
    void* to = OwnPart(args.results[0]);
    return sum_.Enqueue(chunks, {&to, 1}, stream);
  }

  absl::Status SendSum(const KernelArgs& args, cudaStream_t stream) {
    const void* from = OwnPart(args.results[0]);
    for (int64_t i = 1; i < g_.members; ++i) {
      void* to = OwnPart(peers_[(g_.self + i) % g_.members].result);
      ASYRA_CUDA(
          cudaMemcpyAsync(to, from, g_.chunk_bytes, cudaMemcpyDefault, stream));
    }
    return absl::OkStatus();
  }

  Geometry g_;
  std::vector<int64_t> ranks_;  // of the members
  PeerUse own_;
  uint32_t* flags_ = nullptr;     // of each barrier, by member
  std::vector<Addresses> peers_;  // by member
  std::vector<std::vector<PeerAddress>> opened_;
  GeneratedKernel sum_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCopyCollective(
    const CollectiveUse& use, PeerUse own) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<CollectiveGeometry> runs,
                         GeometriesOf(use));
  Geometry geometry = GeometryFor(use, runs[0], own.self);
  auto kernel = std::make_unique<CopyCollective>(geometry, use.members, own);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  kernel->set_label(use.label);
  return kernel;
}

}  // namespace asyra::cuda
