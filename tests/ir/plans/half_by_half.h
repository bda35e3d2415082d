// Tiles of one op against the whole.
#pragma once

#include "ir/support/status.h"
#include "tests/ir/one_op.h"

namespace asyra {

// The program whose op runs on each half of each of `blocks` blocks of its
// factor `f`, the results put together or, where it sums over f, added, if the
// op does not add the second to the first itself. An error where these are no
// tiles of some operand.
class HalfByHalf {
 public:
  HalfByHalf(const Program& whole, const AxisRule& rule, FactorId f,
             int64_t blocks)
      : whole_(whole),
        op_(whole.ops[0]),
        rule_(rule),
        f_(f),
        blocks_(blocks),
        builder_(whole.mesh, whole.stage) {}

  absl::StatusOr<Program> Build() {
    for (ValueId operand : op_.operands) {
      inputs_.push_back(builder_.Input("x", whole_.type(operand)));
    }
    std::vector<Type> half;
    for (size_t i = 0; i < op_.results.size(); ++i) {
      half.push_back(whole_.type(op_.results[i]).Global());
      int64_t dim = DimOf(rule_.results[i]);
      if (dim >= 0) half.back().dims[dim].size /= 2;
    }
    std::vector<std::vector<ValueId>> parts(op_.results.size());
    for (int64_t part : {0, 1}) {
      std::vector<ValueId> operands = inputs_;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        ASYRA_RETURN_IF_ERROR(Cut(i, part, &operands[i]));
      }
      if (part == 1 && Accumulates()) {
        operands[rule_.accumulates_on] = parts[0][0];
        parts[0].clear();
      }
      AttrMap attrs = op_.attrs;
      if (op_.def->resize != nullptr) op_.def->resize(&attrs, half);
      ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                             builder_.Add(op_.def->name, operands, attrs));
      for (size_t i = 0; i < results.size(); ++i) {
        parts[i].push_back(results[i]);
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(Join(i, parts[i]));
    }
    return std::move(builder_).Finish();
  }

 private:
  bool Accumulates() const {
    return rule_.factors[f_].kind == FactorKind::kAccumulated;
  }

  int64_t DimOf(const OperandFactors& dims) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(dims[d].begin(), dims[d].end(), f_) != dims[d].end()) {
        return static_cast<int64_t>(d);
      }
    }
    return -1;
  }

  // Of all blocks, those of one device.
  int64_t BlocksOf(ValueId value, int64_t dim) const {
    int64_t shards = whole_.mesh.size(whole_.type(value).dims[dim].axes);
    return blocks_ % shards == 0 ? blocks_ / shards : 0;
  }

  absl::Status Cut(size_t i, int64_t part, ValueId* operand) {
    int64_t dim = DimOf(rule_.operands[i]);
    if (dim < 0) return absl::OkStatus();
    if (rule_.Leading(static_cast<int>(i), static_cast<int>(dim)) != f_) {
      return absl::OutOfRangeError("not leading");
    }
    auto tile = builder_.AddOne("tile", {inputs_[i]},
                                {{"dim", dim},
                                 {"part", part},
                                 {"of", int64_t{2}},
                                 {"blocks", BlocksOf(op_.operands[i], dim)}});
    if (!tile.ok()) return tile.status();
    *operand = *tile;
    return absl::OkStatus();
  }

  absl::Status Join(size_t i, const std::vector<ValueId>& parts) {
    int64_t dim = DimOf(rule_.results[i]);
    auto joined =
        parts.size() == 1 ? absl::StatusOr<ValueId>(parts[0])
        : dim < 0
            ? builder_.AddOne("add", parts)
            : builder_.AddOne(
                  "untile", parts,
                  {{"dim", dim}, {"blocks", BlocksOf(op_.results[i], dim)}});
    if (!joined.ok()) return joined.status();
    ValueId value = *joined;
    const AxisList& partial = builder_.type(value).partial;
    if (!partial.empty()) {
      value = ASYRA_VALUE(
          builder_.AddOne("all_reduce", {value}, {{"axes", partial}}));
    }
    builder_.Output(value);
    return absl::OkStatus();
  }

  const Program& whole_;
  const Op& op_;
  const AxisRule& rule_;
  FactorId f_;
  int64_t blocks_;
  Builder builder_;
  std::vector<ValueId> inputs_;
};

// Whether f is the first factor of every dimension of a result that has it.
inline bool LeadsInResults(const AxisRule& rule, FactorId f) {
  for (const OperandFactors& dims : rule.results) {
    for (const DimFactors& dim : dims) {
      bool outer = true;
      for (FactorId at : dim) {
        if (at == f && !outer) return false;
        outer &= rule.factors[at].size == 1;
      }
    }
  }
  return true;
}

// How many programs of tiles were compared with the whole.
inline int ExpectTilesMakeTheWhole(const Program& whole, const AxisRule& rule,
                                   const std::vector<Tensor>& operands) {
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(whole, operands));
  int compared = 0;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    FactorId id = static_cast<FactorId>(f);
    if (factor.kind == FactorKind::kWhole || factor.positional ||
        operands.empty() || !LeadsInResults(rule, id)) {
      continue;
    }
    for (int64_t blocks : {1, 2, 4}) {
      if (factor.size % (2 * blocks) != 0) continue;
      absl::StatusOr<Program> tiled =
          HalfByHalf(whole, rule, id, blocks).Build();
      if (!tiled.ok()) continue;  // not inside the shards
      SCOPED_TRACE(ToString(*tiled));
      if (whole.type(whole.inputs[0].value).partial.empty()) {
        absl::Status verified = Verify(*tiled);
        EXPECT_TRUE(verified.ok()) << verified;
      }
      absl::StatusOr<std::vector<Tensor>> got = Interpret(*tiled, operands);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok()) return compared;
      for (size_t i = 0; i < want.size(); ++i) {
        // A sum of two parts is rounded once more.
        bool is_sum = rule.IsSummedIn(id, static_cast<int>(i));
        double tolerance = is_sum ? 1e-6 : 0;
        EXPECT_TRUE(Near((*got)[i], want[i], tolerance));
      }
      ++compared;
    }
  }
  return compared;
}

}  // namespace asyra
