#include "ir/ops/op_list.h"

#include "absl/container/flat_hash_map.h"

namespace asyra {
namespace {

struct OpTable {
  std::vector<OpDef> defs;
  std::vector<const OpDef*> list;
  absl::flat_hash_map<std::string_view, const OpDef*> by_name;

  OpTable() {
    for (auto group :
         {ops::ElementwiseOps,   ops::FunctionOps,    ops::ActivationOps,
          ops::MatmulOps,        ops::ConvOps,        ops::ReduceOps,
          ops::SoftmaxOps,       ops::TopKOps,        ops::NormOps,
          ops::ShapeOps,         ops::IndexOps,       ops::PadOps,
          ops::GatherOps,        ops::GatherNdOps,    ops::ScatterOps,
          ops::AttentionOps,     ops::MaskLengthsOps, ops::RotaryOps,
          ops::EmbedOps,         ops::MoeOps,         ops::PackedRowsOps,
          ops::PackedMatmulOps,  ops::RandomOps,      ops::LossOps,
          ops::OptimOps,         ops::CollectiveOps,  ops::ScheduleOps,
          ops::FusionOps,        ops::OverlapOps,     ops::StripeOps,
          ops::AttentionMergeOps}) {
      for (OpDef& def : group()) defs.push_back(std::move(def));
    }
    for (const OpDef& def : defs) {
      list.push_back(&def);
      by_name.emplace(def.name, &def);
    }
  }
};

const OpTable& Table() {
  static const OpTable* table = new OpTable;
  return *table;
}

}  // namespace

const OpDef* FindOp(std::string_view name) {
  auto found = Table().by_name.find(name);
  return found == Table().by_name.end() ? nullptr : found->second;
}

absl::Span<const OpDef* const> AllOps() { return Table().list; }

}  // namespace asyra
