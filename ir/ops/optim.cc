// Updates of parameters by their gradients. They work element by element, in
// the type of the parameter (f32 for a master copy of smaller weights) whatever
// that of the gradient. The learning rate is an operand: schedules change it.
#include <cmath>

#include "ir/halves.h"
#include "ir/multi_adamw.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Operands are the parameter, its gradient and `states` like the parameter;
// the others are scalars.
absl::Status CheckUpdate(const OpCall& call, int states) {
  const Type& param = call.operands[0];
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 1));
  auto name = [&](int i) { return call.def.operands[i].name; };
  for (int i = 1; i < static_cast<int>(call.operands.size()); ++i) {
    const Type& type = call.operands[i];
    bool like = i <= 1 + states;
    if (type.shape() != (like ? param.shape() : Shape{})) {
      return Invalid("{} has shape {}, it should be {}", name(i),
                     ShapeToString(type.shape()),
                     ShapeToString(like ? param.shape() : Shape{}));
    }
    if (i > 1 && like && type.dtype != param.dtype) {
      return Invalid("{} is {}, param is {}", name(i), ToString(type.dtype),
                     ToString(param.dtype));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AxisRule> UpdateAxes(const OpCall& call) {
  std::string dims = DimSpec(0, call.operands[0].rank()), spec;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    bool like = call.operands[i].rank() == call.operands[0].rank();
    spec += fmt::format("{}{}", i > 0 ? ", " : "", like ? dims : "");
  }
  for (size_t i = 0; i < call.results.size(); ++i) {
    spec += fmt::format("{}{}", i > 0 ? ", " : " -> ", dims);
  }
  return ParseAxisRule(spec, call.operands, call.results);
}

// So many flops for each element of a parameter, of which each has `results`.
template <int flops, int results = 1>
Work UpdateWork(const OpCall& local) {
  Work work;
  for (size_t i = 0; i < local.results.size(); i += results) {
    work.flops += flops * static_cast<double>(local.results[i].num_elements());
  }
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  for (const Type& type : local.results) {
    work.write_bytes += static_cast<double>(type.bytes());
  }
  return work;
}

// sgd -----------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferSgd(const OpCall& call) {
  // The velocity, where there is one, comes after the rate.
  OpCall update = call;
  std::vector<Type> types(call.operands.begin(), call.operands.begin() + 3);
  update.operands = types;
  ASYRA_RETURN_IF_ERROR(CheckUpdate(update, 0));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 2));
  const Type& param = call.operands[0];
  if (call.operands.size() == 3) {
    if (call.attrs.Float("momentum") == 0) return std::vector<Type>{param};
    return Invalid("momentum is {}, but there is no velocity",
                   call.attrs.Float("momentum"));
  }
  if (call.operands[3] != param) {
    return Invalid("velocity is {}, param is {}",
                   ToString(call.operands[3], {}), ToString(param, {}));
  }
  return std::vector<Type>{param, param};
}

absl::Status SgdReference(const RefCall& call) {
  std::vector<double> param = call.operands[0].ToDoubles();
  std::vector<double> grad = call.operands[1].ToDoubles();
  double rate = call.operands[2].Get(0);
  double momentum = call.attrs.Float("momentum");
  double decay = call.attrs.Float("weight_decay");
  bool nesterov = call.attrs.Bool("nesterov");
  bool moves = call.operands.size() > 3;
  std::vector<double> velocity(param.size(), 0.0);
  if (moves) velocity = call.operands[3].ToDoubles();
  for (size_t i = 0; i < param.size(); ++i) {
    double step = grad[i] + decay * param[i];
    velocity[i] = momentum * velocity[i] + step;
    param[i] -= rate * (nesterov ? step + momentum * velocity[i] : velocity[i]);
  }
  call.results[0].SetAll(param);
  if (moves) call.results[1].SetAll(velocity);
  return absl::OkStatus();
}

// adamw ---------------------------------------------------------------------

absl::Status CheckInHalves(const AttrMap& attrs, const Type& param) {
  if (!attrs.Bool(kInHalves) || param.dtype == DType::kF32) {
    return absl::OkStatus();
  }
  return Invalid("param is {}, only f32 is stored in halves",
                 ToString(param.dtype));
}

absl::StatusOr<std::vector<Type>> InferAdamW(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckUpdate(call, 2));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 4));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 5));
  if (call.operands.size() > 6) ASYRA_RETURN_IF_ERROR(RequireFloat(call, 6));
  for (std::string_view name : {"beta1", "beta2"}) {
    double beta = call.attrs.Float(name);
    if (!(beta >= 0 && beta < 1)) {
      return Invalid("{} is {}, it should be in [0, 1)", name, beta);
    }
  }
  ASYRA_RETURN_IF_ERROR(CheckInHalves(call.attrs, call.operands[0]));
  return std::vector<Type>(3, call.operands[0]);
}

