#include "ir/ops/infer.h"

namespace asyra::ops {

absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Type> types) {
  Shape shape;
  for (size_t i = 0; i < types.size(); ++i) {
    Shape next = types[i].shape();
    while (next.size() < shape.size()) next.insert(next.begin(), 1);
    while (shape.size() < next.size()) shape.insert(shape.begin(), 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) {
        shape[d] = next[d];
      } else if (next[d] != 1 && next[d] != shape[d]) {
        return Invalid("operand {} has shape {}, it does not broadcast with {}",
                       i, ShapeToString(types[i].shape()),
                       ShapeToString(shape));
      }
    }
  }
  return shape;
}

absl::Status RequireSameDType(const OpCall& call) {
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i].dtype != call.operands[0].dtype) {
      return Invalid("operand 0 is {}, operand {} is {}",
                     ToString(call.operands[0].dtype), i,
                     ToString(call.operands[i].dtype));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireFloat(const OpCall& call, int operand) {
  DType dtype = call.operands[operand].dtype;
  if (IsFloat(dtype)) return absl::OkStatus();
  return Invalid("operand {} is {}, it should be a float type", operand,
                 ToString(dtype));
}

absl::Status RequireInteger(const OpCall& call, int operand) {
  DType dtype = call.operands[operand].dtype;
  if (IsInteger(dtype)) return absl::OkStatus();
  return Invalid("operand {} is {}, it should be i32 or i64", operand,
                 ToString(dtype));
}

absl::Status RequireRank(const OpCall& call, int operand, int least) {
  int rank = call.operands[operand].rank();
  if (rank >= least) return absl::OkStatus();
  return Invalid("operand {} has rank {}, at least {} is needed", operand, rank,
                 least);
}

absl::Status RequireSameLead(const OpCall& call, int a, int of_a, int b,
                             int of_b) {
  auto lead = [&](int operand, int trailing) {
    Shape shape = call.operands[operand].shape();
    shape.resize(shape.size() - trailing);
    return shape;
  };
  if (lead(a, of_a) == lead(b, of_b)) return absl::OkStatus();
  return Invalid("leading dimensions differ: {} has {}, {} has {}",
                 call.def.operands[a].name, ShapeToString(lead(a, of_a)),
                 call.def.operands[b].name, ShapeToString(lead(b, of_b)));
}

absl::StatusOr<int> RequireDim(const OpCall& call, std::string_view name,
                               int rank) {
  int64_t given = call.attrs.Int(name);
  int dim = NormalizeDim(given, rank);
  if (dim < 0) return Invalid("{} is {}, the rank is {}", name, given, rank);
  return dim;
}

absl::StatusOr<std::vector<Type>> SameAsFirst(const OpCall& call) {
  return std::vector<Type>{call.operands[0]};
}

absl::StatusOr<std::vector<int>> RequireDims(const OpCall& call,
                                             std::string_view name, int rank) {
  std::vector<int> dims;
  for (int64_t given : call.attrs.Get<Ints>(name)) {
    int dim = NormalizeDim(given, rank);
    if (dim < 0) return Invalid("{} has {}, the rank is {}", name, given, rank);
    if (std::find(dims.begin(), dims.end(), dim) != dims.end()) {
      return Invalid("{} has dim {} twice", name, dim);
    }
    dims.push_back(dim);
  }
  return dims;
}

absl::StatusOr<Shape> RequireShape(const OpCall& call, DType dtype) {
  const Ints& given = call.attrs.Get<Ints>("shape");
  int64_t bytes = SizeOf(dtype);
  for (int64_t size : given) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return Invalid("shape {} is not that of a tensor", ShapeToString(given));
    }
  }
  return Shape(given.begin(), given.end());
}

std::string DimSpec(int from, int to, absl::Span<const int> whole) {
  std::string spec;
  for (int d = from; d < to; ++d) {
    if (d > from) spec += ' ';
    if (std::find(whole.begin(), whole.end(), d) != whole.end()) spec += '!';
    spec += fmt::format("d{}", d);
  }
  return spec;
}

absl::StatusOr<AxisRule> NoFactors(const OpCall& call) {
  AxisRule rule;
  for (const Type& type : call.operands) {
    rule.operands.push_back(OperandFactors(type.rank()));
  }
  for (const Type& type : call.results) {
    rule.results.push_back(OperandFactors(type.rank()));
  }
  return rule;
}

Work MoveWork(const OpCall& local) {
  Work work;
  for (const Type& type : local.results) {
    work.write_bytes += static_cast<double>(type.bytes());
  }
  work.read_bytes = work.write_bytes;
  for (size_t i = 1; i < local.operands.size(); ++i) {
    work.read_bytes += static_cast<double>(local.operands[i].bytes());
  }
  return work;
}

StridedIndex::StridedIndex(const Shape& to, Shape strides, int64_t offset)
    : to_(to),
      strides_(std::move(strides)),
      offset_(offset),
      identity_(offset == 0 && strides_ == RowMajorStrides(to)) {}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * shape[i];
  }
  return strides;
}

StridedIndex BroadcastIndex(const Shape& from, const Shape& to) {
  if (from == to) return StridedIndex(to, RowMajorStrides(to));
  Shape own = RowMajorStrides(from);
  Shape strides(to.size(), 0);
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[lead + i] = own[i];
  }
  return StridedIndex(to, std::move(strides));
}

}  // namespace asyra::ops
