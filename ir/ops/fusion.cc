// Several ops as one, all of whose properties follow from its body.
#include <algorithm>

#include "ir/accumulation.h"
#include "ir/body.h"
#include "ir/builder.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

using Types = std::vector<Type>;

const Body& BodyIn(const AttrMap& attrs) { return *attrs.Get<BodyRef>("body"); }

Types Given(const Body& body, const Types& types) {
  Types given;
  for (int value : body.results) given.push_back(types[value]);
  return given;
}

absl::StatusOr<Types> Infer(const OpCall& call) {
  const Body& body = BodyIn(call.attrs);
  ASYRA_ASSIGN_OR_RETURN(Types types, BodyTypes(body, call.operands, Mesh()));
  // A body that binds one dimension in two ways is none.
  ASYRA_RETURN_IF_ERROR(BodyAxisRule(body, types).status());
  return Given(body, types);
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  const Body& body = BodyIn(call.attrs);
  ASYRA_ASSIGN_OR_RETURN(Types types, BodyTypes(body, call.operands, Mesh()));
  return BodyAxisRule(body, types);
}

// Operands are read once and results written once; intermediate values stay in
// registers. A matmul reads its own operands as it does alone.
Work WorkOver(const OpCall& call, const Mesh& mesh) {
  const Body& body = BodyIn(call.attrs);
  auto types = BodyTypes(body, call.operands, mesh);
  if (!types.ok()) return {};
  auto work_of = [&](size_t op) {
    return WorkOf(BodyCall(body, op, *types).call(), mesh);
  };
  Work work;
  std::vector<bool> is_read(body.num_operands, false);
  bool has_matmul = BeginsWithMatmul(body);
  if (has_matmul) {
    work = work_of(0);
    work.write_bytes = 0;
    for (int value : body.ops[0].operands) is_read[value] = true;
  }
  double& flops = has_matmul ? work.vector_flops : work.flops;
  for (size_t i = has_matmul ? 1 : 0; i < body.ops.size(); ++i) {
    Work part = work_of(i);
    flops += part.flops;
    work.row_bytes = std::max(work.row_bytes, part.row_bytes);
    work.reread_bytes += part.reread_bytes;
  }
  for (int k = 0; k < body.num_operands; ++k) {
    if (is_read[k]) continue;
    work.read_bytes += static_cast<double>(LocalBytes(call.operands[k], mesh));
  }
  for (const Type& type : call.results) {
    work.write_bytes += static_cast<double>(LocalBytes(type, mesh));
  }
  return work;
}

// A kernel reads a row, or an element if there are no rows, before it writes
// there. Operands smaller than its loop may be read again for other rows, and
// so may those of a matmul, except what is only added to it.
bool ResultInPlace(const OpCall& call, int operand, int result) {
  const Body& body = BodyIn(call.attrs);
  Types operands;
  for (const Type& type : call.operands) operands.push_back(type.Global());
  auto types = BodyTypes(body, operands, Mesh());
  if (!types.ok()) return false;
  if (BeginsWithMatmul(body)) return operand == AccumulatesOn(body, *types);
  return call.results[result].shape() == LoopShape(*types);
}

// The trailing dimensions of a value as far as they are known; -1: not known.
using Known = Ints;

void Learn(const Known& from, Known* to) {
  if (to->size() < from.size()) {
    to->insert(to->begin(), from.size() - to->size(), -1);
  }
  size_t lead = to->size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if ((*to)[lead + d] < 0) (*to)[lead + d] = from[d];
  }
}

// Shape constraints from the result of an op on its operand 0, or on all
// elementwise operands.
Known OfOperands(const BodyOp& op, Known result) {
  if (op.def->fusable != Fusable::kRow) return result;
  const AttrValue* keep = op.attrs.Find("keep");
  bool dropped = keep != nullptr && !std::get<bool>(*keep);
  if (!dropped && !result.empty()) result.pop_back();
  result.push_back(-1);  // a row is whole
  return result;
}

// Returns how many operands, the first ones, have the dimensions of the result.
size_t CountOfResultShape(const BodyOp& op) {
  switch (op.def->fusable) {
    case Fusable::kMatmul:
      return 0;
    case Fusable::kRow:
      return 1;
    default:
      return op.operands.size();
  }
}

void ResizeShape(const Known& known, BodyOp* op) {
  Ints shape = op->attrs.Get<Ints>("shape");
  for (size_t d = 0; d < std::min(shape.size(), known.size()); ++d) {
    int64_t size = known[known.size() - 1 - d];
    int64_t& old = shape[shape.size() - 1 - d];
    if (size >= 0 && old != 1) old = size;
  }
  Type type(DType::kBool, shape);
  op->def->resize(&op->attrs, {&type, 1});
}

