"""Numbers, vectors and matrices that meet an op before they are used."""

import jax
import jax.numpy as jnp
import numpy as np

from case_model import (BATCH, SEQ, VOCAB, WIDTH, linear, loss, tokens)

GROUP = "scales"


def logit_scale(m):
  """CLIP: exp(logit_scale), one number, scales the cosines of tokens and
  classes."""
  x = m.tokens()
  x = m.op("Div", x, m.op("ReduceL2", x, m.ints(-1), keepdims=1))
  w = m.param("class.weight", m.normal(WIDTH, VOCAB))
  w = m.op("Div", w, m.op("ReduceL2", w, m.ints(0), keepdims=1))
  scale = m.op("Exp", m.param("logit_scale", np.log(10.0)))
  y = m.op("Mul", scale, m.op("MatMul", x, w))

  def value(p, d):
    x, w = tokens(p, d), p["class.weight"]
    x = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    w = w / jnp.linalg.norm(w, axis=0, keepdims=True)
    return loss(jnp.exp(p["logit_scale"]) * (x @ w), d)

  return m.loss(y), value


def head_of_one_output(m):
  """A regression: the bias of the head is one number."""
  x = m.linear("head", m.tokens(), WIDTH, 1)
  target = m.op("Cast", "labels", to=1)
  target = m.op("Mul", target, m.number(0.015625))
  error = m.op("Sub", m.op("Squeeze", x, m.ints(2)), target)
  y = m.op("ReduceMean", m.op("Mul", error, error), keepdims=0)

  def value(p, d):
    error = linear(p, "head", tokens(p, d))[..., 0] - d["labels"] / 64
    return jnp.mean(error**2)

  return y, value


def layer_scale(m):
  """CaiT: a branch is multiplied by gamma, which begins as 1e-5."""
  x = m.tokens()
  gamma = m.param("gamma", np.full(WIDTH, 1e-5))
  branch = m.op("Tanh", m.linear("a", x, WIDTH, WIDTH))
  y = m.op("Add", x, m.op("Mul", gamma, branch))

  def value(p, d):
    x = tokens(p, d)
    y = x + p["gamma"] * jnp.tanh(linear(p, "a", x))
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def zero_biases_unit_norms(m):
  """A fresh model: biases are zeros, scales of norms are ones."""
  x = m.tokens()
  scale = m.param("norm.weight", np.ones(WIDTH))
  bias = m.param("norm.bias", np.zeros(WIDTH))
  x = m.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
  x = m.op("MatMul", x, m.param("a.weight",
                                m.normal(WIDTH, WIDTH, scale=0.25)))
  x = m.op("Tanh", m.op("Add", x, m.param("a.bias", np.zeros(WIDTH))))

  def value(p, d):
    x = tokens(p, d)
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(
        x.var(-1, keepdims=True) + 1e-5)
    x = x * p["norm.weight"] + p["norm.bias"]
    return loss(linear(p, "head", jnp.tanh(linear(p, "a", x))), d)

  return m.loss(m.linear("head", x, WIDTH, VOCAB)), value


