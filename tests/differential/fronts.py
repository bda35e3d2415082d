"""What comes before the layers: embeddings, images and sound."""

import numpy as np


def embedding(g, sizes):
  """Token ids through a table, with positions or without."""
  rows = sizes["vocabulary"]
  dtype = np.int64 if g.chance(0.8) else np.int32
  ids = g.numbers.integers(0, rows, (sizes["batch"], sizes["seq"]))
  ids = g.input(ids.astype(dtype), ("batch", "seq"), prefix="ids")
  x = g.op("Gather", g.weight(rows, sizes["width"], scale=1), ids)
  form = g.choose("none", "table", "ids")
  if form == "table":
    x = g.op("Add", x, g.weight(sizes["seq"], sizes["width"], scale=1))
  elif form == "ids":
    at = g.unsqueeze(g.op("Range", np.int64(0), np.int64(sizes["seq"]),
                          np.int64(1)), 0)
    table = g.weight(sizes["seq"] + 2, sizes["width"], scale=1)
    x = g.either("Add", x, g.op("Gather", table, at))
  return x


def features(g, sizes):
  return g.input(g.floats(sizes["batch"], sizes["seq"], sizes["width"]),
                 ("batch", "seq", None))


def patches(g, sizes):
  """An image cut into patches by a convolution, perhaps with a class token."""
  side = g.choose(2, 2, 3)
  count = g.choose(2, 3, 4)
  x = g.input(g.floats(sizes["batch"], 3, count * side, count * side),
              ("batch", None, None, None), prefix="pixels")
  width = sizes["width"]
  w = g.weight(width, 3, side, side, scale=0.25)
  x = g.op("Conv", x, w, g.weight(width, scale=1), kernel_shape=[side, side],
           strides=[side, side])
  x = g.transpose(g.reshape(x, (sizes["batch"], width, count * count)),
                  0, 2, 1)
  if g.chance(0.5):
    token = g.op("Expand", g.weight(1, 1, width, scale=1),
                 g.ints(sizes["batch"], 1, width))
    x = g.op("Concat", token, x, axis=1)
  return g.op("Add", x, g.weight(1, x.shape[1], width, scale=1))


def sound(g, sizes):
  """Two convolutions over time, the second often halving it."""
  channels, width = 4, sizes["width"]
  x = g.input(g.floats(sizes["batch"], channels, sizes["seq"] * 2),
              ("batch", None, None), prefix="sound")
  for inputs, stride in ((channels, 1), (width, g.choose(1, 2))):
    x = g.op("Conv", x, g.weight(width, inputs, 3, scale=0.25),
             g.weight(width, scale=1), kernel_shape=[3], pads=[1, 1],
             strides=[stride])
    x = g.op(g.choose("Relu", "Tanh", "Sigmoid"), x)
  return g.transpose(x, 0, 2, 1)


def front(g, sizes):
  kinds = [embedding] * 4 + [features] * 4 + [patches, sound]
  return g.rng.choice(kinds)(g, sizes)
