#!/usr/bin/env python3
"""Writes docs/results/ablations.md: what each choice of an overlap's chunk plan
gives, simulated, beside the plan that form_overlaps chooses.

Usage: tools/ablation_table.py [--build DIR] [--check] [--jobs N]

--check changes nothing and fails where the page is stale, or where a fixed
choice among those that the tuner tries is faster than the tuner's.
"""

import os
import sys

from table_page import ROOT, Row, Step, Table, cells, line, main

PAGE = os.path.join(ROOT, "docs", "results", "ablations.md")
GATHER = """asyra 1 scheduled
mesh (tp={n})

program @f(%x: bf16[{m}@tp, {k}], %w: bf16[{k}, {cols}@tp] weight) ->
    (bf16[{m}, {cols}@tp]) {{
{body}
  return %y
}}
"""
GATHER_APART = """  %f = start all_gather(%x) {{dim=0, axes=tp}} on tp : future bf16[{m}, {k}]
  %all = wait(%f) on compute : bf16[{m}, {k}]
  %y = matmul(%all, %w) on compute : bf16[{m}, {cols}@tp]"""
GATHER_OVERLAP = """  %y = overlap(%x, %w) {{
    %2 = all_gather(%0) {{dim=0, axes=tp}} : bf16[{m}, {k}]
    %3 = matmul(%2, %1) : bf16[{m}, {cols}@tp]
    return %3
  }} {attrs} on compute : bf16[{m}, {cols}@tp]"""

MACHINES = ["h200x8", "a800x8"]
# Rows, depth and columns over all devices.
SHAPES = [(2048, 4096, 28672), (8192, 4096, 22016), (8192, 8192, 57344),
          (32768, 4096, 28672)]
N = 8
# Name and attributes of an overlap, others at their defaults. The tuner tries
# the first ones; it leaves others out.
TRIED = [("1 part", "order=own_first"), ("2", "parts=2"), ("4", "parts=4"),
         ("8", "parts=8"), ("groups of 2", "groups=[2, 2, 2, 2]"),
         ("groups of 4", "groups=[4, 4]"), ("ring", "route=ring"),
         ("2 copy queues", "copy_queues=2"),
         ("3 copy queues", "copy_queues=3")]
OTHERS = [("same order", "order=same")]
# Carriers of chunks: a row of the list is a column.
CARRIERS = [("messages of NCCL", "transport=library, sm_margin=8")]


def program(shape, attrs):
  m, k, cols = shape
  body = GATHER_OVERLAP if attrs else GATHER_APART
  sizes = {"n": N, "m": m, "k": k, "cols": cols}
  return GATHER.format(body=body.format(attrs="{" + (attrs or "") + "}", **sizes),
                       **sizes)


def row(shape, machine):
  flags = ("--machine", machine)
  fixed = [Step(program(shape, attrs), flags)
           for _, attrs in [*TRIED, *OTHERS, *CARRIERS]]
  apart = Step(program(shape, None), flags)
  tuned = Step(program(shape, None),
               (*flags, "--passes", "form_overlaps{always=true}"))

  def text(*said):
    return line(" x ".join(map(str, shape)), machine,
                *[f"{one['optimized']['makespan_us']:.1f}" for one in said])

  return Row([apart, tuned, *fixed], text)


def slower_than_fixed(lines):
  """Rows in which the tuner's plan, to a tenth of a microsecond, is slower than
  one that it tries."""
  found = []
  for text in lines:
    shape, machine, _, tuned, *fixed = cells(text)
    for (name, _), us in zip(TRIED, fixed):
      if float(us) < float(tuned):
        found.append(f"{shape} on {machine}: {name} takes {us} us, "
                     f"the tuner's plan {tuned}")
  return found


TABLES = [Table(
    "gathers",
    ["rows x depth x columns", "machine", "apart", "tuner",
     *[name for name, _ in [*TRIED, *OTHERS, *CARRIERS]]],
    [row(shape, machine) for shape in SHAPES for machine in MACHINES],
    faults=slower_than_fixed)]

if __name__ == "__main__":
  sys.exit(main(PAGE, TABLES, __doc__))
