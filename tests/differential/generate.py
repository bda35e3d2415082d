"""Draws a graph from a seed: parts of transformers, single nodes, or both."""

import random

import numpy as np

import activations
import elementwise
import experts
import fronts
import layouts
import norms
from attention import attention
from builder import GraphBuilder
from pick import has_rank, pick

OPSETS = [13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 21, 22, 23, 23, 23]
NODES = elementwise.FORMS + layouts.FORMS


def draw_sizes(rng):
  heads = rng.choice([1, 2, 2, 4, 4, 3])
  return {
      "batch": rng.choice([1, 2, 2, 3, 4, 4, 6, 8]),
      "seq": rng.choice([1, 2, 3, 4, 4, 5, 6, 8, 8, 12]),
      "width": rng.choice([8, 12, 16, 16, 24, 32]),
      "heads": heads,
      "head": rng.choice([2, 4, 4, 8]),
      "vocabulary": rng.choice([11, 16, 32]),
  }


def node(g):
  """One node of any kind, tamed where its values are large."""
  weights, forms = zip(*NODES)
  return g.tame(g.rng.choices(forms, weights)[0](g))


def layer(g, x, sizes, context):
  """A residual layer, pre-norm or post-norm or without a norm."""
  kind = g.choose("attention", "attention", "mlp", "mlp", "moe", "cross")
  before = g.chance(0.6)
  y = norms.norm(g, x) if before else x
  if kind == "mlp":
    y = experts.feed_forward(g, y)
  elif kind == "moe":
    y = experts.mixture(g, y)
  else:
    y = attention(g, y, sizes, context if kind == "cross" else None)
  if g.chance(0.9):
    y = g.either("Add", x, y)
  return g.tame(y if before else norms.norm(g, y))


def head(g, x, sizes):
  form = g.choose("logits", "pool", "first", "argmax", "none")
  if form == "logits":
    return g.op("MatMul", x, g.weight(x.shape[-1], sizes["vocabulary"]))
  if form == "pool":
    return g.reduce("ReduceMean", x, [1], keepdims=g.choose(0, 1))
  if form == "first":
    y = g.op("Gather", x, np.int64(0), axis=1)
    return g.op("Tanh", g.op("Gemm", y, g.weight(x.shape[-1], 6),
                             g.weight(6, scale=1)))
  if form == "argmax":
    logits = g.op("MatMul", x, g.weight(x.shape[-1], sizes["vocabulary"]))
    return g.op("ArgMax", logits, axis=-1, keepdims=0)
  return x


def layers(g, sizes):
  x = fronts.front(g, sizes)
  context = fronts.features(g, sizes) if g.chance(0.3) else None
  for _ in range(g.rng.randint(1, 3)):
    x = layer(g, x, sizes, context)
  if g.chance(0.5):
    x = norms.norm(g, x)
  g.output(head(g, x, sizes))


def single_nodes(g, sizes):
  fronts.features(g, sizes)
  if g.chance(0.5):
    fronts.front(g, sizes)
  for _ in range(g.rng.randint(5, 25)):
    node(g)


def mixed(g, sizes):
  """Layers and single nodes that take each other's results."""
  x = fronts.front(g, sizes)
  for _ in range(g.rng.randint(2, 6)):
    if g.chance(0.35):
      x = layer(g, x, sizes, None)
      continue
    y = node(g)
    if g.chance(0.3):
      y = g.tame(activations.activation(g, y) if g.chance(0.5) or not y.rank
                 else norms.norm(g, y))
    if y.shape == x.shape and g.chance(0.7):
      x = g.tame(g.either("Add", x, y))
    elif y.rank >= 1:
      x = g.op("Add", x, g.reduce("ReduceMean", y, range(y.rank), keepdims=0))
    rank3 = pick(g, has_rank(3), fresh=(sizes["batch"], sizes["seq"],
                                        sizes["width"]))
    x = rank3 if g.chance(0.2) else x
  g.output(x)


def one_attention(g, sizes):
  """Attention alone: what is hidden, and how that is spelled."""
  g.output(attention(g, fronts.features(g, sizes), sizes))


THEMES = [(9, layers), (5, single_nodes), (4, mixed), (3, one_attention)]


def add_outputs(g):
  """Results that nothing takes, and now and then one that something does."""
  taken = {name for node in g.nodes for name in node.input}
  results = {name for node in g.nodes for name in node.output}
  values = [v for v in g.values if v.name in results]
  loose = [v for v in values if v.name not in taken]
  for value in g.rng.sample(loose, min(len(loose), g.rng.randint(1, 4))):
    g.output(value)
  if g.chance(0.2):
    g.output(g.rng.choice(values))


def add_unused_input(g):
  if g.chance(0.5):
    g.input(g.floats(2, 3), prefix="unused")
  else:
    g.input(np.zeros((2,), np.int64), prefix="unused")


def plant_special(g):
  """A NaN or an infinity in an input; what follows is computed anew.

  Not where numbers become integers: ONNX leaves open what these become. Nor
  behind masks: decomposed attention multiplies a hidden NaN by zero, fused
  attention does not read it.
  """
  if g.masked or any(node.op_type == "Cast" and node.attribute[0].i in (6, 7)
         for node in g.nodes):
    return
  x = pick(g, lambda v: any(v is value for value, _ in g.inputs))
  flat = x.data.reshape(-1)
  flat[g.rng.randrange(flat.size)] = g.choose(np.nan, np.inf, -np.inf)


def generate(seed, smaller=None):
  """The graph of a seed; `smaller` overrides sizes that it draws."""
  rng = random.Random(seed)
  g = GraphBuilder(seed, rng.choice(OPSETS))
  sizes = draw_sizes(g.rng)
  sizes.update(smaller or {})
  g.symbolic = g.chance(0.4)
  weights, themes = zip(*THEMES)
  theme = g.rng.choices(themes, weights)[0]
  theme(g, sizes)
  add_outputs(g)
  if g.chance(0.08):
    add_unused_input(g)
  if g.chance(0.04):
    plant_special(g)
  g.theme = theme.__name__
  return g
