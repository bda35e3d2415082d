#include "passes/schedule/tile/tile_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/algorithm/container.h"
#include "ir/printer.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

// The values that a tiled program has as tiles, whole or both at some op, and
// the place where each of them is cut.
class Forms {
 public:
  explicit Forms(size_t values) : place_(values), tiles_(values) {}

  const std::optional<TilePlace>& place(ValueId value) const {
    return place_[value];
  }
  void Track(ValueId value, const TilePlace& place) { place_[value] = place; }
  void MadeInTiles(ValueId value, const TilePlace& place) {
    place_[value] = tiles_[value] = place;
  }
  // Returns whether tiles must be joined to have the value whole, or cut
  // elsewhere. From then on it is also available as a whole.
  bool Joins(ValueId value, const std::optional<TilePlace>& wanted) {
    if (!tiles_[value].has_value() || tiles_[value] == wanted) return false;
    tiles_[value].reset();
    return true;
  }

 private:
  std::vector<std::optional<TilePlace>> place_;
  std::vector<std::optional<TilePlace>> tiles_;  // of values that are not whole
};

}  // namespace

bool TilePlan::BetterThan(const TilePlan& other) const {
  auto gain = [](const TilePlan& plan) {
    return std::tuple(plan.tiled_bytes, -plan.join_points, plan.tiled_ops);
  };
  return gain(*this) > gain(other);
}

Type TileType(Type type, const TilePlace& place, int64_t tiles) {
  type.dims[place.dim].size /= tiles;
  return type;
}

absl::StatusOr<TilePlanner> TilePlanner::Create(const Program& program,
                                                int64_t tiles,
                                                const DimNames& names) {
  ASYRA_ASSIGN_OR_RETURN(DimLabels labels, DimLabels::Of(program, names));
  return TilePlanner(program, tiles, std::move(labels));
}

absl::StatusOr<TilePlan> TilePlanner::Plan(DimLabel label) const {
  std::vector<Start> starts;
  for (const Input& input : program_->inputs) {
    if (input.role != InputRole::kData) continue;
    for (int d = 0; d < program_->type(input.value).rank(); ++d) {
      if (labels_.values[input.value][d] == label) {
        starts.push_back({input.value, d});
      }
    }
  }
  if (starts.empty()) {
    return Invalid("no dim of the data inputs is the {}{}",
                   label == DimLabel::kBatch ? "batch" : "sequence",
                   DimsConsidered());
  }
  return PlanAt(starts);
}

absl::StatusOr<TilePlan> TilePlanner::Plan(int dim) const {
  std::vector<Start> starts;
  for (const Input& input : program_->inputs) {
    if (input.role == InputRole::kData &&
        program_->type(input.value).rank() > dim) {
      starts.push_back({input.value, dim});
    }
  }
  if (starts.empty()) return Invalid("no data input has a dim {}", dim);
  return PlanAt(starts);
}

absl::StatusOr<TilePlan> TilePlanner::PlanAt(
    const std::vector<Start>& starts) const {
  ASYRA_ASSIGN_OR_RETURN(Start first, FirstThatCuts(starts));
  const Type& type = program_->type(first.input);
  int64_t shards = program_->mesh.size(type.dims[first.dim].axes);
  constexpr size_t kMostCandidates = 16;
  std::set<int64_t> candidates = {1}, tried;
  std::optional<TilePlan> best;
  while (!candidates.empty() && tried.size() < kMostCandidates) {
    int64_t blocks = *candidates.begin();
    candidates.erase(candidates.begin());
    tried.insert(blocks);
    TilePlan plan = PlanFrom(first, starts, blocks);
    for (int64_t factor : plan.wanted) {
      int64_t more = blocks * factor;
      bool cuts = BlocksOnDevice(type, {first.dim, shards * more}, tiles_,
                                 program_->mesh) > 0;
      if (cuts && !tried.contains(more)) candidates.insert(more);
    }
    if (!best.has_value() || plan.BetterThan(*best)) best = std::move(plan);
  }
  return *std::move(best);
}

int64_t TilePlanner::OnDevice(const Start& start) const {
  return program_->type(start.input).Local(program_->mesh).size(start.dim);
}

std::string TilePlanner::InputDimText(ValueId input, int dim) const {
  const std::string& name = program_->value_name(input);
  return fmt::format("{} of input %{}", DimText(labels_.names, name, dim),
                     name);
}

