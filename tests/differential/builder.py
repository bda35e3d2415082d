"""Builds an ONNX graph node by node and computes every value on the way.

Shapes, element types and magnitudes of values are known while a graph is
built, so a generator can choose what is valid for them.
"""

import random

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

IR_VERSION = 10  # the newest that onnxruntime of any opset up to 23 reads


def element_type(array):
  return helper.np_dtype_to_tensor_dtype(array.dtype)


def onnxruntime_session(model):
  """A session on one thread that runs the nodes as they are."""
  options = onnxruntime.SessionOptions()
  options.graph_optimization_level = (
      onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
  options.intra_op_num_threads = 1
  options.inter_op_num_threads = 1
  options.log_severity_level = 4
  return onnxruntime.InferenceSession(
      model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Value:
  """A tensor of the graph: its name and what it is for the inputs drawn."""

  def __init__(self, name, data):
    self.name = name
    self.data = data

  @property
  def shape(self):
    return self.data.shape

  @property
  def rank(self):
    return self.data.ndim

  @property
  def is_float(self):
    return self.data.dtype == np.float32

  @property
  def is_bool(self):
    return self.data.dtype == np.bool_


class GraphBuilder:
  """A graph that grows; `rng` draws its structure, `numbers` its data."""

  def __init__(self, seed, opset):
    self.rng = random.Random(seed)
    self.numbers = np.random.default_rng(seed)
    self.opset = opset
    self.symbolic = False  # whether inputs name their dimensions
    self.nodes = []
    self.initializers = []
    self.inputs = []  # (Value, dims)
    self.outputs = []
    self.values = []  # results of nodes and inputs, in order
    self.dims = {}  # sizes of the symbolic dimensions that are used
    self.masked = False  # some keys of attention are hidden
    self.hides_rows = False  # a row of attention may see no key
    self.count = 0

  def chance(self, probability):
    return self.rng.random() < probability

  def choose(self, *options):
    return self.rng.choice(options)

  def new_name(self, prefix):
    self.count += 1
    return f"{prefix}{self.count}"

  def input(self, data, dims=None, prefix="x"):
    """`dims` names those dimensions that may be symbolic, None others."""
    value = Value(self.new_name(prefix), np.asarray(data))
    shape = list(value.shape)
    if self.symbolic and dims is not None:
      for d, name in enumerate(dims):
        if name is None:
          continue
        while self.dims.setdefault(name, value.shape[d]) != value.shape[d]:
          name += "_"
        shape[d] = name
    self.inputs.append((value, shape))
    self.values.append(value)
    return value

  def const(self, array):
    """An initializer, or a Constant node."""
    array = np.asarray(array)
    if array.dtype == np.float64:
      array = array.astype(np.float32)
    value = Value(self.new_name("c"), array)
    tensor = numpy_helper.from_array(array, value.name)
    if array.size <= 16 and self.chance(0.3):
      self.nodes.append(
          helper.make_node("Constant", [], [value.name], value=tensor))
    else:
      self.initializers.append(tensor)
    return value

  def ints(self, *values):
    return self.const(np.array(values, np.int64))

  def weight(self, *shape, scale=None):
    """Multiples of 1/64 times a power of 2: few bits, kept well packed."""
    if scale is None:
      fan = shape[0] if len(shape) > 1 else 1
      scale = 2.0 ** -round(np.log2(max(fan, 1)) / 2)
    draws = self.numbers.integers(-64, 65, shape) / 64
    return self.const((draws * scale).astype(np.float32))

  def floats(self, *shape, scale=1.0):
    draws = self.numbers.standard_normal(shape) * 256
    return (np.round(draws) / 256 * scale).astype(np.float32)

  def op(self, kind, *inputs, outputs=1, domain="", **attrs):
    """Adds a node; numbers and arrays among `inputs` become constants."""
    values = [None if x is None else x if isinstance(x, Value)
              else self.const(np.asarray(x)) for x in inputs]
    results = [self.new_name("v") for _ in range(outputs)]
    node = helper.make_node(kind, [x.name if x else "" for x in values],
                            results, domain=domain, **attrs)
    feeds = {x.name: x for x in values if x is not None}
    arrays = self.evaluate(node, feeds)
    self.nodes.append(node)
    made = [Value(name, array) for name, array in zip(results, arrays)]
    self.values.extend(made)
    return made[0] if outputs == 1 else made

  def evaluate(self, node, feeds):
    """What the node gives; raises where it is not valid."""
    graph = helper.make_graph(
        [node], "node",
        [helper.make_tensor_value_info(name, element_type(v.data), v.shape)
         for name, v in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output])
    session = onnxruntime_session(self.wrap(graph))
    return session.run(None, {k: v.data for k, v in feeds.items()})

  def wrap(self, graph):
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[
        helper.make_opsetid("", self.opset)])

  def output(self, value):
    if all(value.name != other.name for other in self.outputs):
      self.outputs.append(value)

  def model(self):
    infos = [helper.make_tensor_value_info(v.name, element_type(v.data), shape)
             for v, shape in self.inputs]
    outputs = [helper.make_tensor_value_info(
        v.name, element_type(v.data), None if self.symbolic else v.shape)
               for v in self.outputs]
    return self.wrap(helper.make_graph(self.nodes, "random", infos, outputs,
                                       self.initializers))

  # Forms that several generators need.

  def reduce(self, kind, x, axes, keepdims=1):
    """Axes as an attribute or as an input, as the opset has it."""
    by_input = self.opset >= 18 or kind == "ReduceSum"
    if by_input:
      return self.op(kind, x, self.ints(*axes), keepdims=keepdims)
    return self.op(kind, x, axes=list(axes), keepdims=keepdims)

  def either(self, kind, a, b):
    """A commutative op with its operands in either order."""
    return self.op(kind, a, b) if self.chance(0.5) else self.op(kind, b, a)

  def reshape(self, x, shape):
    """To a known shape, spelled in one of the ways exporters have."""
    shape = list(shape)
    form = self.choose("plain", "plain", "minus_one", "computed")
    if form == "minus_one" and np.prod(shape) > 0:
      shape[self.rng.randrange(len(shape))] = -1
    if form == "computed" and x.rank and shape and x.shape[0] == shape[0]:
      first = self.op("Gather", self.op("Shape", x), self.ints(0))
      return self.op("Reshape", x, self.op(
          "Concat", first, self.ints(*shape[1:]), axis=0))
    return self.op("Reshape", x, self.ints(*shape))

  def transpose(self, x, *perm):
    return self.op("Transpose", x, perm=list(perm))

  def unsqueeze(self, x, *axes):
    return self.op("Unsqueeze", x, self.ints(*axes))

  def tame(self, x):
    """x, or something of its shape whose magnitude is ordinary."""
    if not x.is_float or x.data.size == 0:
      return x
    with np.errstate(all="ignore"):
      largest = np.max(np.abs(x.data))
    if np.isfinite(largest) and largest > 30:
      if self.chance(0.5):
        return self.op("Tanh", self.op("Mul", x, np.float32(1 / largest)))
      return self.op("Mul", x, np.float32(2.0 ** -np.ceil(np.log2(largest))))
    return x
