#!/usr/bin/env python3
"""Whether the simulator ranks schedules as the GPUs of this host do.

Schedules of one model, found with other flags each, take turns step by step in
one process; their times are shown beside the predicted ones. Kendall's tau
says how many pairs are in the predicted order: 1 all, 0 half, -1 none. Pairs
whose real times are closer than --tie percent are left out of the second tau.

Usage: gpu_orders.py TOOLS_DIR [--machine M] [--ranks 2] [--rows REGEX]
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import statistics
import sys
import tempfile

from gpu_steps import ROWS, flags_of, name_of, said

CANDIDATES = {
    "whole": ["--tiles", "1"],
    "nccl": ["--set", "host.copy_engines=0"],
    "not fused": ["--no-fuse"],
    "segrr": ["--tiles", "2", "--scheduler", "segrr"],
    "round robin": ["--tiles", "2", "--scheduler", "round_robin"],
    "serial": ["--tiles", "2", "--scheduler", "serial"],
    "4 tiles": ["--tiles", "4"],
    "sequence": ["--tp-strategy", "sequence"],
    "replicated": ["--tp-strategy", "replicated"],
    "nccl sequence": ["--tp-strategy", "sequence", "--set",
                      "host.copy_engines=0"],
    "nccl replicated": ["--tp-strategy", "replicated", "--set",
                        "host.copy_engines=0"],
}


def tau(pairs):
  """Of (predicted, real) and (predicted, real)."""
  signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in pairs]
  return (sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / len(signs)


def compiled(row, args, folder):
  """Program files by candidate, equal ones once."""

  def one(name):
    path = os.path.join(folder, name.replace(" ", "_") + ".asyra")
    _, error = said([os.path.join(args.tools, "asyra-opt"),
                     *flags_of(row, args.ranks), "--machine", args.machine,
                     *CANDIDATES[name], "-o", path], args.timeout)
    if error:
      print(f"  {name}: {error}", flush=True)
      return name, None, None
    with open(path) as file:
      return name, path, file.read()

  files, texts = {}, set()
  with concurrent.futures.ThreadPoolExecutor() as pool:
    for name, path, text in pool.map(one, CANDIDATES):
      if path and text not in texts:
        texts.add(text)
        files[name] = path
  return files


def order(row, args):
  """Prints a line for each schedule; all pairs of their times."""
  print(name_of(row), flush=True)
  with tempfile.TemporaryDirectory() as folder:
    files = compiled(row, args, folder)
    out, error = said(
        [os.path.join(args.tools, "asyra-run"), *flags_of(row, args.ranks),
         "--random-weights", "--device", "cuda", "--machine", args.machine,
         "--repeat", str(args.repeat), "--json", "--against", "unscheduled",
         *files.values()], args.timeout)
  if error:
    print(f"  {error}")
    return []
  runs = json.loads(out)["in_turn"]
  names = ["auto", "unscheduled", *files]
  times = []
  for name, run in sorted(zip(names, runs),
                          key=lambda one: one[1]["predicted_us"]):
    predicted, real = run["predicted_us"] / 1e3, run["steps"]["median_us"] / 1e3
    times.append((predicted, real))
    print(f"  {name:<18}{predicted:>9.2f}{real:>9.2f}{real / predicted - 1:>8.1%}")
  pairs = list(itertools.combinations(times, 2))
  apart = [(a, b) for a, b in pairs
           if abs(a[1] - b[1]) > args.tie / 100 * min(a[1], b[1])]
  print(f"  tau {tau(pairs):.2f}, of {len(apart)} pairs more than {args.tie:g} % "
        f"apart {tau(apart) if apart else 1:.2f}", flush=True)
  return [(tau(pairs), tau(apart) if apart else 1,
           statistics.median(abs(r / p - 1) for p, r in times))]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--repeat", type=int, default=20)
  parser.add_argument("--rows", default="8b x4 4x4096 tp")
  parser.add_argument("--tie", type=float, default=1)
  parser.add_argument("--timeout", type=float, default=240)
  args = parser.parse_args()
  print("ms of a step, predicted and real")
  rows = [row for row in ROWS if re.search(args.rows, name_of(row))]
  results = [result for row in rows for result in order(row, args)]
  if results:
    all_pairs, apart, errors = zip(*results)
    print(f"mean tau {statistics.mean(all_pairs):.2f} and "
          f"{statistics.mean(apart):.2f}, median error "
          f"{statistics.median(errors):.1%}")
  sys.exit(0 if len(results) == len(rows) else 1)


if __name__ == "__main__":
  main()
