#!/usr/bin/env python3
"""Writes a machine's table of measurements (simulator/README.md) from a log.

Usage: make_cost_table.py LOG --device D --driver V --libraries L --date D
           --method M -o FILE.table

Lines of the log that are not measurements are left alone. Read are

  GEMM any K=1 m=8192 n=1536 k=4096 us=128.5 ...    bf16 matmuls
  NCCL all_gather n=8 bytes=1048576 us=17.2 ...     sizes as in nccl-tests
  OP any op(bf16[2,3]) {attr=value} us=1.5          any op, as in the language

Collectives that follow the first section of a group size and repeat it (other
transports, say) are left out: the first measurement of a call counts.
"""

import argparse
import json
import re
import sys

GEMM = re.compile(r"GEMM \S+ K=\d+ m=(\d+) n=(\d+) k=(\d+) us=([\d.]+)")
NCCL = re.compile(r"NCCL (\w+) n=(\d+) bytes=(\d+) us=([\d.]+)")
OP = re.compile(r"OP \S+ (.*) us=([\d.]+)")
BF16_BYTES = 2

# The call whose payload is `n` elements on each of the devices of axis x.
COLLECTIVES = {
    "all_reduce": "all_reduce(bf16[{n}] partial(x)) {{axes=x}}",
    "all_gather": "all_gather(bf16[{n}@x]) {{dim=0, axes=x}}",
    "reduce_scatter":
        "reduce_scatter(bf16[{n}] partial(x)) {{dim=0, axes=x}}",
    "all_to_all":
        "all_to_all(bf16[{ranks}@x, {n}]) {{from=0, to=1, axes=x}}",
}


def point_of(line):
  """The measurement in a line, or None."""
  if match := GEMM.match(line):
    m, n, k, us = match.groups()
    return {"call": f"matmul(bf16[{m},{k}], bf16[{k},{n}])", "us": float(us)}
  if match := NCCL.match(line):
    kind, ranks, size, us = match.groups()
    call = COLLECTIVES[kind].format(n=int(size) // BF16_BYTES, ranks=ranks)
    return {"call": call, "ranks": int(ranks), "us": float(us)}
  if match := OP.match(line):
    return {"call": match[1], "us": float(match[2])}
  return None


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("log", nargs="+")
  header = ("device", "driver", "libraries", "date", "method")
  for name in header:
    parser.add_argument("--" + name, required=True)
  parser.add_argument("-o", dest="output", required=True)
  args = parser.parse_args()

  points, seen = [], set()
  for path in args.log:
    with open(path) as log:
      for line in log:
        point = point_of(line)
        if point is None:
          continue
        key = (point["call"], point.get("ranks", 1))
        if key not in seen:
          points.append(point)
        seen.add(key)
  if not points:
    sys.exit(f"{', '.join(args.log)}: no measurements")
  lines = ['  "schema": 2,']
  lines += [f'  "{name}": {json.dumps(getattr(args, name))},'
            for name in header]
  lines.append('  "points": [')
  lines.append(",\n".join("    " + json.dumps(point) for point in points))
  with open(args.output, "w") as output:
    output.write("{\n" + "\n".join(lines) + "\n  ]\n}\n")


if __name__ == "__main__":
  main()
