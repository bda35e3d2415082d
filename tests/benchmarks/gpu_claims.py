#!/usr/bin/env python3
"""What docs/results claims of several GPUs, measured in one go.

asyra-bench measures the machine for the programs below; then each runs
scheduled, unscheduled and as PyTorch runs it, and at last the same through the
host's memory (NCCL_P2P_DISABLE=1). A step that fails says why, and the others
go on. Machines, tables and traces stay in OUT.

Usage: gpu_claims.py TOOLS_DIR OUT [--ranks 8] [--machine M] [--only REGEX]
           [--seconds 90]
"""

import argparse
import json
import os
import re
import sys
from types import SimpleNamespace

import gpu_memory
import gpu_steps

LAYERS = ("llama3-8b", 4, 2, 8192, "tp")
WIDE_LAYERS = ("llama3-70b", 2, 2, 4096, "tp")
EXPERTS = ("moe-block", 1, 1, 4096, "ep")
LONG_LAYERS = ("llama3-8b", 2, 2, 32768, "sp")
PREFILL = ("llama3-8b", "layers=32 batch=1 seq=65536", "sp", "--mesh sp=4")


def tool(claims, name, *flags):
  """What a tool says on standard output. Raises RuntimeError."""
  out, error = gpu_steps.said([os.path.join(claims.tools, name), *flags],
                              claims.timeout)
  if error:
    raise RuntimeError(error)
  return out


def bench(claims, name, rows, edits=()):
  """The machine as it is for these rows, as a file."""
  machine, keep = claims.machine, []
  edits = gpu_steps.edits(SimpleNamespace(set=edits))
  for i, row in enumerate(rows):
    path = os.path.join(claims.out, f"{name}{i}.machine")
    flags = gpu_steps.flags_of(row, claims.ranks)
    tool(claims, "asyra-bench", *flags, "--machine", machine, *edits, *keep,
         "--seconds", str(claims.seconds), "--machine-out", path)
    machine, keep = path, ["--keep", "--no-grid"]
  return machine


def times(claims, row, machine, modes=None, edits=()):
  """Says what a row takes."""
  args = SimpleNamespace(tools=claims.tools, ranks=claims.ranks, repeat=20,
                         machine=machine, set=edits, timeout=claims.timeout,
                         modes=modes)
  both, error = gpu_steps.ours(row, args)
  if error:
    raise RuntimeError(error)
  print(gpu_steps.line_of(row, both, gpu_steps.torchs(row, args) if modes
                          else {}), flush=True)
  (_, scheduled), (_, plain) = both
  print(f"  scheduled {plain / scheduled:.2f} times as fast as unscheduled",
        flush=True)


def bubble_of(path):
  """The share of a traced step in which nothing is computed."""
  with open(path) as file:
    events = json.load(file)["traceEvents"]
  kernels = [e for e in events if e.get("ph") == "X" and e["pid"] == 0]
  begin = min(e["ts"] for e in kernels)
  end = max(e["ts"] + e["dur"] for e in kernels)
  busy, until = 0, begin
  for kernel in sorted(kernels, key=lambda e: e["ts"]):
    if kernel["name"].startswith("nccl"):
      continue
    stop = kernel["ts"] + kernel["dur"]
    busy += max(0, stop - max(until, kernel["ts"]))
    until = max(until, stop)
  return 1 - busy / (end - begin)


def bubbles(claims, row, machine):
  flags = [*gpu_steps.flags_of(row, claims.ranks), "--machine", machine]
  for form, more in gpu_memory.FORMS:
    path = os.path.join(claims.out, f"{form.strip()}.json")
    tool(claims, "asyra-run", *flags, *more, "--random-weights", "--device",
         "cuda", "--repeat", "8", "--profile", path)
    print(f"{gpu_steps.name_of(row)}{form}: bubble {bubble_of(path):.1%}",
          flush=True)


def memory(claims, machine):
  print(gpu_memory.HEADING)
  args = SimpleNamespace(**{**vars(claims), "machine": machine})
  if gpu_memory.both_forms(PREFILL, args):
    raise RuntimeError("some of it failed")


def slow(claims):
  os.environ["NCCL_P2P_DISABLE"] = "1"
  try:
    edits = ["host.copy_engines=0"]
    machine = bench(claims, "slow", [LONG_LAYERS], edits)
    times(claims, LONG_LAYERS, machine, edits=edits)
  finally:
    del os.environ["NCCL_P2P_DISABLE"]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("out")
  parser.add_argument("--ranks", type=int, default=8)
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--only", default="", help="REGEX of the steps' names")
  parser.add_argument("--seconds", type=float, default=90,
                      help="of measuring the machine for each program")
  parser.add_argument("--timeout", type=float, default=240)
  claims = parser.parse_args()
  os.makedirs(claims.out, exist_ok=True)
  machine, failed = claims.machine, 0

  def measured():
    nonlocal machine
    machine = bench(claims, "machine", [LAYERS, WIDE_LAYERS, EXPERTS])
    print(f"machine {machine}", flush=True)

  steps = [
      ("bench", measured),
      ("layers", lambda: times(claims, LAYERS, machine, "compile,async")),
      ("bubble", lambda: bubbles(claims, LAYERS, machine)),
      ("wide", lambda: times(claims, WIDE_LAYERS, machine)),
      ("experts", lambda: times(claims, EXPERTS, machine, "eager,compile")),
      ("slow", lambda: slow(claims)),
      ("memory", lambda: memory(claims, machine)),
  ]
  for name, step in steps:
    if not re.search(claims.only, name):
      continue
    try:
      step()
    except (RuntimeError, OSError, ValueError) as error:
      failed += 1
      print(f"{name}: {error}", flush=True)
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
