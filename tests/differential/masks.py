"""Masks of attention in the spellings that exporters and people have.

A mask hides keys from queries. Rows that see no key at all are drawn now and
then: what they give depends on the number that stands for "hidden" and on
whether it is added to the scores or put in their place.
"""

import numpy as np
from onnx import numpy_helper

ONE = numpy_helper.from_array(np.ones(1, np.float32))
LOWEST = np.finfo(np.float32).min
HIDDEN = [-np.inf, LOWEST, LOWEST, -1e9, -1e9, -1e4, -1e30, -65504.0]


def padding_lengths(g, batch, keys):
  """Ones where there is a token: padded left, right, in the middle."""
  mask = np.ones((batch, keys), np.int64)
  style = g.choose("none", "right", "left", "left", "holes", "gone")
  for row in mask:
    count = g.rng.randrange(keys)
    if style == "right" and count:
      row[keys - count:] = 0
    elif style == "left":
      row[:count] = 0
    elif style == "holes":
      row[g.numbers.random(keys) < 0.4] = 0
  if style == "gone":
    mask[g.rng.randrange(batch)] = 0
  return mask


def padding(g, batch, keys):
  """bool [batch, 1, 1, keys] or similar, from an input of the model."""
  data = padding_lengths(g, batch, keys)
  kind = g.choose("int64", "int64", "int32", "float", "bool")
  dtype = {"int64": np.int64, "int32": np.int32, "float": np.float32,
           "bool": np.bool_}[kind]
  x = g.input(data.astype(dtype), ("batch", "keys"), prefix="mask")
  late = g.chance(0.5)  # the shape before or after the type
  if late:
    x = g.unsqueeze(x, 1, 2) if g.chance(0.7) else g.reshape(
        x, (batch, 1, 1, keys))
  if kind != "bool":
    form = g.choose("cast", "equal", "greater")
    if form == "cast":
      x = g.op("Cast", x, to=9)
    elif form == "equal":
      x = g.op("Equal", x, np.array(1, dtype))
    else:
      x = g.op("Greater", x, np.array(0, dtype))
  return x if late else g.unsqueeze(x, 1, 2)


def positions(g, count, first=0):
  if g.chance(0.5):
    return g.const(np.arange(first, first + count, dtype=np.int64))
  return g.op("Range", np.int64(first), np.int64(first + count), np.int64(1))


def triangle(g, queries, keys):
  """bool [queries, keys] or with leading ones: keys up to the query."""
  first = keys - queries
  form = g.choose("const", "trilu", "compare", "compare", "window")
  if form == "const":
    mask = np.tril(np.ones((queries, keys), np.bool_), first)
    if g.chance(0.5):
      return g.const(mask.reshape(1, 1, queries, keys))
    return g.const(mask)
  if form == "trilu" and g.opset >= 14:
    ones = g.op("ConstantOfShape", g.ints(queries, keys),
                value=ONE)
    return g.op("Cast", g.op("Trilu", ones, np.int64(first), upper=0), to=9)
  q = g.unsqueeze(positions(g, queries, first), 1)
  k = g.unsqueeze(positions(g, keys), 0)
  if g.opset >= 16 and g.chance(0.5):
    seen = g.op("GreaterOrEqual", q, k)
  else:
    seen = g.op("Not", g.op("Less", q, k))
  if form == "window":
    near = g.op("Less", g.op("Sub", q, k), np.int64(g.rng.randint(1, keys)))
    seen = g.either("And", seen, near)
  return seen


def segments(g, batch, queries, keys):
  """Tokens see those of their own segment (packed sequences)."""
  ids = np.sort(g.numbers.integers(0, 3, (batch, keys)), axis=1)
  x = g.input(ids.astype(np.int64), ("batch", "keys"), prefix="segment")
  q = g.unsqueeze(x, 1, 3)
  if queries != keys:
    q = g.op("Slice", q, g.ints(keys - queries), g.ints(keys), g.ints(2))
  return g.op("Equal", q, g.unsqueeze(x, 1, 2))


def added(g, seen, hidden):
  """The mask as numbers that are added: 0 where seen, else `hidden`."""
  hidden = np.float32(hidden)
  forms = ["where", "where", "where_not"]
  if np.isfinite(hidden):
    forms += ["scaled", "scaled_not"]
  form = g.rng.choice(forms)
  if form == "where":
    return g.op("Where", seen, np.float32(0), hidden)
  if form == "where_not":
    return g.op("Where", g.op("Not", seen), hidden, np.float32(0))
  if form == "scaled":
    gone = g.op("Sub", np.float32(1), g.op("Cast", seen, to=1))
  else:
    gone = g.op("Cast", g.op("Not", seen), to=1)
  return g.either("Mul", gone, g.const(hidden))


def replaced(g, scores, seen, hidden):
  hidden = np.float32(hidden)
  if g.chance(0.6):
    return g.op("Where", seen, scores, hidden)
  return g.op("Where", g.op("Not", seen), hidden, scores)


class Masking:
  """The masks of one attention and how they are put on the scores."""

  def __init__(self, g, batch, queries, keys):
    self.parts = []
    if g.chance(0.6):
      self.parts.append(padding(g, batch, keys))
    if g.chance(0.6):
      self.parts.append(triangle(g, queries, keys))
    if g.chance(0.1):
      self.parts.append(segments(g, batch, queries, keys))
    g.rng.shuffle(self.parts)
    seen = np.ones((batch, 1, queries, keys), np.bool_)
    for part in self.parts:
      seen = seen & part.data
    self.rows_hidden = bool((~seen.any(axis=-1)).any())
    self.hidden = [g.rng.choice(HIDDEN) for _ in self.parts]
    if g.chance(0.7):
      self.hidden = self.hidden[:1] * len(self.parts)
    self.expand = g.chance(0.2)
    self.full = (batch, 1, queries, keys)

  def note(self, g, scores, by_adding):
    """Keeps to numbers under which single precision is exact enough."""
    if not self.rows_hidden:
      return
    large = np.max(np.abs(scores.data)) > 16
    least = 1e29 if by_adding and large else 9e8
    self.hidden = [h if abs(h) > least else LOWEST for h in self.hidden]
    g.hides_rows = True

  def put_on(self, g, scores):
    if not self.parts:
      return scores
    g.masked = True
    form = g.choose("add", "add", "where", "where", "joined", "joined_add",
                    "mixed", "sum_first")
    self.note(g, scores, form not in ("where", "joined"))
    parts, hidden = self.parts, self.hidden
    if form in ("joined", "joined_add"):
      seen = parts[0]
      for part in parts[1:]:
        seen = g.either("And", seen, part)
      parts, hidden = [seen], hidden[:1]
    if self.expand:
      parts = [g.op("Expand", part, g.ints(*self.full)) for part in parts]
    if form == "sum_first":
      masks = [added(g, p, h) for p, h in zip(parts, hidden)]
      total = masks[0]
      for mask in masks[1:]:
        total = g.op(g.choose("Add", "Min", "Add"), total, mask)
      return g.either("Add", scores, total)
    for part, number in zip(parts, hidden):
      by_where = form in ("where", "joined") or (form == "mixed" and
                                                 g.chance(0.5))
      scores = (replaced(g, scores, part, number) if by_where
                else g.either("Add", scores, added(g, part, number)))
    return scores
