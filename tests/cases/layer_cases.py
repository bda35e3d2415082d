"""Parameters beside activations: slopes, limits, tokens, tables, filters."""

import jax
import jax.numpy as jnp
import numpy as np

from case_model import (BATCH, SEQ, VOCAB, WIDTH, linear, loss, tokens)
from onnx import TensorProto, helper

GROUP = "layers"


def prelu_slope(m):
  """PRelu with a slope for each channel."""
  slope = m.param("slope", m.normal(WIDTH, scale=0.1, mean=0.25))
  y = m.op("PRelu", m.linear("a", m.tokens(), WIDTH, WIDTH), slope)

  def value(p, d):
    x = linear(p, "a", tokens(p, d))
    return loss(linear(p, "head", jnp.where(x < 0, p["slope"] * x, x)), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def learned_limits(m):
  """max(min(x, high), low) with learned limits for each channel."""
  low = m.param("low", m.normal(WIDTH, scale=0.1, mean=-0.4))
  high = m.param("high", m.normal(WIDTH, scale=0.1, mean=0.4))
  x = m.linear("a", m.tokens(), WIDTH, WIDTH)
  y = m.op("Max", m.op("Min", x, high), low)

  def value(p, d):
    x = linear(p, "a", tokens(p, d))
    y = jnp.maximum(jnp.minimum(x, p["high"]), p["low"])
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def gem_pooling(m):
  """GeM: the mean over tokens of x^p, to the power 1/p, with p one number."""
  x = m.op("Softplus", m.linear("a", m.tokens(), WIDTH, WIDTH))
  p = m.param("gem.p", np.array([3.0]))
  x = m.op("ReduceMean", m.op("Pow", x, p), m.ints(1), keepdims=0)
  x = m.op("Pow", x, m.op("Div", m.number(1), p))
  m.labels_shape = (BATCH,)

  def value(p, d):
    x = jax.nn.softplus(linear(p, "a", tokens(p, d)))
    x = jnp.mean(x ** p["gem.p"], 1) ** (1 / p["gem.p"])
    return loss(linear(p, "head", x), d)

  return m.loss(m.linear("head", x, WIDTH, VOCAB)), value


def register_tokens(m):
  """A ViT with a class token and registers, by Expand and Concat; the first
  gives the class."""
  x = m.tokens()
  shape = m.op("Concat", m.op("Shape", "input_ids", end=1), m.ints(1, 1),
               axis=0)
  first = m.op("Expand", m.param("cls", m.normal(1, 1, WIDTH)), shape)
  more = m.op("Expand", m.param("registers", m.normal(1, 3, WIDTH)), shape)
  x = m.op("Concat", first, more, x, axis=1)
  mean = m.op("ReduceMean", m.linear("mix", x, WIDTH, WIDTH), m.ints(1),
              keepdims=1)
  x = m.op("Tanh", m.op("Add", x, mean))
  x = m.op("Gather", x, m.ints(0, shape=()), axis=1)
  m.labels_shape = (BATCH,)

  def value(p, d):
    first = jnp.broadcast_to(p["cls"], (BATCH, 1, WIDTH))
    more = jnp.broadcast_to(p["registers"], (BATCH, 3, WIDTH))
    x = jnp.concatenate([first, more, tokens(p, d)], 1)
    x = jnp.tanh(x + linear(p, "mix", x).mean(1, keepdims=True))
    return loss(linear(p, "head", x[:, 0]), d)

  return m.loss(m.linear("head", x, WIDTH, VOCAB)), value


def scattered_row(m):
  """ScatterND writes a learned row over the first token of each sequence."""
  x = m.op("Transpose", m.tokens(), perm=[1, 0, 2])
  row = m.param("start", m.normal(1, 1, WIDTH))
  shape = m.op("Concat", m.ints(1), m.op("Shape", "input_ids", end=1),
               m.ints(1), axis=0)
  rows = m.op("Expand", row, shape)
  x = m.op("ScatterND", x, m.ints(0, shape=(1, 1)), rows)
  x = m.op("Transpose", x, perm=[1, 0, 2])
  y = m.op("Tanh", m.op("CumSum", x, m.ints(1, shape=())))

  def value(p, d):
    x = tokens(p, d).at[:, 0].set(p["start"][0, 0])
    return loss(linear(p, "head", jnp.tanh(jnp.cumsum(x, 1))), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def film_by_class(m):
  """FiLM: scales and shifts are rows of tables, by the class of a sequence."""
  x = m.tokens()
  first = m.op("Gather", "input_ids", m.ints(0), axis=1)
  scale = m.op("Gather", m.param("film.scale", m.normal(VOCAB, WIDTH,
                                                        scale=0.2, mean=1)),
               first)
  shift = m.op("Gather", m.param("film.shift", m.normal(VOCAB, WIDTH)), first)
  y = m.op("Add", m.op("Mul", x, scale), shift)

  def value(p, d):
    first = d["input_ids"][:, :1]
    y = tokens(p, d) * p["film.scale"][first] + p["film.shift"][first]
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def siren(m):
  """SIREN: sin(3 (x W + b)), twice."""
  x = m.tokens()
  for name in ["a", "b"]:
    x = m.op("Mul", m.linear(name, x, WIDTH, WIDTH), m.number(3))
    x = m.op("Sin", x)

  def value(p, d):
    x = tokens(p, d)
    for name in ["a", "b"]:
      x = jnp.sin(3 * linear(p, name, x))
    return loss(linear(p, "head", x), d)

  return m.loss(m.linear("head", x, WIDTH, VOCAB)), value


def conv_bias_by_reshape(m):
  """A convolution without a bias, to which Reshape(bias, [1, channels, 1]) is
  added."""
  x = m.op("Transpose", m.tokens(), perm=[0, 2, 1])
  w = m.param("conv.weight", m.normal(WIDTH, WIDTH, 3, scale=0.15))
  b = m.param("conv.bias", m.normal(WIDTH, scale=0.1))
  x = m.op("Conv", x, w, pads=[1, 1])
  x = m.op("Add", x, m.op("Reshape", b, m.ints(1, WIDTH, 1)))
  y = m.op("Transpose", m.op("Tanh", x), perm=[0, 2, 1])

  def value(p, d):
    x = jnp.pad(tokens(p, d), ((0, 0), (1, 1), (0, 0)))
    y = sum(x[:, k:k + SEQ] @ p["conv.weight"][:, :, k].T for k in range(3))
    return loss(linear(p, "head", jnp.tanh(y + p["conv.bias"])), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def batch_norm_by_ops(m):
  """BatchNormalization by Sub, Div, Mul and Add: running statistics are no
  parameters."""
  x = m.tokens()
  mean = m.store("bn.running_mean", m.normal(WIDTH, scale=0.2))
  var = m.store("bn.running_var", m.random.uniform(0.5, 1.5, WIDTH))
  size = m.op("Sqrt", m.op("Add", var, m.number(1e-5)))
  x = m.op("Div", m.op("Sub", x, mean), size)
  x = m.op("Mul", x, m.param("bn.weight", m.normal(WIDTH, scale=0.2, mean=1)))
  y = m.op("Add", x, m.param("bn.bias", m.normal(WIDTH, scale=0.2)))

  def value(p, d):
    x = tokens(p, d) - p["bn.running_mean"]
    x = x / jnp.sqrt(p["bn.running_var"] + 1e-5)
    return loss(linear(p, "head", x * p["bn.weight"] + p["bn.bias"]), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def time_embedding(m):
  """A diffusion model's embedding of time steps: sines of fixed frequencies,
  which are no parameters, before a layer."""
  x = m.tokens()
  half = WIDTH // 2
  frequencies = m.store("time.frequencies",
                        10000.0 ** (-np.arange(half) / half))
  time = m.op("Cast", m.op("Gather", "input_ids", m.ints(0), axis=1), to=1)
  angles = m.op("Mul", m.op("Unsqueeze", time, m.ints(2)), frequencies)
  time = m.op("Concat", m.op("Sin", angles), m.op("Cos", angles), axis=2)
  y = m.op("Tanh", m.op("Add", x, m.linear("time", time, WIDTH, WIDTH)))

  def value(p, d):
    angles = d["input_ids"][:, :1, None] * p["time.frequencies"]
    time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 2)
    y = jnp.tanh(tokens(p, d) + linear(p, "time", time))
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def gru_by_scan(m):
  """A GRU over tokens by Scan, whose body reads the weights of the graph around
  it and whose first state is learned."""
  x = m.op("Transpose", m.tokens(), perm=[1, 0, 2])
  w = m.param("gru.weight_ih", m.normal(WIDTH, 3 * WIDTH, scale=0.25))
  u = m.param("gru.weight_hh", m.normal(WIDTH, 3 * WIDTH, scale=0.25))
  b = m.param("gru.bias", m.normal(3 * WIDTH, scale=0.1))
  state = m.param("gru.h0", m.normal(1, WIDTH))
  shape = m.op("Concat", m.op("Shape", "input_ids", end=1), m.ints(1), axis=0)
  state = m.op("Expand", state, shape)
  sizes = m.ints(WIDTH, WIDTH, WIDTH)
  nodes = [helper.make_node(kind, inputs, outputs, **attrs)
           for kind, inputs, outputs, attrs in [
               ("MatMul", ["row", w], ["xw"], {}),
               ("Add", ["xw", b], ["xb"], {}),
               ("Split", ["xb", sizes], ["xr", "xz", "xn"], {"axis": 1}),
               ("MatMul", ["h", u], ["hu"], {}),
               ("Split", ["hu", sizes], ["hr", "hz", "hn"], {"axis": 1}),
               ("Add", ["xr", "hr"], ["r0"], {}),
               ("Sigmoid", ["r0"], ["r"], {}),
               ("Add", ["xz", "hz"], ["z0"], {}),
               ("Sigmoid", ["z0"], ["z"], {}),
               ("Mul", ["r", "hn"], ["rn"], {}),
               ("Add", ["xn", "rn"], ["n0"], {}),
               ("Tanh", ["n0"], ["n"], {}),
               ("Sub", ["h", "n"], ["back"], {}),
               ("Mul", ["z", "back"], ["kept"], {}),
               ("Add", ["n", "kept"], ["next"], {}),
               ("Identity", ["next"], ["out"], {})]]
  info = [helper.make_tensor_value_info(name, TensorProto.FLOAT,
                                        ["batch", WIDTH])
          for name in ["h", "row", "next", "out"]]
  body = helper.make_graph(nodes, "body", info[:2], info[2:])
  x = m.op("Scan", state, x, outputs=2, body=body, num_scan_inputs=1)[1]
  y = m.op("Transpose", x, perm=[1, 0, 2])

  def value(p, d):
    x, h, out = tokens(p, d), jnp.repeat(p["gru.h0"], BATCH, 0), []
    for t in range(SEQ):
      xr, xz, xn = jnp.split(x[:, t] @ p["gru.weight_ih"] + p["gru.bias"], 3, 1)
      hr, hz, hn = jnp.split(h @ p["gru.weight_hh"], 3, 1)
      z, n = jax.nn.sigmoid(xz + hz), jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
      h = n + z * (h - n)
      out.append(h)
    return loss(linear(p, "head", jnp.stack(out, 1)), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


CASES = {f"train-param-{make.__name__}": make for make in [
    prelu_slope, learned_limits, gem_pooling, register_tokens, scattered_row,
    film_by_class, siren, conv_bias_by_reshape, batch_norm_by_ops,
    time_embedding, gru_by_scan]}
