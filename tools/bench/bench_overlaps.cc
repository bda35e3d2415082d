#include "tools/bench/bench_overlaps.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "ir/copy_engine.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/plans/overlap_shape.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "nlohmann/json.hpp"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/replay/plan_tuner.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTransports[] = {kLibrary, kCopyEngine};
constexpr int64_t kTiles[] = {2, 4};
constexpr int64_t kParts[] = {1, 2, 4};
constexpr int kMessageMargin = 8;  // SMs that pieces leave to messages

// Texts of calls over the mesh (x=ranks).
class Calls {
 public:
  Calls(const OverlapShape& shape, DType dtype, int ranks)
      : s_(shape), dtype_(ToString(dtype)), n_(ranks) {}

  // On `rows` of the rows.
  std::string Matmul(int64_t rows) const {
    return fmt::format("matmul({}, {})", Matrix(rows, s_.inner),
                       Matrix(s_.inner, s_.columns));
  }
  std::string Collective(int64_t rows, std::string_view transport) const {
    std::string more = transport == kCopyEngine
                           ? fmt::format(", transport={}", kCopyEngine)
                           : "";
    std::string attrs = "{dim=0, axes=x" + more + "}";
    if (s_.gathers) {
      return fmt::format("all_gather({}) {}",
                         Matrix(fmt::format("{}@x", rows), s_.inner), attrs);
    }
    return fmt::format("reduce_scatter({} partial(x)) {}",
                       Matrix(rows, s_.columns), attrs);
  }
  std::string Overlap(std::string_view attrs) const {
    if (s_.gathers) {
      std::string columns = fmt::format("{}@x", s_.columns * n_);
      return fmt::format(
          "overlap({}, {}) {{%2 = all_gather(%0) {{dim=0, axes=x}} : {} "
          "%3 = matmul(%2, %1) : {} return %3}} {{{}}}",
          Matrix(fmt::format("{}@x", s_.rows), s_.inner),
          Matrix(s_.inner, columns), Matrix(s_.rows, s_.inner),
          Matrix(s_.rows, columns), attrs);
    }
    std::string inner = fmt::format("{}@x", s_.inner * n_);
    return fmt::format(
        "overlap({}, {}) {{%2 = matmul(%0, %1) : {} partial(x) "
        "%3 = reduce_scatter(%2) {{dim=0, axes=x}} : {} return %3}} {{{}}}",
        Matrix(s_.rows, inner), Matrix(inner, s_.columns),
        Matrix(s_.rows, s_.columns),
        Matrix(fmt::format("{}@x", s_.rows), s_.columns), attrs);
  }

 private:
  template <typename Rows, typename Columns>
  std::string Matrix(const Rows& rows, const Columns& columns) const {
    return fmt::format("{}[{},{}]", dtype_, rows, columns);
  }

  const OverlapShape& s_;
  std::string_view dtype_;
  int n_;
};

// Returns the attributes of a plan as text. Defaults are left out.
std::string AttrsOf(const OverlapTuning& tuned, const Mesh& mesh) {
  AttrMap attrs;
  SetPlanShape(tuned.shape, &attrs);
  if (tuned.sm_margin > 0) attrs.Set("sm_margin", int64_t{tuned.sm_margin});
  std::string text = AttrsToString(*FindOp("overlap"), attrs, {}, mesh);
  return text.empty() ? "parts=1" : text.substr(2, text.size() - 3);
}

class FormsMaker {
 public:
  FormsMaker(const OverlapShape& shape, DType dtype, int ranks,
             const Machine& machine, Mesh mesh)
      : shape_(shape),
        calls_(shape, dtype, ranks),
        mesh_(std::move(mesh)),
        costs_(machine, mesh_) {}

  absl::StatusOr<std::vector<OverlapForm>> Make() {
    ASYRA_RETURN_IF_ERROR(Add(OverlapForm::kMatmul, "matmul",
                              {{calls_.Matmul(shape_.rows), {}}}));
    ASYRA_RETURN_IF_ERROR(AddPieces());
    for (std::string_view transport : kTransports) {
      std::string with = fmt::format(", {}", transport);
      std::string collective = calls_.Collective(shape_.rows, transport);
      ASYRA_RETURN_IF_ERROR(Add(OverlapForm::kCollective, "collective" + with,
                                {{collective, {}}}));
      ASYRA_RETURN_IF_ERROR(
          Add(OverlapForm::kSerial, "serial" + with, Tiles(1, transport)));
    }
    for (int64_t tiles : kTiles) {
      for (std::string_view transport : kTransports) {
        ASYRA_RETURN_IF_ERROR(Add(OverlapForm::kTiles,
                                  fmt::format("{} tiles, {}", tiles, transport),
                                  Tiles(tiles, transport)));
      }
    }
    ASYRA_RETURN_IF_ERROR(AddPlans());
    return std::move(forms_);
  }

