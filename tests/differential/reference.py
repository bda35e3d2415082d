"""What a graph gives by ONNX Runtime, and whether that can be compared with.

A graph is unfit where single precision itself is not exact enough: where
ONNX's reference implementation in double precision, or in it with its data
moved by a millionth, is off by a quarter of the tolerance; or where a
comparison is of two fractions that rounding alone tells apart.
"""

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from builder import onnxruntime_session

RTOL, ATOL = 1e-3, 1e-4
MARGIN = 0.25


class Unfit(Exception):
  """The graph says nothing about an implementation."""


def feeds_of(g):
  return {value.name: value.data for value, _ in g.inputs}


def run(model, feeds):
  """Outputs by ONNX Runtime, without optimizations."""
  session = onnxruntime_session(model)
  names = {x.name for x in session.get_inputs()}
  return session.run(None, {k: v for k, v in feeds.items() if k in names})


def in_double(model):
  model = onnx.ModelProto.FromString(model.SerializeToString())
  single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE

  def widen(tensor):
    if tensor.data_type == single:
      data = numpy_helper.to_array(tensor).astype(np.float64)
      tensor.CopyFrom(numpy_helper.from_array(data, tensor.name))

  for tensor in model.graph.initializer:
    widen(tensor)
  for info in [*model.graph.input, *model.graph.output]:
    if info.type.tensor_type.elem_type == single:
      info.type.tensor_type.elem_type = double
  for node in model.graph.node:
    for attribute in node.attribute:
      if attribute.HasField("t"):
        widen(attribute.t)
      if node.op_type == "Cast" and attribute.i == single:
        attribute.i = double
  return model


def moved(array, numbers):
  """Floats moved by up to a millionth; whole numbers stay."""
  if array.dtype.kind != "f" or not array.ndim:
    return array
  step = 1 + 1e-6 * numbers.uniform(-1, 1, array.shape)
  return np.where(array == np.round(array), array, array * step)


def moved_model(model, numbers):
  model = onnx.ModelProto.FromString(model.SerializeToString())
  for tensor in model.graph.initializer:
    data = numpy_helper.to_array(tensor)
    if data.ndim >= 2:
      tensor.CopyFrom(
          numpy_helper.from_array(moved(data, numbers), tensor.name))
  return model


def agree(actual, expected, share=1.0):
  """Whether arrays agree within a share of the tolerance."""
  if actual.shape != expected.shape:
    return False
  if expected.dtype.kind != "f":
    return bool(np.array_equal(actual, expected))
  with np.errstate(all="ignore"):
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    near = np.abs(actual - expected) <= share * (ATOL + RTOL *
                                                 np.abs(expected))
  return bool(np.all(same | near))


def evaluate(model, feeds):
  with np.errstate(all="ignore"):
    results = ReferenceEvaluator(model).run(None, feeds)
  return [np.asarray(result) for result in results]


COMPARISONS = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}


def has_ties(model, feeds):
  """Whether some comparison is of fractions nearer than a millionth."""
  pairs = [node.input for node in model.graph.node
           if node.op_type in COMPARISONS]
  model = onnx.ModelProto.FromString(model.SerializeToString())
  del model.graph.output[:]
  for name in sorted({name for pair in pairs for name in pair}):
    model.graph.output.append(onnx.ValueInfoProto(name=name))
  if not pairs:
    return False
  values = dict(zip([x.name for x in model.graph.output], run(model, feeds)))
  for a, b in ((values[a], values[b]) for a, b in pairs):
    if a.dtype.kind != "f":
      continue
    with np.errstate(all="ignore"):
      near = np.abs(a - b) <= 1e-6 * np.maximum(np.abs(a), np.abs(b))
      if np.any(near & (a != np.round(a)) & (b != np.round(b))):
        return True
  return False


def require(actual, expected, why):
  for a, b in zip(actual, expected, strict=True):
    if not agree(np.asarray(a), b, MARGIN):
      raise Unfit(why)


def outputs_of(model, feeds, hides_rows):
  """The outputs to compare with; raises Unfit.

  In double precision a score is not lost beside -1e9, in a row that sees no
  key: with `hides_rows` the second opinion is in single precision too.
  """
  try:
    outputs = run(model, feeds)
  except Exception as error:
    raise Unfit(f"onnxruntime: {str(error)[:120]}") from error
  if sum(output.size for output in outputs) > 20000:
    raise Unfit("large outputs")
  try:
    if has_ties(model, feeds):
      raise Unfit("a comparison that rounding decides")
  except Unfit:
    raise
  except Exception as error:
    raise Unfit(f"comparisons: {str(error)[:120]}") from error
  numbers = np.random.default_rng(1)
  try:
    if hides_rows:
      require(evaluate(model, feeds), outputs, "reference in single precision")
      return outputs
    wide = in_double(model)
    feeds = {name: data.astype(np.float64) if data.dtype == np.float32
             else data for name, data in feeds.items()}
    require(evaluate(wide, feeds), outputs, "double precision")
    feeds = {name: moved(data, numbers) for name, data in feeds.items()}
    require(evaluate(moved_model(wide, numbers), feeds), outputs,
            "data moved by a millionth")
  except Unfit:
    raise
  except Exception as error:
    raise Unfit(f"onnx.reference: {type(error).__name__}: "
                f"{str(error)[:120]}") from error
  return outputs
