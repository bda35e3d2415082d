#!/usr/bin/env python3
"""A reduction, a residual and a norm: as one kernel over the GPUs' memories, and
as the library's collectives with a fused residual and norm between them.

Each shape is timed by asyra-bench in both forms: all_reduce with the norm of all
rows on each GPU, and reduce_scatter with the norm of a GPU's rows and an
all_gather behind it. The exit code is 1 where one kernel is slower than the
faster of the two, as the simulator would have to know.

  gpu_fused_reductions.py TOOLS_DIR --machine h200x2
  gpu_fused_reductions.py TOOLS_DIR --machine h200x4 --ranks 4
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = """asyra 1 local
mesh (tp={ranks})

program @f(%a: bf16[1, {rows}, {k}@tp], %b: bf16[{cols}, {k}@tp] weight,
    %r: bf16[1, {rows}{cut}, {cols}], %w: bf16[{cols}] weight) ->
    (bf16[1, {rows}{cut}, {cols}], bf16[1, {rows}, {cols}]) {{
  %x = matmul(%a, %b) {{transpose_b=true}} : bf16[1, {rows}, {cols}] partial(tp)
  %sum = {reduction} : bf16[1, {rows}{cut}, {cols}]
  %s, %n = fusion(%r, %sum, %w) {{
    %3 = add(%0, %1) : bf16[1, {rows}{cut}, {cols}]
    %4 = rms_norm(%3, %2) {{eps=1e-05}} : bf16[1, {rows}{cut}, {cols}]
    return %3, %4
  }} : bf16[1, {rows}{cut}, {cols}], bf16[1, {rows}{cut}, {cols}]
{gather}}}
"""
ALL_REDUCE = {"cut": "", "reduction": "all_reduce(%x) {axes=tp}",
              "gather": "  return %s, %n\n"}
SCATTERED = {"cut": "@tp",
             "reduction": "reduce_scatter(%x) {dim=1, axes=tp}",
             "gather": "  %g = all_gather(%n) {{dim=1, axes=tp}} : "
                       "bf16[1, {rows}, {cols}]\n  return %s, %g\n"}
FORMS = {"all_reduce": ALL_REDUCE, "reduce_scatter": SCATTERED}
ONE_KERNEL = "start_collectives, fuse_reductions{always=true}"
APART = "start_collectives"


def program(form, rows, cols, ranks):
  parts = dict(FORMS[form])
  sizes = {"rows": rows, "cols": cols}
  parts["gather"] = (parts["gather"].format(**sizes)
                     if "{{" in parts["gather"] else parts["gather"])
  return PROGRAM.format(ranks=ranks, k=128 * ranks, **sizes, **parts)


def measured(args, files, passes, folder):
  """The points of a table of costs."""
  out = os.path.join(folder, "measured.table")
  subprocess.run(
      [os.path.join(args.tools, "asyra-bench"), *files, "--passes", passes,
       "--machine", args.machine, "--bench-ranks", str(args.ranks),
       "--no-grid", "--seconds", str(args.seconds), "-o", out],
      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
  with open(out) as file:
    return json.load(file)["points"]


def one_kernels(points):
  """us by form, rows and columns."""
  times = {}
  for point in points:
    call = point["call"]
    if "form=one_kernel" not in call:
      continue
    form = "all_reduce" if "all_reduce(" in call else "reduce_scatter"
    # Of the widest value, the summands.
    rows, cols = map(int, re.search(
        r"bf16\[1, (\d+), (\d+)\] partial", call).groups())
    times[form, rows, cols] = point["us"]
  return times


class Apart:
  """us of what one kernel replaces."""

  def __init__(self, points, ranks):
    self.ranks, self.collectives, self.fusions = ranks, {}, {}
    for point in points:
      call = point["call"]
      moved = re.match(r"(\w+)\(bf16\[(\d+)(?:@x)?\]", call)
      norm = re.match(r"fusion\(bf16\[1, (\d+), (\d+)\]", call)
      if moved and "copy_engine" not in call:
        self.collectives[moved[1], int(moved[2])] = point["us"]
      elif norm:
        self.fusions[int(norm[1]), int(norm[2])] = point["us"]

  def us(self, form, rows, cols):
    moves = ["all_reduce"]
    mine = rows
    if form == "reduce_scatter":
      moves, mine = ["reduce_scatter", "all_gather"], rows // self.ranks
    return (sum(self.collectives[move, rows * cols] for move in moves) +
            self.fusions[mine, cols])


def line_of(rows, cols, times):
  text = f"{rows:>6}{cols:>8}{rows * cols * 2 / 2**20:>7.0f}"
  for split, one in times:
    text += f"{split:>10.1f}{one:>8.1f}{split / one:>7.2f}     "
  return text.rstrip()


def table(shapes, kernels, apart):
  """Its lines, and how many shapes are slower as one kernel."""
  text = ["  rows columns    MiB"
          "  all_reduce + norm             reduce_scatter + norm + all_gather",
          " " * 23 + f"{'apart':>8}{'one':>8}{'ratio':>7}"
          f"{'':>7}{'apart':>8}{'one':>8}{'ratio':>7}"]
  slower = 0
  for rows, cols in shapes:
    try:
      times = [(apart.us(form, rows, cols), kernels[form, rows, cols])
               for form in FORMS]
    except KeyError as lacking:
      text.append(f"{rows:>6}{cols:>8}  not measured: {lacking}")
      continue
    slower += min(one for _, one in times) > min(split for split, _ in times)
    text.append(line_of(rows, cols, times))
  text.append(f"{slower} of {len(shapes)} shapes are slower as one kernel")
  return text, slower


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("--machine", default="h200x2")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--rows", type=int, nargs="+",
                      default=[128, 256, 512, 1024, 2048])
  parser.add_argument("--columns", type=int, nargs="+", default=[4096, 8192])
  parser.add_argument("--seconds", type=float, default=60)
  args = parser.parse_args()
  shapes = [(rows, cols) for cols in args.columns for rows in args.rows]
  with tempfile.TemporaryDirectory() as folder:
    files = []
    for form in FORMS:
      for rows, cols in shapes:
        files.append(os.path.join(folder, f"{form}_{rows}_{cols}.asyra"))
        with open(files[-1], "w") as file:
          file.write(program(form, rows, cols, args.ranks))
    kernels = one_kernels(measured(args, files, ONE_KERNEL, folder))
    apart = Apart(measured(args, files, APART, folder), args.ranks)
  text, slower = table(shapes, kernels, apart)
  print("\n".join(text))
  sys.exit(1 if slower else 0)


if __name__ == "__main__":
  main()
