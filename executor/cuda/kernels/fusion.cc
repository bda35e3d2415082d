// Fusions (ir/ops/fusion.cc), one generated kernel for all ops of a body. It
// loops over the rows of the body's largest value. Bodies without such a loop
// run by the kernels of their ops (executor/composite_kernel.h), bodies with a
// matmul by matmul.cc.
#include <algorithm>
#include <optional>

#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/body.h"

namespace asyra::cuda {
namespace {

constexpr size_t kMostAddresses = 64;  // that Generate takes

// The layout of a value in the loop: right aligned with all of its dimensions,
// or with all but the last, for rows reduced to one element.
enum class Layout : uint8_t { kUnknown, kInLoop, kInRows };

bool Broadcasts(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (size_t d = 1; d <= from.size(); ++d) {
    int64_t size = from[from.size() - d];
    if (size != 1 && size != to[to.size() - d]) return false;
  }
  return true;
}

class Describer {
 public:
  Describer(const KernelUse& use, const Body& body) : use_(use), body_(body) {}

  // Describes the body; nothing where it is not such a loop.
  std::optional<GeneratedUse> Run() {
    auto types = BodyTypes(body_, use_.global_operands(), use_.mesh());
    if (!types.ok()) return std::nullopt;
    types_ = *std::move(types);
    for (const Type& type : types_) locals_.push_back(type.Local(use_.mesh()));
    loop_ = LoopShape(locals_);
    rows_ = loop_;
    if (!rows_.empty()) rows_.pop_back();
    layout_.assign(types_.size(), Layout::kUnknown);
    for (int k = 0; k < body_.num_operands; ++k) {
      nodes_.push_back(expression_.Operand(locals_[k].dtype));
    }
    for (size_t i = 0; i < body_.ops.size(); ++i) {
      if (!AddOp(i)) return std::nullopt;
    }
    return Finish();
  }

 private:
  // Enters the layout of a value, where that agrees with what is known.
  bool Place(int value, Layout layout) {
    if (layout_[value] != Layout::kUnknown && layout_[value] != layout)
      return false;
    layout_[value] = layout;
    return Broadcasts(locals_[value].shape(),
                      layout == Layout::kInRows ? rows_ : loop_);
  }

  bool AddOp(size_t index) {
    const BodyOp& op = body_.ops[index];
    int result = body_.num_operands + static_cast<int>(index);
    Layout operands = Layout::kInLoop;
    if (op.def->fusable == Fusable::kElement) {
      for (int value : op.operands) {
        if (layout_[value] == Layout::kInRows) operands = Layout::kInRows;
      }
    } else {
      has_rows_ = true;
      if (!IsRow(locals_[op.operands[0]])) return false;
    }
    bool drops = locals_[result].rank() < locals_[op.operands[0]].rank() &&
                 op.def->fusable == Fusable::kRow;
    for (int value : op.operands) {
      if (!Place(value, operands)) return false;
    }
    return Place(result, drops ? Layout::kInRows : operands) && Compute(index);
  }

  // Reductions are over rows of the loop.
  bool IsRow(const Type& x) const {
    return !loop_.empty() && x.rank() > 0 &&
           x.size(x.rank() - 1) == loop_.back();
  }

  bool Compute(size_t index) {
    const BodyOp& op = body_.ops[index];
    std::vector<int> operands;
    for (int value : op.operands) operands.push_back(nodes_[value]);
    if (op.def->name == "broadcast") {
      nodes_.push_back(operands[0]);
      return true;
    }
    BodyCall body_call(body_, index, types_);
    const OpCall& call = body_call.call();
    KernelUse use(
        call.def, call.attrs, {call.operands.begin(), call.operands.end()},
        {call.results.begin(), call.results.end()}, use_.mesh(), use_.rank());
    const CudaKernelDef* def = FindCudaKernel(use);
    if (def == nullptr || def->describe == nullptr) return false;
    GeneratedUse generated = def->describe(use);
    if (!generated.operands.empty()) return false;
    nodes_.push_back(expression_.Inline(generated.expression, operands));
    return true;
  }

  Access AccessOf(int value) const {
    Shape shape = locals_[value].shape();
    if (layout_[value] == Layout::kInLoop)
      return {BroadcastStrides(shape, loop_)};
    Access access{BroadcastStrides(shape, rows_)};
    access.strides.push_back(0);
    return access;
  }

  // All elements of the loop, or one for each row of a reduction.
  bool IsStored(int value) const {
    Shape shape = locals_[value].shape();
    if (layout_[value] == Layout::kInRows) return shape == rows_;
    if (shape == loop_) return true;
    if (!has_rows_ || shape.size() != loop_.size()) return false;
    return shape.back() == 1 &&
           std::equal(rows_.begin(), rows_.end(), shape.begin());
  }

  std::optional<GeneratedUse> Finish() {
    GeneratedUse use;
    use.loop.rows = rows_;
    if (!loop_.empty()) use.loop.columns = {loop_.back()};
    for (int k = 0; k < body_.num_operands; ++k) {
      use.loop.operands.push_back(AccessOf(k));
    }
    for (int value : body_.results) {
      if (!IsStored(value)) return std::nullopt;
      expression_.Store(nodes_[value], locals_[value].dtype);
      use.loop.results.push_back(AccessOf(value));
    }
    size_t addresses = use.loop.operands.size() + use.loop.results.size();
    if (addresses > kMostAddresses) return std::nullopt;
    use.expression = std::move(expression_);
    return use;
  }

  const KernelUse& use_;
  const Body& body_;
  std::vector<Type> types_, locals_;  // by value
  Shape loop_, rows_;
  std::vector<Layout> layout_;  // by value
  std::vector<int> nodes_;      // by value, of the expression
  bool has_rows_ = false;       // that are reduced
  Expression expression_;
};

std::optional<GeneratedUse> Describe(const KernelUse& use) {
  const Body* body = BodyOf(use.attrs());
  if (body == nullptr || BeginsWithMatmul(*body)) return std::nullopt;
  return Describer(use, *body).Run();
}

bool Supports(const KernelUse& use) { return Describe(use).has_value(); }

GeneratedUse DescribeSupported(const KernelUse& use) { return *Describe(use); }

}  // namespace

std::vector<CudaKernelDef> FusionKernels() {
  return {Generated("fusion", Supports, DescribeSupported)};
}

}  // namespace asyra::cuda
