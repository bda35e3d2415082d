// Arrays of NumPy in files: .npy of versions 1 to 3.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

// Reads one array: bools, integers and floats of all sizes up to 8 bytes, of
// either byte order, by rows or by columns. Integers of 1 and 2 bytes become
// i32, u4 and u8 become i64; V2, as NumPy spells the bf16 of ml_dtypes, bf16.
// Errors name the file: no .npy file, a header or an element type that is not
// understood, too few or too many bytes, a u8 of 2^63 or more.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

// The bytes before the data of an array of that type, by rows. NumPy has no
// bf16: the data has to be f32.
std::string NpyHeader(DType dtype, absl::Span<const int64_t> shape);

}  // namespace asyra
