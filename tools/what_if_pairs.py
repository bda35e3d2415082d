#!/usr/bin/env python3
"""Compares steps of random what-if pairs: a machine with and without a better
number, or a search with and without twice the steps.

Usage: tools/what_if_pairs.py [--build DIR] [--pairs N] [--seed N] [--jobs N]

Prints the pairs whose better half is slower by more than a thousandth, then
how many there were; the exit status says whether any was.
"""

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SLOWER = 1.001

# Model, and how many layers.
MODELS = [("gpt3-125m", 2), ("llama3-8b", 1), ("llama3-8b", 4),
          ("llama3-70b", 2), ("qwen3-30b-a3b", 2)]
MESHES = [["--tp", "2"], ["--tp", "4"], ["--tp", "8"], ["--sp", "2"],
          ["--sp", "4"], ["--dp", "2", "--tp", "2"], ["--tp", "4", "--sp", "2"],
          ["--tp", "2", "--sp", "4", "--dp", "2"]]
MACHINES = ["a100x8", "a800x8", "h100x8", "h800x8", "h200x8", "b200x8"]
BETTER = ["host.link_gbps*=2", "host.copy_gbps*=2", "host.cta_gbps*=2",
          "gpu.hbm_gbps*=2", "gpu.vector_tflops*=2",
          "gpu.matrix_tflops.bf16*=2", "gpu.kernel_us*=0.5", "launch_us*=0.5",
          "network.gbps*=2", "network.alpha_us*=0.5"]
STEPS = [200, 500, 1000, 2500]


def draw(rng, numbers):
  """The two halves of a pair as flags; the second is the better one."""
  model, layers = rng.choice(MODELS)
  machine = rng.choice([m for m in MACHINES if m in numbers])
  flags = [model, "--dim", f"layers={layers}",
           "--dim", f"batch={rng.choice([1, 2, 4, 8])}",
           "--dim", f"seq={rng.choice([256, 512, 1024, 2048])}",
           *rng.choice(MESHES), "--machine", machine]
  steps = rng.choice(STEPS)
  if rng.random() < 0.25:
    return (flags + ["--search-steps", str(steps)],
            flags + ["--search-steps", str(2 * steps)])
  flags += ["--search-steps", str(steps)]
  known = [b for b in BETTER if b.split("*")[0] in numbers[machine]]
  return flags, flags + ["--set", rng.choice(known)]


def makespan(tool, flags):
  """Microseconds, or None where the setting is refused."""
  run = subprocess.run([tool, "run", *flags, "--capacity", "0", "--json", "-"],
                       capture_output=True, text=True, check=False)
  if run.returncode != 0:
    return None
  return json.loads(run.stdout)["makespan_us"]


def numbers_of(machine):
  """The keys of a machine's numbers, as --set names them."""
  path = os.path.join(ROOT, "simulator", "machines", machine + ".machine")
  keys = set()

  def collect(node, prefix):
    for key, value in node.items():
      if isinstance(value, dict) and set(value) != {"peak", "achievable"}:
        collect(value, prefix + key + ".")
      elif value:
        keys.add(prefix + key)

  with open(path, encoding="utf-8") as file:
    collect(json.load(file), "")
  return keys


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
  parser.add_argument("--pairs", type=int, default=200)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--jobs", type=int, default=2)
  args = parser.parse_args()
  tool = os.path.join(args.build, "tools", "asyra-sim")
  rng = random.Random(args.seed)
  known = {m: numbers_of(m) for m in MACHINES if os.path.exists(
      os.path.join(ROOT, "simulator", "machines", m + ".machine"))}
  refused = slower = done = 0

  def measure(pair):
    return pair, [makespan(tool, flags) for flags in pair]

  with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
    pairs = [draw(rng, known) for _ in range(args.pairs)]
    for (_, better), (before, after) in pool.map(measure, pairs):
      if before is None or after is None:
        refused += 1
        continue
      done += 1
      if after > before * SLOWER:
        slower += 1
        print(f"{before:.1f} -> {after:.1f} us: {' '.join(better)}",
              flush=True)
  print(f"seed {args.seed}: {done} pairs, {slower} slower by more than "
        f"{SLOWER - 1:.1%}, {refused} refused")
  return 1 if slower or not done else 0


if __name__ == "__main__":
  sys.exit(main())
