"""Mixtures of experts without control flow, and plain feed-forward parts."""

import numpy as np

import activations
from attention import project


def feed_forward(g, x):
  inner = g.choose(2, 2, 3) * x.shape[-1]
  if g.chance(0.5):
    up = project(g, x, inner)
    return project(g, activations.activation(g, up), x.shape[-1])
  gate = activations.silu(g, project(g, x, inner, False))
  if g.chance(0.3):
    gate = activations.activation(g, project(g, x, inner, False))
  y = g.either("Mul", gate, project(g, x, inner, False))
  return project(g, y, x.shape[-1], False)


def route(g, x, experts, top):
  """Weights and numbers of the `top` experts of each token, [tokens, top]."""
  logits = g.op("MatMul", x, g.weight(x.shape[-1], experts))
  if g.chance(0.5):
    chosen, index = g.op("TopK", g.op("Softmax", logits, axis=-1),
                         g.ints(top), outputs=2, axis=-1)
    if g.chance(0.6):
      chosen = g.op("Div", chosen, g.reduce("ReduceSum", chosen, [-1]))
  else:
    chosen, index = g.op("TopK", logits, g.ints(top), outputs=2, axis=-1)
    chosen = (g.op("Softmax", chosen, axis=-1) if g.chance(0.7)
              else g.op("Sigmoid", chosen))
  return chosen, index


def by_equal(g, chosen, index, experts):
  """Weight of each expert for each token, [tokens, experts]."""
  numbers = g.const(np.arange(experts, dtype=np.int64).reshape(1, 1, -1))
  hit = g.op("Cast", g.op("Equal", g.unsqueeze(index, 2), numbers), to=1)
  return g.reduce("ReduceSum", g.op("Mul", hit, g.unsqueeze(chosen, 2)), [1],
                  keepdims=0)


def by_one_hot(g, chosen, index, experts):
  hot = g.op("OneHot", index, np.int64(experts),
             np.array([0, 1], np.float32), axis=-1)
  if g.chance(0.5):
    return g.op("Einsum", hot, chosen, equation="tke,tk->te")
  return g.reduce("ReduceSum", g.op("Mul", hot, g.unsqueeze(chosen, 2)), [1],
                  keepdims=0)


def by_scatter(g, chosen, index, experts):
  zeros = np.zeros((index.shape[0], experts), np.float32)
  return g.op("ScatterElements", zeros, index, chosen, axis=1)


def dense_experts(g, x, shares, experts):
  """All experts on all tokens, as matmuls of batches of matrices."""
  width = x.shape[-1]
  inner = g.choose(1, 2) * width
  up, down = g.weight(experts, width, inner), g.weight(experts, inner, width)
  h = g.op("MatMul", g.unsqueeze(x, 0), up)
  if g.chance(0.5):
    h = activations.activation(g, h)
  else:
    other = g.op("MatMul", g.unsqueeze(x, 0), g.weight(experts, width, inner))
    h = g.op("Mul", activations.silu(g, h), other)
  y = g.op("MatMul", h, down)
  if g.chance(0.4):
    return g.op("Einsum", y, shares, equation="eth,te->th")
  weights = g.unsqueeze(g.transpose(shares, 1, 0), 2)
  return g.reduce("ReduceSum", g.op("Mul", y, weights), [0], keepdims=0)


def looped_experts(g, x, shares, experts):
  """One expert after another, each adding its part."""
  total = None
  for e in range(experts):
    y = feed_forward(g, x)
    share = g.op("Gather", shares, g.ints(e), axis=1)
    y = g.either("Mul", y, share)
    total = y if total is None else g.op("Add", total, y)
  return total


def gathered_experts(g, x, chosen, index, experts):
  """The matrices that each token needs, gathered."""
  width = x.shape[-1]
  up = g.op("Gather", g.weight(experts, width, width), index)
  down = g.op("Gather", g.weight(experts, width, width), index)
  h = g.op("MatMul", g.unsqueeze(x, 1, 2), up)
  y = g.op("MatMul", activations.activation(g, h), down)
  y = g.op("Mul", g.op("Squeeze", y, g.ints(2)), g.unsqueeze(chosen, 2))
  return g.reduce("ReduceSum", y, [1], keepdims=0)


def mixture(g, x):
  """Of x [batch, tokens, width]."""
  experts = g.choose(2, 4, 4, 3)
  top = g.rng.randint(1, 2)
  flat = g.reshape(x, (-1, x.shape[-1]))
  chosen, index = route(g, flat, experts, top)
  if g.chance(0.3):
    y = gathered_experts(g, flat, chosen, index, experts)
  else:
    spread = g.choose(by_equal, by_one_hot, by_scatter)
    shares = spread(g, chosen, index, experts)
    whole = dense_experts if g.chance(0.7) else looped_experts
    y = whole(g, flat, shares, experts)
  return g.reshape(y, x.shape)
