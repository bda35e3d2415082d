#!/usr/bin/env python3
"""Ranks as threads of one process against ranks as processes, in turn.

Each row is compiled for both (asyra-opt --ranks-as) and then runs in turn as
threads and under a launcher, some rounds. The table has the prediction and the
median of each, their ratio, and what carried the collectives; --json keeps all
of it. The exit code is 1 where processes take more than --limit longer.

  gpu_processes.py TOOLS_DIR                  # two GPUs, torchrun
  gpu_processes.py TOOLS_DIR --ranks 8
  gpu_processes.py TOOLS_DIR --device cpu --row 'gpt3-tiny --tp 2' --launch \\
      'mpirun --oversubscribe --bind-to none -n {ranks}'   # tries it without
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

from gpu_steps import moe_block

HEAD = "--dim vocabulary=8192 --dim logits=1"
# What a user would type after asyra-opt; {n} is the number of ranks, {moe} a
# block of experts alone with 4096 tokens on each.
ROWS = [
    "llama3-8b --dim layers=4 --dim batch=2 --dim seq=8192 " + HEAD +
    " --tp {n}",
    "gpt3-6.7b --dim layers=4 --dim batch=4 --dim seq=2048 " + HEAD +
    " --sp {n}",
    "{moe} --ep {n}",
    "llama3-8b --dim layers=2 --dim batch=2 --dim seq=2048"
    " --dim vocabulary=8192 --tp {n} --train",
]
KINDS = ("threads", "processes")


def call(command, timeout):
  """Standard output; what went wrong ends the row."""
  done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                        capture_output=True, timeout=timeout)
  if done.returncode != 0:
    lines = done.stderr.strip().splitlines() or ["no word"]
    # Launchers say much around it.
    own = [line for line in lines if line.startswith("asyra-")]
    raise RuntimeError((own or lines)[0])
  return done.stdout


class Row:
  """One model on so many ranks, compiled for both kinds."""

  def __init__(self, args, flags, folder):
    self.args = args
    if "{moe}" in flags:
      flags = flags.replace("{moe}", moe_block(4096, args.ranks))
    self.flags = shlex.split(flags.replace("{n}", str(args.ranks)))
    self.programs = {}
    for kind in KINDS:
      self.programs[kind] = self.compiled(kind, os.path.join(folder, kind))

  def tool(self, name):
    return os.path.join(self.args.tools, name)

  def machine(self):
    return [] if self.args.machine is None else ["--machine", self.args.machine]

  def compiled(self, kind, path):
    train = "--train" in self.flags
    out = path if train else path + ".asyra"
    call([self.tool("asyra-opt"), *self.flags, *self.machine(), "--ranks-as",
          kind, "-o", out], self.args.timeout)
    return os.path.join(out, "step.asyra") if train else out

  def predicted_us(self, kind):
    said = call([self.tool("asyra-sim"), "run", self.programs[kind],
                 *self.machine(), "--ranks-as", kind, "--json", "-"],
                self.args.timeout)
    return json.loads(said)["makespan_us"]

  def run(self, kind):
    launch = []
    if kind == "processes":
      launch = shlex.split(self.args.launch.replace("{ranks}",
                                                    str(self.args.ranks)))
    said = call([*launch, self.tool("asyra-run"), self.programs[kind],
                 "--device", self.args.device, "--random-weights", "--repeat",
                 str(self.args.repeat), "--json"], self.args.timeout)
    # Launchers may say something before.
    return json.loads(said[said.index("{"):])

  def measure(self):
    result = {"row": " ".join(self.flags)}
    for kind in KINDS:
      result[kind] = {"predicted_us": self.predicted_us(kind), "median_us": []}
    for _ in range(self.args.rounds):
      for kind in KINDS:
        said = self.run(kind)
        result[kind]["median_us"].append(said["steps"]["median_us"])
        result[kind]["collectives"] = said["collectives"]
    times = [statistics.median(result[kind]["median_us"]) for kind in KINDS]
    result["ratio"] = times[1] / times[0]
    return result


def carriers(collectives):
  """"12 copy_engine, 3 library"."""
  counts = {}
  for one in collectives:
    counts[one["ran"]] = counts.get(one["ran"], 0) + one["count"]
  return ", ".join(f"{counts[ran]} {ran}" for ran in sorted(counts)) or "none"


def show(result):
  print(result["row"])
  for kind in KINDS:
    one = result[kind]
    print(f"  {kind:<10} {one['predicted_us'] / 1e3:9.3f} ms predicted "
          f"{statistics.median(one['median_us']) / 1e3:9.3f} ms   "
          f"{carriers(one['collectives'])}")
    for collective in one["collectives"]:
      if "obstacle" in collective:
        print(f"             {collective['count']} {collective['op']}: "
              f"{collective['obstacle']}")
  print(f"  processes take {result['ratio']:.4f} of the time of threads",
        flush=True)


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("tools")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--device", default="cuda")
  parser.add_argument("--machine")
  parser.add_argument("--launch",
                      default="torchrun --nproc-per-node {ranks} --no-python")
  parser.add_argument("--row", action="append",
                      help="flags of asyra-opt, instead of the rows here")
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--repeat", type=int, default=20)
  parser.add_argument("--limit", type=float, default=0.01)
  parser.add_argument("--timeout", type=float, default=600)
  parser.add_argument("--json", help="a file for all that was measured")
  args = parser.parse_args()
  results, failed = [], False
  for flags in args.row or ROWS:
    try:
      with tempfile.TemporaryDirectory() as folder:
        results.append(Row(args, flags, folder).measure())
    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
      print(f"{flags}\n  {error}", flush=True)
      failed = True
      continue
    show(results[-1])
    failed |= results[-1]["ratio"] > 1 + args.limit
  if args.json:
    with open(args.json, "w") as file:
      json.dump(results, file, indent=2)
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
