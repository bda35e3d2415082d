#!/usr/bin/env python3
"""Random graphs: does asyra-run compute what ONNX Runtime computes?

  tests/differential/random_graphs.py build/release/tools --seeds 0:1000

Each seed is one graph with its inputs; it runs on one device, on the
interpreter, and over random meshes with random flags. A run passes, is refused
for a true reason, or is a finding: a wrong result, a crash, a hang, an internal
error, an untrue or unknown refusal. Findings are reduced and kept under --out.
The graphs and runs of a seed are always the same. Needs the Python packages
onnx, onnxruntime and numpy.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time

try:
  import case as cases
  import reference
  import runs
  from generate import generate
  from reduce import reduce_finding
except ImportError as error:
  sys.exit(f"random_graphs.py: {error}")


def make_case(seed, folder):
  """Writes the seed's case; its description, or None and why it is unfit."""
  try:
    g = generate(seed)
  except Exception as error:  # a node that ONNX Runtime refuses
    return None, f"not generated: {str(error)[:100]}"
  model, feeds = g.model(), reference.feeds_of(g)
  try:
    outputs = reference.outputs_of(model, feeds, g.hides_rows)
  except reference.Unfit as unfit:
    return None, str(unfit)
  case = cases.describe(g, model, reference.RTOL, reference.ATOL)
  case |= {"seed": seed, "theme": g.theme, "hides_rows": g.hides_rows,
           "nodes": sum(n.op_type != "Constant" for n in g.nodes)}
  cases.write(folder, model, feeds, outputs, case)
  return case, ""


def keep(args, seed, number, folder, case, flags, verdict):
  """Saves a finding and its reduction under --out."""
  kept = os.path.join(args.out, f"{seed}-{number}-{verdict.kind}")
  shutil.copytree(folder, kept, dirs_exist_ok=True)
  note = [*map(" ".join, runs.commands(args.tools_dir, ".", case, flags)),
          f"{verdict.kind}: {verdict.said}"]
  with open(os.path.join(kept, "NOTE"), "w", encoding="utf-8") as file:
    file.write("\n".join(note) + "\n")
  with open(os.path.join(kept, "case.json"), "w", encoding="utf-8") as file:
    json.dump(case | {"flags": flags}, file)
  if args.reduce:
    reduce_finding(args.tools_dir, kept)


def run_seed(job):
  """What became of a seed: (theme, ops, [(flags, verdict)]) or why not."""
  args, seed = job
  with tempfile.TemporaryDirectory() as folder:
    case, unfit = make_case(seed, folder)
    if case is None:
      return seed, None, unfit
    rng = random.Random(f"runs of {seed}")
    results = []
    for number, flags in enumerate(runs.draw_runs(rng, args.meshes)):
      verdict = runs.run(args.tools_dir, folder, case, flags)
      results.append((flags, verdict))
      if not verdict.ok and args.out:
        keep(args, seed, number, folder, case, flags, verdict)
    return seed, case, results


class Counts:
  """What has been seen of all seeds."""

  def __init__(self):
    self.graphs = collections.Counter()
    self.unfit = collections.Counter()
    self.ops = collections.Counter()
    self.meshes = collections.Counter()
    self.verdicts = collections.Counter()
    self.nodes = 0
    self.findings = 0

  def add(self, seed, case, results):
    if case is None:
      self.unfit[results.split(":")[0]] += 1
      return
    self.graphs[case["theme"]] += 1
    self.ops.update(case["ops"])
    self.nodes += case["nodes"]
    for flags, verdict in results:
      self.verdicts[verdict.kind if verdict.kind == "passed" else
                    f"{verdict.kind}: {verdict.reason}"] += 1
      mesh = " x ".join(runs.refusals.size_of_mesh(flags)) or "one device"
      self.meshes[mesh] += verdict.kind == "passed"
      if not verdict.ok:
        self.findings += 1
        print(f"seed {seed}: {verdict.kind}: {verdict.said[:300]} "
              f"[{' '.join(flags)}]", flush=True)

  def show(self, seconds):
    graphs = sum(self.graphs.values())
    total = sum(self.verdicts.values())
    print(f"{graphs} graphs of {self.nodes / max(graphs, 1):.0f} nodes, "
          f"{total} runs, {self.findings} findings, {seconds:.0f} s")
    for title, counter in (("graphs", self.graphs), ("runs", self.verdicts),
                           ("passed over", self.meshes),
                           ("unfit", self.unfit),
                           (f"{len(self.ops)} ops in graphs", self.ops)):
      print(f"{title}:", ", ".join(f"{name} {count}" for name, count in
                                   counter.most_common()))
    sys.stdout.flush()


def seeds_of(text):
  if ":" in text:
    return range(*map(int, text.split(":")))
  return list(map(int, text.split(",")))


def parse():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("tools_dir")
  parser.add_argument("--seeds", default="0:300", help="FIRST:END, or numbers between commas")
  parser.add_argument("--meshes", type=int, default=5, help="runs over meshes")
  parser.add_argument("--jobs", type=int, default=os.cpu_count())
  parser.add_argument("--out", help="a folder that findings are kept in")
  parser.add_argument("--no-reduce", dest="reduce", action="store_false")
  return parser.parse_args()


def main():
  args = parse()
  seeds = seeds_of(args.seeds)
  begin = time.monotonic()
  counts = Counts()
  print(f"{len(seeds)} seeds: {args.seeds}", flush=True)
  with multiprocessing.Pool(args.jobs) as pool:
    jobs = ((args, seed) for seed in seeds)
    for done, result in enumerate(pool.imap(run_seed, jobs, chunksize=4), 1):
      counts.add(*result)
      if done % 200 == 0:
        counts.show(time.monotonic() - begin)
  counts.show(time.monotonic() - begin)
  return 1 if counts.findings else 0


if __name__ == "__main__":
  sys.exit(main())
