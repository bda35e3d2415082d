#!/usr/bin/env python3
"""Writes the table of schedules in passes/README.md.

Usage: tools/schedule_table.py [--build DIR] [--check]

Runs asyra-opt on each setting and puts what it reports between the markers of
the README; --check only says whether that would change anything but the time.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "passes", "README.md")
BEGIN, END = "<!-- schedules -->", "<!-- end of schedules -->"

GPT3 = "gpt3-6.7b --dim batch=32 --dim seq=2048"
LLAMA3 = "llama3-8b --dim batch=8 --dim seq=8192"
QWEN3 = "qwen3-30b-a3b --dim batch=32 --dim seq=4096"
SETTINGS = [
    (model, mesh)
    for model in [GPT3, LLAMA3]
    for mesh in ["--tp 4 --sp 2", "--tp 2 --sp 8", "--tp 4 --sp 8"]
] + [
    # Experts next to each other: what they exchange stays in a host.
    (QWEN3, "--mesh sp=2,tp=2,ep=8"),
    (QWEN3, "--mesh sp=4,tp=2,ep=8"),
    (QWEN3, "--mesh sp=2,tp=4,ep=8"),
]
MACHINES = ["h200x8", "a800x8"]


def report(tool, model, mesh, machine):
  before = time.monotonic()
  args = [tool, *model.split(), *mesh.split(), "--machine", machine,
          "--report", "json"]
  result = subprocess.run(args, capture_output=True, text=True, check=True)
  return json.loads(result.stdout), time.monotonic() - before


def row(tool, model, mesh, machine):
  said, seconds = report(tool, model, mesh, machine)
  old, new = said["baseline"], said["optimized"]
  fall = 100 * (1 - new["bubble"] / old["bubble"]) if old["bubble"] else 0
  gap = 100 * (new["makespan_us"] / said["lower_bound_us"] - 1)
  return (f"| `{model.split()[0]} {mesh}` | {machine} "
          f"| {old['makespan_us'] / 1e3:.1f} | {new['makespan_us'] / 1e3:.1f} "
          f"| {100 * old['bubble']:.1f} | {100 * new['bubble']:.1f} "
          f"| {fall:.0f} | {gap:.0f} "
          f"| {old['peak_bytes'] / 2**30:.2f} | {new['peak_bytes'] / 2**30:.2f} "
          f"| {said['tiles']} | {seconds:.1f} |")


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
  parser.add_argument("--check", action="store_true")
  flags = parser.parse_args()
  tool = os.path.join(flags.build, "tools", "asyra-opt")
  rows = [
      "| program | machine | ms before | after | bubble % before | after "
      "| fall % | % over bound | GiB before | after | tiles | s |",
      "| --- |" + " --- |" * 11,
  ]
  cases = [(tool, *setting, machine)
           for setting in SETTINGS for machine in MACHINES]
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for line in pool.map(lambda case: row(*case), cases):
      rows.append(line)
      print(line, file=sys.stderr)
  with open(README) as file:
    text = file.read()
  begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
  new = text[:begin] + "\n" + "\n".join(rows) + "\n" + text[end:]
  if flags.check:
    strip = lambda s: [line.rsplit("|", 2)[0] for line in s.splitlines()]
    return 0 if strip(new) == strip(text) else 1
  with open(README, "w") as file:
    file.write(new)
  return 0


if __name__ == "__main__":
  sys.exit(main())
