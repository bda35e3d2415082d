// Random values and zeros in place of data that a model lacks, in no memory.
// Random ones are drawn by the name of the tensor and the position in it: a
// rank that reads its shard draws that alone, and every mesh has the same
// model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ir/tensor.h"

namespace asyra {

// Makes tensors without memory: they have a source and no data, and ReadShard
// and ReadWhole (ir/weights/shard_reader.h) draw what they read. Element i of
// the whole tensor follows from seed, name and i, whatever else is read. A
// device that draws by itself can do so from the same three.
class RandomTensors {
 public:
  explicit RandomTensors(uint64_t seed) : seed_(seed) {}

  // Floats, normal with mean 0. They are the quantiles of 2^16 equal shares, so
  // none is further than 4.4 deviations from 0.
  Tensor Normal(std::string_view name, DType dtype,
                absl::Span<const int64_t> shape, double deviation);
  // Integers in [0, limit), or bools, of which half are true.
  Tensor Uniform(std::string_view name, DType dtype,
                 absl::Span<const int64_t> shape, int64_t limit);

 private:
  uint64_t KeyOf(std::string_view name) const;

  const uint64_t seed_;
  // Values of the quantiles in bytes, shared by the tensors.
  std::map<std::pair<DType, double>,
           std::shared_ptr<const std::vector<std::byte>>>
      quantiles_;
};

// Zeros, without memory too.
Tensor UnstoredZeros(DType dtype, absl::Span<const int64_t> shape);

}  // namespace asyra
