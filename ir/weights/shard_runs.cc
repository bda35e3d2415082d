#include "ir/weights/shard_runs.h"

#include <algorithm>
#include <vector>

#include "ir/support/status.h"

namespace asyra {
namespace {

// A device's part of one dimension: [start, start + size) of the stored
// elements, at the beginning of `local` ones.
struct Span1D {
  int64_t start, size, local;
};

std::vector<Span1D> SpansOf(absl::Span<const int64_t> whole, const Type& type,
                            const Mesh& mesh, int64_t device) {
  std::vector<Span1D> spans;
  for (int d = 0; d < type.rank(); ++d) {
    const Dim& dim = type.dims[d];
    int64_t local = dim.size / mesh.size(dim.axes);
    int64_t start = std::min(ShardStart(dim, mesh, device), whole[d]);
    spans.push_back({start, std::min(local, whole[d] - start), local});
  }
  return spans;
}

// Visits element by element of the outer dimensions, one run for the inner ones
// that are contiguous.
class RunWalk {
 public:
  RunWalk(absl::Span<const int64_t> whole, std::vector<Span1D> spans,
          absl::FunctionRef<absl::Status(ShardRun)> body)
      : whole_(whole), spans_(std::move(spans)), body_(body) {
    // Dimensions from `inner_` on are taken whole, so that a run is a stretch
    // of the dimension before them.
    inner_ = static_cast<int>(whole.size());
    while (inner_ > 0) {
      const Span1D& span = spans_[inner_ - 1];
      if (span.size != whole[inner_ - 1] || span.size != span.local) break;
      --inner_;
    }
    for (size_t d = inner_; d < whole.size(); ++d) row_ *= whole[d];
  }

  absl::Status Run() {
    for (const Span1D& span : spans_) {
      if (span.size <= 0) return absl::OkStatus();  // all of it is padding
    }
    return Visit(0, 0, 0);
  }

 private:
  // `from` and `to` count elements of the dimensions before `dim`.
  absl::Status Visit(int dim, int64_t from, int64_t to) {
    if (dim >= inner_) return body_({from * row_, to * row_, row_});
    const Span1D& span = spans_[dim];
    from = from * whole_[dim] + span.start;
    to *= span.local;
    if (dim == inner_ - 1) {
      return body_({from * row_, to * row_, span.size * row_});
    }
    for (int64_t i = 0; i < span.size; ++i) {
      ASYRA_RETURN_IF_ERROR(Visit(dim + 1, from + i, to + i));
    }
    return absl::OkStatus();
  }

  const absl::Span<const int64_t> whole_;
  const std::vector<Span1D> spans_;
  const absl::FunctionRef<absl::Status(ShardRun)> body_;
  int inner_;        // dimensions from here on are contiguous
  int64_t row_ = 1;  // elements of these
};

}  // namespace

absl::Status ForEachShardRun(absl::Span<const int64_t> whole, const Type& type,
                             const Mesh& mesh, int64_t device,
                             absl::FunctionRef<absl::Status(ShardRun)> body) {
  return RunWalk(whole, SpansOf(whole, type, mesh, device), body).Run();
}

}  // namespace asyra
