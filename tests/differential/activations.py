"""Activations: GELU and SiLU in their spellings, near misses, and others."""

import numpy as np


def product(g, factors):
  """The product of the factors in a random order."""
  factors = list(factors)
  g.rng.shuffle(factors)
  y = factors[0]
  for factor in factors[1:]:
    y = g.op("Mul", y, factor)
  return y


def gelu_erf(g, x):
  root = np.float32(np.sqrt(2)) if g.chance(0.9) else np.float32(1.4)
  inside = (g.op("Div", x, root) if g.chance(0.6)
            else g.op("Mul", x, np.float32(1 / root)))
  one = g.either("Add", g.op("Erf", inside), g.const(np.float32(1)))
  if g.chance(0.1):  # a near miss: the outer x is another
    return product(g, [g.op("Neg", x), one, g.const(np.float32(0.5))])
  if g.chance(0.2):
    return g.either("Mul", x, g.op("Div", one, np.float32(2)))
  return product(g, [x, one, g.const(np.float32(0.5))])


def gelu_tanh(g, x):
  cube = (g.op("Pow", x, np.float32(3)) if g.chance(0.5)
          else g.op("Mul", g.op("Mul", x, x), x))
  inner = g.either("Add", x, g.op("Mul", cube, np.float32(0.044715)))
  scaled = g.op("Mul", inner, np.float32(np.sqrt(2 / np.pi)))
  one = g.either("Add", g.op("Tanh", scaled), g.const(np.float32(1)))
  return product(g, [x, one, g.const(np.float32(0.5))])


def sigmoid(g, x):
  if g.chance(0.8):
    return g.op("Sigmoid", x)
  e = g.op("Exp", g.op("Neg", x))
  return g.op("Reciprocal", g.op("Add", e, np.float32(1)))


def silu(g, x):
  if g.chance(0.2):  # with a slope, which is another function
    slope = np.float32(g.choose(1.702, 2, 0.5))
    return g.either("Mul", x, sigmoid(g, g.op("Mul", x, slope)))
  return g.either("Mul", x, sigmoid(g, x))


def relu_squared(g, x):
  y = g.op("Relu", x)
  return g.op("Mul", y, y) if g.chance(0.5) else g.op("Pow", y, np.float32(2))


def simple(g, x):
  kinds = ["Relu", "Elu", "Celu", "Selu", "LeakyRelu", "ThresholdedRelu",
           "HardSigmoid", "Softplus", "Softsign", "Tanh"]
  if g.opset >= 14:
    kinds.append("HardSwish")
  if g.opset >= 18:
    kinds.append("Mish")
  if g.opset >= 20:
    kinds.append("Gelu")
  kind = g.rng.choice(kinds)
  attrs = {}
  if kind == "Gelu" and g.chance(0.5):
    attrs["approximate"] = "tanh"
  if kind in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu") and g.chance(0.5):
    attrs["alpha"] = g.choose(0.25, 0.5, 1.5)
  return g.op(kind, x, **attrs)


def prelu(g, x):
  return g.op("PRelu", x, g.weight(x.shape[-1], scale=0.5))


FORMS = [(4, gelu_erf), (3, gelu_tanh), (4, silu), (1, relu_squared),
         (4, simple), (1, prelu)]


def activation(g, x):
  weights, forms = zip(*FORMS)
  return g.rng.choices(forms, weights)[0](g, x)