 private:
  // Each tile's matmul behind its gather, or the scatter behind the matmul.
  std::vector<SequenceCall> Tiles(int64_t tiles,
                                  std::string_view transport) const {
    std::vector<SequenceCall> sequence;
    int64_t rows = shape_.rows / tiles;
    for (int64_t t = 0; t < tiles; ++t) {
      auto first = static_cast<int>(sequence.size());
      sequence.push_back({calls_.Matmul(rows), {}});
      sequence.push_back({calls_.Collective(rows, transport), {first}});
      if (!shape_.gathers) continue;
      std::swap(sequence[first].text, sequence[first + 1].text);
    }
    return sequence;
  }

  absl::StatusOr<double> CostOf(const std::string& text) const {
    ASYRA_ASSIGN_OR_RETURN(ParsedCall call, ParseCall(text, mesh_));
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Type> results,
        InferTypes(*call.def, call.attrs, call.operands, mesh_));
    return costs_.Cost({*call.def, call.attrs, call.operands, results}).time_us;
  }

  absl::Status Add(OverlapForm::Kind kind, std::string name,
                   std::vector<SequenceCall> calls) {
    OverlapForm form{kind, std::move(name), std::move(calls)};
    for (const SequenceCall& call : form.calls) {
      absl::StatusOr<double> us = CostOf(call.text);
      if (!us.ok())
        return Annotate(us.status(), shape_.name + ": " + call.text);
      if (kind != OverlapForm::kTiles) form.predicted_us += *us;
    }
    forms_.push_back(std::move(form));
    return absl::OkStatus();
  }

  // A piece has the rows that one rank sends another, or a part of them.
  absl::Status AddPieces() {
    for (int64_t parts : kParts) {
      int64_t pieces = mesh_.num_devices() * parts;
      if (shape_.rows % pieces != 0) continue;
      ASYRA_RETURN_IF_ERROR(Add(OverlapForm::kPiece,
                                fmt::format("matmul, 1/{} of it", pieces),
                                {{calls_.Matmul(shape_.rows / pieces), {}}}));
    }
    return absl::OkStatus();
  }

  // The likely shapes: by copies, unless they do not reach the other ranks, and
  // by messages of the library.
  std::vector<OverlapTuning> LikelyPlans(PlanOrder own, bool copies) const {
    std::vector<OverlapTuning> plans;
    for (int64_t parts : kParts) {
      plans.push_back(
          {{.order = own, .parts = parts, .exchanges = true}, kMessageMargin});
      if (!copies) continue;
      plans.push_back({{.order = own, .parts = parts}});
      if (shape_.gathers) continue;
      plans.push_back({{.order = own, .parts = parts, .sums_in_pieces = true}});
    }
    if (!copies) return plans;
    PlanOrder other = own == PlanOrder::kOwnFirst ? PlanOrder::kOwnLast
                                                  : PlanOrder::kOwnFirst;
    plans.push_back({{.order = other, .parts = 2}});
    return plans;
  }

  absl::Status AddPlans() {
    PlanOrder own = shape_.gathers ? PlanOrder::kOwnFirst : PlanOrder::kOwnLast;
    ASYRA_ASSIGN_OR_RETURN(ParsedCall call,
                           ParseCall(calls_.Overlap("parts=1"), mesh_));
    const Body& body = *BodyOf(call.attrs);
    ASYRA_ASSIGN_OR_RETURN(GroupBody group,
                           GroupBodyOf(body, call.operands, mesh_));
    std::vector<OverlapTuning> plans =
        LikelyPlans(own, CanCarryPlans(body, costs_));
    OverlapTuning tuned = TuneOverlap(body, call.operands, own, costs_);
    if (tuned.time_us > 0) plans.push_back(tuned);
    absl::flat_hash_set<std::string> names;
    for (const OverlapTuning& plan : plans) {
      // A few rows do not divide into all parts.
      if (!CheckPlanShape(group, plan.shape).ok()) continue;
      std::string attrs = AttrsOf(plan, mesh_);
      if (!names.insert(attrs).second) continue;
      ASYRA_RETURN_IF_ERROR(
          Add(OverlapForm::kPlan, attrs, {{calls_.Overlap(attrs), {}}}));
      forms_.back().tuned = tuned.time_us > 0 && attrs == AttrsOf(tuned, mesh_);
    }
    return absl::OkStatus();
  }

  const OverlapShape& shape_;
  Calls calls_;
  Mesh mesh_;
  CostModel costs_;
  std::vector<OverlapForm> forms_;
};

std::string_view NameOf(OverlapForm::Kind kind) {
  constexpr std::string_view kNames[] = {"matmul", "collective", "serial",
                                         "tiles",  "plan",       "piece"};
  return kNames[kind];
}

std::string Us(const OverlapForm* form) {
  return form == nullptr ? "-" : fmt::format("{:.1f}", form->timing.us);
}

const OverlapForm* TunedOf(const MeasuredOverlap& overlap) {
  for (const OverlapForm& form : overlap.forms) {
    if (form.tuned && form.timing.us > 0) return &form;
  }
  return nullptr;
}

}  // namespace

