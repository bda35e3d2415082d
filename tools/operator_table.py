#!/usr/bin/env python3
"""Writes docs/results/operators.md: collectives beside one matmul, simulated on
the machines of papers on overlap inside an op, with what the papers report.

Usage: tools/operator_table.py [--build DIR] [--check] [--jobs N]

Runs asyra-opt --overlap on a program for each shape and puts the tables between
the markers of that page. --check changes nothing and fails where the page is
stale.
"""

import collections
import os
import sys

from table_page import ROOT, Row, Step, Table, cells, line, main, mean

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

  def __init__(self, said):
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


def step(program, machine):
  return Step(program, ("--machine", machine, "--overlap", "--search-steps",
                        "200"))


# S, H, I of TileLink's table 4, on eight H800. Gate and up are one matmul in
# its first part.
MLPS = {"MLP-1": (8192, 4096, 11008), "MLP-2": (8192, 4096, 14336),
        "MLP-3": (8192, 3584, 14336), "MLP-4": (8192, 4608, 36864),
        "MLP-5": (8192, 8192, 28672), "MLP-6": (8192, 8192, 29568)}
# Its table 2, of MLP-1: ms one after the other, and overlapped.
TILELINK_US = {"AG+GEMM": (676, 505), "GEMM+RS": (541, 504)}
# Means over its MLPs.
TILELINK_GAINS = {"AG+GEMM": 1.27, "GEMM+RS": 1.25, "MLP": 1.24}


TILELINK_HEAD = ["shape", "part", "serial us", "overlapped", "runs as", "gain",
                 "% of the limit", "TileLink: serial", "overlapped", "gain"]


def tilelink_row(name, part, program):
  serial, overlapped = TILELINK_US.get(part, ("", ""))
  theirs = ("", "", "")
  if name == "MLP-1" and part in TILELINK_US:
    theirs = (serial, overlapped, f"{serial / overlapped:.2f}")

  def text(said):
    case = Case(said)
    return line(name, part, f"{case.serial_us:.0f}", f"{case.us:.0f}",
                case.form, f"{case.gain:.2f}",
                f"{100 * case.limit_us / case.us:.0f}", *theirs)

  return Row([step(program, "h800x8")], text)


def tilelink_rows():
  for name, (m, h, i) in MLPS.items():
    yield tilelink_row(name, "AG+GEMM",
                       GATHER.format(n=8, m=m, k=h, cols=2 * i))
    yield tilelink_row(name, "GEMM+RS", sums("reduce_scatter", 8, m, h, i))
    yield tilelink_row(name, "MLP", MLP.format(n=8, m=m, h=h, i=i))


def tilelink_means(lines):
  """Means of the gains as they are printed."""
  rows = [cells(text) for text in lines]
  return [line("mean", part, "", "", "",
               f"{mean(float(row[5]) for row in rows if row[1] == part):.2f}",
               "", "", "", f"{gain:.2f}")
          for part, gain in TILELINK_GAINS.items()]


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


FLASHOVERLAP_HEAD = ["GEMM +", "machine", "GPUs", "M N, Mi", "K",
                     "gain, least", "mean", "most", "% of the limit", "runs as"]


def flashoverlap_row(kind, machine, n, shapes):
  sizes = sorted({m * cols // MI for m, cols, _ in shapes})
  depths = sorted({k // 1024 for _, _, k in shapes})
  programs = [
      EXCHANGE.format(n=n, rows=m * n, cols=cols, k=k)
      if kind == "all_to_all" else sums(kind, n, m, cols, k * n)
      for m, cols, k in shapes]

  def text(*said):
    cases = [Case(one) for one in said]
    gains = [case.gain for case in cases]
    limits = [100 * case.limit_us / case.us for case in cases]
    forms = collections.Counter(case.form for case in cases)
    return line(kind, machine, n, f"{sizes[0]} to {sizes[-1]}",
                f"{depths[0]}k to {depths[-1]}k", f"{min(gains):.2f}",
                f"{mean(gains):.2f}", f"{max(gains):.2f}",
                f"{min(limits):.0f} to {max(limits):.0f}",
                ", ".join(f"{form} {count}"
                          for form, count in forms.most_common()))

  return Row([step(program, machine) for program in programs], text)


def flashoverlap_rows():
  for kind, of in KINDS.items():
    for machine in ["a800x8", "rtx4090x8"]:
      for n in [2, 4, 8]:
        if (of, machine) in SHAPES:
          yield flashoverlap_row(kind, machine, n, SHAPES[of, machine])


TABLES = [
    Table("tilelink", TILELINK_HEAD, list(tilelink_rows()), tilelink_means),
    Table("flashoverlap", FLASHOVERLAP_HEAD, list(flashoverlap_rows())),
]

if __name__ == "__main__":
  sys.exit(main(PAGE, TABLES, __doc__))
