#include "passes/shard/weigh_packed_rows.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/builder.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A dispatch or sum of products, and what these are of; or an addition.
struct Site {
  ValueId tokens = kNoValue;    // [..., tokens, 1, h]
  ValueId weights = kNoValue;   // of a dispatch, [..., tokens, choices, 1]
  int collect = -1;             // of a sum: the op that brings the rows
  int matmul = -1;              // of an addition: the op whose result it reads
  ValueId residual = kNoValue;  // of an addition: the other operand
};

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program), def_use_(program) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      std::string_view name = program.ops[i].def->name;
      if (name == "packed_dispatch") FindDispatch(static_cast<int>(i));
      if (name == "reduce_sum") FindSum(static_cast<int>(i));
      if (name == "add") FindAddition(static_cast<int>(i));
    }
  }

  const absl::flat_hash_map<int, Site>& sites() const { return sites_; }
  // Ops that only the sites read.
  const absl::flat_hash_set<int>& gone() const { return gone_; }

 private:
  // Returns the index of the op that defines a value for one reader alone and
  // has the name; -1: there is none.
  int Only(ValueId value, std::string_view name) const {
    int def = def_use_.def[value];
    bool once =
        def_use_.uses[value].size() == 1 && def_use_.output_uses[value] == 0;
    return once && def >= 0 && program_.ops[def].def->name == name ? def : -1;
  }

  // Returns whether a value has the product's shape, but 1 at `dim` from the
  // end.
  bool Broadcasts(ValueId value, const Type& product, int dim) const {
    const Type& type = program_.type(value);
    Shape shape = product.shape();
    shape.end()[dim] = 1;
    return type.shape() == shape && type.dtype == product.dtype &&
           type.partial.empty() && type.dims.back().axes.empty();
  }

  // Sets the operand of a product that broadcasts along choices and the other.
  bool Split(const Op& mul, ValueId* tokens, ValueId* other) const {
    const Type& product = program_.type(mul.results[0]);
    if (product.rank() < 3 || product.dims.end()[-2].size == 1) return false;
    for (int i : {0, 1}) {
      if (!Broadcasts(mul.operands[i], product, -2)) continue;
      *tokens = mul.operands[i];
      *other = mul.operands[1 - i];
      return true;
    }
    return false;
  }

  void FindDispatch(int index) {
    const Op& op = program_.ops[index];
    int reshape =
        op.operands.size() == 2 ? Only(op.operands[0], "reshape") : -1;
    int mul = reshape < 0 ? -1 : Only(program_.ops[reshape].operands[0], "mul");
    Site site;
    if (mul < 0 || !Split(program_.ops[mul], &site.tokens, &site.weights)) {
      return;
    }
    const Type& product = program_.type(program_.ops[mul].results[0]);
    Shape rows = product.shape();
    int64_t choices = rows.end()[-2];
    rows.erase(rows.end() - 2);
    rows.end()[-2] *= choices;
    if (program_.type(op.operands[0]).shape() != rows ||
        !Broadcasts(site.weights, product, -1) ||
        op.attrs.Int("group_size") % choices != 0) {
      return;
    }
    gone_.insert({reshape, mul});
    sites_.emplace(index, site);
  }

  void FindSum(int index) {
    const Op& op = program_.ops[index];
    int mul = Only(op.operands[0], "mul");
    Site site;
    ValueId rows = kNoValue;
    if (mul < 0 || !Split(program_.ops[mul], &site.tokens, &rows)) return;
    site.collect = Only(rows, "packed_collect");
    const Type& product = program_.type(program_.ops[mul].results[0]);
    Shape sums = product.shape();
    sums.pop_back();
    const Type& sum = program_.type(op.results[0]);
    const Ints& dims = op.attrs.Get<Ints>("dims");
    bool along_rows =
        dims.size() == 1 &&
        NormalizeDim(dims[0], product.rank()) == product.rank() - 1;
    if (site.collect < 0 || !along_rows || sum.shape() != sums ||
        sum.dtype != product.dtype || !sum.partial.empty()) {
      return;
    }
    gone_.insert({site.collect, mul});
    sites_.emplace(index, site);
  }

  // The later of two matmuls adds the result of the other.
  void FindAddition(int index) {
    const Op& op = program_.ops[index];
    Site site;
    for (int i : {0, 1}) {
      int matmul = Only(op.operands[i], "packed_matmul");
      if (matmul <= site.matmul) continue;
      site.matmul = matmul;
      site.residual = op.operands[1 - i];
    }
    // A matmul that is added to itself stays: its result is read as it is.
    if (site.matmul < 0 || op.operands[0] == op.operands[1]) return;
    const Op& matmul = program_.ops[site.matmul];
    const Type& rows = program_.type(op.results[0]);
    const Type& residual = program_.type(site.residual);
    if (matmul.operands.size() > 3 || residual.dtype != rows.dtype ||
        residual.dims != rows.dims || !residual.partial.empty() ||
        !rows.partial.empty()) {
      return;
    }
    gone_.insert(site.matmul);
    sites_.emplace(index, site);
  }

  const Program& program_;
  DefUse def_use_;
  absl::flat_hash_map<int, Site> sites_;
  absl::flat_hash_set<int> gone_;
};