std::vector<OverlapShape> OverlapShapes(std::string_view device, int ranks) {
  std::vector<OverlapShape> shapes;
  auto add = [&](const std::string& name, bool gathers, int64_t rows,
                 int64_t inner, int64_t columns) {
    shapes.push_back({name, gathers, rows, inner, columns});
  };
  if (device == "cpu") {
    int64_t rows = int64_t{64} * ranks;
    add("AG small", true, rows, 128, 256);
    add("RS small", false, rows, 256, 128);
    add("RS narrow", false, rows, 32, 128);
    return shapes;
  }
  // H and I of TileLink's table 4, of 8192 tokens.
  constexpr int64_t kTokens = 8192;
  constexpr std::pair<int64_t, int64_t> kMlps[] = {
      {4096, 11008}, {4096, 14336}, {3584, 14336},
      {4608, 36864}, {8192, 28672}, {8192, 29568}};
  int number = 0;
  for (auto [hidden, inner] : kMlps) {
    std::string name = fmt::format("MLP-{}", ++number);
    add("AG " + name, true, kTokens, hidden, 2 * inner / ranks);
    add("RS " + name, false, kTokens, inner / ranks, hidden);
  }
  // Rows, inner and columns of last projections, on two GPUs.
  constexpr int64_t kProjections[][3] = {{8192, 4096, 4096},
                                         {16384, 4096, 4096},
                                         {8192, 2048, 8192},
                                         {8192, 8192, 8192}};
  for (auto [rows, inner, columns] : kProjections) {
    add(fmt::format("RS {}x{}x{}", rows, inner / ranks, columns), false, rows,
        inner / ranks, columns);
  }
  return shapes;
}

absl::StatusOr<std::vector<OverlapForm>> OverlapForms(const OverlapShape& shape,
                                                      DType dtype, int ranks,
                                                      const Machine& machine) {
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({{"x", ranks}}));
  return FormsMaker(shape, dtype, ranks, machine, std::move(mesh)).Make();
}

const OverlapForm* MeasuredOverlap::Fastest(OverlapForm::Kind kind) const {
  const OverlapForm* fastest = nullptr;
  for (const OverlapForm& form : forms) {
    if (form.kind != kind || form.timing.us == 0) continue;
    if (fastest == nullptr || form.timing.us < fastest->timing.us) {
      fastest = &form;
    }
  }
  return fastest;
}

double MeasuredOverlap::LimitUs() const {
  double limit_us = 0;
  for (auto kind : {OverlapForm::kMatmul, OverlapForm::kCollective}) {
    const OverlapForm* alone = Fastest(kind);
    if (alone != nullptr) limit_us = std::max(limit_us, alone->timing.us);
  }
  return limit_us;
}

std::string OverlapsText(absl::Span<const MeasuredOverlap> overlaps) {
  std::string text = fmt::format(
      "{:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {}\n",
      "us", "matmul", "collective", "serial", "tiles", "plan", "tuned", "limit",
      "predicted", "of parts", "fastest plan");
  for (const MeasuredOverlap& overlap : overlaps) {
    const OverlapForm* plan = overlap.Fastest(OverlapForm::kPlan);
    const OverlapForm* tuned = TunedOf(overlap);
    text += fmt::format(
        "{:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {}\n",
        overlap.shape.name, Us(overlap.Fastest(OverlapForm::kMatmul)),
        Us(overlap.Fastest(OverlapForm::kCollective)),
        Us(overlap.Fastest(OverlapForm::kSerial)),
        Us(overlap.Fastest(OverlapForm::kTiles)), Us(plan), Us(tuned),
        plan == nullptr ? "-"
                        : fmt::format("{:.0f} %", 100 * overlap.LimitUs() /
                                                      plan->timing.us),
        tuned == nullptr ? "-" : fmt::format("{:.1f}", tuned->predicted_us),
        tuned == nullptr || tuned->of_parts_us == 0
            ? "-"
            : fmt::format("{:.1f}", tuned->of_parts_us),
        plan == nullptr ? "" : plan->name);
  }
  return text;
}

std::string OverlapsJson(absl::Span<const MeasuredOverlap> overlaps,
                         std::string_view device, int ranks) {
  Json all = Json::array();
  for (const MeasuredOverlap& overlap : overlaps) {
    Json forms = Json::array();
    for (const OverlapForm& form : overlap.forms) {
      Json one = {{"kind", NameOf(form.kind)}, {"name", form.name}};
      if (form.timing.us > 0) {
        one["us"] = form.timing.us;
        one["spread"] = form.timing.spread;
      }
      if (form.predicted_us > 0) one["predicted_us"] = form.predicted_us;
      if (form.of_parts_us > 0) one["of_parts_us"] = form.of_parts_us;
      if (form.tuned) one["tuned"] = true;
      forms.push_back(std::move(one));
    }
    const OverlapShape& shape = overlap.shape;
    all.push_back({{"name", shape.name},
                   {"gathers", shape.gathers},
                   {"rows", shape.rows},
                   {"inner", shape.inner},
                   {"columns", shape.columns},
                   {"limit_us", overlap.LimitUs()},
                   {"forms", std::move(forms)}});
  }
  return Json{{"device", device}, {"ranks", ranks}, {"pairs", std::move(all)}}
             .dump(1) +
         "\n";
}

}  // namespace asyra
