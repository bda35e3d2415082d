"""Makes a finding smaller while it stays the same kind of finding.

  tests/differential/reduce.py build/release/tools /tmp/findings/207-0-wrong

writes what is left to the folder's `reduced`.
"""

import json
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

import builder
import case as cases
import reference
import runs

TRIES = 400


def values_of(model, feeds):
  """Every result of a node, by name."""
  whole = onnx.ModelProto.FromString(model.SerializeToString())
  names = [name for node in model.graph.node for name in node.output if name]
  del whole.graph.output[:]
  whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
  return dict(zip(names, reference.run(whole, feeds)))


def pruned(model, feeds):
  """Without what no output needs; and the inputs that are left."""
  graph = model.graph
  needed = {x.name for x in graph.output}
  kept = []
  for node in reversed(graph.node):
    if needed & set(node.output):
      kept.append(node)
      needed.update(node.input)
  small = onnx.ModelProto.FromString(model.SerializeToString())
  for field, good in (("node", None), ("initializer", needed),
                      ("input", needed)):
    old = list(getattr(small.graph, field))
    del getattr(small.graph, field)[:]
    getattr(small.graph, field).extend(
        reversed(kept) if good is None else
        [x for x in old if x.name in good])
  names = {x.name for x in small.graph.input}
  return small, {k: v for k, v in feeds.items() if k in names}


class Reducer:
  """Tries smaller models; `best` is the smallest that is still a finding."""

  def __init__(self, tools_dir, model, feeds, case, flags, verdict, scratch):
    self.tools_dir = tools_dir
    self.case = dict(case, dims={})
    self.flags = list(flags)
    self.kind = verdict.kind
    self.scratch = scratch
    self.best = (model, feeds)
    self.left = TRIES

  def fails(self, model, feeds, flags):
    """Whether it is a finding of the same kind; written to scratch then."""
    if self.left <= 0:
      return False
    self.left -= 1
    try:
      hides = self.case.get("hides_rows", True)
      outputs = reference.outputs_of(model, feeds, hides)
    except reference.Unfit:
      return False
    shapes = [list(array.shape) for array in feeds.values()]
    case = self.case | {"inputs": shapes}
    cases.write(self.scratch, model, feeds, outputs, case)
    return any(runs.run(self.tools_dir, self.scratch, case, flags).kind ==
               self.kind for _ in range(3))

  def take(self, model, feeds):
    try:
      model, feeds = pruned(model, feeds)
    except Exception:
      return False
    if not self.fails(model, feeds, self.flags):
      return False
    self.best = (model, feeds)
    return True

  def copy(self):
    model, feeds = self.best
    return onnx.ModelProto.FromString(model.SerializeToString()), dict(feeds)

  def fix_dims(self):
    """Sizes in place of symbols."""
    model, feeds = self.copy()
    for info in model.graph.input:
      info.CopyFrom(helper.make_tensor_value_info(
          info.name, info.type.tensor_type.elem_type, feeds[info.name].shape))
    return self.take(model, feeds)

  def drop_flags(self):
    position = 0
    while position < len(self.flags):
      count = 2 if (position + 1 < len(self.flags) and
                    not self.flags[position + 1].startswith("--")) else 1
      fewer = self.flags[:position] + self.flags[position + count:]
      if self.fails(*self.best, fewer):
        self.flags = fewer
      else:
        position += count

  def drop_outputs(self):
    for i in range(len(self.best[0].graph.output)):
      model, feeds = self.copy()
      if i >= len(model.graph.output):
        break
      one = onnx.ValueInfoProto.FromString(
          model.graph.output[i].SerializeToString())
      del model.graph.output[:]
      model.graph.output.append(one)
      if self.take(model, feeds):
        return

  def end_earlier(self):
    """An intermediate result as the only output."""
    model, feeds = self.copy()
    values = values_of(model, feeds)
    for node in list(model.graph.node):
      for name in node.output:
        array = values.get(name)
        if array is None or array.dtype != np.float32:
          continue
        model, feeds = self.copy()
        del model.graph.output[:]
        model.graph.output.append(helper.make_tensor_value_info(
            name, builder.element_type(array), array.shape))
        if self.take(model, feeds):
          return

  def cut(self, first, count):
    """Results of some nodes become inputs, or constants."""
    model, feeds = self.copy()
    values = values_of(model, feeds)
    kept = {x.name for x in model.graph.output}
    nodes = list(model.graph.node)
    for node in nodes[first:first + count]:
      if kept & set(node.output):
        continue
      model.graph.node.remove(node)
      for name in filter(None, node.output):
        array = np.asarray(values[name])
        if array.dtype == np.float32 and array.ndim:
          model.graph.input.append(helper.make_tensor_value_info(
              name, builder.element_type(array), array.shape))
          feeds[name] = array
        else:
          model.graph.initializer.append(
              numpy_helper.from_array(array, name))
    return self.take(model, feeds)

  def cut_nodes(self):
    count = max(1, len(self.best[0].graph.node) // 2)
    while count:
      first = 0
      while first < len(self.best[0].graph.node):
        before = len(self.best[0].graph.node)
        if not self.cut(first, count):
          first += count
        elif len(self.best[0].graph.node) == before:
          first += 1
      count //= 2

  def plain_data(self):
    """Ones, zeros or few digits in place of random numbers."""
    for name in list(self.best[1]):
      for plain in (np.zeros_like, np.ones_like, lambda x: np.round(x, 1)):
        model, feeds = self.copy()
        feeds[name] = plain(feeds[name]).astype(feeds[name].dtype)
        if self.take(model, feeds):
          break

  def reduce(self):
    self.fix_dims()
    self.drop_flags()
    self.drop_outputs()
    self.end_earlier()
    self.cut_nodes()
    self.end_earlier()
    self.drop_flags()
    self.plain_data()


def feeds_in(folder, model):
  feeds = {}
  for i, info in enumerate(model.graph.input):
    path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
    with open(path, "rb") as file:
      tensor = onnx.TensorProto.FromString(file.read())
    feeds[info.name] = numpy_helper.to_array(tensor)
  return feeds


def reduce_finding(tools_dir, folder):
  """Writes what is left of a finding to its folder's `reduced`."""
  model = onnx.load(os.path.join(folder, "model.onnx"))
  with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
    case = json.load(file)
  flags = case["flags"]
  verdict = runs.run(tools_dir, folder, case, flags)
  if verdict.ok:
    print(f"{folder}: it was a finding and is {verdict.kind} now")
    return
  with tempfile.TemporaryDirectory() as scratch:
    reducer = Reducer(tools_dir, model, feeds_in(folder, model), case, flags,
                      verdict, scratch)
    reducer.reduce()
    reduced = os.path.join(folder, "reduced")
    small, feeds = reducer.best
    try:
      outputs = reference.run(small, feeds)
    except Exception:
      return
    case = reducer.case | {"inputs": [list(x.shape) for x in feeds.values()]}
    cases.write(reduced, small, feeds, outputs, case)
    last = runs.run(tools_dir, reduced, case, reducer.flags)
    commands = runs.commands(tools_dir, ".", case, reducer.flags)
    with open(os.path.join(reduced, "NOTE"), "w", encoding="utf-8") as file:
      file.write(f"{' && '.join(map(' '.join, commands))}\n{last.kind}: {last.said}\n\n"
                 f"{onnx.printer.to_text(small)}\n")


if __name__ == "__main__":
  reduce_finding(*sys.argv[1:3])
