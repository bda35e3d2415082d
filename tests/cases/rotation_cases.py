"""Rotary embedding whose angles or sizes are trained."""

import jax
import jax.numpy as jnp
import numpy as np

from case_model import HEADS, SEQ, VOCAB, WIDTH, linear, loss, tokens

GROUP = "attention"
HALF = WIDTH // HEADS // 2


def turned(m, name, x, cos, sin):
  """A projection of x, [batch, seq, HEADS, 2 HALF], whose halves are turned."""
  y = m.op("Reshape", m.linear(name, x, WIDTH, WIDTH),
           m.ints(0, 0, HEADS, 2 * HALF))
  low, high = m.op("Split", y, outputs=2, axis=-1, num_outputs=2)
  halves = m.op("Concat", m.op("Neg", high), low, axis=-1)
  return m.op("Add", m.op("Mul", y, cos), m.op("Mul", halves, sin))


def rotated(p, name, x, cos, sin):
  y = linear(p, name, x).reshape(*x.shape[:2], HEADS, 2 * HALF)
  halves = jnp.concatenate([-y[..., HALF:], y[..., :HALF]], -1)
  return y * cos + halves * sin


def attention(m, x, cos, sin):
  q, k = (turned(m, name, x, cos, sin) for name in "qk")
  q = m.op("Transpose", q, perm=[0, 2, 1, 3])
  k = m.op("Transpose", k, perm=[0, 2, 1, 3])
  v = m.heads(m.linear("v", x, WIDTH, WIDTH))
  return m.attend(m.scores(q, k), v)


def attended(p, x, cos, sin):
  q, k = (rotated(p, name, x, cos, sin).transpose(0, 2, 1, 3) for name in "qk")
  v = linear(p, "v", x).reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
  y = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2)) @ v
  return y.transpose(0, 2, 1, 3).reshape(x.shape)


def waves(m, angles):
  """cos and sin of [..., seq, HALF], for both halves of all heads."""
  both = m.op("Concat", angles, angles, axis=-1)
  return [m.op("Unsqueeze", m.op(kind, both), m.ints(2))
          for kind in ["Cos", "Sin"]]


def sines(angles):
  both = jnp.concatenate([angles, angles], -1)[:, :, None]
  return jnp.cos(both), jnp.sin(both)


POSITIONS = np.arange(SEQ, dtype=np.float64)[:, None]


def rotation_by_the_data(m):
  """Angles are the running sum of a projection of the tokens: tables of rotary
  embedding have a slope."""
  x = m.tokens()
  angles = m.op("CumSum", m.linear("angle", x, WIDTH, HALF), m.ints(1, shape=[]))
  y = attention(m, x, *waves(m, angles))

  def value(p, d):
    x = tokens(p, d)
    y = attended(p, x, *sines(jnp.cumsum(linear(p, "angle", x), 1)))
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def rotation_of_learned_frequencies(m):
  """Positions times frequencies that are trained on request: their tables are
  computed in the step."""
  x = m.tokens()
  theta = m.param("theta", m.normal(HALF))
  positions = m.node("positions", POSITIONS[None], param=False)
  y = attention(m, x, *waves(m, m.op("Mul", positions, theta)))

  def value(p, d):
    x = tokens(p, d)
    y = attended(p, x, *sines(POSITIONS[None] * p["theta"]))
    return loss(linear(p, "head", y), d)

  return (m.loss(m.linear("head", y, WIDTH, VOCAB)), value,
          {"flags": " --train-also theta"})


def rotation_with_learned_size(m):
  """cos and sin of constant angles are multiplied by a number for each pair,
  which is a parameter and no part of a table."""
  x = m.tokens()
  size = m.param("size", m.normal(HALF, scale=0.2, mean=1))
  angles = m.node("angles", (POSITIONS * 0.5 ** np.arange(HALF))[None],
                  param=False)
  sizes = m.op("Concat", size, size, axis=-1)
  y = attention(m, x, *(m.op("Mul", wave, sizes) for wave in waves(m, angles)))

  def value(p, d):
    x = tokens(p, d)
    sizes = jnp.concatenate([p["size"], p["size"]])
    cos, sin = sines((POSITIONS * 0.5 ** np.arange(HALF))[None])
    return loss(linear(p, "head", attended(p, x, cos * sizes, sin * sizes)), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


CASES = {
    f"train_param_{make.__name__}": make
    for make in [rotation_by_the_data, rotation_of_learned_frequencies,
                 rotation_with_learned_size]
}
