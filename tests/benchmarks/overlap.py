#!/usr/bin/env python3
"""What a schedule hides behind slow links, as predicted and as it runs here.

A small model is compiled for two devices, once as it is partitioned and once
scheduled, and runs on two ranks of this cpu whose every collective takes as
long as --comm-us says. Profiles of both give a machine of measured times; the
simulator predicts both steps on it, and the predicted gain of the schedule is
set beside the real one. Times are the least of several: what else runs on the
machine only adds to them, and where it does, the gain means little.

Usage: overlap.py TOOLS_DIR [--comm-us 4000] [--repeat 30]
"""

import argparse
import json
import os
import re
import subprocess
import tempfile

# In single precision, which the cpu computes in.
MODEL = ["gpt3-tiny", "--dim", "layers=4", "--dim", "hidden=512", "--dim",
         "heads=8", "--dim", "batch=4", "--dim", "seq=128", "--dim",
         "vocabulary=512", "--dim", "positions=128"]
PROFILES = 10
OP = re.compile(r"  (%.*) = (?:start )?(\w+)\(([^)]*)\)(?: (\{.*?\}))?"
                r"(?: on \w+)?(?: after\(.*?\))? : (.*)")
TYPE = re.compile(r"(\w+)\[([^\]]*)\](?: partial\(([^)]*)\))?")


def local_type(text, mesh):
  """A type's element type and what one device holds of it."""
  dtype, dims, _ = TYPE.search(text).groups()
  sizes = []
  for dim in re.findall(r"\d+(?:@(?:\w+|\([^)]*\)))?", dims):
    size, _, axes = dim.partition("@")
    size = int(size)
    for axis in re.findall(r"\w+", axes):
      size //= mesh[axis]
    sizes.append(size)
  return dtype, sizes


def written(dtype, sizes):
  return f"{dtype}[{','.join(map(str, sizes))}]"


class Program:
  """The calls of a program file, by position, as tables of costs name them."""

  def __init__(self, path):
    self.path = path
    with open(path) as file:
      text = file.read()
    mesh = {name: int(size) for name, size in
            re.findall(r"(\w+)=(\d+)", re.search(r"mesh \((.*)\)",
                                                 text).group(1))}
    # One statement a line.
    text = re.sub(r"\n {4,}", " ", text)
    types = {name: local_type(type_, mesh) for name, type_ in
             re.findall(r"(%[\w.]+): (\w+\[[^\]]*\])", text)}
    self.calls = []
    for line in text.splitlines():
      match = OP.match(line)
      if not match:
        continue
      names, op, operands, attrs, results = match.groups()
      given = re.findall(r"\w+\[[^\]]*\](?: partial\([^)]*\))?", results)
      for name, type_ in zip(re.findall(r"%[\w.]+", names), given):
        types[name] = local_type(type_, mesh)
      self.calls.append(self.call(op, re.findall(r"%[\w.]+", operands),
                                  attrs or "", types, mesh))

  def call(self, op, operands, attrs, types, mesh):
    """(the call over local types, its ranks)."""
    axes = re.search(r"axes=\(?([\w,]+)\)?", attrs)
    if op == "all_reduce":
      ranks = 1
      for axis in axes.group(1).split(","):
        ranks *= mesh[axis]
      dtype, sizes = types[operands[0]]
      return f"{op}({written(dtype, sizes)} partial(x)) {{axes=x}}", ranks
    if axes:
      return None  # of the models here there are no others
    given = ", ".join(written(*types[name]) for name in operands)
    return f"{op}({given}) {attrs}".strip(), 1


