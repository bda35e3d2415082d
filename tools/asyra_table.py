#!/usr/bin/env python3
"""Writes the tables of docs/results/schedules.md that stand beside figures of the
ASYRA paper: its tables 2 and 3, figures 6 and 7.

Usage: tools/asyra_table.py [--build DIR] [--check] [--jobs N]

--check changes nothing and fails where the page is stale. The other tables of the
page are those of schedule_table.py.
"""

import os
import sys

from table_page import ROOT, Row, Step, Table, line, main

PAGE = os.path.join(ROOT, "docs", "results", "schedules.md")


def flags(text, machine="a800x8"):
  return (*text.split(), "--machine", machine)


# Table 3: ms of a layer, bubble in percent, speedup.
STEPS = {"+tile": ("tiled", 4.14, 31.8, 0.81),
         "+tile+reorder": ("reordered", 3.35, 9.5, 1.01),
         "+tile+reorder+bucket": ("bucketed", 2.94, 13.2, 1.14)}
DECODE_LAYERS = 4
DECODE = Step("qwen3-30b-a3b", flags(
    f"--dim layers={DECODE_LAYERS} --dim batch=1024 --dim seq=1 --dim logits=1 "
    "--ep 8 --ep-strategy auto --ablation"))


def decode_row(name):
  def text(said):
    rows = {row["name"]: row for row in said["ablation"]}
    rows["search"] = said["optimized"]
    us, old_us = rows[name]["makespan_us"], rows["baseline"]["makespan_us"]
    ours = (f"{us / DECODE_LAYERS / 1e3:.2f}",
            f"{100 * rows[name]['bubble']:.1f}", f"{old_us / us:.2f}")
    if name == "baseline":
      return line("partitioned", *ours, 3.36, 44.6, "1.00")
    if name == "search":
      return line("whole search", *ours, "", "", "")
    title, *theirs = STEPS[name]
    return line(title, *ours, *theirs)

  return Row([DECODE], text)


DECODE_ROWS = [decode_row(name) for name in ["baseline", *STEPS, "search"]]

# Figure 6: speedup of a training step in percent, of ASYRA and of AsyncTP.
TP_STEPS = [("gpt3-175b", 8, 2048, 17, 12), ("llama3-70b", 2, 8192, 16, 13),
            ("llama3-70b", 8, 4096, 16, 13)]


def training_row(model, batch, seq, asyra, async_tp):
  step = Step(model, flags(
      f"--train --dim layers=2 --dim batch={batch} --dim seq={seq} --tp 8 "
      "--search-steps 200"))

  def text(said):
    old, new = (said[key]["makespan_us"] for key in ("baseline", "optimized"))
    return line(f"`{model} --tp 8`", f"{batch} x {seq}", f"{old / 1e3:.1f}",
                f"{new / 1e3:.1f}", f"{100 * (old / new - 1):.0f}", asyra,
                async_tp)

  return Row([step], text)


# Table 2 with the paper's work: ms of a layer forward before and after, and its
# bubble in percent.
MATCHED = [("gpt3-6.7b", "--tp 4 --sp 2", 96, 2048, (64.6, 58.4, 21.2, 7.7)),
           ("llama3-8b", "--tp 4 --sp 2", 24, 8192, (90.8, 85.5, 15.7, 5.5))]
LAYERS = 4


def matched_row(model, mesh, batch, seq, paper):
  step = Step(model, flags(
      f"{mesh} --dim batch={batch} --dim seq={seq} --dim layers={LAYERS} "
      "--dim logits=1 --search-steps 200"))

  def text(said):
    old, new = said["baseline"], said["optimized"]
    return line(f"`{model} {mesh}`", f"{batch} x {seq}",
                *[f"{case['makespan_us'] / LAYERS / 1e3:.1f}"
                  for case in (old, new)],
                *[f"{100 * case['bubble']:.1f}" for case in (old, new)], *paper)

  return Row([step], text)


OP = """asyra 1 local
mesh (tp={n})

program @f({inputs}) -> ({result}) {{
  %y = {op} : {result}
  return %y
}}
"""


def matmul(rows):
  return OP.format(n=8, op="matmul(%x, %w)", result=f"bf16[{rows}, 4096]",
                   inputs=f"%x: bf16[{rows}, 4096], %w: bf16[4096, 4096] weight")


def attention(rows):
  value = f"bf16[{rows // 2048}, 2048, 32, 128]"
  return OP.format(n=8, op="attention(%q, %k, %v) {causal=true, scale=0.088}",
                   inputs=", ".join(f"%{name}: {value}" for name in "qkv"),
                   result=value)


def unary(op):
  return lambda rows: OP.format(n=8, op=f"{op}(%x)",
                                inputs=f"%x: bf16[{rows}, 4096]",
                                result=f"bf16[{rows}, 4096]")


def gather_over(n):
  return lambda rows: OP.format(
      n=n, op="all_gather(%x) {dim=0, axes=tp}", result=f"bf16[{rows}, 4096]",
      inputs=f"%x: bf16[{rows}@tp, 4096]")


# Figure 7: rows of 4096 that K tiles divide, and what the paper says of K = 2.
TILES = [1, 2, 4, 8]
TILED_ROWS = 16384
TILED = [("matmul", matmul, "at least 90"), ("attention", attention, "at least 90"),
         ("softmax", unary("softmax"), "80 to 90"),
         ("gelu", unary("gelu"), "80 to 90"),
         ("all_gather, 8 of a host", gather_over(8), "at least 80"),
         ("all_gather, two hosts", gather_over(16), "at least 70")]


def tiles_row(name, program, paper):
  steps = [Step(program(TILED_ROWS // k), flags("")) for k in TILES]

  def text(*said):
    us = [one["baseline"]["makespan_us"] for one in said]
    return line(name, f"{us[0]:.0f}",
                *[f"{100 * us[0] / (k * time):.0f}"
                  for k, time in zip(TILES[1:], us[1:])], paper)

  return Row(steps, text)


TABLES = [
    Table("matched-work",
          ["program", "tokens", "ms before", "after", "bubble % before",
           "after", "paper: ms before", "after", "bubble % before", "after"],
          [matched_row(*row) for row in MATCHED]),
    Table("decode",
          ["step", "ms of a layer", "bubble %", "speedup", "paper: ms",
           "bubble %", "speedup"], DECODE_ROWS),
    Table("training-tp",
          ["program", "tokens", "ms before", "after", "faster by %",
           "paper: ASYRA", "paper: AsyncTP"],
          [training_row(*row) for row in TP_STEPS]),
    Table("tiling-factor",
          ["op", "us whole", "2 tiles %", "4 %", "8 %", "paper, 2 tiles"],
          [tiles_row(*row) for row in TILED]),
]

if __name__ == "__main__":
  sys.exit(main(PAGE, TABLES, __doc__))
