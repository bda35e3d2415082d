#!/usr/bin/env python3
"""Writes a table of docs/results/schedules.md: schedules, training or ablations.

Usage: tools/schedule_table.py [--build DIR] [--check] [--jobs N]
                               [--ablation | --train | --train-ablation]

Runs asyra-opt on each setting and puts what it reports between the markers of
that page; --check only says whether that would change anything but the time.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "results", "schedules.md")

# Model and mesh, batch and sequence: those of ASYRA's table 2 as far as it tells
# (docs/results/schedules.md), and short sequences.
SETTINGS = [
    ("gpt3-6.7b", "--tp 4 --sp 2", 32, 2048),
    ("gpt3-6.7b", "--tp 2 --sp 8", 2, 131072),
    ("gpt3-6.7b", "--tp 4 --sp 8", 8, 131072),
    ("llama3-8b", "--tp 4 --sp 2", 8, 8192),
    ("llama3-8b", "--tp 2 --sp 8", 2, 131072),
    ("llama3-8b", "--tp 4 --sp 8", 8, 131072),
    ("qwen3-30b-a3b", "--tp 2 --sp 2 --ep 8", 16, 32768),
    ("qwen3-30b-a3b", "--tp 2 --sp 4 --ep 8", 32, 32768),
    ("qwen3-30b-a3b", "--tp 4 --sp 2 --ep 8", 32, 32768),
    ("gpt3-6.7b", "--tp 2 --sp 8", 32, 2048),
    ("gpt3-6.7b", "--tp 4 --sp 8", 32, 2048),
    ("llama3-8b", "--tp 2 --sp 8", 8, 8192),
    ("llama3-8b", "--tp 4 --sp 8", 8, 8192),
    ("qwen3-30b-a3b", "--tp 2 --sp 2 --ep 8", 32, 4096),
    ("qwen3-30b-a3b", "--tp 2 --sp 4 --ep 8", 32, 4096),
    ("qwen3-30b-a3b", "--tp 4 --sp 2 --ep 8", 32, 4096),
]
# What else a model is given.
FLAGS = {
    "gpt3-6.7b": ["--dim", "positions={seq}"],
    "llama3-8b": [],
    "qwen3-30b-a3b": ["--ep-strategy", "auto"],
}
MACHINES = ["h200x8", "a800x8"]


def command(tool, model, mesh, batch, seq, machine):
  flags = [flag.format(seq=seq) for flag in FLAGS[model]]
  return [tool, model, "--dim", f"batch={batch}", "--dim", f"seq={seq}",
          *flags, *mesh.split(), "--machine", machine]


def report(*case):
  """What asyra-opt reports, and the seconds of CPU time it took."""
  args = [*command(*case[:6]), *case[6:], "--report", "json"]
  with tempfile.TemporaryFile("w+") as out:
    process = subprocess.Popen(args, stdout=out, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
      sys.exit(f"{' '.join(args)} failed")
    out.seek(0)
    return json.load(out), usage.ru_utime + usage.ru_stime


def row(tool, model, mesh, batch, seq, machine):
  said, seconds = report(tool, model, mesh, batch, seq, machine)
  old, new = said["baseline"], said["optimized"]
  fall = 100 * (1 - new["bubble"] / old["bubble"]) if old["bubble"] else 0
  gap = 100 * (new["makespan_us"] / said["lower_bound_us"] - 1)
  return (f"| `{model} {mesh}` | {batch} x {seq} | {machine} "
          f"| {old['makespan_us'] / 1e3:.1f} | {new['makespan_us'] / 1e3:.1f} "
          f"| {100 * old['bubble']:.1f} | {100 * new['bubble']:.1f} "
          f"| {fall:.0f} | {gap:.0f} "
          f"| {old['peak_bytes'] / 2**30:.2f} | {new['peak_bytes'] / 2**30:.2f} "
          f"| {said['tiles']} | {seconds:.1f} |")


def ablation(*case):
  """Milliseconds partitioned and after each step, changes in percent."""
  _, model, mesh, batch, seq, machine = case
  said, _ = report(*case, "--ablation")
  us = [row["makespan_us"] for row in said["ablation"]]
  steps = " | ".join(f"{after / 1e3:.1f} ({100 * (after / before - 1):+.1f})"
                     for before, after in zip(us, us[1:]))
  return (f"| `{model} {mesh}` | {batch} x {seq} | {machine} "
          f"| {us[0] / 1e3:.1f} | {steps} |")


# Those of ASYRA's table 2, with few layers, which are all equal, and the bubble
# of backward of a layer that it reports, in percent, on hosts of A800.
PAPER_BACKWARD = [3.3, 6.4, 12.3, 2.7, 7.2, 12.3, 7.8, 4.6, 8.3]
STEP_FLAGS = ["--train", "--dim", "layers=4"]
TRAIN_FLAGS = [*STEP_FLAGS, "--search-steps", "1000"]


def layers_exposed(said):
  """Percent of backward without what the embedding and the logits wait for."""
  backward = said["phases"]["backward"]
  layers_us = sum(us for op, us in backward["exposed_by"].items()
                  if op.startswith("layer"))
  return 100 * layers_us / (
      backward["elapsed_us"] - backward["exposed_us"] + layers_us)


def like_paper(*case):
  """Phases apart, where the paper has the row: ms, its layers, the paper's."""
  if case[5] != "a800x8":
    return " | | "
  said, _ = report(*case, *TRAIN_FLAGS, "--phases", "apart")
  return (f"{said['optimized']['makespan_us'] / 1e3:.1f} "
          f"| {layers_exposed(said):.1f} "
          f"| {PAPER_BACKWARD[SETTINGS.index(case[1:5])]}")


