"""Picks values of a graph to go on from."""

import numpy as np

LARGEST = 4096  # elements


def pick(g, good=lambda value: True, fresh=(3, 4)):
  """A float value that is `good`, by preference a late one; or a new input."""
  found = [v for v in g.values
           if v.is_float and 0 < v.data.size <= LARGEST and v.rank <= 5 and
           good(v)]
  if not found:
    return g.input(g.floats(*fresh))
  if g.chance(0.5):
    found = found[-6:]
  return g.rng.choice(found)


def broadcast_partner(g, x):
  """A value that broadcasts with x: a weight, a slice, or another value."""
  form = g.rng.random()
  if form < 0.35:
    same = [v for v in g.values if v.is_float and v.shape == x.shape]
    return g.rng.choice(same)
  if form < 0.5:
    return g.const(np.float32(g.choose(0.5, -1.5, 2, 3)))
  shape = [size if g.chance(0.6) else 1 for size in x.shape]
  if g.chance(0.5):
    shape = shape[g.rng.randrange(len(shape) + 1):]
  if form < 0.6:
    return g.input(g.floats(*shape))
  return g.weight(*shape, scale=1)


def axis_of(g, x):
  axis = g.rng.randrange(x.rank)
  return axis if g.chance(0.6) else axis - x.rank


def some_axes(g, x):
  count = g.rng.randint(1, min(2, x.rank))
  axes = sorted(g.rng.sample(range(x.rank), count))
  return axes if g.chance(0.6) else [axis - x.rank for axis in axes]


def has_rank(*ranks):
  return lambda value: value.rank in ranks
