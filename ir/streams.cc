#include "ir/streams.h"

#include <vector>

#include "absl/algorithm/container.h"

namespace asyra {

bool IsComputeStream(const Program& program, StreamId stream) {
  return stream == kNoStream ||
         program.streams[stream].starts_with(kComputeStream);
}

StreamId MainComputeStream(const Program& program) {
  std::vector<bool> computes;
  for (size_t i = 0; i < program.streams.size(); ++i) {
    computes.push_back(IsComputeStream(program, static_cast<StreamId>(i)));
  }
  bool any = absl::c_linear_search(computes, true);
  // -1: not asked about, after all that are, even those without ops.
  std::vector<int> ops;
  for (bool is : computes) ops.push_back(is || !any ? 0 : -1);
  for (const Op& op : program.ops) {
    if (!op.is_collective() && ops[op.stream] >= 0) ++ops[op.stream];
  }
  return static_cast<StreamId>(absl::c_max_element(ops) - ops.begin());
}

}  // namespace asyra