// Returns the text of all dimensions that data inputs have.
std::string TilePlanner::DimsConsidered() const {
  std::vector<std::string> dims;
  for (const Input& input : program_->inputs) {
    if (input.role != InputRole::kData) continue;
    for (int d = 0; d < program_->type(input.value).rank(); ++d) {
      DimLabel label = labels_.values[input.value][d];
      dims.push_back(fmt::format("{} ({}{})", InputDimText(input.value, d),
                                 program_->type(input.value).size(d),
                                 label == DimLabel::kBatch      ? ", batch"
                                 : label == DimLabel::kSequence ? ", sequence"
                                                                : ""));
    }
  }
  return dims.empty() ? "" : ": there are " + ShortList(dims);
}

absl::StatusOr<TilePlanner::Start> TilePlanner::FirstThatCuts(
    const std::vector<Start>& starts) const {
  std::string others;
  for (const Start& start : starts) {
    int64_t size = OnDevice(start);
    if (size > 0 && size % tiles_ == 0) return start;
    if (&start == &starts[0]) continue;
    others += fmt::format(", nor does {} ({})",
                          InputDimText(start.input, start.dim), size);
  }
  return Invalid("{} is {} on a device, it does not cut into {} tiles{}",
                 InputDimText(starts[0].input, starts[0].dim),
                 OnDevice(starts[0]), tiles_, others);
}

TilePlan TilePlanner::PlanFrom(const Start& first,
                               const std::vector<Start>& starts,
                               int64_t blocks) const {
  TilePlan plan;
  plan.input = first.input;
  plan.dim = first.dim;
  plan.blocks = blocks;
  Forms forms(program_->values.size());
  const Dim& cut = program_->type(first.input).dims[first.dim];
  for (const Start& start : starts) {
    if (program_->type(start.input).size(start.dim) == cut.size &&
        !forms.place(start.input).has_value()) {
      forms.Track(start.input,
                  {start.dim, program_->mesh.size(cut.axes) * blocks});
    }
  }
  for (size_t i = 0; i < program_->ops.size(); ++i) {
    const Op& op = program_->ops[i];
    const AxisRule& rule = labels_.rules[i];
    absl::InlinedVector<FactorPlace, 2> found;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const auto& place = forms.place(op.operands[k]);
      if (!place.has_value()) continue;
      auto at =
          FactorAt(rule.operands[k][place->dim], rule, place->blocks, tiles_);
      if (at.has_value() && !absl::c_linear_search(found, *at)) {
        found.push_back(*at);
      }
    }
    std::optional<FactorPlace> at;
    if (only_.empty() || only_[i]) at = Choose(i, found, &plan.wanted);
    bool join_point = false;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      std::optional<TilePlace> wanted;
      if (at.has_value()) {
        auto places = PlacesOf(*at, rule.operands[k], rule);
        if (!places.empty()) wanted = places[0];
      }
      join_point |= forms.Joins(op.operands[k], wanted);
    }
    plan.join_points += join_point;
    plan.tiled_ops += at.has_value();
    if (at.has_value()) plan.tiled_bytes += PayloadBytes(op);
    for (size_t r = 0; r < op.results.size(); ++r) {
      for (const FactorPlace& one : found) {
        auto places = PlacesOf(at.value_or(one), rule.results[r], rule);
        if (places.size() != 1) continue;
        if (at.has_value()) {
          forms.MadeInTiles(op.results[r], places[0]);
        } else {
          forms.Track(op.results[r], places[0]);
        }
        break;
      }
    }
    plan.ops.push_back(at);
  }
  if (only_.empty()) JoinOutputsEarly(&plan);
  return plan;
}

// An output is joined where its tiles are smallest: before the last ops if
// these increase the size, as from hidden states to logits, because the copy
// would double the output's memory. Unless there is a collective to hide behind
// these ops.
void TilePlanner::JoinOutputsEarly(TilePlan* plan) const {
  DefUse uses(*program_);
  auto in_tiles = [&](ValueId value) {
    int def = uses.def[value];
    return def >= 0 && plan->ops[def].has_value();
  };
  for (const Output& output : program_->outputs) {
    std::vector<int> last_ops;
    size_t whole = 0;  // of these, from the end
    int64_t least = LocalBytes(program_->type(output.value), program_->mesh);
    size_t readers = 0;
    // From the output backward, as long as one value leads there alone.
    for (ValueId value = output.value;
         in_tiles(value) && uses.uses[value].size() == readers; readers = 1) {
      int def = uses.def[value];
      const Op& op = program_->ops[def];
      if (op.is_collective() || op.results.size() != 1) break;
      last_ops.push_back(def);
      int64_t bytes = 0;
      ValueId only = kNoValue;
      bool several = false;
      for (ValueId operand : op.operands) {
        if (!in_tiles(operand) || operand == only) continue;
        several |= only != kNoValue;
        only = operand;
        bytes += LocalBytes(program_->type(operand), program_->mesh);
      }
      if (only == kNoValue) break;
      if (bytes < least && !FollowsCollective(*plan, uses, only)) {
        least = bytes;
        whole = last_ops.size();
      }
      if (several || uses.output_uses[only] > 0) break;
      value = only;
    }
    for (size_t i = 0; i < whole; ++i) plan->ops[last_ops[i]].reset();
    plan->tiled_ops -= static_cast<int>(whole);
    plan->join_points += whole > 0;
  }
}