// Sizes flow from the results back to the shapes that ops repeat.
void Resize(AttrMap* attrs, absl::Span<const Type> results) {
  Body body = BodyIn(*attrs);
  std::vector<Known> known(body.num_values());
  for (size_t i = 0; i < std::min(results.size(), body.results.size()); ++i) {
    Shape shape = results[i].shape();
    Learn({shape.begin(), shape.end()}, &known[body.results[i]]);
  }
  bool resized = false;
  for (size_t i = body.ops.size(); i-- > 0;) {
    BodyOp& op = body.ops[i];
    const Known& result = known[body.num_operands + i];
    if (op.def->resize != nullptr) {
      ResizeShape(result, &op);
      resized = true;
    }
    Known of_operands = OfOperands(op, result);
    for (size_t k = 0; k < CountOfResultShape(op); ++k) {
      Learn(of_operands, &known[op.operands[k]]);
    }
  }
  if (resized) attrs->Set("body", BodyRef(std::move(body)));
}

absl::Status Reference(const RefCall& call) {
  const Body& body = BodyIn(call.attrs);
  ASYRA_ASSIGN_OR_RETURN(Types types,
                         BodyTypes(body, call.operand_types, call.mesh));
  std::vector<Tensor> values(call.operands.begin(), call.operands.end());
  for (size_t i = 0; i < body.ops.size(); ++i) {
    BodyCall use(body, i, types);
    std::vector<Tensor> operands;
    for (int value : body.ops[i].operands) operands.push_back(values[value]);
    const Type& type = use.call().results[0];
    Tensor result(type.dtype, type.Local(call.mesh).shape());
    ASYRA_RETURN_IF_ERROR(use.call().def.reference(
        {use.call().def, use.call().attrs, use.call().operands,
         use.call().results, operands, absl::MakeSpan(&result, 1), call.mesh,
         call.device}));
    values.push_back(std::move(result));
  }
  for (size_t i = 0; i < body.results.size(); ++i) {
    call.results[i] = values[body.results[i]];
  }
  return absl::OkStatus();
}

// Gradients of values of a body, whose ops are in the builder again.
class BodyGradient {
 public:
  BodyGradient(Builder& builder, const VjpCall& call)
      : builder_(builder),
        body_(BodyIn(call.attrs)),
        values_(call.operands.begin(), call.operands.end()),
        gradients_(body_.num_values(), kNoValue) {
    for (size_t i = 0; i < body_.results.size(); ++i) {
      gradients_[body_.results[i]] = call.gradients[i];
    }
  }

  absl::StatusOr<std::vector<ValueId>> Run() {
    for (const BodyOp& op : body_.ops) {
      ASYRA_ASSIGN_OR_RETURN(
          ValueId value,
          builder_.AddOne(op.def->name, OperandsOf(op), op.attrs));
      values_.push_back(value);
    }
    for (size_t i = body_.ops.size(); i-- > 0;) {
      ASYRA_RETURN_IF_ERROR(Back(body_.ops[i], body_.num_operands + i));
    }
    gradients_.resize(body_.num_operands);
    return std::move(gradients_);
  }

 private:
  std::vector<ValueId> OperandsOf(const BodyOp& op) const {
    std::vector<ValueId> operands;
    for (int value : op.operands) operands.push_back(values_[value]);
    return operands;
  }

  absl::Status Back(const BodyOp& op, size_t result) {
    if (gradients_[result] == kNoValue) return absl::OkStatus();
    if (op.def->vjp == nullptr) return absl::OkStatus();  // not differentiable
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> gradients,
                           op.def->vjp(builder_, {op.attrs,
                                                  OperandsOf(op),
                                                  {&values_[result], 1},
                                                  {&gradients_[result], 1}}));
    for (size_t k = 0; k < gradients.size(); ++k) {
      ValueId& sum = gradients_[op.operands[k]];
      if (gradients[k] == kNoValue) continue;
      if (sum == kNoValue) {
        sum = gradients[k];
      } else {
        ASYRA_ASSIGN_OR_RETURN(sum,
                               builder_.AddOne("add", {sum, gradients[k]}));
      }
    }
    return absl::OkStatus();
  }

  Builder& builder_;
  const Body& body_;
  std::vector<ValueId> values_, gradients_;
};

absl::StatusOr<std::vector<ValueId>> BodyVjp(Builder& builder,
                                             const VjpCall& call) {
  return BodyGradient(builder, call).Run();
}

}  // namespace

