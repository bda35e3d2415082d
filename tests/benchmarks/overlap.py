#!/usr/bin/env python3
"""What a schedule hides behind slow links, as predicted and as it runs here.

A small model is partitioned for two devices, which are two ranks of this cpu
whose every collective takes --comm-us longer. Its ops, whole and in tiles, are
timed in programs that run in turn, so that nothing overlaps. On a machine of
these times asyra-opt looks for a schedule and the simulator predicts it: the
step's times and what the schedule gains stand beside the real ones.

Rounds of steps alternate with rounds of profiles, since what else runs on this
machine, and on its host, slows some minutes more than others. Runs beside which
other processes took more than --others percent of the machine are made again, a
few times; the last column says how many counted all the same. All times are
means: those of the ops then add up to those of the steps, noise included.

Usage: overlap.py TOOLS_DIR [--comm-us 8000 12000] [--rounds 16]
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time

# In single precision, which the cpu computes in; of so many tokens that half of
# them take hardly more than half the time.
MODEL = ["gpt3-tiny", "--dim", "layers=4", "--dim", "hidden=256", "--dim",
         "heads=8", "--dim", "batch=16", "--dim", "seq=128", "--dim",
         "vocabulary=512", "--dim", "positions=128"]
IN_TURN = "start_collectives{early=false}"
FIRST_PROFILES = 6  # before there is a schedule
STEPS = 5           # of a run; its median counts, or the last one's profile
TRIES = 3           # of a run that others disturb
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
      raise SystemExit(f"{op}: this script writes no call of it")
    given = ", ".join(written(*types[name]) for name in operands)
    return f"{op}({given}) {attrs}".strip(), 1


MACHINE = {
    "schema": 4, "name": "measured",
    "gpu": {
        "name": "this cpu", "sms": 100, "clock_mhz": 100,
        "bf16_flops_per_sm_clock": 10, "hbm_gib": 16,
        "hbm_gbps": {"peak": 10, "achievable": 10}, "hbm_sms": 1,
        "matrix_tflops": {dtype: {"peak": 0.1, "achievable": 0.05}
                          for dtype in ["bf16", "f16", "f32", "f64"]},
        "vector_tflops": {"peak": 0.1, "achievable": 0.05}, "kernel_us": 1,
        "gemm_half_tile": 0, "gemm_extra_k": 0, "gemm_hbm_fraction": 1,
        "library_mib": {key: 0 for key in
                        ["context", "op", "collectives", "exchanges",
                         "communicator", "rings", "trees", "peer", "workspace"]}},
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


def busy_seconds():
  """Of all cores since the start, with what the host took away."""
  with open("/proc/stat") as file:
    ticks = [int(field) for field in file.readline().split()[1:9]]
  idle, waiting = ticks[3:5]
  return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def own_seconds():
  """Of the processes that this one has run."""
  used = resource.getrusage(resource.RUSAGE_CHILDREN)
  return used.ru_utime + used.ru_stime


class Comparison:

  def __init__(self, flags, comm_us, scratch):
    self.flags = flags
    self.comm_us = comm_us
    self.scratch = scratch
    self.machine = self.path("measured.machine")
    self.times = {}  # (call, ranks) -> us of each time it was profiled
    self.disturbed = 0
    local = self.compiled("local", *MODEL, "--tp", "2", "--passes",
                          "plan_sharding, partition")
    self.before = self.compiled("before", local.path, "--passes", IN_TURN)
    self.tiles = self.compiled("tiles", local.path, "--passes",
                               "tile{tiles=2}, " + IN_TURN)
    self.profile(FIRST_PROFILES)
    # Fusions and joined collectives are calls that nothing in turn has.
    self.after = self.compiled("after", local.path, "--machine", self.machine,
                               "--no-fuse", "--no-join")

  def path(self, name):
    return os.path.join(self.scratch, name)

  def tool(self, name, *args):
    command = [os.path.join(self.flags.tools, name), *args]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
      raise SystemExit(done.stderr)
    return done.stdout

  def compiled(self, name, *args):
    path = self.path(name + ".asyra")
    self.tool("asyra-opt", *args, "-o", path)
    return Program(path)

  def step_us(self, program, *args):
    for _ in range(TRIES):
      begin = time.monotonic()
      others = busy_seconds() - own_seconds()
      said = self.tool("asyra-run", program.path, "--json",
                       "--random-weights", "--repeat", str(STEPS),
                       "--inject-comm-us", str(self.comm_us),
                       *args)
      others = busy_seconds() - own_seconds() - others
      share = others / (time.monotonic() - begin) / os.cpu_count()
      if 100 * share <= self.flags.others:
        break
    else:
      self.disturbed += 1
    return json.loads(said)["steps"]["median_us"]

  def profile(self, times):
    """Adds the ops of what runs in turn to the machine's measurements."""
    trace = self.path("profile.json")
    for _ in range(times):
      for program in [self.before, self.tiles]:
        self.step_us(program, "--profile", trace)
        with open(trace) as file:
          events = json.load(file)["traceEvents"]
        for event in events:
          if event["ph"] == "X":
            call = program.calls[event["args"]["op"]]
            self.times.setdefault(call, []).append(event["dur"])
    self.write_machine()

  def write_machine(self):
    points = [{"call": call, "ranks": ranks,
               "us": max(0.01, statistics.mean(times))}
              for (call, ranks), times in self.times.items()]
    for point in points:
      if point["ranks"] == 1:
        del point["ranks"]
    with open(self.path("measured.table"), "w") as file:
      json.dump({"schema": 1, "device": "cpu", "driver": "none",
                 "libraries": "ours", "date": "today",
                 "method": "means of profiles", "points": points}, file)
    with open(self.machine, "w") as file:
      json.dump(MACHINE, file)

  def predicted_us(self, program):
    result = self.path("result.json")
    self.tool("asyra-sim", "run", program.path, "--machine", self.machine,
              "--json", result)
    with open(result) as file:
      profile = json.load(file)
    unmeasured = {op["name"] for op in profile["ops"]
                  if op.get("source") in ["interpolated", "extrapolated",
                                          "formula"]}
    if unmeasured:
      raise SystemExit("the schedule has ops that nothing in turn has: " +
                       ", ".join(sorted(unmeasured)))
    return profile["makespan_us"]

  def run(self):
    """Predicted and real steps in us, in turn and scheduled."""
    self.times = {}
    self.disturbed = 0
    programs = [self.before, self.after]
    steps = [[], []]
    for _ in range(self.flags.rounds):
      for program, real in zip(programs, steps):
        real.append(self.step_us(program))
      self.profile(1)
    return [(self.predicted_us(program), statistics.mean(real))
            for program, real in zip(programs, steps)]


