#include "ir/plans/fused_reduction.h"

#include <string>

#include "absl/algorithm/container.h"
#include "ir/overlap.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Takes a body apart.
class Parts {
 public:
  Parts(const Body& body, const std::vector<Type>& types, const Mesh& mesh)
      : body_(body), types_(types), mesh_(mesh) {}

  absl::StatusOr<FusedReduction> Run() {
    ASYRA_RETURN_IF_ERROR(AddReduction());
    for (size_t i = 1; i < body_.ops.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(AddOp(i));
    }
    ASYRA_RETURN_IF_ERROR(AddResults());
    return std::move(made_);
  }

 private:
  int ValueOf(size_t op) const {
    return body_.num_operands + static_cast<int>(op);
  }
  const Type& TypeOf(int value) const { return types_[value]; }
  int64_t Bytes(int value) const { return TypeOf(value).Local(mesh_).bytes(); }

  int64_t ReadersOf(int value) const {
    int64_t readers = 0;
    for (const BodyOp& op : body_.ops) {
      readers += absl::c_count(op.operands, value);
    }
    return readers;
  }

  absl::Status AddReduction() {
    const BodyOp& op = body_.ops[0];
    if (!Reduces(op.def->collective)) {
      return Invalid("its first op is {}, not a reduction over devices",
                     op.def->name);
    }
    made_.summed = op.operands[0];
    if (ReadersOf(made_.summed) > 1) {
      return Invalid("%{}, which is reduced, is read again", made_.summed);
    }
    made_.members = mesh_.size(op.attrs.Get<AxisList>("axes"));
    made_.rows.num_operands = body_.num_operands;
    for (int k = 0; k < body_.num_operands; ++k) {
      number_.push_back(k);
      made_.operands.push_back(TypeOf(k == made_.summed ? ValueOf(0) : k));
    }
    number_.push_back(made_.summed);
    made_.read_from_others = (made_.members - 1) * Bytes(ValueOf(0));
    return absl::OkStatus();
  }

  absl::Status AddOp(size_t index) {
    const BodyOp& op = body_.ops[index];
    if (op.def->collective == CollectiveKind::kAllGather) {
      if (ReadersOf(ValueOf(index)) > 0) {
        return Invalid("%{}, which is gathered, is read", ValueOf(index));
      }
      number_.push_back(number_[op.operands[0]]);
      return absl::OkStatus();
    }
    if (op.def->collective != CollectiveKind::kNone) {
      return Invalid(
          "op {} is {}; after its reduction only gathers communicate", index,
          op.def->name);
    }
    BodyOp part = op;
    for (int& value : part.operands) value = number_[value];
    made_.rows.ops.push_back(std::move(part));
    number_.push_back(made_.rows.num_values() - 1);
    return absl::OkStatus();
  }

  absl::Status AddResults() {
    for (int value : body_.results) {
      const BodyOp& op = body_.ops[value - body_.num_operands];
      bool gathers = op.def->collective == CollectiveKind::kAllGather;
      made_.rows.results.push_back(number_[value]);
      made_.results.push_back(TypeOf(gathers ? op.operands[0] : value));
      made_.gathered.push_back(gathers ? static_cast<int>(op.attrs.Int("dim"))
                                       : -1);
      if (!gathers) continue;
      made_.written_to_others += (made_.members - 1) * Bytes(op.operands[0]);
    }
    return BodyTypes(made_.rows, made_.operands, mesh_).status();
  }

  const Body& body_;
  const std::vector<Type>& types_;
  const Mesh& mesh_;
  FusedReduction made_;
  std::vector<int> number_;  // by value of the body, in `rows`
};

}  // namespace

bool IsOneKernel(const AttrMap& attrs) {
  const AttrValue* form = attrs.Find("form");
  return form != nullptr && std::get<std::string>(*form) == kOneKernel;
}

absl::StatusOr<FusedReduction> FusedReductionOf(const Body& body,
                                                absl::Span<const Type> operands,
                                                const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types,
                         OverlapTypes(body, operands, mesh));
  auto parts = Parts(body, types, mesh).Run();
  if (!parts.ok()) return Annotate(parts.status(), "form one_kernel");
  return parts;
}

}  // namespace asyra
