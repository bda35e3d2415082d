#include "passes/raise/split_projections.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "ir/weight_origin.h"
#include "ir/weights/shard_reader.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {
namespace {

// The columns of a matmul that one slice takes: of all of them seen as
// `split`, those at [start, stop) of dimension `dim`.
struct Cut {
  Shape split;
  int dim = 0;
  int64_t start = 0, stop = 0;

  int64_t columns() const {
    return NumElements(split) / split[dim] * (stop - start);
  }
};

// A matmul, or add(matmul, bias), with the slices that read it, as it is or
// under a reshape that splits its last dimension.
struct Projection {
  int matmul = -1;
  int add = -1;  // -1: no bias
  ValueId bias = kNoValue;
  ValueId value = kNoValue;  // result of the matmul or of the add
};

class Splitter {
 public:
  Splitter(const Program& program, PassContext& context)
      : program_(program),
        context_(context),
        def_use_(program),
        stored_(program.values.size(), false),
        to_(program, {}) {
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const Input& input = program.inputs[i];
      stored_[input.value] = IsWeight(input) && input.stored.empty();
      input_of_[input.value] = i;
    }
    for (const Op& op : program.ops) {
      if (op.def->name == "constant") stored_[op.results[0]] = true;
    }
  }

  absl::StatusOr<bool> Run(Program& program) {
    FindCuts();
    bool any = false;
    for (const Op& op : program_.ops) {
      Projection projection;
      Cut cut;
      if (IsSplit(op, &projection, &cut) && AreSplitEverywhere(projection)) {
        ASYRA_RETURN_IF_ERROR(Split(projection, cut, op));
        any = true;
      } else {
        ASYRA_RETURN_IF_ERROR(to_.Copy(op));
      }
    }
    if (!any) return false;
    return to_.Finish(program);
  }

 private:
  // Columns, as a key that is equal for equal ones.
  using CutKey = std::tuple<Shape, int, int64_t, int64_t>;

  bool IsSplit(const Op& op, Projection* projection, Cut* cut) {
    return op.def->name == "slice" && FindUnder(op, projection, cut) &&
           Disjoint(op.operands[0], projection->value);
  }

  void FindCuts() {
    for (const Op& op : program_.ops) {
      Projection projection;
      Cut cut;
      if (!IsSplit(op, &projection, &cut)) continue;
      CutKey key(cut.split, cut.dim, cut.start, cut.stop);
      cuts_[projection.matmul].insert(key);
      if (projection.add >= 0) cuts_[projection.add].insert(key);
    }
  }

  // Returns whether all readers of the weight, and all readers of the bias, cut
  // it in one way. Otherwise it would exist as a whole and in parts, or in two
  // kinds of parts, each of which training would change by itself.
  bool AreSplitEverywhere(const Projection& projection) const {
    const Op& matmul = program_.ops[projection.matmul];
    return IsSplitEverywhere(matmul.operands[1], projection.matmul) &&
           (projection.add < 0 ||
            IsSplitEverywhere(projection.bias, projection.add));
  }

  bool IsSplitEverywhere(ValueId weight, int reader) const {
    if (def_use_.output_uses[weight] > 0) return false;
    const auto& uses = def_use_.uses[weight];
    return std::all_of(uses.begin(), uses.end(), [&](int other) {
      auto found = cuts_.find(other);
      return found != cuts_.end() && found->second == cuts_.at(reader);
    });
  }

  const Op* Def(ValueId value) const {
    int def = def_use_.def[value];
    return def < 0 ? nullptr : &program_.ops[def];
  }

  bool IsMatmul(ValueId value, Projection* projection) const {
    const Op* op = Def(value);
    if (op == nullptr) return false;
    bool grouped = op->def->name == "grouped_matmul";
    if (!grouped && op->def->name != "matmul") return false;
    ValueId weight = op->operands[1];
    if (!stored_[weight] || program_.type(weight).rank() != (grouped ? 3 : 2)) {
      return false;
    }
    projection->matmul = def_use_.def[value];
    projection->value = value;
    return true;
  }

  bool Find(ValueId value, Projection* projection) const {
    if (IsMatmul(value, projection)) return true;
    const Op* op = Def(value);
    if (op == nullptr || op->def->name != "add") return false;
    for (int i : {0, 1}) {
      ValueId matmul = op->operands[i], bias = op->operands[1 - i];
      if (!IsMatmul(matmul, projection) || !stored_[bias] ||
          program_.type(bias).rank() != 1 ||
          program_.type(matmul) != program_.type(value) ||
          def_use_.uses[matmul].size() != 1 ||
          def_use_.output_uses[matmul] != 0) {
        continue;
      }
      projection->add = def_use_.def[value];
      projection->bias = bias;
      projection->value = value;
      return true;
    }
    return false;
  }

  // The columns of a projection that `slice` reads.
  bool FindUnder(const Op& slice, Projection* projection, Cut* cut) const {
    ValueId value = slice.operands[0];
    Shape shape = program_.type(value).shape();
    while (!Find(value, projection)) {
      const Op* view = Def(value);
      if (view == nullptr || view->def->name != "reshape") return false;
      value = view->operands[0];
    }
    if (slice.attrs.Int("step") != 1) return false;
    // All dimensions but the last are as they were.
    int rank = program_.type(projection->value).rank();
    if (static_cast<int>(shape.size()) < rank) return false;
    for (int d = 0; d + 1 < rank; ++d) {
      if (shape[d] != program_.type(projection->value).size(d)) return false;
    }
    int dim =
        NormalizeDim(slice.attrs.Int("dim"), static_cast<int>(shape.size()));
    if (dim < rank - 1) return false;
    cut->split.assign(shape.begin() + rank - 1, shape.end());
    cut->dim = dim - (rank - 1);
    cut->start = slice.attrs.Int("start");
    cut->stop = slice.attrs.Int("stop");
    return cut->start < cut->stop;
  }

