#!/usr/bin/env python3
"""Runs ONNX's own backend tests, which define what its ops mean, on asyra-run.

  tests/differential/onnx_backend.py build/release/tools --out docs/onnx-coverage.md

The suites are those of onnx.backend.test. A case counts twice: as it is, and in
the end, that is
  - under an opset that the importer has, where that means the same: lowered,
    or, outside the suite of single nodes, converted by onnx.version_converter;
  - with integers, booleans, single numbers and Resize's scales as initializers
    where asyra-run says that something must be known.
Exit code 1 where a case differs, crashes or gives an error that is no refusal.
Needs the Python package onnx (1.23 or so), prints SKIP without it.
"""

import argparse
import collections
import datetime
import os
import re
import subprocess
import sys
import tempfile
import warnings
from concurrent import futures

try:
  import numpy as np
  import onnx
  from onnx import numpy_helper, version_converter
  from onnx.backend.test.loader import load_model_tests
except ImportError as error:
  print(f"SKIP: {error}")
  sys.exit(0)

SUITES = ["node", "simple", "pytorch-converted", "pytorch-operator"]
OLDEST, NEWEST = 13, 26
CONVERTED = 18

# What asyra-run says where it refuses, and what that is; the first that fits.
REFUSALS = [
    ("an opset that is not supported", r"opset \d+ is not between"),
    ("an op that is not supported", r"ops that are not supported"),
    ("sequences and optionals", r"is not a tensor|sequence|optional"),
    ("must be known when compiling",
     r"depends on the model's data|is not constant|known scalars?|must be "
     r"known|should be constant|is not bound"),
    ("an element type", r"element type|the IR has no|\btype\b.*not supported|"
     r"not supported.*\btype\b|[Ee]lements of"),
    ("training mode", r"training mode"),
    ("shapes that the op no longer takes", r"does not broadcast"),
    ("a form of the op", r"not supported|is not read|must|should|cannot|"
     r"has no elements|is left out|inputs, \w+ takes"),
]
DATA_DEPENDENT = re.compile(REFUSALS[3][1])


def tensor_in(path):
  with open(path, "rb") as file:
    return numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))


def load(case):
  """The case's model and its first inputs and outputs."""
  if case.model is not None:
    inputs, outputs = case.data_sets[0]
    return case.model, list(inputs), list(outputs)
  model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
  data = os.path.join(case.model_dir, "test_data_set_0")
  arrays = {}
  for kind in ("input", "output"):
    count = sum(name.startswith(kind) for name in os.listdir(data))
    try:
      arrays[kind] = [tensor_in(os.path.join(data, f"{kind}_{i}.pb"))
                      for i in range(count)]
    except Exception:  # no tensors
      arrays[kind] = []
  return model, arrays["input"], arrays["output"]


def at_supported_opset(model, convert):
  """The model under an opset that the importer has, None where there is none."""
  versions = [opset.version for opset in model.opset_import
              if opset.domain in ("", "ai.onnx")]
  if all(OLDEST <= version <= NEWEST for version in versions):
    return model
  if convert:
    try:
      return version_converter.convert_version(model, CONVERTED)
    except Exception:  # the converter fails in any way
      pass
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
  """Integers, booleans, single numbers and Resize's scales as initializers;
  the inputs that are left."""
  model = onnx.ModelProto.FromString(model.SerializeToString())
  sizes = {name for node in model.graph.node if node.op_type == "Resize"
           for name in node.input[1:]}
  left = []
  for info, value in zip(list(model.graph.input), inputs):
    known = isinstance(value, (np.ndarray, np.generic)) and (
        value.dtype.kind in "iub" or value.size == 1 or info.name in sizes)
    if known:
      model.graph.initializer.append(
          numpy_helper.from_array(np.asarray(value), info.name))
      model.graph.input.remove(info)
    else:
      left.append(value)
  return model, left


def tolerance(case, outputs):
  """ONNX's own, unless the element type holds less."""
  kinds = {str(output.dtype) if isinstance(output, np.ndarray) else
           onnx.TensorProto.DataType.Name(output.data_type).lower()
           for output in outputs
           if isinstance(output, (np.ndarray, onnx.TensorProto))}
  return 2e-2 if "bfloat16" in kinds else max(
      case.rtol, 5e-3 if "float16" in kinds else 1e-3)


def is_tensor(value):
  return isinstance(value, (np.ndarray, np.generic, onnx.TensorProto))


def write(folder, model, inputs, outputs):
  """In ONNX's layout."""
  data = os.path.join(folder, "test_data_set_0")
  os.makedirs(data, exist_ok=True)
  onnx.save(model, os.path.join(folder, "model.onnx"))
  for kind, values, infos in (("input", inputs, model.graph.input),
                              ("output", outputs, model.graph.output)):
    for i, (value, info) in enumerate(zip(values, infos)):
      tensor = value
      if not isinstance(value, onnx.TensorProto):
        tensor = numpy_helper.from_array(np.asarray(value))
      tensor.name = info.name
      with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
        file.write(tensor.SerializeToString())