def training(*case):
  """A training step: what backward waits for is of its own time."""
  _, model, mesh, batch, seq, machine = case
  said, seconds = report(*case, *TRAIN_FLAGS)
  old, new = said["baseline"], said["optimized"]
  gap = 100 * (new["makespan_us"] / said["lower_bound_us"] - 1)
  exposed = {name: 100 * phase["exposed_us"] / phase["elapsed_us"]
             for name, phase in said["phases"].items()}
  again = said["recompute"]
  dropped = 0 if again is None else len(again["values"])
  return (f"| `{model} {mesh}` | {batch} x {seq} | {machine} "
          f"| {old['makespan_us'] / 1e3:.1f} | {new['makespan_us'] / 1e3:.1f} "
          f"| {100 * old['bubble']:.1f} | {100 * new['bubble']:.1f} "
          f"| {exposed['forward']:.1f} | {exposed['backward']:.1f} "
          f"| {layers_exposed(said):.1f} | {like_paper(*case)} "
          f"| {gap:.0f} | {new['peak_bytes'] / 2**30:.1f} | {dropped} "
          f"| {said['tiles']} | {seconds:.1f} |")


# Fewer steps than TRAIN_FLAGS: a row takes several compilations.
ABLATION_FLAGS = [*STEP_FLAGS, "--search-steps", "200"]


def training_ablation(*case):
  """A training step without parts of what hides, and computing much again."""
  _, model, mesh, batch, seq, _ = case
  seconds = 0

  def step(*flags):
    nonlocal seconds
    phases = [] if "--phases" in flags else ["--phases", "interleaved"]
    said, more = report(*case, *ABLATION_FLAGS, *phases, *flags)
    seconds += more
    return said["optimized"]["makespan_us"] / 1e3, said

  ms, _ = step()
  change = lambda other: f"{other:.1f} ({100 * (other / ms - 1):+.1f})"
  without = [change(step(*flags)[0])
             for flags in (["--no-join"], ["--phases", "apart"],
                           ["--tiles", "1"])]
  more_ms, said = step("--recompute", "all")
  again = said["recompute"]
  cost_ms = (again["again"]["ops_us"] - again["kept"]["ops_us"]) / 1e3
  hidden = 100 * (1 - (more_ms - ms) / cost_ms)
  return (f"| `{model} {mesh}` | {batch} x {seq} | {ms:.1f} "
          f"| {' | '.join(without)} | {cost_ms:.1f} | {change(more_ms)} "
          f"| {change(ms + cost_ms)} | {hidden:.0f} | {seconds:.1f} |")


PAPER = SETTINGS[:len(PAPER_BACKWARD)]

# What measures a row, the head, and of which settings and machines.
TABLES = {
    "training-ablation": (
        training_ablation,
        "| program | tokens | ms | no joins (%) | phases apart (%) "
        "| no tiles (%) | recomputed ms | recomputing (%) | none hidden (%) "
        "| hidden % | CPU s |",
        PAPER, ["a800x8"]),
    "training": (
        training,
        "| program | tokens | machine | ms before | after | bubble % before "
        "| after | exposed % forward | backward | its layers | apart: ms "
        "| its layers | paper, a layer | % over bound | GiB | recomputed "
        "| tiles | CPU s |",
        PAPER, MACHINES),
    "schedules": (
        row,
        "| program | tokens | machine | ms before | after | bubble % before "
        "| after | fall % | % over bound | GiB before | after | tiles | CPU s |",
        SETTINGS, MACHINES),
    "ablations": (
        ablation,
        "| program | tokens | machine | ms | tiled (%) | reordered (%) "
        "| bucketed (%) |",
        SETTINGS, MACHINES),
}


def main():
  parser = argparse.ArgumentParser()
  table = parser.add_mutually_exclusive_group()
  table.add_argument("--ablation", action="store_true")
  table.add_argument("--train", action="store_true")
  table.add_argument("--train-ablation", action="store_true")
  parser.add_argument("--jobs", type=int, default=os.cpu_count())
  parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
  parser.add_argument("--check", action="store_true")
  flags = parser.parse_args()
  tool = os.path.join(flags.build, "tools", "asyra-opt")
  name = ("ablations" if flags.ablation else
          "training" if flags.train else
          "training-ablation" if flags.train_ablation else "schedules")
  measure, head, settings, machines = TABLES[name]
  rows = [head, "|" + " --- |" * (head.count("|") - 1)]
  cases = [(tool, *setting, machine)
           for setting in settings for machine in machines]
  with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
    for line in pool.map(lambda case: measure(*case), cases):
      rows.append(line)
      print(line, file=sys.stderr)
  with open(PAGE) as file:
    text = file.read()
  mark = f"<!-- {name} -->"
  begin = text.index(mark) + len(mark)
  end = text.index(f"<!-- end of {name} -->")
  new = text[:begin] + "\n" + "\n".join(rows) + "\n" + text[end:]
  if flags.check:
    strip = lambda s: [line.rsplit("|", 2)[0] for line in s.splitlines()]
    return 0 if strip(new) == strip(text) else 1
  with open(PAGE, "w") as file:
    file.write(new)
  return 0


if __name__ == "__main__":
  sys.exit(main())
