#!/usr/bin/env python3
"""Whether the gate on measured steps ever keeps a slower program.

Each row is a model under flags, half of which make a bad schedule on purpose.
`asyra-run --gate measured` chooses among the schedule, the next best, the
library in place of copy engines, and no schedule. Then `--gate again` measures
all of them once more: what was kept may not be slower there than the fastest,
by more than --limit. The exit code is 1 where it is.

  gpu_gate.py TOOLS_DIR                  # two GPUs, twenty rows
  gpu_gate.py TOOLS_DIR --ranks 8
  gpu_gate.py TOOLS_DIR --device cpu --row 'gpt3-tiny --tp 2'
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

SMALL = "--dim vocabulary=8192 --dim logits=1 --search-steps 200"
LLAMA = "llama3-8b --dim layers=2 " + SMALL
MODELS = [
    LLAMA + " --dim batch=1 --dim seq=256 --tp {n}",
    LLAMA + " --dim batch=1 --dim seq=2048 --tp {n}",
    LLAMA + " --dim batch=4 --dim seq=1024 --tp {n}",
    LLAMA + " --dim batch=2 --dim seq=4096 --tp {n}",
    LLAMA + " --dim batch=2 --dim seq=8192 --sp {n}",
    "llama3-70b --dim layers=1 --dim batch=1 --dim seq=4096 --tp {n} " + SMALL,
    "gpt3-6.7b --dim layers=2 --dim batch=4 --dim seq=2048 --tp {n} " + SMALL,
    "gpt3-6.7b --dim layers=2 --dim batch=4 --dim seq=2048 --sp {n} " + SMALL,
    "qwen3-30b-a3b --dim layers=1 --dim batch=2 --dim seq=4096 --ep {n} " +
    SMALL,
    "qwen3-30b-a3b --dim layers=1 --dim batch=2 --dim seq=4096 --tp {n} " +
    SMALL,
]
# In turn, one for each model beside its own schedule.
BAD = [
    "--tiles 4 --scheduler serial",
    "--tiles 2 --scheduler round_robin",
    "--tiles 4 --scheduler segrr --tp-strategy sequence",
    "--tiles 2 --scheduler serial --no-fuse",
    # Costs of another machine, on which links are slow.
    "--set nvlink*=0.1",
]


def rows():
  for i, model in enumerate(MODELS):
    yield model
    yield f"{model} {BAD[i % len(BAD)]}"


def gate(args, row, mode, cache):
  """What the gate says of a row, as JSON; what went wrong ends the row."""
  command = [os.path.join(args.tools, "asyra-run"),
             *row.format(n=args.ranks).split(), "--device", args.device,
             "--random-weights", "--gate", mode, "--json"]
  if args.machine:
    command += ["--machine", args.machine]
  done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                        capture_output=True, timeout=args.timeout,
                        env={**os.environ, "ASYRA_CACHE_DIR": cache})
  if done.returncode != 0:
    raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
  return json.loads(done.stdout)["gate"]


def measure(args, row, cache):
  first = gate(args, row, "measured", cache)
  again = gate(args, row, "again", cache)
  medians = {one["name"]: one["median_us"] for one in again["trials"]
             if one["median_us"] > 0}
  kept = medians[first["kept"]]
  return {"row": row.format(n=args.ranks), "kept": first["kept"],
          "first": first["trials"], "again": again["trials"],
          "slower": kept / min(medians.values()),
          "unscheduled": kept / medians["unscheduled"]}


def line_of(one):
  return (f"{one['slower']:>8.3f}{one['unscheduled']:>8.3f}  "
          f"{one['kept'][:40]:<42}{one['row']}")


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--device", default="cuda")
  parser.add_argument("--machine")
  parser.add_argument("--row", action="append",
                      help="what follows asyra-run, {n} is the number of ranks")
  parser.add_argument("--limit", type=float, default=0.01)
  parser.add_argument("--timeout", type=float, default=300)
  parser.add_argument("--json", help="a file for all that was measured")
  args = parser.parse_args()
  print("what was kept, over the fastest and over no schedule, measured again")
  results, failed = [], 0
  with tempfile.TemporaryDirectory() as cache:
    for row in args.row or rows():
      try:
        one = measure(args, row, cache)
      except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{row}: {error}", flush=True)
        failed += 1
        continue
      results.append(one)
      failed += one["slower"] > 1 + args.limit
      print(line_of(one), flush=True)
  if args.json:
    with open(args.json, "w") as file:
      json.dump(results, file, indent=1)
  print(f"{len(results)} rows, {failed} failed or slower by more than "
        f"{args.limit:.0%}")
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
