"""Rotary position embeddings in halves and in pairs, with near misses."""

import numpy as np


def angles(g, batch, tokens, width):
  """cos and sin, [1 or batch, 1, tokens, width / 2]."""
  frequencies = (10.0 ** -np.arange(0, 1, 2 / width)).astype(np.float32)
  form = g.choose("input", "range", "table")
  if form == "table":
    table = np.arange(tokens + 3)[:, None] * frequencies
    ids = g.input(np.tile(np.arange(tokens, dtype=np.int64), (batch, 1)),
                  ("batch", "seq"), prefix="position")
    return [g.unsqueeze(g.op("Gather", f(table).astype(np.float32), ids), 1)
            for f in (np.cos, np.sin)]
  if form == "input":
    ids = g.input(
        np.sort(g.numbers.integers(0, 2 * tokens, (batch, tokens)), axis=1),
        ("batch", "seq"), prefix="position")
  else:
    ids = g.unsqueeze(g.op("Range", np.int64(0), np.int64(tokens),
                           np.int64(1)), 0)
  at = g.op("Cast", ids, to=1)
  if g.chance(0.5):
    angle = g.op("Mul", g.unsqueeze(at, 2), frequencies)
  else:
    angle = g.op("MatMul", g.unsqueeze(at, 2), frequencies[None, :])
  angle = g.unsqueeze(angle, 1)
  return [g.op("Cos", angle), g.op("Sin", angle)]


def part(g, x, begin, end):
  axis = g.choose(-1, x.rank - 1)
  far = np.iinfo(np.int64).max if end == x.shape[-1] and g.chance(0.5) else end
  return g.op("Slice", x, g.ints(begin), g.ints(far), g.ints(axis))


def halves(g, x):
  half = x.shape[-1] // 2
  if g.chance(0.3):
    return g.op("Split", x, g.ints(half, half), outputs=2, axis=-1)
  return part(g, x, 0, half), part(g, x, half, 2 * half)


def by_halves(g, x, cos, sin):
  """x * cos + rotate_half(x) * sin."""
  a, b = halves(g, x)
  miss = g.rng.random()
  if miss < 0.06:  # a near miss: the other half is negated
    turned = [b, g.op("Neg", a)]
  elif miss < 0.1:  # another one: none is
    turned = [b, a]
  else:
    turned = [g.op("Neg", b), a]
  turned = g.op("Concat", *turned, axis=-1)
  both = [g.op("Concat", f, f, axis=-1) for f in (cos, sin)]
  return g.op("Add", g.either("Mul", x, both[0]),
              g.either("Mul", turned, both[1]))


def by_parts(g, x, cos, sin):
  """Each half computed, then concatenated."""
  a, b = halves(g, x)
  first = g.op("Sub", g.op("Mul", a, cos), g.op("Mul", b, sin))
  second = g.op("Add", g.op("Mul", b, cos), g.op("Mul", a, sin))
  return g.op("Concat", first, second, axis=-1)


def by_pairs(g, x, cos, sin):
  """Neighbours are rotated together."""
  end, step = g.ints(np.iinfo(np.int64).max), g.ints(2)
  a = g.op("Slice", x, g.ints(0), end, g.ints(-1), step)
  b = g.op("Slice", x, g.ints(1), end, g.ints(-1), step)
  first = g.op("Sub", g.op("Mul", a, cos), g.op("Mul", b, sin))
  second = g.op("Add", g.op("Mul", a, sin), g.op("Mul", b, cos))
  pairs = g.op("Concat", g.unsqueeze(first, x.rank),
               g.unsqueeze(second, x.rank), axis=-1)
  return g.reshape(pairs, x.shape)


def fused(g, x, cos, sin):
  pairs = [g.op("Squeeze", g.op("Expand", f, g.ints(
      x.shape[0], 1, *f.shape[2:])), g.ints(1)) for f in (cos, sin)]
  return g.op("RotaryEmbedding", x, *pairs, interleaved=g.choose(0, 1))


def rotary(g, q, k, tokens):
  """Rotates q and k, [batch, heads, tokens, width], or a part of each."""
  width = q.shape[-1]
  turned = width
  if width >= 8 and g.chance(0.2):
    turned = width // 2
  cos, sin = angles(g, q.shape[0], tokens, turned)
  forms = [by_halves, by_halves, by_halves, by_parts, by_pairs]
  if g.opset >= 23 and turned == width:
    forms += [fused] * 3
  form = g.rng.choice(forms)
  results = []
  for x in (q, k):
    if turned == width:
      results.append(form(g, x, cos, sin))
      continue
    y = form(g, part(g, x, 0, turned), cos, sin)
    results.append(g.op("Concat", y, part(g, x, turned, width), axis=-1))
  return results
