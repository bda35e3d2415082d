"""Norms, decomposed as exporters write them, fused, and near misses."""

import numpy as np

LAST = -1


def mean_square(g, d):
  form = g.choose("pow", "mul", "sum_square")
  if form == "sum_square":
    total = g.reduce("ReduceSumSquare", d, [LAST])
    return g.op("Div", total, np.float32(d.shape[-1]))
  square = (g.op("Pow", d, np.float32(2)) if form == "pow"
            else g.op("Mul", d, d))
  return g.reduce("ReduceMean", square, [LAST])


def over_root(g, d, variance, epsilon):
  """d / sqrt(variance + epsilon), in one of its spellings."""
  form = g.choose("div", "div", "reciprocal", "power", "late", "max")
  if form == "late":  # a near miss: epsilon is added to the root
    return g.op("Div", d, g.op("Add", g.op("Sqrt", variance), epsilon))
  if form == "max":  # another one
    return g.op("Div", d, g.op("Sqrt", g.op("Max", variance, epsilon)))
  inside = g.either("Add", variance, g.const(epsilon))
  if form == "power":
    return g.either("Mul", d, g.op("Pow", inside, np.float32(-0.5)))
  root = g.op("Sqrt", inside)
  if form == "div":
    return g.op("Div", d, root)
  return g.either("Mul", d, g.op("Reciprocal", root))


def scaled(g, x, width, bias):
  shape = (width,)
  form = g.rng.random()
  if form < 0.1:
    shape = (1, 1, width)
  elif form < 0.15 and x.rank >= 2:
    shape = (x.shape[-2], 1)  # a near miss: by row
  if g.chance(0.9):
    x = g.either("Mul", x, g.weight(*shape, scale=1))
  return g.either("Add", x, g.weight(width, scale=1)) if bias else x


def layer_norm(g, x):
  width = x.shape[-1]
  epsilon = np.float32(g.choose(1e-5, 1e-6, 1e-12, 1e-3))
  if g.opset >= 17 and g.chance(0.4):
    bias = g.weight(width, scale=1) if g.chance(0.7) else None
    operands = [x, g.weight(width, scale=1)] + ([bias] if bias else [])
    return g.op("LayerNormalization", *operands, axis=g.choose(-1, x.rank - 1),
                epsilon=float(epsilon))
  axis = LAST if g.chance(0.93) else -2  # a near miss: the mean of columns
  mean = g.reduce("ReduceMean", x, [axis])
  d = g.op("Sub", x, mean)
  other = d if g.chance(0.8) else g.op("Sub", x, mean)
  variance = mean_square(g, other)
  if g.chance(0.05) and width > 1:  # a near miss: the unbiased variance
    variance = g.op("Mul", variance, np.float32(width / (width - 1)))
  return scaled(g, over_root(g, d, variance, epsilon), width, g.chance(0.8))


def rms_norm(g, x):
  width = x.shape[-1]
  epsilon = np.float32(g.choose(1e-5, 1e-6))
  if g.opset >= 23 and g.chance(0.5):
    return g.op("RMSNormalization", x, g.weight(width, scale=1), axis=-1,
                epsilon=float(epsilon))
  if g.chance(0.1):  # a near miss: by the norm
    norm = g.reduce("ReduceL2", x, [LAST])
    return scaled(g, g.op("Div", x, g.op("Max", norm, epsilon)), width, False)
  inner = g.op("Cast", x, to=1) if g.chance(0.3) else x
  y = over_root(g, inner, mean_square(g, inner), epsilon)
  return scaled(g, y, width, g.chance(0.1))


def other_norm(g, x):
  """Instance and group norms of [batch, tokens, width]."""
  channels = x.shape[1]
  if g.opset >= 21 and g.chance(0.5):
    groups = g.choose(*[k for k in (1, 2, channels) if channels % k == 0])
    return g.op("GroupNormalization", x, g.weight(channels, scale=1),
                g.weight(channels, scale=1), num_groups=groups)
  return g.op("InstanceNormalization", x, g.weight(channels, scale=1),
              g.weight(channels, scale=1))


def norm(g, x):
  kind = g.rng.random()
  if kind < 0.5:
    return layer_norm(g, x)
  if kind < 0.95 or x.rank != 3:
    return rms_norm(g, x)
  return other_norm(g, x)
