#include "ir/shard_reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "ir/support/status.h"
#include "ir/weight_store.h"

namespace asyra {
namespace {

// A device's part of one dimension: [start, start + size) of the stored
// elements, at the beginning of `local` ones.
struct Span1D {
  int64_t start, size, local;
};

std::vector<Span1D> SpansOf(const Tensor& whole, const Type& type,
                            const Mesh& mesh, int64_t device) {
  std::vector<Span1D> spans;
  for (int d = 0; d < type.rank(); ++d) {
    const Dim& dim = type.dims[d];
    int64_t local = dim.size / mesh.size(dim.axes);
    int64_t start = std::min(ShardStart(dim, mesh, device), whole.size(d));
    spans.push_back({start, std::min(local, whole.size(d) - start), local});
  }
  return spans;
}

// Reads element by element of the outer dimensions, one run of bytes for the
// inner ones that are contiguous.
class ShardReader {
 public:
  ShardReader(const Tensor& whole, std::vector<Span1D> spans)
      : whole_(whole),
        spans_(std::move(spans)),
        element_(SizeOf(whole.dtype())) {
    // Dimensions from `inner_` on are taken whole, so that a run is a stretch
    // of the dimension before them.
    inner_ = whole.rank();
    while (inner_ > 0) {
      const Span1D& span = spans_[inner_ - 1];
      if (span.size != whole.size(inner_ - 1) || span.size != span.local) break;
      --inner_;
    }
    for (int d = inner_; d < whole.rank(); ++d) row_ *= whole.size(d);
  }

  absl::Status ReadInto(Tensor* shard) {
    for (const Span1D& span : spans_) {
      if (span.size <= 0) return absl::OkStatus();  // all of it is padding
    }
    return Read(0, 0, 0, shard->mutable_data());
  }

 private:
  // `from` and `to` count elements of the dimensions before `dim`.
  absl::Status Read(int dim, int64_t from, int64_t to, std::byte* out) {
    if (dim >= inner_) return ReadRun(from * row_, to * row_, row_, out);
    const Span1D& span = spans_[dim];
    from = from * whole_.size(dim) + span.start;
    to *= span.local;
    if (dim == inner_ - 1) {
      return ReadRun(from * row_, to * row_, span.size * row_, out);
    }
    for (int64_t i = 0; i < span.size; ++i) {
      ASYRA_RETURN_IF_ERROR(Read(dim + 1, from + i, to + i, out));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRun(int64_t from, int64_t to, int64_t count,
                       std::byte* out) {
    size_t bytes = count * element_;
    if (whole_.source() != nullptr) {
      return whole_.source()->Read(whole_.source_offset() + from * element_,
                                   {out + to * element_, bytes});
    }
    std::memcpy(out + to * element_, whole_.data() + from * element_, bytes);
    return absl::OkStatus();
  }

  const Tensor& whole_;
  const std::vector<Span1D> spans_;
  const int64_t element_;
  int inner_;        // dimensions from here on are contiguous
  int64_t row_ = 1;  // elements of these
};

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
  ShardReader reader(whole, SpansOf(whole, type, mesh, device));
  ASYRA_RETURN_IF_ERROR(reader.ReadInto(&shard));
  return shard;
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
  if (!std::filesystem::exists(weight_path)) return absl::OkStatus();
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
