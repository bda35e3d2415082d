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
import csv
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

from gpu_steps import moe_block
from gpu_train import WARM_UP, write_tokens

HEAD = "--dim vocabulary=8192 --dim logits=1"
# What a user would type after asyra-opt; {n} is the number of ranks, {moe} a
# block of experts alone with 4096 tokens on each.
ROWS = [
    "llama3-8b --dim layers=4 --dim batch=2 --dim seq=8192 " + HEAD +
    " --tp {n}",
    "gpt3-6.7b --dim layers=4 --dim batch=4 --dim seq=2048 " + HEAD +
    " --sp {n}",
    "{moe} --ep {n}",
    "llama3-8b --dim layers=2 --dim batch=2 --dim seq=4096"
    " --dim vocabulary=8192 --tp {n} --train --search-steps 200",
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
    out = path if self.trains() else path + ".asyra"
    call([self.tool("asyra-opt"), *self.flags, *self.machine(), "--ranks-as",
          kind, "-o", out], self.args.timeout)
    return out

  def trains(self):
    return "--train" in self.flags

  def predicted_us(self, kind):
    if self.trains():
      with open(os.path.join(self.programs[kind], "training.json")) as file:
        return json.load(file)["predicted_us"]
    said = call([self.tool("asyra-sim"), "run", self.programs[kind],
                 *self.machine(), "--ranks-as", kind, "--json", "-"],
                self.args.timeout)
    return json.loads(said)["makespan_us"]

  def launched(self, kind, tool, *flags):
    """What a tool says; its program and device come first."""
    launch = []
    if kind == "processes":
      launch = shlex.split(self.args.launch.replace("{ranks}",
                                                    str(self.args.ranks)))
    return call([*launch, self.tool(tool), self.programs[kind], "--device",
                 self.args.device, "--random-weights", *flags],
                self.args.timeout)

  def run(self, kind):
    """Median us of a step, and the collectives where the tool lists them."""
    if self.trains():
      return self.train(kind), []
    said = self.launched(kind, "asyra-run", "--repeat", str(self.args.repeat),
                         "--json")
    # Launchers may say something before.
    said = json.loads(said[said.index("{"):])
    return said["steps"]["median_us"], said["collectives"]

  def train(self, kind):
    """asyra-run would move all states between host and device in each step."""
    folder = self.programs[kind]
    tokens, table = (os.path.join(folder, name)
                     for name in ("tokens.bin", "steps.csv"))
    write_tokens(tokens, 1 << 16, 256)
    self.launched(kind, "asyra-train", "--data", tokens, "--rate", "1e-5",
                  "--steps", str(WARM_UP + self.args.repeat), "--csv", table)
    with open(table) as file:
      rates = [float(step["tokens_per_s"]) for step in csv.DictReader(file)]
    return self.tokens() / statistics.median(rates[WARM_UP:]) * 1e6

  def tokens(self):
    """Of a step."""
    dims = dict(flag.split("=") for flag in self.flags if "=" in flag)
    return int(dims["batch"]) * int(dims["seq"])

  def measure(self):
    result = {"row": " ".join(self.flags)}
    for kind in KINDS:
      result[kind] = {"predicted_us": self.predicted_us(kind), "median_us": []}
    for _ in range(self.args.rounds):
      for kind in KINDS:
        us, collectives = self.run(kind)
        result[kind]["median_us"].append(us)
        result[kind]["collectives"] = collectives
    times = [statistics.median(result[kind]["median_us"]) for kind in KINDS]
    result["ratio"] = times[1] / times[0]
    return result


def carriers(collectives):
  """"12 copy_engine, 3 library"."""
  counts = {}
  for one in collectives:
    counts[one["ran"]] = counts.get(one["ran"], 0) + one["count"]
  return ", ".join(f"{counts[ran]} {ran}" for ran in sorted(counts))


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
