// Reads the weights of one device out of a model's files: one of 16 ranks reads
// a sixteenth of the weights sharded over all of them, and needs memory for
// that alone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

// The shard of `whole` that `device` holds under `type`. From a file only the
// bytes of the shard are read, each once, into new memory; a shard of a tensor
// in memory is copied unless it is contiguous. `whole` may be smaller than
// `type` (Input::stored): the remainder is zero. Elements of another type are
// rounded to that of `type`. Errors: those of reading the file.
absl::StatusOr<Tensor> ReadShard(const Tensor& whole, const Type& type,
                                 const Mesh& mesh, int64_t device);

// The tensor with its bytes in memory: itself, or what its source has where it
// has no data (ir/weights/random_tensors.h). Errors: those of the source.
absl::StatusOr<Tensor> ReadWhole(const Tensor& tensor);

// The shards of one device of all weights of the program, by program input;
// empty tensors (f32, [0]) for inputs that are no weights.
// Errors: a weight without data, or stored with another type or shape than
// the program says; both are named.
absl::StatusOr<std::vector<Tensor>> ReadRankWeights(const Program& program,
                                                    int64_t device);

// Error unless `tensor` has the element type and shape in which `input` is
// given; a param may be given in a float type that its own one holds.
absl::Status CheckStored(const Program& program, const Input& input,
                         const Tensor& tensor);

// Reads the weights beside the program file `path` ("dir/model.safetensors" of
// "dir/model.asyra") into `program`, if they exist. Missing weights are no
// error here: data may come from elsewhere, or not be needed.
// Errors, which name the weight file: those of ReadWeights; a tensor that
// CheckStored refuses.
absl::Status ReadWeightsBeside(const std::string& path, Program* program);

}  // namespace asyra
