#!/usr/bin/env python3
"""What programs take of the memory of GPUs, as predicted and as measured.

Each row runs one step unscheduled and one scheduled. Predicted is what
asyra-sim says a device needs, measured what is in use on the first GPU while
the program is there, its context and libraries included; besides is what is
outside of the program's own memory.

Usage: gpu_memory.py TOOLS_DIR [--machine M] [--ranks 8] [--rows REGEX]
"""

import argparse
import json
import os
import re
import sys

from gpu_steps import HEAD, said

# Model, dims, the one axis of the mesh, other flags.
ROWS = [
    ("llama3-8b", "layers=4 batch=2 seq=8192", "tp", ""),
    ("llama3-70b", "layers=2 batch=2 seq=4096", "tp", ""),
    ("gpt3-6.7b", "layers=4 batch=4 seq=2048", "tp", ""),
    ("llama3-8b", "layers=4 batch=2 seq=8192", "sp", ""),
    ("qwen3-30b-a3b", "layers=2 batch=8 seq=4096", "ep", ""),
    ("llama3-8b", "layers=32 batch=1 seq=65536", "sp", "--mesh sp=4"),
]
# All passes before a program is scheduled (passes/pipeline.h): what asyra-run
# takes --against unscheduled.
UNSCHEDULED = ("canonicalize, raise_norm, raise_activation, raise_moe, "
               "raise_rotary, split_projections, raise_attention, "
               "canonicalize, merge_expert_rows, pad_dims, plan_sharding, "
               "partition, fuse")
HEADING = (f"{'MiB':<62}{'predicted':>10}{'measured':>10}{'off':>8}"
           f"{'program':>9}{'besides':>9}")
FORMS = [(" unscheduled", ["--passes", UNSCHEDULED]), (" scheduled", [])]


def name_of(row):
  return f"{row[0]} {row[1]} {row[3] or row[2]}"


def flags_of(row, ranks):
  model, dims, axis, mesh = row
  flags = [model] + (mesh.split() or [f"--{axis}", str(ranks)])
  for dim in dims.split() + HEAD[model]:
    flags += ["--dim", dim]
  return flags


def used(tools, flags, timeout):
  """Bytes (predicted, measured, of the program), or an error."""
  out, error = said([os.path.join(tools, "asyra-sim"), "run", *flags,
                     "--json", "-"], timeout)
  if error:
    return None, error
  predicted = json.loads(out)["memory"]["device_bytes"]
  out, error = said([os.path.join(tools, "asyra-run"), *flags, "--device",
                     "cuda", "--random-weights", "--json"], timeout)
  if error:
    return None, error
  run = json.loads(out)
  return (predicted, run["device_bytes"], run["memory_bytes"]["total"]), None


def both_forms(row, args):
  """Prints both forms of a row; how many failed."""
  failed = 0
  name = name_of(row)
  for form, more in FORMS:
    flags = flags_of(row, args.ranks) + ["--machine", args.machine, *more]
    found, error = used(args.tools, flags, args.timeout)
    if error:
      failed += 1
      print(f"{name + form:<62} {error}", flush=True)
      continue
    predicted, measured, program = (b / 2**20 for b in found)
    print(f"{name + form:<62}{predicted:>10.0f}{measured:>10.0f}"
          f"{predicted / measured - 1:>8.1%}{program:>9.0f}"
          f"{measured - program:>9.0f}", flush=True)
  return failed


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--ranks", type=int, default=8)
  parser.add_argument("--rows", default="")
  parser.add_argument("--timeout", type=float, default=240)
  args = parser.parse_args()
  print(HEADING)
  failed = 0
  for row in ROWS:
    if re.search(args.rows, name_of(row)):
      failed += both_forms(row, args)
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
