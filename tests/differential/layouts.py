"""Single nodes that move elements: shapes, slices, gathers, scatters."""

import numpy as np
from onnx import numpy_helper

from pick import axis_of, has_rank, pick


def transpose(g):
  x = pick(g, has_rank(2, 3, 4))
  perm = list(range(x.rank))
  g.rng.shuffle(perm)
  return g.transpose(x, *perm)


def reshape(g):
  x = pick(g, has_rank(1, 2, 3, 4))
  shape = list(x.shape)
  d = g.rng.randrange(x.rank)
  form = g.choose("split", "merge", "flat", "zero")
  if form == "split":
    factor = g.choose(2, 3)
    if shape[d] % factor == 0:
      shape[d:d + 1] = (factor, shape[d] // factor) if g.chance(0.5) else (
          shape[d] // factor, factor)
  elif form == "merge" and d + 1 < x.rank:
    shape[d:d + 2] = [shape[d] * shape[d + 1]]
  elif form == "flat":
    return g.op("Flatten", x, axis=g.rng.randint(0, x.rank))
  elif form == "zero":
    return g.op("Reshape", x, g.ints(*[0] * (x.rank - 1), -1))
  return g.reshape(x, shape)


def squeeze(g):
  x = pick(g)
  if 1 in x.shape and g.chance(0.7):
    return g.op("Squeeze", x, g.ints(x.shape.index(1)))
  return g.unsqueeze(x, g.rng.randint(0, x.rank))


def concat(g):
  x = pick(g, has_rank(1, 2, 3, 4))
  axis = axis_of(g, x)
  parts = [x]
  for _ in range(g.rng.randint(1, 2)):
    same = [v for v in g.values if v.is_float and v.shape == x.shape]
    parts.append(g.rng.choice(same) if g.chance(0.6)
                 else g.weight(*x.shape, scale=1))
  g.rng.shuffle(parts)
  return g.op("Concat", *parts, axis=axis)


def split(g):
  x = pick(g, lambda v: v.rank >= 1 and max(v.shape) >= 2)
  axis = int(np.argmax(x.shape))
  first = g.rng.randint(1, x.shape[axis] - 1)
  sizes = g.ints(first, x.shape[axis] - first)
  return g.rng.choice(g.op("Split", x, sizes, outputs=2, axis=axis))


def slices(g):
  x = pick(g, lambda v: v.rank >= 1)
  axis = axis_of(g, x)
  size = x.shape[axis]
  step = g.choose(1, 1, 2, -1)
  begin = g.rng.randint(0, size - 1)
  if step > 0:
    end = g.choose(size, begin + 1, np.iinfo(np.int64).max)
  else:
    begin, end = g.choose(begin, -1), -size - 1
  return g.op("Slice", x, g.ints(begin), g.ints(end), g.ints(axis),
              g.ints(step))


def pad(g):
  x = pick(g, lambda v: v.rank >= 1 and v.shape[-1] >= 3)
  pads = [0] * (2 * x.rank)
  pads[x.rank - 1], pads[-1] = g.rng.randint(0, 2), g.rng.randint(0, 2)
  mode = g.choose("constant", "constant", "reflect", "edge")
  fill = np.float32(0.5) if mode == "constant" and g.chance(0.5) else None
  if mode == "constant" and g.chance(0.3):
    pads[-1] = -1
  return g.op("Pad", x, g.ints(*pads), fill, mode=mode)


def expand(g):
  x = pick(g, lambda v: v.rank <= 3 and v.data.size <= 512)
  shape = [size if size != 1 else g.choose(1, 2, 4) for size in x.shape]
  if g.chance(0.5):
    shape = [g.choose(2, 3)] + shape
  return g.op("Expand", x, g.ints(*shape))


def tile(g):
  x = pick(g, lambda v: 1 <= v.rank <= 3 and v.data.size <= 512)
  return g.op("Tile", x, g.ints(*[g.choose(1, 1, 2) for _ in x.shape]))


def triangle(g):
  x = pick(g, has_rank(2, 3, 4))
  if g.opset < 14:
    return g.op("Identity", x)
  return g.op("Trilu", x, np.int64(g.choose(0, 1, -1)), upper=g.choose(0, 1))


def index(g, size, *shape, negative=True):
  """Indices below `size`: a constant, or an input of the model."""
  low = -size if negative and g.chance(0.3) else 0
  data = g.numbers.integers(low, size, shape).astype(np.int64)
  return g.const(data) if g.chance(0.6) else g.input(data, prefix="index")


def gather(g):
  x = pick(g, lambda v: v.rank >= 1)
  axis = axis_of(g, x)
  shape = g.choose((), (3,), (2, 2), (1,))
  return g.op("Gather", x, index(g, x.shape[axis], *shape), axis=axis)


def gather_elements(g):
  x = pick(g, has_rank(1, 2, 3))
  axis = g.rng.randrange(x.rank)
  shape = list(x.shape)
  shape[axis] = g.rng.randint(1, 4)
  return g.op("GatherElements", x, index(g, x.shape[axis], *shape), axis=axis)


def rows_of(g, x, count, depth):
  """Different positions in the first `depth` dimensions of x."""
  flat = np.arange(int(np.prod(x.shape[:depth])))
  chosen = g.numbers.permutation(flat)[:count]
  rows = np.stack(np.unravel_index(chosen, x.shape[:depth]), axis=-1)
  return rows.astype(np.int64)


def gather_nd(g):
  x = pick(g, has_rank(2, 3))
  rows = rows_of(g, x, g.rng.randint(1, 4), g.choose(1, 2))
  return g.op("GatherND", x, g.const(rows) if g.chance(0.6)
              else g.input(rows, prefix="index"))


def scatter_nd(g):
  x = pick(g, has_rank(2, 3))
  depth = g.choose(1, 2)
  rows = rows_of(g, x, g.rng.randint(1, 4), depth)
  updates = g.weight(len(rows), *x.shape[depth:], scale=1)
  attrs = {}
  if g.opset >= 16 and g.chance(0.5):
    attrs["reduction"] = g.choose("add", "mul")
  return g.op("ScatterND", x, g.const(rows) if g.chance(0.6)
              else g.input(rows, prefix="index"), updates, **attrs)


def scatter_elements(g):
  x = pick(g, has_rank(2, 3))
  axis = g.rng.randrange(x.rank)
  shape = list(x.shape)
  shape[axis] = g.rng.randint(1, shape[axis])
  one = np.stack([g.numbers.permutation(x.shape[axis])[:shape[axis]]
                  for _ in range(int(np.prod(shape)) // shape[axis])])
  others = [s for d, s in enumerate(shape) if d != axis]
  data = np.moveaxis(one.reshape(*others, shape[axis]), -1, axis)
  at = g.const(np.ascontiguousarray(data).astype(np.int64))
  attrs = {}
  if g.opset >= 16 and g.chance(0.5):
    attrs["reduction"] = "add"
  return g.op("ScatterElements", x, at, g.weight(*shape, scale=1), axis=axis,
              **attrs)


def one_hot(g):
  depth = g.choose(4, 5, 8)
  at = index(g, depth, *g.choose((3,), (2, 4)), negative=False)
  return g.op("OneHot", at, np.int64(depth), np.array([0, 1], np.float32),
              axis=g.choose(-1, 0))


def of_shape(g):
  """A number that follows from a shape, beside a value."""
  x = pick(g, lambda v: v.rank >= 1)
  if g.chance(0.3):
    size = g.op("Size", x)
  else:
    size = g.op("Gather", g.op("Shape", x), np.int64(axis_of(g, x)))
  return g.op("Div", x, g.op("Cast", size, to=1))


def filled(g):
  x = pick(g, lambda v: 1 <= v.rank <= 3)
  value = numpy_helper.from_array(np.array([g.choose(0, 1.5)], np.float32))
  ones = g.op("ConstantOfShape", g.op("Shape", x), value=value)
  return g.op("Add", ones, x)


def window(g):
  """Convolutions and pools of [batch, channels, length]."""
  x = pick(g, lambda v: v.rank == 3 and v.shape[2] >= 3, fresh=(2, 4, 8))
  channels = x.shape[1]
  form = g.choose("conv", "depthwise", "average", "max", "global", "up")
  if form == "conv":
    return g.op("Conv", x, g.weight(4, channels, 3, scale=0.5),
                kernel_shape=[3], pads=[g.choose(0, 1), 1],
                strides=[g.choose(1, 2)])
  if form == "depthwise":
    return g.op("Conv", x, g.weight(channels, 1, 2, scale=0.5),
                g.weight(channels, scale=1), kernel_shape=[2], group=channels)
  if form == "up":
    return g.op("ConvTranspose", x, g.weight(channels, 2, 2, scale=0.5),
                kernel_shape=[2], strides=[2])
  if form == "global":
    return g.op("GlobalAveragePool", x)
  kind = "AveragePool" if form == "average" else "MaxPool"
  return g.op(kind, x, kernel_shape=[2], strides=[g.choose(1, 2)])


def batch_norm(g):
  x = pick(g, lambda v: v.rank in (3, 4), fresh=(2, 4, 8))
  scale, bias, mean = (g.weight(x.shape[1], scale=1) for _ in range(3))
  variance = np.linspace(0.5, 2, x.shape[1], dtype=np.float32)
  return g.op("BatchNormalization", x, scale, bias, mean, variance)


def image(g):
  """Images made larger, or channels traded for pixels."""
  x = pick(g, lambda v: v.rank == 4 and v.shape[1] % 4 == 0 and
           v.data.size <= 1024, fresh=(2, 4, 3, 4))
  form = g.choose("depth", "space", "nearest", "linear")
  if form == "depth":
    return g.op("DepthToSpace", x, blocksize=2, mode=g.choose("DCR", "CRD"))
  if form == "space":
    if x.shape[2] % 2 or x.shape[3] % 2:
      x = g.op("Tile", x, g.ints(1, 1, 2, 2))
    return g.op("SpaceToDepth", x, blocksize=2)
  scales = np.array([1, 1, 2, 2], np.float32)
  if form == "nearest":
    return g.op("Resize", x, None, scales, mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor")
  return g.op("Resize", x, None, scales, mode="linear",
              coordinate_transformation_mode="half_pixel")


FORMS = [(3, transpose), (4, reshape), (2, squeeze), (3, concat), (2, split),
         (3, slices), (2, pad), (2, expand), (1, tile), (1, triangle),
         (3, gather), (2, gather_elements), (1, gather_nd), (1, scatter_nd),
         (1, scatter_elements), (1, one_hot), (1, of_shape), (1, filled),
         (2, window), (1, batch_norm), (1, image)]
