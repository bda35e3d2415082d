#!/usr/bin/env python3
"""Writes docs/results/operators.md: collectives beside one matmul, simulated on
the machines of papers on overlap inside an op, with what the papers report.

Usage: tools/operator_table.py [--build DIR] [--check] [--jobs N]

Runs asyra-opt --overlap on a program for each shape and puts the tables between
the markers of that page; --check only says whether that would change anything.
"""

import argparse
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "results", "operators.md")

GATHER = """asyra 1 local
mesh (tp={n})

program @f(%x: bf16[{m}@tp, {k}], %w: bf16[{k}, {cols}@tp] weight) ->
    (bf16[{m}, {cols}@tp]) {{
  %all = all_gather(%x) {{dim=0, axes=tp}} : bf16[{m}, {k}]
  %y = matmul(%all, %w) : bf16[{m}, {cols}@tp]
  return %y
}}
"""
SUM = """asyra 1 local
mesh (tp={n})

program @f(%x: bf16[{m}, {inner}@tp], %w: bf16[{inner}@tp, {cols}] weight) ->
    (bf16[{result}]) {{
  %y = matmul(%x, %w) : bf16[{m}, {cols}] partial(tp)
  %z = {op} : bf16[{result}]
  return %z
}}
"""
EXCHANGE = """asyra 1 local
mesh (ep={n})

program @f(%x: bf16[{rows}@ep, {k}], %w: bf16[{k}, {cols}] weight) ->
    (bf16[{rows}, {cols}@ep]) {{
  %y = matmul(%x, %w) : bf16[{rows}@ep, {cols}]
  %z = all_to_all(%y) {{from=0, to=1, axes=ep}} : bf16[{rows}, {cols}@ep]
  return %z
}}
"""
MLP = """asyra 1 local
mesh (tp={n})

program @f(%x: bf16[{m}@tp, {h}], %gate: bf16[{h}, {i}@tp] weight,
    %up: bf16[{h}, {i}@tp] weight, %down: bf16[{i}@tp, {h}] weight) ->
    (bf16[{m}@tp, {h}]) {{
  %all = all_gather(%x) {{dim=0, axes=tp}} : bf16[{m}, {h}]
  %g = matmul(%all, %gate) : bf16[{m}, {i}@tp]
  %u = matmul(%all, %up) : bf16[{m}, {i}@tp]
  %a = swiglu(%g, %u) : bf16[{m}, {i}@tp]
  %y = matmul(%a, %down) : bf16[{m}, {h}] partial(tp)
  %z = reduce_scatter(%y) {{dim=0, axes=tp}} : bf16[{m}@tp, {h}]
  return %z
}}
"""


def sums(kind, n, m, cols, inner):
  """A matmul of m x cols x inner/n on each of n devices, and its sum."""
  scatter = kind == "reduce_scatter"
  attrs = "dim=0, axes=tp" if scatter else "axes=tp"
  return SUM.format(n=n, m=m, cols=cols, inner=inner,
                    op=f"{kind}(%y) {{{attrs}}}",
                    result=f"{m}@tp, {cols}" if scatter else f"{m}, {cols}")


class Case:
  """A program on a machine, one op after the other and as it is scheduled."""

  def __init__(self, tool, program, machine):
    self.us, self.serial_us, self.limit_us, self.form = 0, 0, 0, ""
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, "f.asyra")
      with open(path, "w") as file:
        file.write(program)
      args = [tool, path, "--machine", machine, "--overlap", "--search-steps",
              "200", "--report", "json"]
      run = subprocess.run(args, capture_output=True, text=True)
    if run.returncode != 0:
      sys.exit(f"{' '.join(args)}: {run.stderr}\n{program}")
    said = json.loads(run.stdout)
    self.us = said["optimized"]["makespan_us"]
    self.serial_us = said["baseline"]["makespan_us"]
    # The longer one alone.
    comm_us = said["baseline"]["exposed_comm_us"]
    self.limit_us = max(comm_us, self.serial_us - comm_us)
    name = said["schedule"]
    self.form = ("overlap" if "overlaps" in name else
                 "serial" if name.startswith(("1 tile", "baseline")) else
                 name.split(" along")[0])

  @property
  def gain(self):
    return self.serial_us / self.us


def mean(values):
  values = list(values)
  return math.exp(sum(map(math.log, values)) / len(values))


# S, H, I of TileLink's table 4, on eight H800. Gate and up are one matmul in
# its first part.
MLPS = {"MLP-1": (8192, 4096, 11008), "MLP-2": (8192, 4096, 14336),
        "MLP-3": (8192, 3584, 14336), "MLP-4": (8192, 4608, 36864),
        "MLP-5": (8192, 8192, 28672), "MLP-6": (8192, 8192, 29568)}
# Its table 2, of MLP-1: ms one after the other, and overlapped.
TILELINK_US = {"AG+GEMM": (676, 505), "GEMM+RS": (541, 504)}
# Means over its MLPs.
TILELINK_GAINS = {"AG+GEMM": 1.27, "GEMM+RS": 1.25, "MLP": 1.24}


