#include "executor/train/label_shift.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/training_names.h"

namespace asyra {
namespace {

// Labels in a value: which position is the first of dimension `dim`. Behind a
// reshape there is no such dimension, and `dim` is -1.
struct Place {
  int dim = -1;
  int64_t first = 0;
};

bool IsOneOf(const Op& op, std::initializer_list<std::string_view> names) {
  return absl::c_linear_search(names, op.def->name);
}

bool IsElementwise(const Op& op) {
  return op.def->fusable == Fusable::kElement || op.def->name == "fusion";
}

bool MovesNothing(const Op& op) {
  return op.is_collective() || op.def->is_wait || op.def->name == "copy";
}

int DimOf(const Program& program, const Op& op) {
  return NormalizeDim(op.attrs.Int("dim"), program.type(op.operands[0]).rank());
}

class Follower {
 public:
  explicit Follower(const Program& program)
      : program_(program), def_use_(program), places_(program.values.size()) {}

  int64_t Run() {
    for (const Input& input : program_.inputs) {
      int rank = program_.type(input.value).rank();
      if (program_.value_name(input.value) != kLabels || rank < 2) continue;
      places_[input.value] = Place{rank - 1, 0};
    }
    for (const Op& op : program_.ops) {
      for (size_t k = 0; k < op.operands.size(); ++k) {
        if (places_[op.operands[k]].has_value()) Read(op, k);
      }
    }
    return shift_.value_or(0);
  }

 private:
  void Read(const Op& op, size_t k) {
    Place place = *places_[op.operands[k]];
    if (IsOneOf(op, {"slice", "pad", "concat", "transpose"})) {
      if (place.dim >= 0) Move(op, k, &place);
      Give(op.results[0], place);
    } else if (op.def->name == "reshape") {
      Give(op.results[0], {-1, place.first});
    } else if (MovesNothing(op)) {
      Give(op.results[std::min(k, op.results.size() - 1)], place);
    } else if (IsElementwise(op) && !ComparesWithClasses(op, k)) {
      // Masks tell which labels count, not whose they are.
      for (ValueId result : op.results) {
        if (IsInteger(program_.type(result).dtype)) Give(result, place);
      }
    } else if (k > 0 || IsElementwise(op)) {
      LookUp(op, place);
    }
  }

  void Give(ValueId value, Place place) {
    if (!places_[value].has_value()) places_[value] = place;
  }

  bool ComparesWithClasses(const Op& op, size_t k) const {
    return op.def->name == "equal" &&
           program_.type(op.results[0]).num_elements() >
               program_.type(op.operands[k]).num_elements();
  }

  void Move(const Op& op, size_t k, Place* place) const {
    if (op.def->name == "transpose") {
      const auto& perm = op.attrs.Get<Ints>("perm");
      place->dim =
          static_cast<int>(absl::c_find(perm, place->dim) - perm.begin());
    } else if (op.def->name == "pad") {
      place->first -= op.attrs.Get<Ints>("before")[place->dim];
    } else if (DimOf(program_, op) != place->dim) {
      return;
    } else if (op.def->name == "slice") {
      place->first += op.attrs.Int("start");
    } else {
      for (size_t i = 0; i < k; ++i) {
        place->first -= program_.type(op.operands[i]).size(place->dim);
      }
    }
  }

  void LookUp(const Op& op, Place place) {
    int64_t shift = place.first;
    if (op.def->name != "equal") shift -= FirstOfLogits(op.operands[0]);
    shift_ = std::min(shift_.value_or(shift), shift);
  }

  // Slices of positions on the way to them: of a dimension that is neither the
  // rows nor the classes.
  int64_t FirstOfLogits(ValueId value) const {
    int64_t first = 0;
    for (int def = def_use_.def[value]; def >= 0; def = def_use_.def[value]) {
      const Op& op = program_.ops[def];
      if (op.def->name == "slice") {
        int dim = DimOf(program_, op);
        int rank = program_.type(op.operands[0]).rank();
        if (dim > 0 && dim + 1 < rank) first += op.attrs.Int("start");
      } else if (!MovesNothing(op) &&
                 !IsOneOf(op, {"reshape", "transpose", "cast", "neg", "matmul",
                               "rms_norm", "layer_norm", "log_softmax",
                               "softmax", "log", "add", "mul"})) {
        return first;
      }
      value = op.operands[0];
    }
    return first;
  }

  const Program& program_;
  const DefUse def_use_;
  std::vector<std::optional<Place>> places_;  // by value
  std::optional<int64_t> shift_;
};

}  // namespace

int64_t LabelShift(const Program& program) {
  return std::max<int64_t>(0, Follower(program).Run());
}

}  // namespace asyra