def gain_of(steps):
  before, after = steps
  return before[0] - after[0], before[1] - after[1]


def print_row(comm_us, steps, disturbed):
  """In ms: predicted and real."""
  pairs = [*steps, gain_of(steps)]
  cells = "".join(f"{p / 1e3:10.1f}{r / 1e3:7.1f}" for p, r in pairs)
  predicted, real = pairs[2]
  share = f"{100 * real / predicted:6.0f} %" if predicted > 0 else "    none"
  print(f"{comm_us / 1e3:9.1f}{cells}{share:>14}"
        f"{disturbed:10}", flush=True)


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("tools", help="folder of the built tools")
  parser.add_argument("--comm-us", type=int, nargs="+", default=[8000, 12000])
  parser.add_argument("--rounds", type=int, default=16)
  parser.add_argument("--others", type=float, default=4)
  flags = parser.parse_args()
  print("ms, predicted and real")
  print(f"collective{'in turn':>16}{'scheduled':>17}{'gain':>17}"
        f"{'real/predicted':>16}{'disturbed':>10}")
  for comm_us in flags.comm_us:
    with tempfile.TemporaryDirectory() as scratch:
      comparison = Comparison(flags, comm_us, scratch)
      print_row(comm_us, comparison.run(), comparison.disturbed)


if __name__ == "__main__":
  main()