// Operands of adamw, from its attributes the new parameter, m and v.
absl::Status UpdateByAdamW(const AttrMap& attrs,
                           absl::Span<const Tensor> operands,
                           absl::Span<Tensor> results) {
  std::vector<double> param = operands[0].ToDoubles();
  std::vector<double> grad = operands[1].ToDoubles();
  std::vector<double> m = operands[2].ToDoubles();
  std::vector<double> v = operands[3].ToDoubles();
  double rate = operands[4].Get(0);
  int64_t step = operands[5].GetInt(0);
  if (step < 1) return Invalid("step is {}, the first one is 1", step);
  if (operands.size() > 6) {
    double scale = operands[6].Get(0);
    if (!std::isfinite(scale)) {
      results[0].SetAll(param);
      results[1].SetAll(m);
      results[2].SetAll(v);
      return absl::OkStatus();
    }
    for (double& value : grad) value *= scale;
  }
  double beta1 = attrs.Float("beta1"), beta2 = attrs.Float("beta2");
  double eps = attrs.Float("eps");
  double decay = attrs.Float("weight_decay");
  // The averages begin at 0; these undo it.
  double scale1 = 1 / (1 - std::pow(beta1, step));
  double scale2 = 1 / (1 - std::pow(beta2, step));
  for (size_t i = 0; i < param.size(); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * grad[i];
    v[i] = beta2 * v[i] + (1 - beta2) * grad[i] * grad[i];
    double change = scale1 * m[i] / (std::sqrt(scale2 * v[i]) + eps);
    param[i] -= rate * (change + decay * param[i]);
  }
  results[0].SetAll(param);
  results[1].SetAll(m);
  results[2].SetAll(v);
  return absl::OkStatus();
}

absl::Status AdamWReference(const RefCall& call) {
  return UpdateByAdamW(call.attrs, call.operands, call.results);
}

// multi_adamw ---------------------------------------------------------------

int ParamsOf(const OpCall& call) {
  return (static_cast<int>(call.operands.size()) - kAdamWShared) /
         kAdamWOfParam;
}

absl::StatusOr<std::vector<Type>> InferMultiAdamW(const OpCall& call) {
  int tensors = static_cast<int>(call.operands.size()) - kAdamWShared;
  if (tensors % kAdamWOfParam != 0) {
    return Invalid("there are {} tensors, it takes {} of each parameter",
                   tensors, kAdamWOfParam);
  }
  const OpDef& adamw = *FindOp("adamw");
  std::vector<Type> results;
  for (int i = 0; i < ParamsOf(call); ++i) {
    auto operands = OfAdamW(call.operands, i);
    absl::StatusOr<std::vector<Type>> next =
        InferAdamW({adamw, call.attrs, operands, {}});
    if (!next.ok()) return Annotate(next.status(), fmt::format("param {}", i));
    results.insert(results.end(), next->begin(), next->end());
  }
  return results;
}

// Each parameter is sharded as it is; one axis may shard several along
// different dimensions.
absl::StatusOr<std::vector<Type>> DistributeMultiAdamW(const OpCall& call,
                                                       const Mesh& mesh) {
  for (size_t k = 0; k < call.operands.size(); ++k) {
    if (call.operands[k].partial.empty()) continue;
    return Invalid("operand {} must not be partial over {}", k,
                   AxesToString(call.operands[k].partial, mesh));
  }
  std::vector<Type> results;
  for (int i = 0; i < ParamsOf(call); ++i) {
    const Type& param = call.operands[kAdamWShared + kAdamWOfParam * i];
    for (int k = 1; k < kAdamWOfParam; ++k) {
      Type like = call.operands[kAdamWShared + kAdamWOfParam * i + k];
      like.dtype = param.dtype;
      if (like != param) {
        return Invalid("param {} is {}, but its {} is {}", i,
                       ToString(param, mesh), FindOp("adamw")->operands[k].name,
                       ToString(like, mesh));
      }
    }
    results.insert(results.end(), kAdamWResults, param);
  }
  return results;
}

// A parameter's new values may overwrite its old ones, and those of no other.
bool UpdatesInPlace(const OpCall&, int operand, int result) {
  return operand >= kAdamWShared &&
         (operand - kAdamWShared) / kAdamWOfParam == result / kAdamWResults;
}

absl::Status MultiAdamWReference(const RefCall& call) {
  int params = static_cast<int>(call.results.size()) / kAdamWResults;
  for (int i = 0; i < params; ++i) {
    auto operands = OfAdamW(call.operands, i);
    ASYRA_RETURN_IF_ERROR(
        UpdateByAdamW(call.attrs, operands,
                      call.results.subspan(kAdamWResults * i, kAdamWResults)));
  }
  return absl::OkStatus();
}

// upper_half ----------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferUpperHalf(const OpCall& call) {
  Type result = call.operands[0];
  if (result.dtype != DType::kF32) {
    return Invalid("x is {}, it should be f32", ToString(result.dtype));
  }
  result.dtype = DType::kBF16;
  return std::vector<Type>{result};
}

