#include "passes/shard/head_parts.h"

#include <vector>

#include "ir/support/status.h"

namespace asyra {
namespace {

// Returns the value with the heads of each device as a dimension of their own,
// behind one for the devices.
absl::StatusOr<ValueId> Apart(ValueId value, int dim, int64_t devices,
                              const std::string& name, Builder* builder) {
  Shape whole = builder->type(value).shape();
  Ints shape(whole.begin(), whole.end());
  shape[dim] = devices;
  shape.insert(shape.begin() + dim + 1, whole[dim] / devices);
  return builder->AddOne("reshape", {value}, {{"shape", shape}}, name);
}

absl::StatusOr<ValueId> Together(ValueId value, int dim,
                                 const std::string& name, Builder* builder) {
  Shape apart = builder->type(value).shape();
  Ints shape(apart.begin(), apart.end());
  shape[dim] *= shape[dim + 1];
  shape.erase(shape.begin() + dim + 1);
  return builder->AddOne("reshape", {value}, {{"shape", shape}}, name);
}

}  // namespace

absl::StatusOr<ValueId> TakeHeads(ValueId value, int dim, const HeadPart& part,
                                  const std::string& name, Builder* builder) {
  ASYRA_ASSIGN_OR_RETURN(
      value, Apart(value, dim, part.devices, name + ".devices", builder));
  int64_t heads = builder->type(value).size(dim + 1) / part.of;
  ASYRA_ASSIGN_OR_RETURN(value,
                         builder->AddOne("slice", {value},
                                         {{"dim", int64_t{dim + 1}},
                                          {"start", part.part * heads},
                                          {"stop", (part.part + 1) * heads}},
                                         name + ".part"));
  return Together(value, dim, name, builder);
}

absl::StatusOr<ValueId> JoinHeads(absl::Span<const ValueId> parts, int dim,
                                  int64_t devices, const std::string& name,
                                  Builder* builder) {
  std::vector<ValueId> apart;
  for (ValueId part : parts) {
    ASYRA_ASSIGN_OR_RETURN(
        apart.emplace_back(),
        Apart(part, dim, devices, name + ".devices", builder));
  }
  ASYRA_ASSIGN_OR_RETURN(
      ValueId whole,
      builder->AddOne("concat", apart, {{"dim", int64_t{dim + 1}}},
                      name + ".whole"));
  return Together(whole, dim, name, builder);
}

}  // namespace asyra
