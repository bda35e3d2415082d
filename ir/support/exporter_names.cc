#include "ir/support/exporter_names.h"

#include <algorithm>
#include <iterator>

namespace asyra {
namespace {

// In alphabetical order.
constexpr std::string_view kOps[] = {"_to_copy",
                                     "abs",
                                     "add",
                                     "alias",
                                     "arange",
                                     "bitwise_and",
                                     "bitwise_not",
                                     "bmm",
                                     "cat",
                                     "clamp",
                                     "clone",
                                     "copy",
                                     "cos",
                                     "cumsum",
                                     "detach",
                                     "div",
                                     "embedding",
                                     "eq",
                                     "exp",
                                     "expand",
                                     "flatten",
                                     "full",
                                     "full_like",
                                     "ge",
                                     "gt",
                                     "index",
                                     "index_select",
                                     "le",
                                     "lift_fresh_copy",
                                     "linspace",
                                     "log",
                                     "logical_and",
                                     "logical_not",
                                     "lt",
                                     "masked_fill",
                                     "matmul",
                                     "maximum",
                                     "mean",
                                     "minimum",
                                     "mm",
                                     "mul",
                                     "ne",
                                     "neg",
                                     "new_ones",
                                     "new_zeros",
                                     "ones",
                                     "ones_like",
                                     "permute",
                                     "pow",
                                     "reciprocal",
                                     "repeat",
                                     "reshape",
                                     "rsqrt",
                                     "rsub",
                                     "scalar_tensor",
                                     "scalar_tensor_default",
                                     "select",
                                     "sigmoid",
                                     "sin",
                                     "slice",
                                     "sqrt",
                                     "squeeze",
                                     "stack",
                                     "sub",
                                     "sum",
                                     "tanh",
                                     "threshold_cast",
                                     "transpose",
                                     "tril",
                                     "triu",
                                     "unsqueeze",
                                     "val",
                                     "view",
                                     "where",
                                     "zeros",
                                     "zeros_like"};

}  // namespace

bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

bool IsExporterName(std::string_view name) {
  if (name.find("onnx::") != std::string_view::npos) return true;
  std::string_view stem = name;
  size_t bar = name.rfind('_');
  if (bar != std::string_view::npos && AllDigits(name.substr(bar + 1))) {
    stem = name.substr(0, bar);
  }
  return std::binary_search(std::begin(kOps), std::end(kOps), stem);
}

}  // namespace asyra