def weight_norm(m):
  """Weight normalization: g * v / ||v|| over the rows of v."""
  x = m.tokens()
  v = m.param("a.weight_v", m.normal(WIDTH, WIDTH))
  g = m.param("a.weight_g", m.normal(1, WIDTH, scale=0.2, mean=1))
  size = m.op("ReduceL2", v, m.ints(0), keepdims=1)
  w = m.op("Mul", g, m.op("Div", v, size))
  y = m.op("Tanh", m.op("MatMul", x, w))

  def value(p, d):
    v = p["a.weight_v"]
    w = p["a.weight_g"] * v / jnp.linalg.norm(v, axis=0, keepdims=True)
    return loss(linear(p, "head", jnp.tanh(tokens(p, d) @ w)), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def one_plus_weight_of_half(m):
  """RMS norm by ops whose scale is 1 + a weight that is stored as f16 and
  cast."""
  x = m.tokens()
  w = m.param("norm.weight", m.normal(WIDTH, scale=0.2), np.float16)
  scale = m.op("Add", m.number(1), m.op("Cast", w, to=1))
  square = m.op("ReduceMean", m.op("Mul", x, x), m.ints(-1), keepdims=1)
  size = m.op("Sqrt", m.op("Add", square, m.number(1e-5)))
  y = m.op("Mul", m.op("Div", x, size), scale)

  def value(p, d):
    x = tokens(p, d)
    x = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))
    return loss(linear(p, "head", x * (1 + p["norm.weight"])), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def mixed_layers(m):
  """ELMo: layers are mixed by softmax of learned numbers, times gamma, which
  is one number."""
  layers = [m.tokens()]
  for name in ["a", "b"]:
    layers.append(m.op("Tanh", m.linear(name, layers[-1], WIDTH, WIDTH)))
  weights = m.op("Softmax", m.param("scalars", m.normal(3)), axis=0)
  parts = m.op("Split", weights, m.ints(1, 1, 1), axis=0, outputs=3)
  y = m.op("Sum", *[m.op("Mul", w, x) for w, x in zip(parts, layers)])
  y = m.op("Mul", m.param("gamma", 1.25), y)

  def value(p, d):
    layers = [tokens(p, d)]
    for name in ["a", "b"]:
      layers.append(jnp.tanh(linear(p, name, layers[-1])))
    w = jax.nn.softmax(p["scalars"])
    y = p["gamma"] * sum(w[i] * layers[i] for i in range(3))
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def lora(m):
  """LoRA that is not merged: x (W + 0.5 A B)."""
  x = m.tokens()
  a = m.param("lora_A", m.normal(WIDTH, 2, scale=0.5))
  b = m.param("lora_B", m.normal(2, WIDTH, scale=0.5))
  w = m.param("a.weight", m.normal(WIDTH, WIDTH, scale=0.25))
  low = m.op("Mul", m.op("MatMul", a, b), m.number(0.5))
  y = m.op("Tanh", m.op("MatMul", x, m.op("Add", w, low)))

  def value(p, d):
    w = p["a.weight"] + 0.5 * p["lora_A"] @ p["lora_B"]
    return loss(linear(p, "head", jnp.tanh(tokens(p, d) @ w)), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def triangle_of_a_matrix(m):
  """A causal mixer: Trilu of a learned matrix mixes tokens."""
  x = m.tokens()
  mix = m.param("mix.weight", m.normal(SEQ, SEQ, scale=0.5))
  y = m.op("MatMul", m.op("Trilu", mix, upper=0), x)

  def value(p, d):
    y = jnp.tril(p["mix.weight"]) @ tokens(p, d)
    return loss(linear(p, "head", y), d)

  return m.loss(m.linear("head", y, WIDTH, VOCAB)), value


def gemm_alpha_beta(m):
  """Gemm with alpha 0.5, beta 3 and a transposed weight."""
  x = m.op("Reshape", m.tokens(), m.ints(-1, WIDTH))
  w = m.param("a.weight", m.normal(WIDTH, WIDTH, scale=0.5))
  b = m.param("a.bias", m.normal(WIDTH, scale=0.1))
  x = m.op("Tanh", m.op("Gemm", x, w, b, alpha=0.5, beta=3.0, transB=1))

  def value(p, d):
    x = tokens(p, d).reshape(BATCH * SEQ, WIDTH)
    x = jnp.tanh(0.5 * x @ p["a.weight"].T + 3 * p["a.bias"])
    return loss(linear(p, "head", x), d)

  return m.loss(m.linear("head", x, WIDTH, VOCAB)), value


def constant_nodes(m):
  """Weights in Constant nodes: a scale of 4 heads, one of all channels, and two
  norms that begin as the same ones and zeros. A literal of the same size, which
  no module names, and the divisor are constants."""
  x = m.op("Reshape", m.tokens(), m.ints(0, 0, 4, WIDTH // 4))
  x = m.op("Mul", x, m.node("head_scale", [[1.5], [0.5], [2], [1]]))
  x = m.op("Sub", x, m.node("/Constant_3_output_0", [0.4, 0.5, 0.3, 0.1],
                            param=False))
  x = m.op("Div", x, m.node("/Constant_4_output_0", 8.0, param=False))
  x = m.op("Reshape", x, m.ints(0, 0, WIDTH))
  for i in range(2):
    scale = m.node(f"norm{i}.scale", np.ones(WIDTH))
    bias = m.node(f"norm{i}.bias", np.zeros(WIDTH))
    x = m.op("LayerNormalization", x, scale, bias, axis=-1)
    x = m.op("Tanh", m.linear(f"a{i}", x, WIDTH, WIDTH))
  x = m.op("Mul", x, m.node("gamma", np.full(WIDTH, 0.1)))

  def value(p, d):
    x = tokens(p, d).reshape(BATCH, SEQ, 4, WIDTH // 4) * p["head_scale"]
    x = (x - p["/Constant_3_output_0"]) / p["/Constant_4_output_0"]
    x = x.reshape(BATCH, SEQ, WIDTH)
    for i in range(2):
      x = x - x.mean(-1, keepdims=True)
      x = x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
      x = x * p[f"norm{i}.scale"] + p[f"norm{i}.bias"]
      x = jnp.tanh(linear(p, f"a{i}", x))
    return loss(linear(p, "head", x * p["gamma"]), d)

  step = "asyra-opt model.onnx --dim batch=4 --dim seq=8 --search-steps 9 "
  note = "not trained: _Constant_3_output_0 (few numbers that nodes write"
  more = [{"command": step + "--train", "says": [note]},
          {"command": step + "--train --train-also _Constant_3_output_0 -o s",
           "never": ["not trained"]}]
  y = m.loss(m.linear("head", x, WIDTH, VOCAB))
  return y, value, {"more": more}


CASES = {f"train-param-{make.__name__}": make for make in [
    logit_scale, head_of_one_output, layer_scale, zero_biases_unit_norms,
    weight_norm, one_plus_weight_of_half, mixed_layers, lora,
    triangle_of_a_matrix, gemm_alpha_beta, constant_nodes]}
