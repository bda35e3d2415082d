"""A model and its recorded inputs and outputs, given to asyra-run."""

import os
import subprocess

import numpy as np
import onnx
from onnx import numpy_helper


def write(folder, model, inputs, outputs):
  data = os.path.join(folder, "test_data_set_0")
  os.makedirs(data, exist_ok=True)
  for file in os.listdir(data):
    os.remove(os.path.join(data, file))
  onnx.save(model, os.path.join(folder, "model.onnx"))
  for kind, values, infos in (("input", inputs, model.graph.input),
                              ("output", outputs, model.graph.output)):
    for i, (value, info) in enumerate(zip(values, infos)):
      tensor = numpy_helper.from_array(np.asarray(value), info.name)
      with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
        file.write(tensor.SerializeToString())


def run(tool, folder, rtol):
  """Whether a written case passes, and what asyra-run says."""
  result = subprocess.run(
      [tool, os.path.join(folder, "model.onnx"), "--check",
       os.path.join(folder, "test_data_set_0"), "--rtol", str(rtol), "--atol",
       "1e-5"], capture_output=True, text=True, timeout=300)
  if result.returncode < 0 or result.returncode > 1:
    return False, f"CRASH {result.returncode}: {result.stderr.strip()}"
  return result.returncode == 0, result.stderr.strip()
