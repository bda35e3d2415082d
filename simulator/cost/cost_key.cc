#include "simulator/cost/cost_key.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/body.h"
#include "ir/gpu/epilogue.h"
#include "ir/halves.h"
#include "ir/plans/fused_reduction.h"
#include "simulator/cost/compute_cost.h"

namespace asyra {
namespace {

// Between 16 KiB on 2 and on 8 GPUs are as many microseconds as between
// 16 KiB and 1 MiB on 2.
constexpr double kRankWeight = 3;

double Doublings(double value) { return std::log2(std::max(value, 1.0)); }

// Without the one that differentiation sets, whose results cost next to
// nothing, and the one that says how a param is stored.
std::string FlagsOf(const OpDef& def, const AttrMap& attrs) {
  std::string flags;
  for (const auto& [name, value] : attrs) {
    if (name == def.gradient_attr || name == kInHalves) continue;
    if (const bool* flag = std::get_if<bool>(&value)) {
      flags += fmt::format("{}={} ", name, int{*flag});
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      flags += fmt::format("{}={} ", name, *text);
    } else if (const auto* body = std::get_if<BodyRef>(&value)) {
      flags += BodyOutline(**body);
    }
  }
  return flags;
}

std::string BehindMatmul(const Body& body, absl::Span<const Type> operands) {
  std::optional<Epilogue> epilogue = EpilogueOf(body, operands);
  return epilogue.has_value() ? ToString(*epilogue) : BodyOutline(body);
}

}  // namespace

DType ComputeDType(const OpCall& call) {
  return call.operands.empty() ? call.results[0].dtype : call.operands[0].dtype;
}

CostKey ComputeKey(const OpCall& call, const Work& work, const Type& result) {
  CostKey key;
  const Body* body = BodyOf(call.attrs);
  bool has_matmul =
      body != nullptr && !call.def.body_communicates && BeginsWithMatmul(*body);
  const OpDef& def = has_matmul ? *body->ops[0].def : call.def;
  key.kind = {def.priced_as.empty() ? def.name : def.priced_as,
              static_cast<int>(ComputeDType(call))};
  key.flags = FlagsOf(def, has_matmul ? body->ops[0].attrs : call.attrs);
  if (has_matmul) key.behind = BehindMatmul(*body, call.operands);
  if (def.body_communicates && IsOneKernel(call.attrs)) {
    key.kind.first = "overlap in one kernel";
    key.at = {Doublings(work.read_bytes + work.write_bytes)};
    return key;
  }
  if (def.body_communicates) {
    key.flags +=
        fmt::format("parts={} groups={} inner={}", call.attrs.Int("parts"),
                    fmt::join(call.attrs.Get<Ints>("groups"), ","),
                    call.attrs.Int("inner"));
    key.at = {Doublings(work.flops),
              Doublings(work.read_bytes + work.write_bytes)};
    return key;
  }
  if (work.matrix) {
    MatmulShape shape = MatmulOf(work, result);
    key.at = {Doublings(shape.batch), Doublings(shape.rows),
              Doublings(shape.cols), Doublings(shape.k)};
  } else {
    key.at[0] = Doublings(work.read_bytes + work.write_bytes);
  }
  return key;
}

CostKey CollectiveKey(CollectiveKind kind, double payload_bytes,
                      const GroupSpan& span, bool copy_engine) {
  CostKey key;
  key.kind = {copy_engine       ? "collective by copy engine"
              : span.hosts == 1 ? "collective"
                                : "collective between hosts",
              static_cast<int>(kind)};
  key.at = {Doublings(payload_bytes),
            kRankWeight * Doublings(static_cast<double>(span.ranks))};
  return key;
}

}  // namespace asyra
