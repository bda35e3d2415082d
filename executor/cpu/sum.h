// Reductions over ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "ir/type.h"

namespace asyra {

// to[i] = parts[0][i] + parts[1][i] + ..., in that order for every element, so
// that all ranks compute the same; f16 and bf16 are added in f32 and rounded
// once, integers wrap around, bools are or-ed. `to` may be one of the parts.
void SumParts(DType dtype, absl::Span<const std::byte* const> parts,
              int64_t elements, std::byte* to);

}  // namespace asyra
