"""Parameters that attention reads without a projection of its own."""

import jax.numpy as jnp
import numpy as np

from case_model import (BATCH, HEADS, SEQ, VOCAB, WIDTH, attend, heads, linear,
                        loss, scores, tokens)

GROUP = "attention"
SIZE = WIDTH // HEADS
DISTANCE = np.abs(np.arange(SEQ)[:, None] - np.arange(SEQ))


def projected(m):
  """The heads of queries, keys and values."""
  x = m.tokens()
  return [m.heads(m.linear(name, x, WIDTH, WIDTH, bias=False))
          for name in ["q", "k", "v"]]


def projected_value(p, d):
  x = tokens(p, d)
  return [heads(linear(p, name, x)) for name in ["q", "k", "v"]]


def head_loss(m, y):
  return m.loss(m.linear("head", y, WIDTH, VOCAB))


def head_value(p, d, y):
  return loss(linear(p, "head", y), d)


def alibi_slopes(m):
  """ALiBi with learned slopes, which distances are multiplied by."""
  q, k, v = projected(m)
  distance = m.op("Cast", m.ints(*DISTANCE.flat, shape=(1, SEQ, SEQ)), to=1)
  slopes = m.param("slopes", np.array([0.5, 0.25]).reshape(HEADS, 1, 1))
  bias = m.op("Mul", slopes, distance)
  y = m.attend(m.op("Sub", m.scores(q, k), bias), v)

  def value(p, d):
    q, k, v = projected_value(p, d)
    return head_value(p, d, attend(scores(q, k) - p["slopes"] * DISTANCE, v))

  return head_loss(m, y), value


def prefix_keys_values(m):
  """Prefix tuning: learned keys and values in front of those of the tokens."""
  q, k, v = projected(m)
  shape = m.op("Concat", m.op("Shape", "input_ids", end=1), m.ints(1, 1, 1),
               axis=0)
  joined = []
  for name, now in [("prefix.k", k), ("prefix.v", v)]:
    prefix = m.param(name, m.normal(1, HEADS, 3, SIZE))
    joined.append(m.op("Concat", m.op("Expand", prefix, shape), now, axis=2))
  y = m.attend(m.scores(q, joined[0]), joined[1])

  def value(p, d):
    q, k, v = projected_value(p, d)
    k, v = [jnp.concatenate([jnp.repeat(p[name], BATCH, 0), now], 2)
            for name, now in [("prefix.k", k), ("prefix.v", v)]]
    return head_value(p, d, attend(scores(q, k), v))

  return head_loss(m, y), value


def score_temperature(m):
  """Scores are divided by a learned temperature for each head."""
  q, k, v = projected(m)
  t = m.param("temperature", np.array([1.5, 2.5]).reshape(HEADS, 1, 1))
  y = m.attend(m.op("Div", m.scores(q, k), t), v)

  def value(p, d):
    q, k, v = projected_value(p, d)
    return head_value(p, d, attend(scores(q, k) / p["temperature"], v))

  return head_loss(m, y), value


def relative_bias_table(m):
  """Swin: a table of biases [2 S - 1, heads] is looked up by relative position
  and added to the scores."""
  q, k, v = projected(m)
  places = np.arange(SEQ)[:, None] - np.arange(SEQ) + SEQ - 1
  table = m.param("bias_table", m.normal(2 * SEQ - 1, HEADS))
  bias = m.op("Gather", table, m.ints(*places.flat))
  bias = m.op("Reshape", bias, m.ints(SEQ, SEQ, HEADS))
  bias = m.op("Unsqueeze", m.op("Transpose", bias, perm=[2, 0, 1]), m.ints(0))
  y = m.attend(m.op("Add", m.scores(q, k), bias), v)

  def value(p, d):
    q, k, v = projected_value(p, d)
    bias = p["bias_table"][places].transpose(2, 0, 1)
    return head_value(p, d, attend(scores(q, k) + bias, v))

  return head_loss(m, y), value


def t5_bias_with_mask(m):
  """T5: a bias by buckets of distances, shared by two layers, beside a stored
  causal mask, which is no parameter."""
  x = m.tokens()
  buckets = np.minimum(DISTANCE, 3)
  table = m.param("relative_attention_bias.weight", m.normal(4, HEADS))
  bias = m.op("Gather", table, m.ints(*buckets.flat, shape=(SEQ, SEQ)))
  bias = m.op("Unsqueeze", m.op("Transpose", bias, perm=[2, 0, 1]), m.ints(0))
  hidden = np.triu(np.full((SEQ, SEQ), -1e9), 1)
  mask = m.store("causal_mask", hidden.reshape(1, 1, SEQ, SEQ))
  bias = m.op("Add", bias, mask)
  for layer in ["0", "1"]:
    q, k, v = [m.heads(m.linear(layer + name, x, WIDTH, WIDTH, bias=False))
               for name in ["q", "k", "v"]]
    x = m.op("Add", x, m.attend(m.op("Add", m.scores(q, k), bias), v))

  def value(p, d):
    x = tokens(p, d)
    table = p["relative_attention_bias.weight"]
    bias = table[buckets].transpose(2, 0, 1) + p["causal_mask"]
    for layer in ["0", "1"]:
      q, k, v = [heads(linear(p, layer + name, x)) for name in ["q", "k", "v"]]
      x = x + attend(scores(q, k) + bias, v)
    return head_value(p, d, x)

  return head_loss(m, x), value


def learned_fill(m):
  """Where hides later tokens by a learned score, one number."""
  q, k, v = projected(m)
  seen = m.op("Cast", m.ints(*np.tril(np.ones((SEQ, SEQ), int)).flat,
                             shape=(1, 1, SEQ, SEQ)), to=9)
  y = m.attend(m.op("Where", seen, m.scores(q, k), m.param("fill", -1.5)), v)

  def value(p, d):
    q, k, v = projected_value(p, d)
    seen = np.tril(np.ones((SEQ, SEQ), bool))
    return head_value(p, d, attend(jnp.where(seen, scores(q, k), p["fill"]), v))

  return head_loss(m, y), value


CASES = {f"train-param-{make.__name__}": make for make in [
    alibi_slopes, prefix_keys_values, score_temperature, relative_bias_table,
    t5_bias_with_mask, learned_fill]}
