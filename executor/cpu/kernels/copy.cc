// Elements moved and not changed: ir/ops/{shape,index,schedule}.cc.
#include <cstring>

#include "executor/cpu/kernel_list.h"
#include "executor/cpu/strided.h"

namespace asyra::cpu {
namespace {

int DimOf(const KernelUse& use) {
  return NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank());
}

// An n-dimensional copy of elements.
class NdCopy {
 public:
  NdCopy(const Shape& sizes, const Shape& from_strides, int64_t from,
         const Shape& to_strides, int64_t to, int64_t element_bytes)
      : loop_(sizes, {from_strides, to_strides}),
        from_(from),
        to_(to),
        element_bytes_(element_bytes) {}

  void Run(const void* from, void* to) const {
    const auto* source = static_cast<const std::byte*>(from);
    auto* target = static_cast<std::byte*>(to);
    loop_.ForEachRun([&](const std::array<int64_t, 2>& at) {
      const std::byte* read = source + (from_ + at[0]) * element_bytes_;
      std::byte* write = target + (to_ + at[1]) * element_bytes_;
      if (loop_.step(0) == 1 && loop_.step(1) == 1) {
        std::memcpy(write, read, loop_.run() * element_bytes_);
        return;
      }
      switch (element_bytes_) {
        case 1:
          return Elements<uint8_t>(read, write);
        case 2:
          return Elements<uint16_t>(read, write);
        case 4:
          return Elements<uint32_t>(read, write);
        default:
          return Elements<uint64_t>(read, write);
      }
    });
  }

 private:
  template <typename T>
  void Elements(const std::byte* from, std::byte* to) const {
    const auto* read = reinterpret_cast<const T*>(from);
    auto* write = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < loop_.run(); ++i) {
      write[i * loop_.step(1)] = read[i * loop_.step(0)];
    }
  }

  StridedLoop<2> loop_;
  int64_t from_, to_;
  int64_t element_bytes_;
};

// One copy for each operand, or several of the only one.
class CopyKernel : public CpuKernel {
 public:
  explicit CopyKernel(std::vector<NdCopy> copies)
      : copies_(std::move(copies)) {}
  absl::Status Run(const KernelArgs& args) override {
    for (size_t i = 0; i < copies_.size(); ++i) {
      size_t operand = args.operands.size() == 1 ? 0 : i;
      copies_[i].Run(args.operands[operand], args.results[0]);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<NdCopy> copies_;
};

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// The result dense, the operand read from element `from` on by `strides`.
Prepared Read(const KernelUse& use, const Shape& strides, int64_t from) {
  const Type& result = use.result(0);
  Shape shape = result.shape();
  return std::make_unique<CopyKernel>(std::vector<NdCopy>{NdCopy(
      shape, strides, from, DenseStrides(shape), 0, SizeOf(result.dtype))});
}

Prepared PrepareTranspose(const KernelUse& use) {
  Shape own = DenseStrides(use.operand(0).shape()), strides;
  for (int64_t dim : use.attrs().Get<Ints>("perm")) {
    strides.push_back(own[NormalizeDim(dim, use.operand(0).rank())]);
  }
  return Read(use, strides, 0);
}

Prepared PrepareBroadcast(const KernelUse& use) {
  return Read(
      use, BroadcastStrides(use.operand(0).shape(), use.result(0).shape()), 0);
}

Prepared PrepareSlice(const KernelUse& use) {
  int dim = DimOf(use);
  Shape strides = DenseStrides(use.operand(0).shape());
  int64_t start = use.attrs().Int("start") * strides[dim];
  // One element is reached by any step, however large.
  strides[dim] *= use.result(0).size(dim) > 1 ? use.attrs().Int("step") : 0;
  return Read(use, strides, start);
}

Prepared PrepareShard(const KernelUse& use) {
  int dim = DimOf(use);
  Shape strides = DenseStrides(use.operand(0).shape());
  const auto& axes = use.attrs().Get<AxisList>("axes");
  int64_t part = use.mesh().GroupIndex(use.rank(), axes);
  return Read(use, strides, part * use.result(0).size(dim) * strides[dim]);
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
  Shape from = InBlocks(use.operand(0).shape(), dim, blocks);
  Shape to = InBlocks(use.result(0).shape(), dim, blocks);
  Shape strides = DenseStrides(from);
  int64_t begin = use.attrs().Int("part") * to[dim + 1] * strides[dim + 1];
  return std::make_unique<CopyKernel>(std::vector<NdCopy>{NdCopy(
      to, strides, begin, DenseStrides(to), 0, SizeOf(use.result(0).dtype))});
}

// Operands one after the other along `dim`, in each of its blocks.
Prepared ConcatBlocks(const KernelUse& use, int64_t blocks) {
  int dim = DimOf(use);
  const Type& result = use.result(0);
  Shape to = DenseStrides(InBlocks(result.shape(), dim, blocks));
  int64_t begin = 0;
  std::vector<NdCopy> copies;
  for (int i = 0; i < use.num_operands(); ++i) {
    Shape shape = InBlocks(use.operand(i).shape(), dim, blocks);
    copies.emplace_back(shape, DenseStrides(shape), 0, to, begin * to[dim + 1],
                        SizeOf(result.dtype));
    begin += shape[dim + 1];
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
  Shape natural = DenseStrides(shape), striped = natural;
  int64_t run = natural[dim];
  shape[dim] = pairs;
  striped[dim] = 2 * run;
  std::vector<NdCopy> copies;
  for (bool second : {false, true}) {
    int64_t place = second ? (2 * pairs - 1) * run : 0;
    natural[dim] = second ? -run : run;
    int64_t to = second ? run : 0;
    int64_t bytes = SizeOf(use.result(0).dtype);
    copies.push_back(back ? NdCopy(shape, striped, to, natural, place, bytes)
                          : NdCopy(shape, natural, place, striped, to, bytes));
  }
  return std::make_unique<CopyKernel>(std::move(copies));
}

Prepared PrepareStripe(const KernelUse& use) { return Stripes(use, false); }
Prepared PrepareUnstripe(const KernelUse& use) { return Stripes(use, true); }

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> CopyKernels() {
  return {
      {"transpose", Always, PrepareTranspose},
      {"broadcast", Always, PrepareBroadcast},
      {"slice", Always, PrepareSlice},
      {"tile", Always, PrepareTile},
      {"shard", Always, PrepareShard},
      {"stripe", Always, PrepareStripe},
      {"unstripe", Always, PrepareUnstripe},
      {"concat", Always, PrepareConcat},
      {"untile", Always, PrepareUntile},
  };
}

}  // namespace asyra::cpu
