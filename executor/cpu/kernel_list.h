// The kernels of the cpu, in the groups of ir/ops. To add one, add its
// definition to a group in kernels/; to add a group, list it here and in
// kernel_list.cc. The conformance loop of tests/executor runs every kernel on
// the samples of its op.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "executor/cpu/cpu_kernel.h"

namespace asyra {

struct CpuKernelDef {
  std::string_view op;
  // Whether it computes this use: element types, attributes, shapes.
  bool (*supports)(const KernelUse& use);
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelUse& use);
};

// The first one listed that supports the use, or null.
const CpuKernelDef* FindCpuKernel(const KernelUse& use);

namespace cpu {

}  // namespace cpu
}  // namespace asyra
