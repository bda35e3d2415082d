#include "passes/split_projections.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "passes/rewriter.h"

namespace asyra {
namespace {

struct Range {
  int64_t start, stop;
  friend bool operator<(const Range& a, const Range& b) {
    return a.start < b.start;
  }
};

// matmul, or add(matmul, bias), with the slices that read it.
struct Projection {
  int matmul = -1;
  int add = -1;  // -1: no bias
  ValueId bias = kNoValue;
};

class Splitter {
 public:
  Splitter(const Program& program, PassContext& context)
      : program_(program),
        context_(context),
        def_use_(program),
        stored_(program.values.size(), false),
        to_(program, {}) {
    for (const Input& input : program.inputs) {
      stored_[input.value] = input.role == InputRole::kWeight;
    }
    for (const Op& op : program.ops) {
      if (op.def->name == "constant") stored_[op.results[0]] = true;
    }
  }

  absl::StatusOr<bool> Run(Program& program) {
    std::vector<Projection> projections(program_.ops.size());
    bool any = false;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      Projection projection;
      if (op.def->name == "slice" && Find(op.operands[0], &projection) &&
          Disjoint(op.operands[0])) {
        ASYRA_RETURN_IF_ERROR(Split(projection, op));
        any = true;
      } else {
        ASYRA_RETURN_IF_ERROR(to_.Copy(op));
      }
    }
    if (!any) return false;
    return to_.Finish(program);
  }

 private:
  const Op* Def(ValueId value) const {
    int def = def_use_.def[value];
    return def < 0 ? nullptr : &program_.ops[def];
  }

  bool IsProduct(ValueId value, Projection* projection) const {
    const Op* op = Def(value);
    if (op == nullptr || op->def->name != "matmul") return false;
    ValueId weight = op->operands[1];
    if (!stored_[weight] || program_.type(weight).rank() != 2) return false;
    projection->matmul = def_use_.def[value];
    return true;
  }

  bool Find(ValueId value, Projection* projection) const {
    if (IsProduct(value, projection)) return true;
    const Op* op = Def(value);
    if (op == nullptr || op->def->name != "add") return false;
    for (int i : {0, 1}) {
      ValueId product = op->operands[i], bias = op->operands[1 - i];
      if (!IsProduct(product, projection) || !stored_[bias] ||
          program_.type(bias).rank() != 1 ||
          program_.type(product) != program_.type(value) ||
          def_use_.uses[product].size() != 1 ||
          def_use_.output_uses[product] != 0) {
        continue;
      }
      projection->add = def_use_.def[value];
      projection->bias = bias;
      return true;
    }
    return false;
  }

  // The value is read by slices of its last dimension only, none of which
  // share a column.
  bool Disjoint(ValueId value) {
    auto [known, inserted] = disjoint_.emplace(value, false);
    if (!inserted) return known->second;
    if (def_use_.output_uses[value] != 0) return false;
    std::vector<Range> ranges;
    int rank = program_.type(value).rank();
    for (int use : def_use_.uses[value]) {
      const Op& op = program_.ops[use];
      if (op.def->name != "slice" || op.attrs.Int("step") != 1 ||
          NormalizeDim(op.attrs.Int("dim"), rank) != rank - 1) {
        return false;
      }
      ranges.push_back({op.attrs.Int("start"), op.attrs.Int("stop")});
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].start < ranges[i - 1].stop) return false;
    }
    return known->second = true;
  }

  // Weight `old` cut along `dim`.
  ValueId Part(ValueId old, int dim, Range range) {
    auto key = std::make_tuple(old, range.start, range.stop);
    auto found = parts_.find(key);
    if (found != parts_.end()) return found->second;
    ValueId whole = to_.Mapped(old);
    std::string name =
        fmt::format("{}.{}", program_.value_name(old), parts_of_[old]++);
    Type type = program_.type(old);
    type.dims[dim].size = range.stop - range.start;
    const Tensor* data = to_.Data(whole);
    ValueId part =
        data == nullptr
            ? to_.Weight(name, type)
            : to_.Weight(name, data->Slice(dim, range.start,
                                           range.stop - range.start));
    if (data == nullptr) {
      context_.Remark(
          "weight {} has no data: its part {}:{} of dim {} is input {}",
          program_.value_name(old), range.start, range.stop, dim,
          to_.name(part));
    }
    parts_.emplace(key, part);
    return part;
  }

  absl::Status Split(const Projection& projection, const Op& slice) {
    const Op& matmul = program_.ops[projection.matmul];
    Range range{slice.attrs.Int("start"), slice.attrs.Int("stop")};
    int dim = matmul.attrs.Bool("transpose_b") ? 0 : 1;
    to_.SetHint(program_.value_name(slice.results[0]));
    ValueId weight = Part(matmul.operands[1], dim, range);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId value,
        to_.Add("matmul", {to_.Mapped(matmul.operands[0]), weight},
                matmul.attrs));
    if (projection.add >= 0) {
      ValueId bias = Part(projection.bias, 0, range);
      ASYRA_ASSIGN_OR_RETURN(value, to_.Add("add", {value, bias}));
    }
    to_.Map(slice.results[0], value);
    return absl::OkStatus();
  }

  const Program& program_;
  PassContext& context_;
  DefUse def_use_;
  std::vector<bool> stored_;  // a weight input or a constant, by value
  Rewriter to_;
  absl::flat_hash_map<ValueId, bool> disjoint_;
  absl::flat_hash_map<std::tuple<ValueId, int64_t, int64_t>, ValueId> parts_;
  absl::flat_hash_map<ValueId, int> parts_of_;
};

}  // namespace

absl::StatusOr<bool> SplitProjections(Program& program, PassContext& context) {
  return Splitter(program, context).Run(program);
}

}  // namespace asyra