absl::StatusOr<std::vector<Type>> DistributeUpperHalf(const OpCall& call,
                                                      const Mesh& mesh) {
  if (!call.operands[0].partial.empty()) {
    return Invalid("operand 0 must not be partial over {}",
                   AxesToString(call.operands[0].partial, mesh));
  }
  return InferUpperHalf(call);
}

absl::Status UpperHalfReference(const RefCall& call) {
  call.results[0].SetAll(call.operands[0].ToDoubles());
  return absl::OkStatus();
}

}  // namespace

std::vector<OpDef> OptimOps() {
  const AttrDef decay = {"weight_decay", AttrKind::kFloat,
                         "of the parameter, beside its gradient", 0.0};
  const std::vector<AttrDef> adam = {
      {"beta1", AttrKind::kFloat, "of m, the mean of grad", 0.9},
      {"beta2", AttrKind::kFloat, "of v, the mean of grad^2", 0.999},
      {"eps", AttrKind::kFloat, "added to the root of v", 1e-8},
      decay,
      {kInHalves, AttrKind::kBool,
       "param is stored in halves, old and new (upper_half)", false}};
  return {
      {.name = "sgd",
       .summary = "param - rate * velocity, where velocity = momentum * "
                  "velocity + grad + weight_decay * param; gives param and, if "
                  "it was given, velocity",
       .operands =
           {{"param"}, {"grad"}, {"rate"}, {"velocity", OperandDef::kOptional}},
       .attrs = {{"momentum", AttrKind::kFloat, "of velocity", 0.0},
                 {"nesterov", AttrKind::kBool, "look one step ahead", false},
                 decay},
       .infer = InferSgd,
       .axes = UpdateAxes,
       .work = UpdateWork<4, 2>,
       .reference = SgdReference,
       .samples = {{"sgd(f32[4,6], f32[4,6], f32[])"},
                   {"sgd(f32[4,6], bf16[4,6], f32[], f32[4,6]) {momentum=0.5, "
                    "nesterov=true, weight_decay=0.25}"}},
       .in_place = true},
      {.name = "adamw",
       .summary = "Adam with decoupled weight decay: gives param, m and v "
                  "after step number `step`, which counts from 1; of grad "
                  "times `scale`, if it is given: a scale that is not finite "
                  "leaves all of them as they are",
       .operands = {{"param"},
                    {"grad"},
                    {"m"},
                    {"v"},
                    {"rate"},
                    {"step"},
                    {"scale", OperandDef::kOptional}},
       .attrs = adam,
       .infer = InferAdamW,
       .axes = UpdateAxes,
       .work = UpdateWork<12, 3>,
       .reference = AdamWReference,
       .samples = {{"adamw(f32[4,6], f32[4,6], f32[4,6], f32[4,6], f32[], "
                    "i64[]) {weight_decay=0.5}",
                    1, 3},
                   {"adamw(f32[6], bf16[6], f32[6], f32[6], f32[], i32[])", 1,
                    3},
                   {"adamw(f32[6], f32[6], f32[6], f32[6], f32[], i64[], "
                    "f32[])",
                    1, 3}},
       .in_place = true},
      {.name = "multi_adamw",
       .summary = "adamw of several parameters in one kernel: of each in turn "
                  "param, grad, m and v; gives param, m and v of each",
       .operands =
           {{"rate"}, {"step"}, {"scale"}, {"tensors", OperandDef::kVariadic}},
       .attrs = adam,
       .infer = InferMultiAdamW,
       .axes = NoFactors,
       .distribute = DistributeMultiAdamW,
       .work = UpdateWork<12, kAdamWResults>,
       .reference = MultiAdamWReference,
       .samples = {{"multi_adamw(f32[], i64[], f32[], "
                    "f32[4,6], f32[4,6], f32[4,6], f32[4,6], "
                    "f32[7], bf16[7], f32[7], f32[7], "
                    "f32[3,5], f32[3,5], f32[3,5], f32[3,5]) "
                    "{weight_decay=0.5}",
                    1, 3},
                   {"multi_adamw(f32[], i32[], f32[], "
                    "f32[2048], f32[2048], f32[2048], f32[2048], "
                    "bf16[9], bf16[9], bf16[9], bf16[9])",
                    1, 3},
                   {"multi_adamw(f32[], i64[], f32[], "
                    "f32[5,3], bf16[5,3], f32[5,3], f32[5,3], "
                    "f32[8], f32[8], f32[8], f32[8]) {in_halves=true}",
                    1, 3}},
       .in_place = true,
       .result_in_place = UpdatesInPlace,
       .priced_as = "adamw"},
      {.name = kUpperHalf,
       .summary = "a param that is stored in halves (ir/halves.h), rounded to "
                  "bf16: the first half of its bytes",
       .operands = {{"x"}},
       .infer = InferUpperHalf,
       .axes = NoFactors,
       .distribute = DistributeUpperHalf,
       .reference = UpperHalfReference,
       .samples = {{"upper_half(f32[4,6])"}, {"upper_half(f32[7])"}},
       .is_view = true},
  };
}

}  // namespace asyra::ops
