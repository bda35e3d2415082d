"""Attention: decomposed, with near misses, and opset 23's op."""

import numpy as np

import masks
import norms
import rotary


def project(g, x, width, bias=None):
  w = g.weight(x.shape[-1], width)
  if x.rank == 3 and g.chance(0.1):
    flat = g.reshape(x, (-1, x.shape[-1]))
    y = g.op("Gemm", flat, w, g.weight(width, scale=0.5))
    return g.reshape(y, (*x.shape[:-1], width))
  y = g.op("MatMul", x, w)
  if bias if bias is not None else g.chance(0.5):
    y = g.either("Add", y, g.weight(width, scale=0.5))
  return y


def split_heads(g, x, heads):
  """[batch, tokens, heads * width] to [batch, heads, tokens, width]."""
  batch, tokens, width = x.shape
  x = g.reshape(x, (batch, tokens, heads, width // heads))
  return g.transpose(x, 0, 2, 1, 3)


def joint_projection(g, x, heads, kv_heads, width):
  sizes = [heads * width, kv_heads * width, kv_heads * width]
  y = project(g, x, sum(sizes))
  return g.op("Split", y, g.ints(*sizes), outputs=3, axis=2)


def repeat_heads(g, x, times):
  """Each head `times` times, one after the other."""
  if times == 1:
    return x
  batch, heads, tokens, width = x.shape
  y = g.unsqueeze(x, 2)
  if g.chance(0.7):
    y = g.op("Expand", y, g.ints(batch, heads, times, tokens, width))
  else:
    y = g.op("Concat", *[y] * times, axis=2)
  return g.reshape(y, (batch, heads * times, tokens, width))


def matmul_of(g, q, k):
  """The scores, scaled on one of the sides or afterwards."""
  scale = np.float32(1 / np.sqrt(q.shape[-1]))
  form = g.choose("after", "after", "after_div", "q", "both", "none")
  if form == "q":
    q = g.op("Mul", q, scale)
  if form == "both":
    root = np.float32(np.sqrt(scale))
    q, k = g.op("Mul", q, root), g.op("Mul", k, root)
  if g.chance(0.1):
    scores = g.op("Einsum", q, k, equation="bhsd,bhtd->bhst")
  else:
    scores = g.op("MatMul", q, g.transpose(k, 0, 1, 3, 2))
  if form == "after":
    return g.op("Mul", scores, scale)
  if form == "after_div":
    return g.op("Div", scores, np.float32(1 / scale))
  return scores


def bias_of(g, scores):
  """What is added to scores but hides nothing: ALiBi, relative positions."""
  _, heads, queries, keys = scores.shape
  form = g.choose("slopes", "table", "input")
  if form == "slopes":
    slopes = (2.0 ** -np.arange(1, heads + 1)).reshape(1, heads, 1, 1)
    at = np.arange(keys, dtype=np.float32).reshape(1, 1, 1, keys)
    return g.op("Mul", g.const(slopes.astype(np.float32)), g.const(at))
  if form == "table":
    return g.weight(1, heads, queries, keys, scale=1)
  return g.input(g.floats(queries, keys), prefix="bias")


def shares(g, scores):
  """Softmax with what exporters put around it, or something like it."""
  near = g.rng.random()
  if near < 0.03 and scores.shape[-2] > 1:  # a near miss: along the queries
    return g.op("Softmax", scores, axis=2)
  if near < 0.06:
    e = g.op("Exp", g.op("Sub", scores, g.reduce("ReduceMax", scores, [-1])))
    p = g.op("Div", e, g.reduce("ReduceSum", e, [-1]))
  else:
    p = g.op("Softmax", scores, axis=g.choose(-1, 3))
  if np.isnan(p.data).any() or g.chance(0.1):
    p = g.op("Where", g.op("IsNaN", p), np.float32(0), p)
  if g.chance(0.1):
    p = g.op("Dropout", p)
  if near > 0.97:  # a near miss: the shares do not sum to one
    p = g.op("Mul", p, g.weight(*p.shape[-2:], scale=1))
  return p


def decomposed(g, q, k, v):
  scores = matmul_of(g, q, k)
  if g.chance(0.07):  # some scores are large
    scores = g.op("Mul", scores, np.float32(64))
  if g.chance(0.05):
    cap = np.float32(20)
    scores = g.op("Mul", g.op("Tanh", g.op("Div", scores, cap)), cap)
  if g.chance(0.15):
    scores = g.either("Add", scores, bias_of(g, scores))
  batch, _, queries, keys = scores.shape
  masking = masks.Masking(g, batch, queries, keys)
  scores = masking.put_on(g, scores)
  p = shares(g, scores)
  if g.chance(0.05):
    g.output(p)
  return g.op("MatMul", p, v)


def fused(g, q, k, v):
  """ONNX's own op, with heads as a dimension or within the last one."""
  batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
  g.masked = True
  attrs = {}
  mask = None
  if g.chance(0.4):
    seen = masks.padding_lengths(g, batch, keys).astype(np.bool_)
    seen[:, 0] = True  # what a row without keys gives, ONNX does not say
    seen = np.broadcast_to(seen[:, None, None, :], (batch, 1, queries, keys))
    mask = (seen if g.chance(0.5) else
            np.where(seen, 0, -1e9).astype(np.float32))
    mask = g.input(mask, prefix="mask") if g.chance(0.5) else g.const(mask)
  if queries == keys and g.chance(0.4):
    attrs["is_causal"] = 1
  if g.chance(0.3):
    attrs["scale"] = 0.3
  if g.chance(0.2):
    attrs["softcap"] = 5.0
  if g.chance(0.6):
    return g.op("Attention", q, k, v, mask, **attrs)
  flat = [g.reshape(g.transpose(x, 0, 2, 1, 3),
                    (batch, x.shape[2], x.shape[1] * x.shape[3]))
          for x in (q, k, v)]
  y = g.op("Attention", *flat, mask, q_num_heads=q.shape[1],
           kv_num_heads=k.shape[1], **attrs)
  return split_heads(g, y, q.shape[1])


def with_past(g, k, v):
  """Keys and values of earlier tokens, given as inputs."""
  batch, heads, _, width = k.shape
  past = g.rng.randint(1, 4)
  dims = ("batch", None, "past", None)
  kept = []
  for x in (k, v):
    old = g.input(g.floats(batch, heads, past, width), dims, prefix="past")
    kept.append(g.op("Concat", old, x, axis=2))
    if g.chance(0.5):
      g.output(kept[-1])
  return kept


def attention(g, x, sizes, context=None):
  """Of x [batch, tokens, width] to itself or to `context`."""
  heads, width = sizes["heads"], sizes["head"]
  kv_heads = g.choose(*[n for n in (1, 2, heads, heads) if heads % n == 0])
  source = context or x
  if context is None and g.chance(0.3):
    q, k, v = joint_projection(g, x, heads, kv_heads, width)
  else:
    bias = g.chance(0.5)
    q = project(g, x, heads * width, bias)
    k, v = (project(g, source, kv_heads * width, bias) for _ in range(2))
  q = split_heads(g, q, heads)
  k, v = (split_heads(g, y, kv_heads) for y in (k, v))
  if g.chance(0.15):
    q, k = norms.rms_norm(g, q), norms.rms_norm(g, k)
  if context is None and width % 2 == 0 and g.chance(0.4):
    q, k = rotary.rotary(g, q, k, x.shape[1])
  if context is None and g.chance(0.12):
    k, v = with_past(g, k, v)
  if g.opset >= 23 and g.chance(0.6):
    y = fused(g, q, k, v)
  else:
    k, v = (repeat_heads(g, y, heads // kv_heads) for y in (k, v))
    y = decomposed(g, q, k, v)
  batch, _, tokens, _ = y.shape
  y = g.reshape(g.transpose(y, 0, 2, 1, 3), (batch, tokens, heads * width))
  return project(g, y, x.shape[-1])
