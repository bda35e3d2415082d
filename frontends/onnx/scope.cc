#include "frontends/onnx/scope.h"

#include <algorithm>

#include "frontends/onnx/bodies.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

const onnx::AttributeProto* Find(const Attributes& attributes,
                                 std::string_view name) {
  for (const auto& [key, attribute] : attributes) {
    if (key == name) return attribute;
  }
  return nullptr;
}

}  // namespace

const std::optional<Value>* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    auto found = scope->values.find(name);
    if (found != scope->values.end()) return &found->second;
  }
  return nullptr;
}

absl::StatusOr<Attributes> AttributesOf(const onnx::NodeProto& node,
                                        const Scope& scope) {
  Attributes attributes;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const onnx::AttributeProto* meant = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (scope.attributes == nullptr) {
        return Invalid("attribute {} refers to {} outside of a function",
                       attribute.name(), attribute.ref_attr_name());
      }
      meant = Find(*scope.attributes, attribute.ref_attr_name());
    }
    if (meant != nullptr) attributes.emplace_back(attribute.name(), meant);
  }
  return attributes;
}

absl::StatusOr<Attributes> BindAttributes(const Function& function,
                                          const Attributes& given) {
  Attributes bound;
  for (const onnx::AttributeProto& attribute :
       function.proto->attribute_proto()) {
    bound.emplace_back(attribute.name(), &attribute);
  }
  const auto& required = function.proto->attribute();
  for (const auto& entry : given) {
    std::string_view name = entry.first;
    auto has_default =
        std::find_if(bound.begin(), bound.end(),
                     [&](const auto& other) { return other.first == name; });
    if (has_default != bound.end()) {
      has_default->second = entry.second;
    } else if (std::find(required.begin(), required.end(), name) !=
               required.end()) {
      bound.push_back(entry);
    } else {
      return Invalid("function {} has no attribute {}", function.name, name);
    }
  }
  return bound;
}

}  // namespace asyra::onnx_import
