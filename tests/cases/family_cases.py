"""Layers of families whose parameters are read in ways of their own: decays to
the power of a distance, exp of exp, scores of a path, modulated weights."""

import jax
import jax.numpy as jnp
import numpy as np

from case_model import (HEADS, SEQ, VOCAB, WIDTH, heads, linear, loss, scores,
                        tokens)

GROUP = "families"
TAGS = 5

# [query, key]: how far behind a token is; which ones are seen.
DISTANCE = np.maximum(np.arange(SEQ)[:, None] - np.arange(SEQ), 0.0)
SEEN = np.tril(np.ones((SEQ, SEQ)))


def retention(m):
  """RetNet: scores are multiplied by sigmoid(gamma) to the power of the distance,
  with a number for each head."""
  x = m.tokens()
  q, k, v = (m.heads(m.linear(name, x, WIDTH, WIDTH)) for name in "qkv")
  gamma = m.op("Sigmoid", m.param("gamma", np.linspace(1, 3, HEADS)))
  gamma = m.op("Reshape", gamma, m.ints(HEADS, 1, 1))
  decay = m.op("Pow", gamma, m.node("distance", DISTANCE, param=False))
  decay = m.op("Mul", decay, m.node("seen", SEEN, param=False))
  y = m.op("MatMul", m.op("Mul", m.scores(q, k), decay), v)
  y = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3]),
           m.ints(0, 0, WIDTH))

  def value(p, d):
    x = tokens(p, d)
    q, k, v = (heads(linear(p, name, x)) for name in "qkv")
    decay = jax.nn.sigmoid(p["gamma"])[:, None, None] ** DISTANCE * SEEN
    y = ((scores(q, k) * decay) @ v).transpose(0, 2, 1, 3)
    return loss(linear(p, "head", y.reshape(x.shape)), d)

  return (m.loss(m.linear("head", y, WIDTH, VOCAB)), value,
          {"flags": " --freeze distance"})


def time_decay(m):
  """RWKV: a token's weight falls by exp(-exp(w)) with each step, the last one has
  a bonus; each channel mixes a token with the one before it."""
  x = m.tokens()
  before = m.op("Pad", m.op("Slice", x, m.ints(0), m.ints(-1), m.ints(1)),
                m.ints(0, 1, 0, 0, 0, 0))
  mixed = {}
  for name in ["k", "v"]:
    mix = m.param(f"mix_{name}", m.random.random(WIDTH))
    rest = m.op("Sub", m.number(1), mix)
    y = m.op("Add", m.op("Mul", x, mix), m.op("Mul", before, rest))
    mixed[name] = m.op("Unsqueeze", m.linear(name, y, WIDTH, WIDTH, False),
                       m.ints(1))
  rate = m.op("Exp", m.param("decay", m.normal(WIDTH)))
  far = m.node("far", DISTANCE[..., None], param=False)
  own = m.node("own", np.eye(SEQ)[..., None], param=False)
  bonus = m.op("Mul", own, m.param("bonus", m.normal(WIDTH)))
  bias = m.op("Sub", bonus, m.op("Mul", far, rate))
  weight = m.op("Exp", m.op("Add", mixed["k"], bias))
  weight = m.op("Mul", weight, m.node("seen", SEEN[..., None], param=False))
  total = m.op("ReduceSum", m.op("Mul", weight, mixed["v"]), m.ints(2),
               keepdims=0)
  y = m.op("Div", total, m.op("ReduceSum", weight, m.ints(2), keepdims=0))

  def value(p, d):
    x = tokens(p, d)
    before = jnp.pad(x[:, :-1], ((0, 0), (1, 0), (0, 0)))
    k, v = (linear(p, name, x * p[f"mix_{name}"] +
                   before * (1 - p[f"mix_{name}"])) for name in "kv")
    bias = (np.eye(SEQ)[..., None] * p["bonus"] -
            DISTANCE[..., None] * jnp.exp(p["decay"]))
    weight = jnp.exp(k[:, None] + bias) * SEEN[..., None]
    y = (weight * v[:, None]).sum(2) / weight.sum(2)
    return loss(linear(p, "head", y), d)

  return (m.loss(m.linear("head", y, WIDTH, VOCAB)), value,
          {"flags": " --freeze 'far|own'"})