MACHINE = {
    "schema": 2, "name": "measured",
    "gpu": {
        "name": "this cpu", "sms": 100, "clock_mhz": 100,
        "bf16_flops_per_sm_clock": 10, "hbm_gib": 16,
        "hbm_gbps": {"peak": 10, "achievable": 10}, "hbm_sms": 1,
        "matrix_tflops": {dtype: {"peak": 0.1, "achievable": 0.05}
                          for dtype in ["bf16", "f16", "f32", "f64"]},
        "vector_tflops": {"peak": 0.1, "achievable": 0.05}, "kernel_us": 1,
        "gemm_half_tile": 0, "gemm_extra_k": 0, "gemm_hbm_fraction": 1,
        "context_mib": 0, "collectives_mib": 0, "communicator_mib": 0,
        "exchange_mib": 0},
    "launch_us": 0.01, "graph_launch_us": 0.01,
    "host": {
        "gpus": 8, "link": "nvlink",
        "link_gbps": {"peak": 10, "achievable": 10}, "p2p": True,
        "ll_gbps": 10, "cta_gbps": 10,
        "collectives": {kind: {"ctas": 1, "beside_compute": 1} for kind in
                        ["all_reduce", "all_gather", "reduce_scatter",
                         "all_to_all"]},
        "copy_engines": 0},
    "network": {"nics": 1, "gbps": {"peak": 1, "achievable": 1},
                "alpha_us": 0},
    "measurements": "measured.table",
    "sources": {"gpu": "profiles", "host": "profiles", "network": "none"},
}


class Comparison:

  def __init__(self, flags, scratch):
    self.flags = flags
    self.scratch = scratch
    self.machine = self.path("measured.machine")
    self.times = {}  # call -> us, each

  def path(self, name):
    return os.path.join(self.scratch, name)

  def tool(self, name, *args):
    command = [os.path.join(self.flags.tools, name), *args]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
      raise SystemExit(done.stderr)
    return done.stdout

  def step_us(self, program, repeat, *args):
    said = self.tool("asyra-run", program.path, "--json", "--repeat",
                     str(repeat), "--inject-comm-us",
                     str(self.flags.comm_us), *args)
    return json.loads(said)["steps"]["min_us"]

  def measure(self, program):
    """Adds a program's calls to the machine's measurements."""
    trace = self.path("profile.json")
    for _ in range(PROFILES):
      self.step_us(program, 3, "--profile", trace)
      with open(trace) as file:
        events = json.load(file)["traceEvents"]
      for event in events:
        if event["ph"] != "X" or "op" not in event.get("args", {}):
          continue
        call = program.calls[event["args"]["op"]]
        if call:
          self.times.setdefault(call, []).append(event["dur"])
    points = [{"call": call, "ranks": ranks,
               "us": max(0.01, round(min(times), 3))}
              for (call, ranks), times in self.times.items()]
    for point in points:
      if point["ranks"] == 1:
        del point["ranks"]
    with open(self.path("measured.table"), "w") as file:
      json.dump({"schema": 1, "device": "cpu", "driver": "none",
                 "libraries": "ours", "date": "today",
                 "method": f"least of {PROFILES} profiles",
                 "points": points}, file)
    with open(self.machine, "w") as file:
      json.dump(MACHINE, file)

  def predicted_us(self, program):
    result = self.path("result.json")
    self.tool("asyra-sim", "run", program.path, "--machine", self.machine,
              "--json", result)
    with open(result) as file:
      return json.load(file)["makespan_us"]

  def compare(self):
    before, after = self.path("before.asyra"), self.path("after.asyra")
    self.tool("asyra-opt", *MODEL, "--tp", "2", "--passes",
              "plan_sharding, partition", "-o", before)
    before = Program(before)
    self.measure(before)
    self.tool("asyra-opt", before.path, "--machine",
              self.machine, "-o", after)
    after = Program(after)
    self.measure(after)
    print(f"{'step, ms':12} {'predicted':>10} {'real':>10}")
    steps = {}
    for name, program in [("in turn", before), ("scheduled", after)]:
      steps[name] = (self.predicted_us(program) / 1e3,
                     self.step_us(program, self.flags.repeat) / 1e3)
      print(f"{name:12} {steps[name][0]:10.2f} {steps[name][1]:10.2f}")
    gains = [a - b for a, b in zip(steps["in turn"], steps["scheduled"])]
    print(f"{'gain':12} {gains[0]:10.2f} {gains[1]:10.2f}")
    if gains[0] > 0:
      print(f"the real gain is {100 * gains[1] / gains[0]:.0f} % of the "
            "predicted one")
    else:
      print("the schedule gains nothing by the simulator's account")


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("tools", help="folder of the built tools")
  parser.add_argument("--comm-us", type=int, default=4000)
  parser.add_argument("--repeat", type=int, default=30)
  flags = parser.parse_args()
  with tempfile.TemporaryDirectory() as scratch:
    Comparison(flags, scratch).compare()


if __name__ == "__main__":
  main()
