#include "ir/weights/shard_reader.h"

#include <cstring>

#include "ir/support/path.h"
#include "ir/support/status.h"
#include "ir/weights/shard_runs.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

// `run` of `whole`, at its place in the shard that begins at `shard`.
absl::Status ReadRun(const Tensor& whole, ShardRun run, std::byte* shard) {
  int64_t element = SizeOf(whole.dtype());
  size_t bytes = run.count * element;
  std::byte* to = shard + run.shard * element;
  if (whole.source() != nullptr) {
    return whole.source()->Read(whole.source_offset() + run.whole * element,
                                {to, bytes});
  }
  std::memcpy(to, whole.data() + run.whole * element, bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ReadShard(const Tensor& whole, const Type& type,
                                 const Mesh& mesh, int64_t device) {
  if (whole.dtype() != type.dtype) {
    Type stored = type;
    stored.dtype = whole.dtype();
    ASYRA_ASSIGN_OR_RETURN(Tensor shard,
                           ReadShard(whole, stored, mesh, device));
    return Tensor::FromDoubles(type.dtype, shard.shape(), shard.ToDoubles());
  }
  if (whole.source() == nullptr && whole.shape() == type.shape()) {
    return Shard(whole, type, mesh, device);
  }
  Tensor shard(type.dtype, type.Local(mesh).shape());
  std::byte* bytes = shard.mutable_data();
  ASYRA_RETURN_IF_ERROR(ForEachShardRun(
      whole.shape(), type, mesh, device,
      [&](ShardRun run) { return ReadRun(whole, run, bytes); }));
  return shard;
}

absl::StatusOr<Tensor> ReadWhole(const Tensor& tensor) {
  if (tensor.data() != nullptr || tensor.source() == nullptr) return tensor;
  Tensor whole(tensor.dtype(), tensor.shape());
  ASYRA_RETURN_IF_ERROR(tensor.source()->Read(
      tensor.source_offset(),
      {whole.mutable_data(), static_cast<size_t>(whole.bytes())}));
  return whole;
}

absl::Status CheckStored(const Program& program, const Input& input,
                         const Tensor& tensor) {
  const Type& type = program.type(input.value);
  Shape shape = program.GivenShape(input);
  bool widened = input.role == InputRole::kParam && IsFloat(tensor.dtype()) &&
                 IsFloat(type.dtype) &&
                 SizeOf(tensor.dtype()) <= SizeOf(type.dtype);
  if ((tensor.dtype() == type.dtype || widened) && tensor.shape() == shape) {
    return absl::OkStatus();
  }
  bool weight = IsWeight(input);
  return Invalid("{} %{} is {}{}, the program takes {}{}",
                 weight ? "the data of weight" : "input",
                 program.value_name(input.value), ToString(tensor.dtype()),
                 ShapeToString(tensor.shape()), ToString(type.dtype),
                 ShapeToString(shape));
}

absl::StatusOr<std::vector<Tensor>> ReadRankWeights(const Program& program,
                                                    int64_t device) {
  std::vector<Tensor> shards;
  for (const Input& input : program.inputs) {
    shards.emplace_back();
    if (!IsWeight(input)) continue;
    const std::string& name = program.value_name(input.value);
    const Tensor* whole =
        program.weights == nullptr ? nullptr : program.weights->Find(name);
    if (whole == nullptr) return Invalid("weight %{} has no data", name);
    ASYRA_RETURN_IF_ERROR(CheckStored(program, input, *whole));
    absl::StatusOr<Tensor> shard =
        ReadShard(*whole, program.type(input.value), program.mesh, device);
    if (!shard.ok()) {
      return Annotate(shard.status(), fmt::format("weight %{}", name));
    }
    shards.back() = *std::move(shard);
  }
  return shards;
}

absl::Status ReadWeightsBeside(const std::string& path, Program* program) {
  std::string weight_path = WeightPathFor(path);
  if (!IsThere(weight_path)) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(program->weights, ReadWeights(weight_path));
  for (const Input& input : program->inputs) {
    if (!IsWeight(input)) continue;
    const Tensor* data =
        program->weights->Find(program->value_name(input.value));
    if (data == nullptr) continue;
    ASYRA_RETURN_IF_ERROR(
        Annotate(CheckStored(*program, input, *data), weight_path));
  }
  return absl::OkStatus();
}

}  // namespace asyra
