"""ONNX models of situations, and their right values by JAX in float64."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)

BATCH, SEQ, WIDTH, VOCAB, HEADS = 4, 8, 16, 64, 2
CHECK = "asyra-train model.onnx --check . --rtol 1e-3"


class CaseModel:
  """An ONNX graph of tokens and labels in the making.

  Methods that add a node give the name of its first output. Numbers that are no
  parameters come from Constant nodes; `stored` tensors are no parameters
  either, but are initializers with a name.
  """

  def __init__(self, seed):
    self.random = np.random.default_rng(seed)
    self.nodes, self.initializers = [], []
    self.values = {}  # of all float initializers
    self.params = []  # names, without second copies
    self.labels_shape = (BATCH, SEQ)

  def normal(self, *shape, scale=1.0, mean=0.0):
    return mean + scale * self.random.standard_normal(shape)

  def store(self, name, values, dtype=np.float32):
    values = np.asarray(values, dtype)
    self.initializers.append(numpy_helper.from_array(values, name))
    self.values[name] = values.astype(np.float64)
    return name

  def param(self, name, values, dtype=np.float32):
    self.params.append(name)
    return self.store(name, values, dtype)

  def node(self, name, values, param=True):
    """A tensor that a Constant node stores; `param`: it is trained."""
    values = np.asarray(values, np.float32)
    self.nodes.append(helper.make_node(
        "Constant", [], [name], value=numpy_helper.from_array(values, name)))
    self.values[name] = values.astype(np.float64)
    if param:
      self.params.append(name)
    return name

  def op(self, kind, *inputs, outputs=1, **attrs):
    names = [f"v{len(self.nodes)}" + (f"_{i}" if i else "")
             for i in range(outputs)]
    self.nodes.append(helper.make_node(kind, inputs, names, **attrs))
    return names[0] if outputs == 1 else names

  def ints(self, *values, shape=None):
    values = np.array(values, np.int64)
    values = values if shape is None else values.reshape(shape)
    name = f"c{len(self.initializers)}"
    self.initializers.append(numpy_helper.from_array(values, name))
    return name

  def number(self, value):
    return self.op("Constant", value=numpy_helper.from_array(
        np.array(value, np.float32), "value"))

  def linear(self, name, x, width, out, bias=True):
    weight = self.param(f"{name}.weight",
                        self.normal(width, out, scale=width ** -0.5))
    y = self.op("MatMul", x, weight)
    if not bias:
      return y
    return self.op("Add", y, self.param(f"{name}.bias",
                                        self.normal(out, scale=0.1)))

  def tokens(self):
    """Embedded tokens behind a layer, [batch, seq, WIDTH]."""
    table = self.param("embed.weight", self.normal(VOCAB, WIDTH))
    x = self.op("Gather", table, "input_ids")
    return self.op("Tanh", self.linear("pre", x, WIDTH, WIDTH))

  def loss(self, logits, classes=VOCAB):
    logits = self.op("Reshape", logits, self.ints(-1, classes))
    labels = self.op("Reshape", "labels", self.ints(-1))
    return self.op("SoftmaxCrossEntropyLoss", logits, labels)

  def heads(self, x):
    """[batch, seq, WIDTH] as [batch, HEADS, seq, WIDTH / HEADS]."""
    x = self.op("Reshape", x, self.ints(0, 0, HEADS, WIDTH // HEADS))
    return self.op("Transpose", x, perm=[0, 2, 1, 3])

  def attend(self, scores, v):
    y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
    y = self.op("Transpose", y, perm=[0, 2, 1, 3])
    return self.op("Reshape", y, self.ints(0, 0, WIDTH))

  def scores(self, q, k):
    return self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))


# The same by JAX.


def linear(p, name, x):
  y = x @ p[f"{name}.weight"]
  return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def tokens(p, d):
  return jnp.tanh(linear(p, "pre", p["embed.weight"][d["input_ids"]]))


def loss(logits, d, classes=VOCAB):
  logs = jax.nn.log_softmax(logits.reshape(-1, classes))
  labels = d["labels"].reshape(-1)
  return -logs[jnp.arange(labels.size), labels].mean()


def heads(x):
  return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


def attend(scores, v):
  y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3)
  return y.reshape(*y.shape[:2], WIDTH)


def scores(q, k):
  return q @ k.transpose(0, 1, 3, 2)


def write_tensor(path, name, values):
  with open(path, "wb") as file:
    file.write(numpy_helper.from_array(values, name).SerializeToString())


def write(folder, what, model, output, value, opset=18, classes=VOCAB,
          more=(), flags=""):
  """Writes a situation, with `more` flags and runs; raises where ONNX Runtime
  gives another loss."""
  int64 = onnx.TensorProto.INT64
  shape = ["batch", "seq"][:len(model.labels_shape)]
  graph = helper.make_graph(
      model.nodes, "g",
      [helper.make_tensor_value_info("input_ids", int64, ["batch", "seq"]),
       helper.make_tensor_value_info("labels", int64, shape)],
      [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, [])],
      model.initializers)
  proto = helper.make_model(graph, producer_name="case", ir_version=10,
                            opset_imports=[helper.make_opsetid("", opset)])
  onnx.checker.check_model(proto)
  data = {"input_ids": model.random.integers(0, VOCAB, (BATCH, SEQ)),
          "labels": model.random.integers(0, classes, model.labels_shape)}
  session = onnxruntime.InferenceSession(proto.SerializeToString())
  runs = session.run(None, data)[0]
  trained = {name: model.values[name] for name in model.params}
  fixed = {name: values for name, values in model.values.items()
           if name not in trained}
  right, gradients = jax.value_and_grad(
      lambda p: value({**fixed, **p}, data))(trained)
  if abs(runs - right) > 1e-5 * abs(right):
    raise ValueError(f"{folder}: the loss is {right}, ONNX Runtime's {runs}")
  for name, gradient in gradients.items():
    if not np.abs(gradient).max() > 0:
      raise ValueError(f"{folder}: {name} has no gradient")
  sets = os.path.join(folder, "test_data_set_0")
  os.makedirs(sets, exist_ok=True)
  onnx.save(proto, os.path.join(folder, "model.onnx"))
  for i, (name, values) in enumerate(data.items()):
    write_tensor(f"{sets}/input_{i}.pb", name, values)
  write_tensor(f"{sets}/output_0.pb", output, np.float32(right))
  save_file({name: np.array(gradient, np.float32)
             for name, gradient in gradients.items()},
            os.path.join(folder, "gradients.safetensors"))
  case = {"what": what,
          "runs": [{"command": CHECK + flags, "says": ["ok: within"]}, *more]}
  with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as file:
    file.write(json.dumps(case, indent=2) + "\n")