class Weigher {
 public:
  Weigher(const Program& from, const Finder& found)
      : from_(from),
        found_(found),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() && {
    builder_.CopyInputs(from_, &map_);
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      int index = static_cast<int>(i);
      auto site = found_.sites().find(index);
      if (site != found_.sites().end()) {
        ASYRA_RETURN_IF_ERROR(Enter(from_.ops[i], site->second));
      } else if (!found_.gone().contains(index)) {
        ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, from_.ops[i], &map_));
      }
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

 private:
  absl::Status Enter(const Op& op, const Site& site) {
    if (site.matmul >= 0) return EnterAddition(op, site);
    ASYRA_ASSIGN_OR_RETURN(ValueId tokens, WithoutDim(site.tokens, -2));
    std::string_view name = "packed_dot";
    int64_t group_size = 0;
    std::vector<ValueId> operands;
    if (site.collect >= 0) {
      const Op& collect = from_.ops[site.collect];
      group_size = collect.attrs.Int("group_size");
      operands = {map_[collect.operands[0]], map_[collect.operands[1]], tokens};
    } else {
      name = op.def->name;
      const Type& weights = from_.type(site.weights);
      group_size = op.attrs.Int("group_size") / weights.dims.end()[-2].size;
      ASYRA_ASSIGN_OR_RETURN(ValueId flat, WithoutDim(site.weights, -1));
      operands = {tokens, map_[op.operands[1]], flat};
    }
    ASYRA_ASSIGN_OR_RETURN(
        map_[op.results[0]],
        builder_.AddOne(name, operands, {{"group_size", group_size}},
                        from_.value_name(op.results[0])));
    return absl::OkStatus();
  }

  absl::Status EnterAddition(const Op& op, const Site& site) {
    const Op& matmul = from_.ops[site.matmul];
    std::vector<ValueId> operands;
    for (ValueId operand : matmul.operands) operands.push_back(map_[operand]);
    operands.push_back(map_[site.residual]);
    ASYRA_ASSIGN_OR_RETURN(
        map_[op.results[0]],
        builder_.AddOne("packed_matmul", operands, matmul.attrs,
                        from_.value_name(op.results[0])));
    return absl::OkStatus();
  }

  // Removes a dimension of 1, `dim` from the end.
  absl::StatusOr<ValueId> WithoutDim(ValueId value, int dim) {
    Shape shape = from_.type(value).shape();
    shape.erase(shape.end() + dim);
    return builder_.AddOne("reshape", {map_[value]},
                           {{"shape", Ints(shape.begin(), shape.end())}},
                           from_.value_name(value) + ".rows");
  }

  const Program& from_;
  const Finder& found_;
  Builder builder_;
  std::vector<ValueId> map_;  // from a value of `from_` to one of the new
};

}  // namespace

absl::StatusOr<bool> WeighPackedRows(Program& program, const PassOptions&,
                                     PassContext&) {
  Finder found(program);
  if (found.sites().empty()) return false;
  ASYRA_ASSIGN_OR_RETURN(Program weighed, Weigher(program, found).Run());
  program = std::move(weighed);
  return true;
}

}  // namespace asyra
