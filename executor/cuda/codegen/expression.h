// The expression of a generated kernel: a graph over operands, elementwise,
// with reductions over the rows of a loop. One op is a graph, and so is a chain
// of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "ir/attr.h"
#include "ir/type.h"

namespace asyra::cuda {

// Types that are computed in: float for f16 and bf16 too, 64-bit integers for
// all integers and bool.
enum class Computed : uint8_t { kFloat, kDouble, kInt };
Computed ComputedOf(DType dtype);

enum class ReductionKind : uint8_t { kSum, kProduct, kMax, kMin };

class Expression {
 public:
  enum class Kind : uint8_t { kOperand, kPlace, kApply, kReduce };
  struct Node {
    Kind kind = Kind::kApply;
    Computed type = Computed::kFloat;
    int operand = -1;  // or the place
    ReductionKind reduction = ReductionKind::kSum;
    std::string code;  // of C++, where $0, $1, ... are the inputs
    std::vector<int> inputs = {};
  };
  struct Result {
    int node;
    DType dtype;
  };

  // Adds the next operand. All calls give the number of a node.
  int Operand(DType dtype);
  // Adds the sum of that many operands more, at least one, in their order.
  int SumOfOperands(DType dtype, int64_t count);
  // Adds an op element by element (IsElementwise); its result has
  // type `dtype`.
  int Apply(std::string_view op, const AttrMap& attrs, DType dtype,
            const std::vector<int>& inputs);
  // The next of the loop's places: the number of an element in some layout.
  int Place();
  // C++ (see Node) whose value has the type of the last input, or the one
  // given.
  int Formula(std::string code, const std::vector<int>& inputs);
  int Formula(std::string code, const std::vector<int>& inputs, Computed type);
  // Adds a constant of the type of that node.
  int Number(double value, int like);
  int Number(double value, Computed type);
  // Reduces the whole row to one value for all of its elements.
  int Reduce(ReductionKind kind, int input);
  // The one result of another expression of one op, whose operands are these
  // nodes, rounded as if it were stored to memory.
  int Inline(const Expression& op, const std::vector<int>& operands);
  // Adds the next result; rounded to `dtype` when it is stored.
  void Store(int node, DType dtype);

  const std::vector<DType>& operands() const { return operands_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Result>& results() const { return results_; }
  // Returns whether a value that Inline gave has single precision or more.
  bool has_wide_values() const { return has_wide_values_; }

 private:
  int Add(Node node);
  std::vector<DType> operands_;
  int places_ = 0;
  bool has_wide_values_ = false;
  std::vector<Node> nodes_;
  std::vector<Result> results_;
};

// Returns whether Apply knows the op for operands of these types.
bool IsElementwise(std::string_view op, absl::Span<const DType> operands);
// Returns all ops that Apply knows.
std::vector<std::string_view> ElementwiseNames();

// Declarations that code of expressions may use: element types, conversions,
// functions with the meaning that ops have (ir/ops/integers.h).
extern const char kExpressionPrelude[];
// Names in that code.
std::string_view TypeName(Computed type);
std::string_view TypeName(DType dtype);

}  // namespace asyra::cuda
