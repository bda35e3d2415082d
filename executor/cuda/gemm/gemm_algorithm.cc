#include "executor/cuda/gemm/gemm_algorithm.h"

#include <charconv>
#include <numeric>

#include "executor/device.h"
#include "ir/gpu/vector_bytes.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

// Lists every field: a new field of GemmShape or its epilogue does not compile
// until it is added here.
std::string FieldsOf(const GemmShape& shape) {
  const auto& [dtype, transpose_a, transpose_b, m, n, k, batch, a_stride,
               b_stride, c_stride, epilogue, sms, f32_result, a_row_stride,
               b_row_stride] = shape;
  const auto& [residual, bias, activation] = epilogue;
  std::string rows;
  if (a_row_stride > 0 || b_row_stride > 0) {
    rows = fmt::format(" rows {} {}", a_row_stride, b_row_stride);
  }
  return fmt::format(
      "{} a{}[{}, {}] b{}[{}, {}] batch {} strides {} {} {} residual {} bias "
      "{} activation {} sms {}{}{}",
      ToString(dtype), transpose_a ? "^T" : "", m, k, transpose_b ? "^T" : "",
      k, n, batch, a_stride, b_stride, c_stride, residual, bias,
      static_cast<int>(activation), sms, f32_result ? " to f32" : "", rows);
}

// Takes an integer and the space behind it off the text.
bool TakeNumber(std::string_view* text, int base, uint64_t* number) {
  const char* end = text->data() + text->size();
  auto [at, error] = std::from_chars(text->data(), end, *number, base);
  if (error != std::errc()) return false;
  text->remove_prefix(at - text->data());
  if (text->empty()) return true;
  if (text->front() != ' ') return false;
  text->remove_prefix(1);
  return !text->empty();
}

}  // namespace

uint32_t AlignmentOf(const GemmShape& shape) {
  int64_t size = SizeOf(shape.dtype), common = kDeviceAlignment;
  if (shape.a_row_stride > 0 || shape.b_row_stride > 0) {
    common = kGpuVectorBytes;
  }
  for (int64_t elements :
       {shape.a_rows() * std::max(shape.a_row_stride, shape.a_columns()),
        shape.b_rows() * std::max(shape.b_row_stride, shape.b_columns()),
        shape.m * shape.n}) {
    common = std::gcd(common, elements * size);
  }
  return static_cast<uint32_t>(common);
}

std::string KeyOf(const GemmShape& shape, std::string_view gpu) {
  return fmt::format(
      "gemm {}, aligned to {}, workspace {}, cuBLASLt {}, few rows by our own "
      "kernel, long ones chosen under load, {}",
      FieldsOf(shape), AlignmentOf(shape), kGemmWorkspaceBytes,
      cublasLtGetVersion(), gpu);
}

std::string ToText(const GemmAlgorithm& algorithm) {
  std::string text = fmt::format("{}", algorithm.workspace_bytes);
  for (uint64_t word : algorithm.algo.data) {
    text += fmt::format(" {:016x}", word);
  }
  return text;
}

std::optional<GemmAlgorithm> ParseGemmAlgorithm(std::string_view text) {
  GemmAlgorithm algorithm;
  if (!TakeNumber(&text, 10, &algorithm.workspace_bytes)) return std::nullopt;
  for (uint64_t& word : algorithm.algo.data) {
    if (!TakeNumber(&text, 16, &word)) return std::nullopt;
  }
  return text.empty() ? std::make_optional(algorithm) : std::nullopt;
}

}  // namespace asyra::cuda
