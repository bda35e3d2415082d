// Every spelling of an op that the importer knows.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "frontends/onnx/node.h"

namespace asyra::onnx_import {

struct OpSpelling {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  int since;       // first opset version whose meaning `import` implements
  int min_inputs;  // that many must be there, and not left out
  int max_inputs;  // -1: any number
  absl::Status (*import)(Node& node);
  // For spellings that are one IR op under another name.
  std::string_view ir_op = "";
};

// The newest spelling that is not newer than `opset`, or null.
const OpSpelling* FindSpelling(std::string_view domain, std::string_view name,
                               int opset);

}  // namespace asyra::onnx_import
