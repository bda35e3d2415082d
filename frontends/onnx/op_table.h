// Every spelling of an op that the importer knows.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "frontends/onnx/node.h"
#include "frontends/onnx/opsets.h"

namespace asyra::onnx_import {

// The kind of the inputs. An op that only passes values on takes both.
enum class Takes { kTensors, kSequences };

struct OpSpelling {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  int since;       // first opset version whose meaning `import` implements
  int min_inputs;  // so many are required, none left out
  int max_inputs;  // or one of these
  static constexpr int kAny = -1;          // any number, none left out
  static constexpr int kAnyOptional = -2;  // any number
  absl::Status (*import)(Node& node);
  // For spellings that are one IR op under another name.
  std::string_view ir_op = "";
  Takes takes = Takes::kTensors;
};

// All of them, by domain and name.
absl::Span<const OpSpelling> Spellings();

// The newest spelling that is not newer than `opset`, or null.
const OpSpelling* FindSpelling(std::string_view domain, std::string_view name,
                               int opset);
// Finds the spelling of a node; null also if its domain is not in `opsets`.
const OpSpelling* FindSpelling(const onnx::NodeProto& node,
                               const Opsets& opsets);

}  // namespace asyra::onnx_import
