#include "ir/weight_origin.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/lexer.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

int64_t InnerElements(const WeightOrigin::Cut& cut) {
  int64_t inner = 1;
  for (size_t d = cut.dim + 1; d < cut.split.size(); ++d) inner *= cut.split[d];
  return inner;
}

// Calls body(element of the part, run) for the whole part.
template <typename Body>
void ForEachRun(const WeightOrigin& origin, int64_t elements, Body body) {
  for (int64_t at = 0; at < elements;) {
    OriginRun run = RunAt(origin, at, elements);
    body(at, run);
    at += run.count;
  }
}

}  // namespace

WeightOrigin OriginOf(const Program& program, const Input& input) {
  if (input.origin != nullptr) return *input.origin;
  return {.tensor = program.value_name(input.value),
          .shape = program.GivenShape(input)};
}

const std::string& UserName(const Program& program, const Input& input) {
  return input.origin == nullptr ? program.value_name(input.value)
                                 : input.origin->tensor;
}

OriginRun RunAt(const WeightOrigin& origin, int64_t at, int64_t part_elements) {
  OriginRun run = {at, part_elements - at};
  for (auto cut = origin.cuts.rbegin(); cut != origin.cuts.rend(); ++cut) {
    int64_t inner = InnerElements(*cut), block = cut->size * inner;
    int64_t outer = run.whole / block, in_block = run.whole % block;
    run.count = std::min(run.count, block - in_block);
    run.whole = (outer * cut->split[cut->dim] + cut->start) * inner + in_block;
  }
  return run;
}

Tensor TakePart(const WeightOrigin& origin, const Tensor& whole,
                const Shape& shape) {
  if (origin.cuts.empty()) return whole.Reshaped(shape);
  Tensor part(whole.dtype(), shape);
  int64_t size = SizeOf(whole.dtype());
  std::byte* to = part.mutable_data();
  ForEachRun(origin, part.num_elements(), [&](int64_t at, OriginRun run) {
    std::memcpy(to + at * size, whole.data() + run.whole * size,
                run.count * size);
  });
  return part;
}

void PutPart(const WeightOrigin& origin, const Tensor& part, Tensor* whole) {
  int64_t size = SizeOf(part.dtype());
  std::byte* to = whole->mutable_data();
  ForEachRun(origin, part.num_elements(), [&](int64_t at, OriginRun run) {
    std::memcpy(to + run.whole * size, part.data() + at * size,
                run.count * size);
  });
}

std::optional<WeightOrigin> Transposed(const WeightOrigin& origin) {
  if (origin.shape.size() != 2) return std::nullopt;
  WeightOrigin turned = origin;
  turned.transposed = !origin.transposed;
  std::swap(turned.shape[0], turned.shape[1]);
  for (WeightOrigin::Cut& cut : turned.cuts) {
    // Columns alone were cut: rows go to the end as they are.
    if (cut.dim == 0 || cut.split[0] != origin.shape[0]) return std::nullopt;
    std::rotate(cut.split.begin(), cut.split.begin() + 1, cut.split.end());
    --cut.dim;
  }
  for (WeightOrigin::Tied& tied : turned.tied) {
    tied.transposed = !tied.transposed;
  }
  return turned;
}

Tensor TransposedMatrix(const Tensor& matrix) {
  int64_t rows = matrix.size(0), columns = matrix.size(1);
  int64_t size = SizeOf(matrix.dtype());
  Tensor turned(matrix.dtype(), {columns, rows});
  std::byte* to = turned.mutable_data();
  // Blocks stay in the cache.
  constexpr int64_t kBlock = 64;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r) {
        std::memcpy(to + (c * rows + r) * size,
                    matrix.data() + (r * columns + c) * size, size);
      }
    }
  }
  return turned;
}

std::string ToString(const WeightOrigin& origin) {
  auto shape = [](const Shape& sizes) {
    return fmt::format("[{}]", fmt::join(sizes, ", "));
  };
  std::string text =
      fmt::format("of {} {}", QuotedText(origin.tensor), shape(origin.shape));
  if (origin.transposed) text += " transposed";
  if (!origin.stored_as.empty()) {
    text += fmt::format(" stored {}", QuotedText(origin.stored_as));
  }
  for (const auto& cut : origin.cuts) {
    text += fmt::format(" cut {} {} {} {}", shape(cut.split), cut.dim,
                        cut.start, cut.size);
  }
  for (const auto& tied : origin.tied) {
    text += fmt::format(" tied {}{}", QuotedText(tied.tensor),
                        tied.transposed ? " transposed" : "");
    if (tied.stored_as.empty()) continue;
    text += fmt::format(" stored {}{}", QuotedText(tied.stored_as),
                        tied.stored_transposed ? " transposed" : "");
  }
  if (!origin.constant.empty()) {
    text += fmt::format(" constant {}", QuotedText(origin.constant));
  }
  if (origin.made) text += " made";
  return text;
}

}  // namespace asyra
