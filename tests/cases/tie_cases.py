"""Weights that are one parameter, and weights that are equal by chance."""

import jax.numpy as jnp

from case_model import VOCAB, WIDTH, linear, loss, tokens

GROUP = "ties"


def shared_head(m):
  """Two heads read one initializer: one parameter with the sum of both
  gradients."""
  x = m.tokens()
  y = m.op("Tanh", m.linear("a", x, WIDTH, WIDTH))
  head = m.param("head.weight", m.normal(WIDTH, VOCAB, scale=0.25))
  total = m.op("Add", m.loss(m.op("MatMul", x, head)),
               m.loss(m.op("MatMul", y, head)))

  def value(p, d):
    x = tokens(p, d)
    y = jnp.tanh(linear(p, "a", x))
    return loss(x @ p["head.weight"], d) + loss(y @ p["head.weight"], d)

  return total, value


def head_by_bytes(m):
  """The head is stored once more, as the transposed table of the embedding: one
  parameter, under the name of the table."""
  x = m.tokens()
  head = m.store("head.weight", m.values["embed.weight"].T)
  y = m.loss(m.op("MatMul", x, head))

  def value(p, d):
    return loss(tokens(p, d) @ p["embed.weight"].T, d)

  return y, value


def equal_heads(m):
  """Two heads begin with the same random numbers: they are parameters of their
  own."""
  x = m.tokens()
  y = m.op("Tanh", m.linear("a", x, WIDTH, WIDTH))
  begin = m.normal(WIDTH, VOCAB, scale=0.25)
  total = m.op("Add", m.loss(m.op("MatMul", x, m.param("head.0", begin))),
               m.loss(m.op("MatMul", y, m.param("head.1", begin))))

  def value(p, d):
    x = tokens(p, d)
    y = jnp.tanh(linear(p, "a", x))
    return loss(x @ p["head.0"], d) + loss(y @ p["head.1"], d)

  return total, value


CASES = {f"train-tie-{make.__name__}": make
         for make in [shared_head, head_by_bytes, equal_heads]}