def random_field(m):
  """CRF: the loss is the log of the sum over all paths of tags, less the score of
  the labels; transitions, first and last tags have scores of their own."""
  emit = m.linear("emit", m.tokens(), WIDTH, TAGS)
  moves = m.param("moves", m.normal(TAGS, TAGS, scale=0.3))
  first, last = (m.param(name, m.normal(TAGS)) for name in ["first", "last"])
  tags = m.op("Mod", "labels", m.ints(TAGS))
  at = [m.op("Gather", tags, m.ints(t, shape=[]), axis=1) for t in range(SEQ)]
  emits = [m.op("Gather", emit, m.ints(t, shape=[]), axis=1)
           for t in range(SEQ)]
  alpha = m.op("Add", first, emits[0])
  path = m.op("Gather", first, at[0])
  for t in range(1, SEQ):
    steps = m.op("Add", m.op("Unsqueeze", alpha, m.ints(2)), moves)
    alpha = m.op("Add", m.op("ReduceLogSumExp", steps, m.ints(1), keepdims=0),
                 emits[t])
    pair = m.op("Concat", m.op("Unsqueeze", at[t - 1], m.ints(1)),
                m.op("Unsqueeze", at[t], m.ints(1)), axis=1)
    path = m.op("Add", path, m.op("GatherND", moves, pair))
  chosen = m.op("GatherElements", emit, m.op("Unsqueeze", tags, m.ints(2)),
                axis=2)
  path = m.op("Add", path, m.op("ReduceSum", chosen, m.ints(1, 2), keepdims=0))
  path = m.op("Add", path, m.op("Gather", last, at[-1]))
  total = m.op("ReduceLogSumExp", m.op("Add", alpha, last), m.ints(1),
               keepdims=0)
  y = m.op("ReduceMean", m.op("Sub", total, path), keepdims=0)

  def value(p, d):
    emit, tags = linear(p, "emit", tokens(p, d)), d["labels"] % TAGS
    alpha, path = p["first"] + emit[:, 0], p["first"][tags[:, 0]]
    for t in range(1, SEQ):
      steps = alpha[:, :, None] + p["moves"]
      alpha = jax.scipy.special.logsumexp(steps, 1) + emit[:, t]
      path = path + p["moves"][tags[:, t - 1], tags[:, t]]
    path += jnp.take_along_axis(emit, tags[..., None], 2).sum((1, 2))
    total = jax.scipy.special.logsumexp(alpha + p["last"], 1)
    return jnp.mean(total - path - p["last"][tags[:, -1]])

  return y, value


def modulated_weights(m):
  """StyleGAN: a weight is multiplied by the style of each row and divided by its
  own length; what it is applied to, and the strength of noise, are parameters."""
  style = m.op("ReduceMean", m.tokens(), m.ints(1), keepdims=0)
  style = m.op("Unsqueeze", m.linear("style", style, WIDTH, WIDTH), m.ints(1))
  weight = m.op("Mul", style, m.param("weight", m.normal(VOCAB, WIDTH)))
  square = m.op("ReduceSum", m.op("Mul", weight, weight), m.ints(2))
  length = m.op("Sqrt", m.op("Add", square, m.number(1e-8)))
  weight = m.op("Transpose", m.op("Div", weight, length), perm=[0, 2, 1])
  noise = m.node("noise", m.normal(SEQ, WIDTH), param=False)
  start = m.op("Add", m.param("start", m.normal(SEQ, WIDTH)),
               m.op("Mul", noise, m.param("strength", np.array(0.2))))

  def value(p, d):
    style = linear(p, "style", tokens(p, d).mean(1))[:, None]
    weight = style * p["weight"]
    weight /= jnp.sqrt((weight**2).sum(2, keepdims=True) + 1e-8)
    start = p["start"] + p["noise"] * p["strength"]
    return loss(start @ weight.transpose(0, 2, 1), d)

  return (m.loss(m.op("MatMul", start, weight)), value,
          {"flags": " --freeze noise"})


CASES = {f"train-family-{make.__name__}": make for make in [
    retention, time_decay, random_field, modulated_weights]}