  // The projection `value` is read through `view` only, and that by slices of
  // one dimension only, none of which share a column.
  bool Disjoint(ValueId view, ValueId value) {
    auto [known, inserted] = disjoint_.emplace(view, false);
    if (!inserted) return known->second;
    if (def_use_.output_uses[view] != 0) return false;
    for (ValueId through = view; through != value;) {
      through = Def(through)->operands[0];
      if (def_use_.uses[through].size() != 1 ||
          def_use_.output_uses[through] != 0) {
        return false;
      }
    }
    std::vector<std::pair<int64_t, int64_t>> ranges;
    int rank = program_.type(view).rank(), dim = -1;
    for (int use : def_use_.uses[view]) {
      const Op& op = program_.ops[use];
      if (op.def->name != "slice" || op.attrs.Int("step") != 1) return false;
      int own = NormalizeDim(op.attrs.Int("dim"), rank);
      if (dim >= 0 && own != dim) return false;
      dim = own;
      ranges.emplace_back(op.attrs.Int("start"), op.attrs.Int("stop"));
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first < ranges[i - 1].second) return false;
    }
    return known->second = true;
  }

  std::shared_ptr<const WeightOrigin> OriginOfPart(ValueId old,
                                                   const Shape& split, int dim,
                                                   const Cut& cut) const {
    auto origin = std::make_shared<WeightOrigin>(
        OriginOf(program_, program_.inputs[input_of_.at(old)]));
    origin->cuts.push_back({split, dim, cut.start, cut.stop - cut.start});
    return origin;
  }

  // Weight `old` cut along `dim`.
  absl::StatusOr<ValueId> Part(ValueId old, int dim, const Cut& cut) {
    auto key = std::make_tuple(old, cut.split, cut.dim, cut.start, cut.stop);
    auto found = parts_.find(key);
    if (found != parts_.end()) return found->second;
    ValueId whole = to_.Mapped(old);
    std::string name =
        fmt::format("{}.{}", program_.value_name(old), parts_of_[old]++);
    Type type = program_.type(old);
    Shape split = type.shape();
    split.erase(split.begin() + dim);
    split.insert(split.begin() + dim, cut.split.begin(), cut.split.end());
    type.dims[dim].size = cut.columns();
    bool is_input = to_.Def(whole) == nullptr;
    const Tensor* data = is_input ? to_.GivenData(whole) : to_.Data(whole);
    std::optional<Tensor> cut_out;
    if (data != nullptr) {
      ASYRA_ASSIGN_OR_RETURN(Tensor whole_data, ReadWhole(*data));
      cut_out = whole_data.Reshaped(split)
                    .Slice(dim + cut.dim, cut.start, cut.stop - cut.start)
                    .Reshaped(type.shape());
    }
    ValueId part = is_input ? to_.PartOfWeight(
                                  whole, name, type,
                                  OriginOfPart(old, split, dim + cut.dim, cut),
                                  cut_out.has_value() ? &*cut_out : nullptr)
                            : to_.Weight(name, *cut_out);
    if (data == nullptr) {
      std::string view = cut.split.size() == 1
                             ? ""
                             : fmt::format(" as {}", ShapeToString(split));
      context_.Remark(
          "weight {} has no data: its part {}:{} of dim {}{} is input {}",
          program_.value_name(old), cut.start, cut.stop, dim + cut.dim, view,
          to_.name(part));
    }
    parts_.emplace(key, part);
    return part;
  }

  absl::Status Split(const Projection& projection, const Cut& cut,
                     const Op& slice) {
    const Op& matmul = program_.ops[projection.matmul];
    int dim = program_.type(matmul.operands[1]).rank() -
              (matmul.attrs.Bool("transpose_b") ? 2 : 1);
    to_.SetHint(program_.value_name(slice.results[0]));
    ASYRA_ASSIGN_OR_RETURN(ValueId weight, Part(matmul.operands[1], dim, cut));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId value,
        to_.Add(matmul.def->name, {to_.Mapped(matmul.operands[0]), weight},
                matmul.attrs));
    if (projection.add >= 0) {
      ASYRA_ASSIGN_OR_RETURN(ValueId bias, Part(projection.bias, 0, cut));
      ASYRA_ASSIGN_OR_RETURN(value, to_.Add("add", {value, bias}));
    }
    ASYRA_ASSIGN_OR_RETURN(
        value, to_.Reshape(value, program_.type(slice.results[0]).shape()));
    to_.Map(slice.results[0], value);
    return absl::OkStatus();
  }

  const Program& program_;
  PassContext& context_;
  DefUse def_use_;
  std::vector<bool> stored_;  // a weight input or a constant, by value
  Rewriter to_;
  absl::flat_hash_map<ValueId, bool> disjoint_;
  std::map<std::tuple<ValueId, Shape, int, int64_t, int64_t>, ValueId> parts_;
  absl::flat_hash_map<ValueId, int> parts_of_;
  absl::flat_hash_map<ValueId, size_t> input_of_;  // of program_.inputs
  std::map<int, std::set<CutKey>> cuts_;  // by matmul, and by the add of a bias
};

}  // namespace

absl::StatusOr<bool> SplitProjections(Program& program, const PassOptions&,
                                      PassContext& context) {
  bool changed = false;
  while (true) {
    ASYRA_ASSIGN_OR_RETURN(bool split, Splitter(program, context).Run(program));
    if (!split) break;
    changed = true;
  }
  if (!changed) context.Remark("split_projections: no fused projection");
  return changed;
}

}  // namespace asyra
