"""A model with its inputs and outputs in a folder, in ONNX's test layout.

`case.json` beside them has what the runs need: sizes of symbolic dimensions,
tolerances, and shapes of inputs, which show whether a refusal is true.
"""

import json
import os

import numpy as np
import onnx
from onnx import numpy_helper


def rows_of(data):
  return data.reshape(-1, data.shape[-1])


def is_padded_right(data):
  """Each row is ones, then zeros."""
  if data.ndim < 2 or not np.isin(data, (0, 1)).all():
    return False
  rows = rows_of(data).astype(np.int64)
  return bool((np.diff(rows, axis=1) <= 0).all())


def has_row_of_zeros(data):
  return data.ndim >= 2 and not rows_of(data).any(axis=1).all()


def describe(g, model, rtol, atol):
  """What case.json has of a graph that was generated."""
  taken = {name for node in model.graph.node for name in node.input}
  inputs = [(v.name, v.data) for v, _ in g.inputs if v.name in taken]
  return {
      "dims": g.dims,
      "rtol": rtol,
      "atol": atol,
      "inputs": [list(data.shape) for _, data in inputs],
      "not_padded_right": [name for name, data in inputs
                           if not is_padded_right(data)],
      "rows_of_zeros": [name for name, data in inputs
                        if has_row_of_zeros(data)],
      "ops": sorted({node.op_type for node in model.graph.node}),
  }


def write(folder, model, feeds, outputs, case):
  data = os.path.join(folder, "test_data_set_0")
  os.makedirs(data, exist_ok=True)
  for name in os.listdir(data):
    os.remove(os.path.join(data, name))
  onnx.save(model, os.path.join(folder, "model.onnx"))
  arrays = [("input", [(x.name, feeds[x.name]) for x in model.graph.input]),
            ("output", [(x.name, y) for x, y in
                        zip(model.graph.output, outputs)])]
  for kind, tensors in arrays:
    for i, (name, array) in enumerate(tensors):
      tensor = numpy_helper.from_array(np.asarray(array), name)
      with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
        file.write(tensor.SerializeToString())
  with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as file:
    json.dump(case, file, indent=1)
    file.write("\n")
