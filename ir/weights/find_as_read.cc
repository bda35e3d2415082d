#include "ir/weights/find_as_read.h"

#include <string>
#include <utility>

#include "ir/support/status.h"
#include "ir/weight_origin.h"

namespace asyra {

absl::StatusOr<std::optional<Tensor>> FindAsRead(const WeightStore& tensors,
                                                 const Program& program,
                                                 const Input& input) {
  Shape shape = program.GivenShape(input);
  const std::string& own = program.value_name(input.value);
  WeightOrigin origin = OriginOf(program, input);
  // Data that a pass has computed from a tensor is no part of it.
  const Tensor* whole = origin.made ? nullptr : tensors.Find(origin.tensor);
  if (whole == nullptr) {
    whole = tensors.Find(own);
    if (whole == nullptr) return std::nullopt;
    if (whole->shape() == shape) return *whole;
    return Invalid("{} is {}, the model reads {}", own,
                   ShapeToString(whole->shape()), ShapeToString(shape));
  }
  Shape known = origin.shape;
  if (origin.transposed) std::swap(known[0], known[1]);
  if (whole->shape() != known) {
    return Invalid("{} is {}, in the model it is {}", origin.tensor,
                   ShapeToString(whole->shape()), ShapeToString(known));
  }
  return TakePart(origin, origin.transposed ? TransposedMatrix(*whole) : *whole,
                  shape);
}

}  // namespace asyra
