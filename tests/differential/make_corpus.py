#!/usr/bin/env python3
"""Makes the corpus that CI runs anew, of small graphs of fixed seeds.

  tests/differential/make_corpus.py build/release/tools --graphs 250

A seed is left out, and printed, where its case is large, or where one of its
runs is a finding: that belongs into a fix first.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile

import corpus
import runs
from random_graphs import make_case

HERE = os.path.dirname(os.path.abspath(__file__))
LARGEST_BYTES = 16000
MESHES = 2


def bytes_of(folder):
  return sum(os.path.getsize(os.path.join(at, name))
             for at, _, names in os.walk(folder) for name in names)


def make(job):
  """Writes the seed's case; its number of passed runs, or why it is left."""
  tools_dir, root, seed = job
  folder = os.path.join(root, f"{seed:05}")
  case, why = make_case(seed, folder)
  if case is not None and bytes_of(folder) > LARGEST_BYTES:
    case, why = None, "large"
  passed = 0
  if case is not None:
    case["runs"] = runs.draw_runs(random.Random(f"corpus {seed}"), MESHES)
    for flags in case["runs"]:
      verdict = runs.run(tools_dir, folder, case, flags)
      passed += verdict.kind == "passed"
      if not verdict.ok:
        why = f"{verdict.kind}: {verdict.said}"
        break
  if why:
    return seed, folder, 0, why
  case["passed"] = passed
  with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as file:
    json.dump(case, file)
  return seed, folder, passed, ""


def remove(folder):
  for at, _, names in os.walk(folder, topdown=False):
    for name in names:
      os.remove(os.path.join(at, name))
    os.rmdir(at)


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("tools_dir")
  parser.add_argument("--graphs", type=int, default=250)
  parser.add_argument("--first-seed", type=int, default=0)
  parser.add_argument("--jobs", type=int, default=os.cpu_count())
  parser.add_argument("--out", default=os.path.join(HERE, corpus.NAME))
  args = parser.parse_args()
  graphs = passed = 0
  with tempfile.TemporaryDirectory() as root, \
       multiprocessing.Pool(args.jobs) as pool:
    jobs = ((args.tools_dir, root, seed)
            for seed in range(args.first_seed, args.first_seed + 1000000))
    for seed, folder, count, why in pool.imap(make, jobs):
      if graphs == args.graphs:
        break
      if why:
        if why != "large":
          print(f"seed {seed} is left out: {why}")
        remove(folder)
        continue
      graphs, passed = graphs + 1, passed + count
    pool.terminate()
    pool.join()
    for folder in corpus.folders(root):
      if int(os.path.basename(folder)) >= seed:
        remove(folder)
    corpus.pack(root, args.out)
  print(f"{graphs} graphs, {passed} runs passed, "
        f"{os.path.getsize(args.out)} bytes")


if __name__ == "__main__":
  sys.exit(main())
