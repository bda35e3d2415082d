#include "executor/bench/use_memory.h"

#include <algorithm>
#include <optional>
#include <random>

#include "ir/ops/typical_integers.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"
#include "ir/tensor.h"

namespace asyra {
namespace {

// Random elements that are repeated.
constexpr int64_t kBlockElements = 1 << 16;

int64_t Aligned(int64_t bytes) {
  // At least a place of its own.
  return RoundUp(std::max<int64_t>(bytes, 1), kDeviceAlignment);
}

Tensor RandomBlock(DType dtype, int64_t elements, int64_t index_limit,
                   std::mt19937_64* random) {
  Tensor block(dtype, {std::min(elements, kBlockElements)});
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int64_t> index(
      0, dtype == DType::kBool ? 1 : index_limit - 1);
  for (int64_t i = 0; i < block.num_elements(); ++i) {
    if (IsFloat(dtype)) {
      block.Set(i, real(*random));
    } else {
      block.SetInt(i, index(*random));
    }
  }
  return block;
}

// All of an operand's integers as they are in practice; nullopt: any will do.
std::optional<Tensor> TypicalIntegers(const KernelUse& use, int operand) {
  std::vector<Type> operands, results;
  for (int i = 0; i < use.num_operands(); ++i) {
    operands.push_back(use.operand(i));
  }
  for (int i = 0; i < use.num_results(); ++i) results.push_back(use.result(i));
  OpCall local{use.def(), use.attrs(), operands, results};
  const Type& type = use.operand(operand);
  if (!TypicalInteger(local, operand, 0).has_value()) return std::nullopt;
  Tensor all(type.dtype, type.shape());
  for (int64_t i = 0; i < all.num_elements(); ++i) {
    all.SetInt(i, *TypicalInteger(local, operand, i));
  }
  return all;
}

// Fills every one of `to`, which have room for an operand.
absl::Status Fill(const KernelUse& use, int operand,
                  const std::vector<void*>& to, int64_t index_limit,
                  std::mt19937_64* random, Device& device, Stream& stream) {
  const Type& type = use.operand(operand);
  if (type.num_elements() == 0) return absl::OkStatus();
  std::optional<Tensor> typical = TypicalIntegers(use, operand);
  Tensor block =
      typical.has_value()
          ? *std::move(typical)
          : RandomBlock(type.dtype, type.num_elements(), index_limit, random);
  for (void* data : to) {
    for (int64_t done = 0; done < type.bytes(); done += block.bytes()) {
      device.CopyToDevice(static_cast<std::byte*>(data) + done, block.data(),
                          std::min(block.bytes(), type.bytes() - done), stream);
    }
  }
  return stream.Synchronize();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UseMemory>> UseMemory::Create(
    const KernelUse& use, int64_t workspace_bytes, const Options& options,
    Device& device, Stream& stream) {
  int64_t set_bytes = 0;
  for (int i = 0; i < use.num_operands(); ++i) {
    set_bytes += Aligned(use.operand(i).bytes());
  }
  for (int i = 0; i < use.num_results(); ++i) {
    set_bytes += Aligned(use.result(i).bytes());
  }
  int64_t sets =
      std::clamp<int64_t>(options.apart_bytes / std::max<int64_t>(set_bytes, 1),
                          1, options.max_sets);
  auto made = std::make_unique<UseMemory>();
  ASYRA_ASSIGN_OR_RETURN(
      made->memory_,
      device.Allocate(sets * set_bytes + Aligned(workspace_bytes)));
  auto* at = static_cast<std::byte*>(made->memory_->data());
  auto take = [&at](const Type& type) {
    return std::exchange(at, at + Aligned(type.bytes()));
  };
  for (int64_t s = 0; s < sets; ++s) {
    Set& set = made->sets_.emplace_back();
    for (int i = 0; i < use.num_operands(); ++i) {
      set.operands.push_back(take(use.operand(i)));
    }
    for (int i = 0; i < use.num_results(); ++i) {
      set.results.push_back(take(use.result(i)));
    }
  }
  made->workspace_ = at;
  std::mt19937_64 random(1);
  for (int i = 0; i < use.num_operands(); ++i) {
    std::vector<void*> to;
    for (const Set& set : made->sets_) to.push_back(set.operands[i]);
    ASYRA_RETURN_IF_ERROR(
        Fill(use, i, to, options.index_limit, &random, device, stream));
  }
  return made;
}

}  // namespace asyra
