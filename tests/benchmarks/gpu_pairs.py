#!/usr/bin/env python3
"""A gather before a matmul and a scatter behind one on the GPUs of this host:
one op with a chunk plan, one after the other by the library and by copy engines,
tiles, and PyTorch, in one go.

The shapes are those of asyra-bench --pairs: the MLPs of TileLink's table 4 and
last projections. Prints one table: the limit is the longer of matmul and
collective alone, in this run; "tuned" is the plan that the simulator chooses,
"best" the fastest that was measured. Two estimates of the tuned plan are
compared with it: "error %" by the costs of --machine, "parts %" from the times
of its matmuls and collectives alone, as this run measured them. Rows in which
tiles or the ops one after the other win say so. --json keeps everything that
was measured.

  gpu_pairs.py TOOLS_DIR --machine h200x2 --json pairs.json   # in six minutes
  gpu_pairs.py TOOLS_DIR --device cpu       # small shapes on ranks of the cpu
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH_MODES = ["eager", "fused", "async"]
COLUMNS = ["limit", "NCCL", "copies", "tiles", "tuned", "best"]


def measured_here(args):
  """What asyra-bench says, as JSON."""
  command = [os.path.join(args.tools, "asyra-bench"), "--pairs", "--no-grid",
             "--json", "--device", args.device, "--seconds", str(args.seconds)]
  if args.machine:
    command += ["--machine", args.machine]
  if args.ranks:
    command += ["--bench-ranks", str(args.ranks)]
  if args.table:
    command += ["-o", args.table]
  done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                        capture_output=True, timeout=args.seconds + 120)
  if done.returncode != 0:
    sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
  return json.loads(done.stdout)


def torch_command(pairs, ranks, args):
  """Empty without PyTorch."""
  if args.torch_launcher:
    return [*args.torch_launcher.split(), pairs, ",".join(TORCH_MODES)]
  if importlib.util.find_spec("torch") is None:
    return []
  modes = TORCH_MODES if args.device == "cuda" else ["eager"]
  return [sys.executable, "-m", "torch.distributed.run", "--standalone",
          "--nproc-per-node", str(ranks),
          os.path.join(HERE, "torch_pairs.py"), pairs, ",".join(modes),
          "--device", args.device]


def measured_by_torch(said, args):
  """{pair: {mode: us, or what went wrong}} of what it did in its time."""
  results = {pair["name"]: {} for pair in said["pairs"]}
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "pairs.json")
    with open(path, "w") as file:
      json.dump(said["pairs"], file)
    command = torch_command(path, said["ranks"], args)
    if not command:
      print("no PyTorch is found", file=sys.stderr)
      return results
    # Multicast is for whole machines alone.
    env = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0",
           **os.environ}
    lines = os.path.join(folder, "lines")
    try:
      with open(lines, "w") as file:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file,
                              stderr=subprocess.PIPE, text=True, env=env,
                              timeout=args.torch_seconds)
      if done.returncode != 0:
        print(f"PyTorch: {done.stderr.strip()[-600:]}", file=sys.stderr)
    except subprocess.TimeoutExpired:
      print("PyTorch: the time was over", file=sys.stderr)
    with open(lines) as file:
      for line in file:
        if not line.startswith("{"):
          continue
        one = json.loads(line)
        results[one["pair"]][one["mode"]] = one.get("us", one.get("error"))
  return results


class Row:
  """One pair, in us; None for what was not measured."""

  def __init__(self, pair, torch):
    self.name, self.gathers = pair["name"], pair["gathers"]
    forms = [form for form in pair["forms"] if "us" in form]

    def fastest(kind, word=""):
      us = [form["us"] for form in forms
            if form["kind"] == kind and word in form["name"]]
      return min(us) if us else None

    self.us = {"limit": pair["limit_us"] or None,
               "NCCL": fastest("serial", "library"),
               "copies": fastest("serial", "copy_engine"),
               "tiles": fastest("tiles"),
               "tuned": None, "best": fastest("plan")}
    self.predicted = self.of_parts = self.plan = None
    for form in forms:
      if form.get("tuned"):
        self.us["tuned"], self.predicted = form["us"], form["predicted_us"]
        self.of_parts = form.get("of_parts_us")
      if form["kind"] == "plan" and form["us"] == self.us["best"]:
        self.plan = form["name"]
    self.torch = {mode: us for mode, us in torch.items()
                  if isinstance(us, (int, float))}

  def over(self, base):
    """How much faster the best plan is than a column."""
    return ratio(self.us[base], self.us["best"])

  def over_torch(self):
    return ratio(min(self.torch.values(), default=None), self.us["best"])

  def limit_percent(self):
    share = ratio(self.us["limit"], self.us["best"])
    return None if share is None else 100 * share

  def error_percent(self, estimate):
    share = ratio(estimate, self.us["tuned"])
    return None if share is None else 100 * (share - 1)

  def winner(self):
    """What a program would run as."""
    forms = {name: us for name, us in self.us.items()
             if name != "limit" and us is not None}
    if not forms:
      return "-"
    name = min(forms, key=forms.get)
    return self.plan if name in ("tuned", "best") else name


def ratio(above, below):
  return above / below if above and below else None


def text(value, form):
  return "-" if value is None else format(value, form)


def print_table(rows):
  width = max(len(row.name) for row in rows)
  heads = [f"{name:>8}" for name in
           COLUMNS + ["% limit", "/NCCL"] + TORCH_MODES +
           ["/torch", "predict", "error %", "parts %"]]
  print(f"{'us':<{width}}{''.join(heads)}  runs as")
  for row in rows:
    cells = [text(row.us[name], "8.1f") for name in COLUMNS]
    cells += [text(row.limit_percent(), "8.1f"), text(row.over("NCCL"), "8.2f")]
    cells += [text(row.torch.get(mode), "8.1f") for mode in TORCH_MODES]
    cells += [text(row.over_torch(), "8.2f"), text(row.predicted, "8.1f"),
              text(row.error_percent(row.predicted), "+8.1f"),
              text(row.error_percent(row.of_parts), "+8.1f")]
    print(f"{row.name:<{width}}{''.join(f'{c:>8}' for c in cells)}  "
          f"{row.winner()}")


def known(values):
  return [value for value in values if value is not None]


def mean(values):
  values = known(values)
  return math.exp(statistics.mean(map(math.log, values))) if values else None


def print_summary(rows):
  for gathers, name in ((True, "gather + matmul"), (False, "matmul + scatter")):
    some = [row for row in rows if row.gathers == gathers]
    limits = known(row.limit_percent() for row in some)
    serial = known(row.over("NCCL") for row in some)
    torch = known(row.over_torch() for row in some)
    print(f"{name}: {text(min(limits, default=None), '.1f')} % of the limit at "
          f"least; {text(mean(serial), '.3f')} times as fast as NCCL in the "
          f"mean, {text(min(serial, default=None), '.3f')} at least; "
          f"{text(mean(torch), '.3f')} times as fast as PyTorch's best, "
          f"{text(min(torch, default=None), '.3f')} at least")
  for name, estimates in (
      ("errors of prediction", [row.predicted for row in rows]),
      ("by the parts alone", [row.of_parts for row in rows])):
    errors = [abs(error) for error in known(
        row.error_percent(us) for row, us in zip(rows, estimates))]
    if errors:
      print(f"{name}: median {statistics.median(errors):.1f} %, "
            f"largest {max(errors):.1f} %, of {len(errors)}")


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("tools", help="folder of the built tools")
  parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
  parser.add_argument("--ranks", type=int, default=0,
                      help="all GPUs, or 2 on a cpu, unless given")
  parser.add_argument("--machine", help="what is predicted is of it")
  parser.add_argument("--seconds", type=int, default=200,
                      help="for asyra-bench")
  parser.add_argument("--torch-seconds", type=int, default=140)
  parser.add_argument("--no-torch", action="store_true")
  parser.add_argument("--torch-launcher",
                      help="a command that stands for PyTorch's, for tests")
  parser.add_argument("--table", help="a table of costs of what was measured")
  parser.add_argument("--json", help="file for all that was measured")
  args = parser.parse_args()
  said = measured_here(args)
  torch = ({pair["name"]: {} for pair in said["pairs"]} if args.no_torch
           else measured_by_torch(said, args))
  if args.json:
    with open(args.json, "w") as file:
      json.dump({**said, "torch": torch}, file, indent=1)
  rows = [Row(pair, torch[pair["name"]]) for pair in said["pairs"]]
  print(f"{said['device']}, {said['ranks']} ranks")
  print_table(rows)
  print_summary(rows)


if __name__ == "__main__":
  main()
