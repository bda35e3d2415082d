// The text of functions of device code that multiply on tensor cores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace asyra::cuda {

// The place of the left factor.
enum class WgmmaA { kShared, kRegisters };

// Writes the function `name`(d, a, b, add), called by 128 threads together: d
// += a b, or d = a b without `add`: a is 64 x 16, b 16 x n. A transposed factor
// in shared memory is contiguous along what is not summed.
std::string WgmmaText(bool bf16, int64_t n, WgmmaA a, bool a_transposed,
                      bool b_transposed, std::string_view name);

}  // namespace asyra::cuda
