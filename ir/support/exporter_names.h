// Names that exporters make up for tensors, as against those of parameters.
#pragma once

#include <string_view>

namespace asyra {

// True for one decimal digit or more, and nothing else.
bool AllDigits(std::string_view text);

// Returns whether an exporter gives the name to a value that it has computed:
// by number (val_12, onnx::MatMul_353), or after the op of PyTorch that gave it
// (where, expand_2, unsqueeze_16).
bool IsExporterName(std::string_view name);

}  // namespace asyra