// Returns whether a collective that runs tile by tile leads to the value with
// no matmul in between, so that nothing else hides its last tile.
bool TilePlanner::FollowsCollective(const TilePlan& plan, const DefUse& uses,
                                    ValueId value) const {
  std::vector<ValueId> open = {value};
  std::set<ValueId> seen;
  while (!open.empty()) {
    ValueId next = open.back();
    open.pop_back();
    int def = uses.def[next];
    if (def < 0 || !plan.ops[def].has_value() || !seen.insert(next).second) {
      continue;
    }
    const Op& op = program_->ops[def];
    if (op.is_collective()) return true;
    if (WorkOf(OpUse(*program_, op), program_->mesh).matrix) continue;
    open.insert(open.end(), op.operands.begin(), op.operands.end());
  }
  return false;
}

// A parallel factor before one that is summed over, which needs an addition;
// else the one of the first operand that has one.
std::optional<FactorPlace> TilePlanner::Choose(
    size_t op, absl::Span<const FactorPlace> found,
    std::set<int64_t>* wanted) const {
  for (FactorKind kind :
       {FactorKind::kParallel, FactorKind::kSum, FactorKind::kAccumulated}) {
    for (const FactorPlace& at : found) {
      if (labels_.rules[op].factors[at.factor].kind == kind &&
          CanTile(op, at, wanted)) {
        return at;
      }
    }
  }
  return std::nullopt;
}

bool TilePlanner::CanTile(size_t index, const FactorPlace& at,
                          std::set<int64_t>* wanted) const {
  const Op& op = program_->ops[index];
  const AxisRule& rule = labels_.rules[index];
  const Factor& factor = rule.factors[at.factor];
  if (factor.positional || op.def->is_barrier || op.def->is_tile ||
      op.def->is_untile) {
    return false;
  }
  // In how many dimensions each may have the factor.
  auto cuts = [&](ValueId value, const OperandFactors& dims, bool needed) {
    const Type& type = program_->type(value);
    auto places = PlacesOf(at, dims, rule);
    if (places.empty()) return !needed;
    if (places.size() > 1) return false;
    if (BlocksOnDevice(type, places[0], tiles_, program_->mesh) > 0) {
      return true;
    }
    int64_t shards = program_->mesh.size(type.dims[places[0].dim].axes);
    int64_t missing = shards / std::gcd(shards, places[0].blocks);
    if (missing > 1) wanted->insert(missing);
    return false;
  };
  bool all = true;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    all &= cuts(op.operands[k], rule.operands[k], false);
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    bool summed = rule.IsSummedIn(at.factor, static_cast<int>(r));
    all &= cuts(op.results[r], rule.results[r], !summed);
  }
  return all && TypesAgree(index, at);
}

// Returns whether the op, by its own inference, computes tiles of its results
// from tiles of its operands.
bool TilePlanner::TypesAgree(size_t index, const FactorPlace& at) const {
  const Op& op = program_->ops[index];
  const AxisRule& rule = labels_.rules[index];
  std::vector<Type> operands = program_->OperandTypes(op);
  std::vector<Type> results = program_->ResultTypes(op);
  for (size_t k = 0; k < operands.size(); ++k) {
    for (const TilePlace& place : PlacesOf(at, rule.operands[k], rule)) {
      operands[k] = TileType(std::move(operands[k]), place, tiles_);
    }
  }
  for (size_t r = 0; r < results.size(); ++r) {
    for (const TilePlace& place : PlacesOf(at, rule.results[r], rule)) {
      results[r] = TileType(std::move(results[r]), place, tiles_);
    }
  }
  AttrMap attrs = op.attrs;
  if (op.def->resize != nullptr) op.def->resize(&attrs, results);
  auto inferred = InferTypes(*op.def, attrs, operands, program_->mesh);
  return inferred.ok() && *inferred == results;
}

double TilePlanner::PayloadBytes(const Op& op) const {
  if (!op.is_collective()) return 0;
  return static_cast<double>(asyra::PayloadBytes(*program_, op));
}

}  // namespace asyra
