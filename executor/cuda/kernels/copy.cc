// Elements moved and not changed: ir/ops/{shape,index,schedule,collective}.cc.
#include "executor/cuda/kernels/kernel_list.h"
#include "executor/cuda/kernels/nd_copy.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

int DimOf(const KernelUse& use) {
  return NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank());
}

// One copy for each operand, or several of the only one.
class CopyKernel : public CudaKernel {
 public:
  explicit CopyKernel(std::vector<NdCopy> copies)
      : copies_(std::move(copies)) {}
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    for (size_t i = 0; i < copies_.size(); ++i) {
      size_t operand = args.operands.size() == 1 ? 0 : i;
      ASYRA_RETURN_IF_ERROR(
          copies_[i].Enqueue(args.operands[operand], args.results[0], stream));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<NdCopy> copies_;
};

// The result dense, the operand read as `from` says.
Prepared Read(const KernelUse& use, const Shape& shape, const Access& from) {
  ASYRA_ASSIGN_OR_RETURN(
      NdCopy copy,
      NdCopy::Create(shape, from, {DenseStrides(shape)}, use.result(0).dtype));
  return std::make_unique<CopyKernel>(std::vector<NdCopy>{copy});
}

Prepared PrepareTranspose(const KernelUse& use) {
  Shape own = DenseStrides(use.operand(0).shape());
  Access from;
  for (int64_t dim : use.attrs().Get<Ints>("perm")) {
    from.strides.push_back(own[NormalizeDim(dim, use.operand(0).rank())]);
  }
  return Read(use, use.result(0).shape(), from);
}

Prepared PrepareBroadcast(const KernelUse& use) {
  Shape shape = use.result(0).shape();
  return Read(use, shape, {BroadcastStrides(use.operand(0).shape(), shape)});
}

Prepared PrepareSlice(const KernelUse& use) {
  int dim = DimOf(use);
  Access from{DenseStrides(use.operand(0).shape())};
  from.first = use.attrs().Int("start") * from.strides[dim];
  // One element is reached by any step, however large.
  from.strides[dim] *=
      use.result(0).size(dim) > 1 ? use.attrs().Int("step") : 0;
  return Read(use, use.result(0).shape(), from);
}

Prepared PrepareShard(const KernelUse& use) {
  int dim = DimOf(use);
  Access from{DenseStrides(use.operand(0).shape())};
  int64_t part =
      use.mesh().GroupIndex(use.rank(), use.attrs().Get<AxisList>("axes"));
  from.first = part * use.result(0).size(dim) * from.strides[dim];
  return Read(use, use.result(0).shape(), from);
}

// `shape` with one dimension as [blocks, size / blocks].
Shape InBlocks(Shape shape, int dim, int64_t blocks) {
  shape[dim] /= blocks;
  shape.insert(shape.begin() + dim, blocks);
  return shape;
}

// Part `part` of every block of the operand's dimension.
Prepared PrepareTile(const KernelUse& use) {
  int dim = DimOf(use);
  int64_t blocks = use.attrs().Int("blocks");
  Access from{DenseStrides(InBlocks(use.operand(0).shape(), dim, blocks))};
  Shape to = InBlocks(use.result(0).shape(), dim, blocks);
  from.first = use.attrs().Int("part") * to[dim + 1] * from.strides[dim + 1];
  return Read(use, to, from);
}

// Operands one after the other along `dim`, in each of its blocks.
Prepared ConcatBlocks(const KernelUse& use, int64_t blocks) {
  int dim = DimOf(use);
  Access to{DenseStrides(InBlocks(use.result(0).shape(), dim, blocks))};
  std::vector<NdCopy> copies;
  for (int i = 0; i < use.num_operands(); ++i) {
    Shape shape = InBlocks(use.operand(i).shape(), dim, blocks);
    ASYRA_ASSIGN_OR_RETURN(
        NdCopy copy,
        NdCopy::Create(shape, {DenseStrides(shape)}, to, use.result(0).dtype));
    copies.push_back(copy);
    to.first += shape[dim + 1] * to.strides[dim + 1];
  }
  return std::make_unique<CopyKernel>(std::move(copies));
}

Prepared PrepareConcat(const KernelUse& use) { return ConcatBlocks(use, 1); }

Prepared PrepareUntile(const KernelUse& use) {
  return ConcatBlocks(use, use.attrs().Int("blocks"));
}

// The first half of the runs to every other place, the second from its end.
Prepared Stripes(const KernelUse& use, bool back) {
  int dim = DimOf(use);
  int64_t pairs = use.attrs().Int("pairs");
  Shape shape = InBlocks(use.operand(0).shape(), dim, 2 * pairs);
  Access natural{DenseStrides(shape)}, striped = natural;
  int64_t run = natural.strides[dim];
  shape[dim] = pairs;
  striped.strides[dim] = 2 * run;
  std::vector<NdCopy> copies;
  for (bool second : {false, true}) {
    natural.first = second ? (2 * pairs - 1) * run : 0;
    natural.strides[dim] = second ? -run : run;
    striped.first = second ? run : 0;
    ASYRA_ASSIGN_OR_RETURN(
        NdCopy copy,
        NdCopy::Create(shape, back ? striped : natural,
                       back ? natural : striped, use.result(0).dtype));
    copies.push_back(copy);
  }
  return std::make_unique<CopyKernel>(std::move(copies));
}

Prepared PrepareStripe(const KernelUse& use) { return Stripes(use, false); }
Prepared PrepareUnstripe(const KernelUse& use) { return Stripes(use, true); }

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CudaKernelDef> CopyKernels() {
  return {{"transpose", Always, PrepareTranspose},
          {"broadcast", Always, PrepareBroadcast},
          {"slice", Always, PrepareSlice},
          {"tile", Always, PrepareTile},
          {"shard", Always, PrepareShard},
          {"stripe", Always, PrepareStripe},
          {"unstripe", Always, PrepareUnstripe},
          {"concat", Always, PrepareConcat},
          {"untile", Always, PrepareUntile}};
}

}  // namespace asyra::cuda