def run(tool, model, inputs, outputs, rtol):
  """passed, refused, differs or error; and what asyra-run says."""
  with tempfile.TemporaryDirectory() as folder:
    tensors = all(map(is_tensor, [*inputs, *outputs]))
    write(folder, model, inputs if tensors else [], outputs if tensors else [])
    check = ["--check", os.path.join(folder, "test_data_set_0"),
             "--rtol", str(rtol), "--atol", "1e-5"] if tensors else []
    result = subprocess.run(
        [tool, os.path.join(folder, "model.onnx"), *check],
        stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=300, check=False)
    text = result.stderr.strip().replace(folder, "")
  if result.returncode == 0:
    return ("passed", "") if tensors else ("refused", "sequence: not compared")
  if result.returncode != 1 or "\n" in text or not text:
    return "error", f"exit code {result.returncode}: {text}"
  if re.search("(is|are) beyond ", text) or "recorded is" in text:
    return "differs", text
  return ("refused" if reason_of(text) else "error"), text


def reason_of(text):
  return next((name for name, pattern in REFUSALS
               if re.search(pattern, text)), "")


def verdicts(tool, case):
  """What becomes of the case as it is, and in the end."""
  model, inputs, outputs = load(case)
  rtol = tolerance(case, outputs)
  try:
    first = run(tool, model, inputs, outputs, rtol)
  except Exception as error:  # values that cannot be written
    first = "refused", f"no element type: {type(error).__name__}"
  if first[0] == "passed" or first[1].startswith("no element type"):
    return first, first
  model = at_supported_opset(model, case.kind != "node")
  if model is None:
    return first, ("refused", "newer")
  last = run(tool, model, inputs, outputs, rtol)
  if last[0] == "refused" and DATA_DEPENDENT.search(last[1]):
    model, inputs = with_constants(model, inputs)
    last = run(tool, model, inputs, outputs, rtol)
  return first, last


class Suite:
  """What became of the cases of a suite."""

  def __init__(self, name):
    self.name = name
    self.counts = collections.Counter()
    self.first = collections.Counter()
    self.missing = collections.Counter()
    self.wrong = []

  def add(self, case, first, last):
    self.counts["cases"] += 1
    self.first[first[0]] += 1
    kind, text = last
    if text == "newer":
      kind = f"refused: an op newer than opset {NEWEST}"
    elif kind == "refused":
      reason = reason_of(text) or "an element type"
      kind = f"refused: {reason}"
      if reason == "an op that is not supported":
        self.missing.update(set(re.findall(
            r"([\w.:]+) \((?:opset|not imported)", text)))
    else:
      if kind != "passed":
        self.wrong.append(f"{case.name}: {text}")
    self.counts[kind] += 1


def run_suite(tool, name, part):
  suite = Suite(name)
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    cases = [case for case in load_model_tests(kind=name) if part in case.name]
  with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = pool.map(lambda case: verdicts(tool, case), cases)
    for case, (first, last) in zip(cases, results):
      suite.add(case, first, last)
      if last[0] in ("differs", "error"):
        print(f"{last[0]} {case.name}: {last[1]}", flush=True)
  return suite


def table(suites):
  """Markdown: a row per outcome, a column per suite."""
  names = sorted({key for suite in suites for key in suite.counts
                  if key.startswith("refused")})
  rows = [("cases", [s.counts["cases"] for s in suites]),
          ("passed as they are", [s.first["passed"] for s in suites]),
          ("**passed in the end**", [s.counts["passed"] for s in suites])]
  rows += [(name, [s.counts[name] for s in suites]) for name in names]
  rows += [(name, [s.counts[name] for s in suites])
           for name in ("differs", "error")]
  lines = ["| | " + " | ".join(s.name for s in suites) + " |",
           "|---|" + "---|" * len(suites)]
  lines += [f"| {name} | " + " | ".join(map(str, counts)) + " |"
            for name, counts in rows]
  return "\n".join(lines)


def document(suites):
  missing = sum((s.missing for s in suites), collections.Counter())
  ops = ", ".join(f"{op} {count}" for op, count in missing.most_common())
  wrong = "\n".join(f"- `{line}`" for s in suites for line in s.wrong)
  today = datetime.date.today().isoformat()
  return f"""# ONNX coverage

ONNX {onnx.__version__}'s own backend tests on one cpu device, {today}. Written by

```
tests/differential/onnx_backend.py build/release/tools --out docs/onnx-coverage.md
```

whose head says what "in the end" means. Tolerances are ONNX's, 5e-3 for f16 and
2e-2 for bf16. A refusal is one line that says what is not supported.

{table(suites)}

Ops that are not supported, and in how many cases: {ops}.

Beyond the tolerance, or an error that is no refusal:

{wrong or "- none"}

(test_resize_downsample_scales_linear and _cubic_align_corners: ONNX Runtime 1.32
gives what asyra-run gives. Scales make the output's length a fraction there:
both take the length that the output has, ONNX's reference the fraction.)
"""


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("tools_dir")
  parser.add_argument("--filter", default="", help="a part of the case's name")
  parser.add_argument("--suites", nargs="*", default=SUITES)
  parser.add_argument("--out", help="a Markdown file to write")
  args = parser.parse_args()
  tool = os.path.join(args.tools_dir, "asyra-run")
  suites = [run_suite(tool, name, args.filter) for name in args.suites]
  print(table(suites))
  if args.out:
    with open(args.out, "w", encoding="utf-8") as file:
      file.write(document(suites))
  return 1 if any(suite.wrong for suite in suites) else 0


if __name__ == "__main__":
  sys.exit(main())