std::vector<OpDef> FusionOps() {
  return {
      {.name = "fusion",
       .summary = "the ops of `body`, in one kernel",
       .operands = {{"operands", OperandDef::kVariadic}},
       .attrs = {{"body", AttrKind::kBody, "what it computes"}},
       .infer = Infer,
       .axes = Axes,
       .resize = Resize,
       .work_over = WorkOver,
       .vjp = BodyVjp,
       .reference = Reference,
       .samples = {{"fusion(f32[4,6], f32[4,6], f32[6]) {"
                    "%3 = add(%0, %1) : f32[4,6] "
                    "%4 = rms_norm(%3, %2) {eps=0.125} : f32[4,6] "
                    "return %4, %3}"},
                   {"fusion(f32[4,6], f32[6]) {"
                    "%2 = add(%0, %1) : f32[4,6] "
                    "%3 = gelu(%2) : f32[4,6] "
                    "return %3}"},
                   {"fusion(bf16[2,4,6], bf16[2,4,6], bf16[4,1]) {"
                    "%3 = mul(%0, %2) : bf16[2,4,6] "
                    "%4 = swiglu(%3, %1) : bf16[2,4,6] "
                    "%5 = cast(%4) {to=f32} : f32[2,4,6] "
                    "return %5, %3}"},
                   {"fusion(f32[4,6], f32[4,6]) {"
                    "%2 = sub(%0, %1) : f32[4,6] "
                    "%3 = neg(%2) : f32[4,6] "
                    "%4 = add(%3, %1) : f32[4,6] "
                    "return %2, %4}"},
                   // The rows are not in all results: whole.
                   {"fusion(f32[4,6], f32[6]) {"
                    "%2 = exp(%1) : f32[6] "
                    "%3 = add(%0, %2) : f32[4,6] "
                    "return %3, %2}"},
                   {"fusion(f32[4,6], f32[1,6]) {"
                    "%2 = broadcast(%1) {shape=[4, 6]} : f32[4,6] "
                    "%3 = max(%0, %2) : f32[4,6] "
                    "%4 = reduce_sum(%3) {dims=[-1], keep=false} : f32[4] "
                    "%5 = exp(%4) : f32[4] "
                    "return %5, %3}"},
                   {"fusion(f32[2,4,6], bool[2,1,6]) {"
                    "%2 = reduce_mean(%0) {dims=[2]} : f32[2,4,1] "
                    "%3 = sub(%0, %2) : f32[2,4,6] "
                    "%4 = select(%1, %3, %0) : f32[2,4,6] "
                    "%5 = softmax(%4) : f32[2,4,6] "
                    "return %5}",
                    0, 1},
                   // Not computable in one loop: rows of one op are the
                   // elements of another.
                   {"fusion(f32[4,6], f32[2,4]) {"
                    "%2 = reduce_max(%0) {dims=[1], keep=false} : f32[4] "
                    "%3 = add(%1, %2) : f32[2,4] "
                    "return %3}"},
                   // Matmuls with epilogues that libraries compute ...
                   {"fusion(f32[2,4,6], f32[8,6], f32[8], f32[2,4,8]) {"
                    "%4 = matmul(%0, %1) {transpose_b=true} : f32[2,4,8] "
                    "%5 = add(%4, %2) : f32[2,4,8] "
                    "%6 = add(%3, %5) : f32[2,4,8] "
                    "%7 = relu(%6) : f32[2,4,8] "
                    "return %7}"},
                   {"fusion(bf16[8], bf16[6,4], bf16[6,8]) {"
                    "%3 = matmul(%1, %2) {transpose_a=true} : bf16[4,8] "
                    "%4 = add(%0, %3) : bf16[4,8] "
                    "%5 = gelu_tanh(%4) : bf16[4,8] "
                    "return %5}"},
                   {"fusion(f16[2,4,6], f16[2,6,4], f16[2,4,4]) {"
                    "%3 = matmul(%0, %1) : f16[2,4,4] "
                    "%4 = add(%3, %2) : f16[2,4,4] "
                    "return %4}"},
                   {"fusion(bf16[2,4,6], bf16[2,4,8], f32[6,8]) {"
                    "%3 = matmul_wgrad(%0, %1) : f32[6,8] "
                    "%4 = add(%3, %2) : f32[6,8] "
                    "return %4}"},
                   {"fusion(f32[2,4,6], f32[6,6], f32[2,4,6]) {"
                    "%3 = matmul(%0, %1) : f32[2,4,6] "
                    "%4 = add(%2, %3) : f32[2,4,6] "
                    "return %4}"},
                   // ... and with others.
                   {"fusion(f32[4,6], f32[6,8], f32[2,1,8]) {"
                    "%3 = matmul(%0, %1) : f32[4,8] "
                    "%4 = broadcast(%3) {shape=[2, 4, 8]} : f32[2,4,8] "
                    "%5 = mul(%4, %2) : f32[2,4,8] "
                    "return %5}"}},
       .in_place = true,
       .result_in_place = ResultInPlace},
  };
}

}  // namespace asyra::ops
