// Weights beside a program: named tensors, mostly views of mapped files, so
// that a model of 16 GB is read once, by the ranks and shards that need it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

class WeightStore {
 public:
  // The tensor, or null. Names are those of the program's weight inputs.
  const Tensor* Find(std::string_view name) const;
  void Set(std::string_view name, Tensor tensor);
  size_t size() const { return tensors_.size(); }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// The file form is safetensors: 8 bytes of header length, a JSON header, raw
// little-endian data. Reading maps the file; the tensors keep it mapped.
// Errors name the file and what is wrong with it: too short, a header that is
// no JSON or names a tensor twice, an unknown type, offsets outside the file or
// not of the shape's size, bytes that belong to two tensors or to none.
absl::StatusOr<std::shared_ptr<const WeightStore>> ReadWeights(
    const std::string& path);
// Writes a temporary beside `path` and renames it: never half a file.
absl::Status WriteWeights(const WeightStore& weights, const std::string& path);

// "dir/model.asyra" -> "dir/model.safetensors".
std::string WeightPathFor(const std::string& program_path);

}  // namespace asyra
