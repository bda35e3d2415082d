// The opset version of each domain that a model or a function imports.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace google::protobuf {
template <typename Element>
class RepeatedPtrField;
}
namespace onnx {
class OperatorSetIdProto;
}

namespace asyra::onnx_import {

// By domain; "" is ai.onnx.
using Opsets = absl::flat_hash_map<std::string, int>;

std::string CanonicalDomain(const std::string& domain);
// "Add" or "com.microsoft:Gelu".
std::string SpelledOp(const std::string& domain, const std::string& name);

// Error: a version of ai.onnx that this importer does not know.
absl::StatusOr<Opsets> ReadOpsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>&
        imports);

}  // namespace asyra::onnx_import
