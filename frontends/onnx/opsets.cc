#include "frontends/onnx/opsets.h"

#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

constexpr int64_t kOldest = 13;
constexpr int64_t kNewest = 26;

}  // namespace

std::string CanonicalDomain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string SpelledOp(const std::string& domain, const std::string& name) {
  std::string canonical = CanonicalDomain(domain);
  return canonical.empty() ? name : fmt::format("{}:{}", canonical, name);
}

absl::StatusOr<Opsets> ReadOpsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>&
        imports) {
  // ONNX Runtime's own domain has only this version, and its tools do not
  // always write it down.
  Opsets opsets = {{"com.microsoft", 1}};
  for (const onnx::OperatorSetIdProto& opset : imports) {
    std::string domain = CanonicalDomain(opset.domain());
    opsets[domain] =
        static_cast<int>(std::min<int64_t>(opset.version(), INT32_MAX));
    if (!domain.empty()) continue;
    if (opset.version() < kOldest || opset.version() > kNewest) {
      return Unimplemented("opset {} is not between {} and {}", opset.version(),
                           kOldest, kNewest);
    }
  }
  return opsets;
}

}  // namespace asyra::onnx_import
