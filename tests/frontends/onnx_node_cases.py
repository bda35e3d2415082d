"""Runs ONNX's own node tests, which define what each op means, on asyra-run.

By hand: onnx_node_cases.py TOOLS_DIR [--filter TEXT] [--verbose]. Needs the
Python package onnx (1.23 or so), prints SKIP without it. Each case is a model
of one op with inputs and outputs by ONNX's reference implementation.

What becomes of a case:
  passed     the outputs agree
  constant   they do once integers, booleans and single numbers are constants,
             without which shapes or control flow would depend on data
  unknown    an op that the importer does not have
  refused    an element type or a form of the op that it says it does not have
  differs    other values than recorded: an error of ours
  error      any other failure
Exit code 1 when a case differs or crashes.
"""

import argparse
import collections
import os
import re
import sys
import tempfile
import warnings
from concurrent import futures

try:
  import numpy as np
  import onnx
  from onnx import numpy_helper
  from onnx.backend.test.case.node import collect_testcases
  from onnx_case import run, write
except ImportError as error:
  print(f"SKIP: {error}")
  sys.exit(0)

OLDEST, NEWEST = 13, 26
REFUSALS = re.compile(
    r"not supported|is not a tensor|training mode|opset \d+ is not between|"
    r"the IR has no|should be constant|known scalars?")
DATA_DEPENDENT = re.compile(
    r"depends on the model's data|is not constant|known scalar|must be known")


def at_supported_opset(model):
  """The model under an opset that the importer has, if that means the same."""
  model = onnx.ModelProto.FromString(model.SerializeToString())
  for opset in model.opset_import:
    if opset.domain not in ("", "ai.onnx"):
      continue
    wanted = min(max(opset.version, OLDEST), NEWEST)
    for node in model.graph.node:
      if node.domain in ("", "ai.onnx") and wanted < opset.version:
        try:
          onnx.defs.get_schema(node.op_type, wanted, "")
        except onnx.defs.SchemaError:
          return None  # the op is newer
    opset.version = wanted
  return model


def with_constants(model, inputs):
  """Integers, booleans and single numbers as initializers; what is left."""
  model = onnx.ModelProto.FromString(model.SerializeToString())
  left = []
  for info, value in zip(list(model.graph.input), inputs):
    if isinstance(value, np.ndarray) and (
        value.dtype.kind in "iub" or value.size == 1):
      model.graph.initializer.append(
          numpy_helper.from_array(value, info.name))
      model.graph.input.remove(info)
    else:
      left.append(value)
  return model, left


def tolerance(case, outputs):
  """ONNX's own, unless the element type holds less."""
  kinds = {str(np.asarray(output).dtype) for output in outputs}
  return 2e-2 if "bfloat16" in kinds else max(
      case.rtol, 5e-3 if "float16" in kinds else 1e-3)


def unknown_ops(text):
  return re.findall(r"([\w.:]+) \((?:opset|not imported)", text)


def verdict(tool, case):
  model = at_supported_opset(case.model)
  if model is None:
    return "unknown", "newer than the newest opset"
  inputs, outputs = case.data_sets[0]
  with tempfile.TemporaryDirectory() as folder:
    try:
      write(folder, model, inputs, outputs)
    except Exception as error:  # sequences, strings, optionals
      return "refused", f"no tensors: {type(error).__name__}"
    passed, text = run(tool, folder, tolerance(case, outputs))
    if passed:
      return "passed", ""
    if DATA_DEPENDENT.search(text):
      model, inputs = with_constants(model, inputs)
      write(folder, model, inputs, outputs)
      passed, text = run(tool, folder, tolerance(case, outputs))
      if passed:
        return "constant", ""
  text = text.replace(folder, "")
  if text.startswith("CRASH"):
    return "differs", text
  if "ops that are not supported" in text:
    return "unknown", text
  if "are beyond rtol" in text or "recorded is" in text:
    return "differs", text
  if REFUSALS.search(text) or DATA_DEPENDENT.search(text):
    return "refused", text
  return "error", text


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("tools_dir")
  parser.add_argument("--filter", default="", help="a part of the case's name")
  parser.add_argument("--verbose", action="store_true",
                      help="also says why cases are refused")
  args = parser.parse_args()
  tool = os.path.join(args.tools_dir, "asyra-run")
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    cases = collect_testcases(None)
  cases = [case for case in cases if args.filter in case.name and
           all(op.domain in ("", "ai.onnx") for op in case.model.graph.node)]
  counts = collections.Counter()
  missing = collections.Counter()
  with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for case, (kind, text) in zip(
        cases, pool.map(lambda case: verdict(tool, case), cases)):
      counts[kind] += 1
      if kind == "unknown":
        missing.update(set(unknown_ops(text)))
      if kind in ("differs", "error") or (args.verbose and text):
        print(f"{kind:8} {case.name}: {text}")
  print("ops that are missing, by cases:",
        ", ".join(f"{op} {count}" for op, count in missing.most_common()))
  print(f"{len(cases)} cases:",
        ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
  sys.exit(1 if counts["differs"] else 0)


if __name__ == "__main__":
  main()
