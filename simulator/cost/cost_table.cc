#include "simulator/cost/cost_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/copy_engine.h"
#include "ir/parser.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/machine/json_fields.h"

namespace asyra {
namespace {

constexpr double kSame = 1e-6;     // doublings
constexpr double kNear = 2;        // a neighbour to interpolate from
constexpr double kFar = 4;         // and to extrapolate from
constexpr double kOtherFlags = 1;  // distance of uses with other attributes

double Distance(const CostKey& a, const CostKey& b) {
  double squares = a.flags == b.flags ? 0 : kOtherFlags;
  for (size_t i = 0; i < a.at.size(); ++i) {
    squares += (a.at[i] - b.at[i]) * (a.at[i] - b.at[i]);
  }
  return std::sqrt(squares);
}

absl::StatusOr<Mesh> MeshOf(int ranks) {
  if (ranks == 1) return Mesh();
  return Mesh::Create({{"x", ranks}});
}

}  // namespace

absl::StatusOr<Measurements> ReadMeasurements(std::string_view text,
                                              std::string_view origin) {
  ASYRA_RETURN_IF_ERROR(CheckJson(text, origin));
  auto json = JsonFields::Json::parse(text.begin(), text.end(), nullptr,
                                      /*allow_exceptions=*/false);
  JsonErrors errors;
  JsonFields fields(json, "", &errors);
  if (!errors.ok()) return Invalid("{}: should be an object", origin);
  Measurements result;
  // Points of schema 1 have no clocks.
  const int schema = fields.Count("schema", 1, 2);
  result.device = fields.Text("device");
  result.driver = fields.Text("driver");
  result.libraries = fields.Text("libraries");
  result.date = fields.Text("date");
  result.method = fields.Text("method");
  fields.EachOf("points", [&](JsonFields& point) {
    Measurement measurement;
    measurement.call = point.Text("call");
    if (point.Has("ranks")) measurement.ranks = point.Count("ranks", 1, 4096);
    measurement.us = point.Number("us", {0.01, 1e9});
    if (schema > 1 && point.Has("mhz")) {
      measurement.mhz = point.Number("mhz", {1, 10000});
    }
    result.points.push_back(std::move(measurement));
  });
  fields.Finish();
  if (!errors.ok()) return Annotate(errors.status(), origin);
  return result;
}

absl::StatusOr<std::shared_ptr<const CostTable>> CostTable::Calibrate(
    const Measurements& measurements, const Machine& machine) {
  Machine plain = machine;
  plain.table = nullptr;
  auto table = std::make_shared<CostTable>();
  std::vector<const Measurement*> overlaps;
  for (const Measurement& point : measurements.points) {
    if (point.call.starts_with("overlap(")) {
      overlaps.push_back(&point);
      continue;
    }
    ASYRA_RETURN_IF_ERROR(Annotate(table->Add(point, plain), point.call));
  }
  // Against the replay of pieces that the other points have corrected.
  plain.table = std::make_shared<CostTable>(*table);
  for (const Measurement* point : overlaps) {
    ASYRA_RETURN_IF_ERROR(Annotate(table->Add(*point, plain), point->call));
  }
  return table;
}

absl::Status CostTable::Add(const Measurement& point, const Machine& machine) {
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(point.ranks));
  ASYRA_ASSIGN_OR_RETURN(ParsedCall call, ParseCall(point.call, mesh));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Type> results,
      InferTypes(*call.def, call.attrs, call.operands, mesh));
  OpCall use = {*call.def, call.attrs, call.operands, results};
  CostModel formulas = CostModel(machine, mesh).AtClock(point.mhz);
  // With the library's formula it would count for the library.
  bool is_carried = call.def->body_communicates
                        ? CanCarryPlans(*BodyOf(call.attrs), formulas)
                        : !AsksForCopyEngine(call.attrs) ||
                              CanUseCopyEngine(machine, use, mesh);
  if (!is_carried) return absl::OkStatus();
  double formula_us = formulas.Cost(use).time_us;
  if (formula_us == 0) return Invalid("takes no time by any formula");
  CostKey key = formulas.KeyOf(use);
  points_[key.kind].push_back({key, std::log(point.us / formula_us)});
  return absl::OkStatus();
}

CostTable::Match CostTable::Find(const CostKey& key) const {
  Match match = FindSimilar(key);
  if (match.source < OpCost::kFormula || key.behind.empty()) return match;
  CostKey matmul = key;
  matmul.behind.clear();
  match = FindSimilar(matmul);
  match.source = std::max<int>(match.source, OpCost::kExtrapolated);
  return match;
}

CostTable::Match CostTable::FindSimilar(const CostKey& key) const {
  auto kind = points_.find(key.kind);
  if (kind == points_.end()) return {};
  // The formula itself counts as a measurement that is far away.
  double weights = std::pow(kFar, -4), sum = 0, nearest = INFINITY;
  std::array<double, 4> low, high;
  low.fill(INFINITY);
  high.fill(-INFINITY);
  for (const Point& point : kind->second) {
    if (point.key.behind != key.behind) continue;
    double distance = Distance(key, point.key);
    if (distance < kSame) return {std::exp(point.log_factor), 0};
    double weight = std::pow(distance, -4);
    weights += weight;
    sum += weight * point.log_factor;
    nearest = std::min(nearest, distance);
    for (size_t i = 0; i < low.size(); ++i) {
      low[i] = std::min(low[i], point.key.at[i] - kSame);
      high[i] = std::max(high[i], point.key.at[i] + kSame);
    }
  }
  bool inside = true;
  for (size_t i = 0; i < low.size(); ++i) {
    inside &= key.at[i] >= low[i] && key.at[i] <= high[i];
  }
  Match match;
  match.factor = std::exp(sum / weights);
  match.source = inside && nearest <= kNear ? 1 : nearest <= kFar ? 2 : 3;
  return match;
}

}  // namespace asyra
