"""Single nodes: element by element, comparisons, and reductions."""

import numpy as np

from pick import axis_of, broadcast_partner, has_rank, pick, some_axes


def unary(g):
  kind = g.choose(
      "Abs", "Neg", "Exp", "Tanh", "Sigmoid", "Relu", "Erf", "Sin", "Cos",
      "Softplus", "Softsign", "Identity", "Sign", "Atan", "Sinh", "Asinh",
      "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Acos", "Asin",
      "Atanh", "Cosh", "Tan")
  x = pick(g)
  if kind in ("Exp", "Sinh", "Cosh"):
    x = g.op("Clip", x, np.float32(-4), np.float32(4))
  if kind in ("Log", "Sqrt", "Reciprocal"):
    x = g.op("Add", g.op("Abs", x), np.float32(0.25))
  if kind in ("Acos", "Asin", "Atanh", "Tan"):
    x = g.op("Mul", g.op("Tanh", x), np.float32(0.75))
  if kind in ("Floor", "Ceil", "Round"):
    x = g.op("Mul", x, np.float32(4.3))
  return g.op(kind, x)


def binary(g):
  x = pick(g)
  y = broadcast_partner(g, x)
  kind = g.choose("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min",
                  "Pow", "Mean", "Sum", "Mod")
  if kind == "Div":
    y = g.op("Add", g.op("Abs", y), np.float32(0.5))
  if kind == "Mod":
    return g.op("Mod", x, g.op("Add", g.op("Abs", y), np.float32(0.5)), fmod=1)
  if kind == "Pow":
    form = g.choose("square", "root", "any")
    if form == "square":
      return g.op("Pow", x, np.float32(2))
    x = g.op("Add", g.op("Abs", x), np.float32(0.25))
    return g.op("Pow", x, np.float32(0.5) if form == "root"
                else g.op("Tanh", y))
  if kind in ("Max", "Min", "Mean", "Sum") and g.chance(0.3):
    return g.op(kind, x, y, broadcast_partner(g, x))
  return g.op(kind, x, y) if g.chance(0.5) else g.op(kind, y, x)


def comparison(g):
  """Where by a comparison, by a combination of two, or a bool made a number."""
  x = pick(g)
  kinds = ["Less", "Greater"]
  if g.opset >= 16:
    kinds += ["LessOrEqual", "GreaterOrEqual"]
  seen = g.op(g.rng.choice(kinds), x, broadcast_partner(g, x))
  if g.chance(0.3):
    other = g.op("Greater", x, np.float32(0.1))
    seen = g.op(g.choose("And", "Or", "Xor"), seen, other)
  if g.chance(0.2):
    seen = g.op("Not", seen)
  if g.chance(0.3):
    return g.op("Cast", seen, to=1)
  y = broadcast_partner(g, x)
  return g.op("Where", seen, x, y) if g.chance(0.5) else g.op(
      "Where", seen, y, x)


def clip(g):
  low, high = np.float32(-0.75), np.float32(1.25)
  return g.op("Clip", pick(g), low if g.chance(0.8) else None,
              high if g.chance(0.8) else None)


def cast(g):
  x = pick(g)
  kind = g.choose(6, 7, 9)  # int32, int64, bool
  if kind == 9:
    x = g.op("Relu", x)
  else:
    x = g.op("Mul", x, np.float32(5.7))
  whole = g.op("Cast", x, to=kind)
  if kind == 7 and g.chance(0.5):
    whole = g.op(g.choose("Add", "Mul", "Max"), whole, np.int64(3))
  if g.chance(0.2):
    g.output(whole)
  return g.op("Cast", whole, to=1)


def reduction(g):
  kind = g.choose(
      "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
      "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare",
      "ReduceLogSum")
  x = pick(g, lambda v: v.rank >= 1)
  if kind == "ReduceLogSum":
    x = g.op("Add", g.op("Abs", x), np.float32(0.25))
  if kind == "ReduceProd":
    x = g.op("Tanh", x)
  return g.reduce(kind, x, some_axes(g, x), keepdims=g.choose(0, 1))


def softmax(g):
  x = pick(g, lambda v: v.rank >= 1)
  return g.op(g.choose("Softmax", "Softmax", "LogSoftmax"), x,
              axis=axis_of(g, x))


def scan(g):
  x = pick(g, lambda v: v.rank >= 1)
  return g.op("CumSum", x, np.int64(axis_of(g, x)), exclusive=g.choose(0, 0, 1),
              reverse=g.choose(0, 0, 1))


def argument(g):
  x = pick(g, lambda v: v.rank >= 1)
  index = g.op(g.choose("ArgMax", "ArgMin"), x, axis=axis_of(g, x),
               keepdims=g.choose(0, 1))
  if g.chance(0.4):
    g.output(index)
  return g.op("Cast", index, to=1)


def top(g):
  x = pick(g, lambda v: v.rank >= 1 and v.shape[-1] >= 2)
  k = g.rng.randint(1, x.shape[-1])
  values, index = g.op("TopK", x, g.ints(k), outputs=2, axis=-1,
                       largest=g.choose(1, 1, 0))
  if g.chance(0.5):
    g.output(index)
  return values


def matmul(g):
  x = pick(g, has_rank(2, 3, 4))
  form = g.choose("weight", "weight", "self", "gemm", "batch", "vector")
  if form == "self":
    perm = list(range(x.rank - 2)) + [x.rank - 1, x.rank - 2]
    return g.op("MatMul", x, g.transpose(x, *perm))
  if form == "batch" and x.rank == 3:
    return g.op("MatMul", x, g.weight(x.shape[0], x.shape[2], 4))
  if form == "vector":
    return g.op("MatMul", x, g.weight(x.shape[-1], scale=0.5))
  if form == "gemm":
    flat = g.op("Flatten", x, axis=x.rank - 1)
    turned = g.choose(0, 1)
    shape = (6, x.shape[-1]) if turned else (x.shape[-1], 6)
    return g.op("Gemm", flat, g.weight(*shape), g.weight(6, scale=1),
                alpha=g.choose(1.0, 0.5), beta=g.choose(1.0, 2.0),
                transB=turned)
  return g.op("MatMul", x, g.weight(x.shape[-1], g.choose(4, 8, 5)))


def einsum(g):
  x = pick(g, has_rank(2, 3))
  if x.rank == 2:
    a, b = x.shape
    form = g.choose(("ab,bc->ac", (b, 4)), ("ab,cb->ca", (4, b)),
                    ("ab,a->b", (a,)), ("ab,ab->a", (a, b)))
  else:
    a, b, c = x.shape
    form = g.choose(("abc,cd->abd", (c, 6)), ("abc,dc->dab", (4, c)),
                    ("abc,abc->ab", (a, b, c)), ("...c,c->...", (c,)),
                    ("abc,ad->bcd", (a, 3)), ("abc,adc->abd", (a, 5, c)))
  return g.op("Einsum", x, g.weight(*form[1]), equation=form[0])


FORMS = [(5, unary), (6, binary), (4, comparison), (1, clip), (2, cast),
         (4, reduction), (2, softmax), (2, scan), (1, argument), (1, top),
         (4, matmul), (2, einsum)]