def tilelink_cases():
  for name, (m, h, i) in MLPS.items():
    yield (name, "AG+GEMM"), GATHER.format(n=8, m=m, k=h, cols=2 * i), "h800x8"
    yield (name, "GEMM+RS"), sums("reduce_scatter", 8, m, h, i), "h800x8"
    yield (name, "MLP"), MLP.format(n=8, m=m, h=h, i=i), "h800x8"


def tilelink_table(cases):
  rows = ["| shape | part | serial us | overlapped | runs as | gain "
          "| % of the limit | TileLink: serial | overlapped | gain |",
          "|" + " --- |" * 10]
  for (name, part), case in cases.items():
    theirs = ("", "", "")
    if name == "MLP-1" and part in TILELINK_US:
      serial, overlapped = TILELINK_US[part]
      theirs = (serial, overlapped, f"{serial / overlapped:.2f}")
    rows.append(f"| {name} | {part} | {case.serial_us:.0f} | {case.us:.0f} "
                f"| {case.form} | {case.gain:.2f} "
                f"| {100 * case.limit_us / case.us:.0f} "
                f"| {theirs[0]} | {theirs[1]} | {theirs[2]} |")
  for part, gain in TILELINK_GAINS.items():
    ours = mean(case.gain for key, case in cases.items() if key[1] == part)
    rows.append(f"| mean | {part} | | | | {ours:.2f} | | | | {gain:.2f} |")
  return rows


# M, N and K of FlashOverlap's table 3: products M N and K within its ranges.
MI = 1024 * 1024
SHAPES = {
    ("sum", "a800x8"): [(8192, 8192, 4096), (8192, 8192, 8192),
                        (16384, 8192, 4096), (16384, 8192, 8192),
                        (32768, 8192, 4096), (32768, 8192, 8192)],
    ("sum", "rtx4090x8"): [(4096, 4096, 8192), (4096, 4096, 16384),
                           (8192, 4096, 8192), (8192, 4096, 16384),
                           (16384, 4096, 8192), (16384, 4096, 16384)],
    ("all_to_all", "a800x8"): [(4096, 2048, 4096), (4096, 2048, 8192),
                               (8192, 3072, 4096), (8192, 3072, 8192),
                               (16384, 3072, 4096), (16384, 3072, 8192)],
}
KINDS = {"all_reduce": "sum", "reduce_scatter": "sum",
         "all_to_all": "all_to_all"}


def flashoverlap_cases():
  for kind, of in KINDS.items():
    for machine in ["a800x8", "rtx4090x8"]:
      for n in [2, 4, 8]:
        for m, cols, k in SHAPES.get((of, machine), []):
          program = (
              EXCHANGE.format(n=n, rows=m * n, cols=cols, k=k)
              if kind == "all_to_all" else sums(kind, n, m, cols, k * n))
          yield (kind, machine, n, m, cols, k), program, machine


def flashoverlap_table(cases):
  rows = ["| GEMM + | machine | GPUs | M N, Mi | K | gain, least | mean | most "
          "| % of the limit | runs as |",
          "|" + " --- |" * 10]
  groups = {}
  for key, case in cases.items():
    groups.setdefault(key[:3], []).append((key, case))
  for (kind, machine, n), group in groups.items():
    sizes = sorted({key[3] * key[4] // MI for key, _ in group})
    depths = sorted({key[5] // 1024 for key, _ in group})
    gains = [case.gain for _, case in group]
    limits = [100 * case.limit_us / case.us for _, case in group]
    forms = {}
    for _, case in group:
      forms[case.form] = forms.get(case.form, 0) + 1
    forms = ", ".join(f"{form} {count}" for form, count in
                      sorted(forms.items(), key=lambda item: -item[1]))
    rows.append(f"| {kind} | {machine} | {n} | {sizes[0]} to {sizes[-1]} "
                f"| {depths[0]}k to {depths[-1]}k | {min(gains):.2f} "
                f"| {mean(gains):.2f} | {max(gains):.2f} "
                f"| {min(limits):.0f} to {max(limits):.0f} | {forms} |")
  return rows


TABLES = {"tilelink": (tilelink_cases, tilelink_table),
          "flashoverlap": (flashoverlap_cases, flashoverlap_table)}


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--jobs", type=int, default=os.cpu_count())
  parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
  parser.add_argument("--check", action="store_true")
  flags = parser.parse_args()
  tool = os.path.join(flags.build, "tools", "asyra-opt")
  with open(PAGE) as file:
    text = new = file.read()
  with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
    for name, (make, table) in TABLES.items():
      keys, programs, machines = zip(*make())
      run = pool.map(lambda pair: Case(tool, *pair), zip(programs, machines))
      rows = table(dict(zip(keys, run)))
      begin = new.index(f"<!-- {name} -->") + len(f"<!-- {name} -->")
      end = new.index(f"<!-- end of {name} -->")
      new = new[:begin] + "\n" + "\n".join(rows) + "\n" + new[end:]
  if flags.check:
    return 0 if new == text else 1
  with open(PAGE, "w") as file:
    file.write(new)
  return 0


if __name__ == "__main__":
  sys.exit(main())
