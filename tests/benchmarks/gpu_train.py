#!/usr/bin/env python3
"""Training steps of large models on the GPUs of this host: unscheduled,
scheduled and, with --torch, as PyTorch runs them, all in one go.

Each row is compiled twice, as it was partitioned and with its schedule (with
--overlap once more, with that flag), and asyra-train takes real steps of each:
medians of their times, loss and copies of the host included, beside what the
simulator predicts; memory of a GPU as nvidia-smi has it beside what the compiler
predicts, and the clock and power of the slowest GPU. Clocks settle within some
seconds: give --steps for so many. torch_step.py has what PyTorch runs. All numbers go to OUT/gpu_train.json.

Compiling takes longer than the steps. With --programs DIR, compiled steps are
kept in DIR, and those that are there are not compiled again; --compile-only makes
them on a machine that needs no GPU.

Usage: gpu_train.py TOOLS_DIR OUT [--machine M] [--ranks 1] [--rows REGEX]
           [--programs DIR [--compile-only]] [--overlap] [--torch]
"""

import argparse
import array
import csv
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
from collections import namedtuple

from gpu_steps import said

HERE = os.path.dirname(os.path.abspath(__file__))
# `batch` of each rank where the mesh divides it, as `torch` counts too.
# `gib` is what a device may use, where that is less than it has.
Row = namedtuple("Row", "model layers batch seq vocabulary mesh torch gib",
                 defaults=[None])
ROWS = [
    Row("gpt2-124m", 12, 32, 1024, 50304, "one", "one"),
    Row("gpt2-124m", 12, 32, 1024, 50257, "one", "one"),
    Row("llama3-8b", 4, 2, 8192, 8192, "one", "one"),
    Row("llama3-8b", 4, 2, 8192, 128256, "one", "one"),
    Row("gpt2-124m", 12, 32, 1024, 50304, "dp", "ddp"),
    Row("llama3-8b", 4, 2, 8192, 8192, "tp", "tp"),
    Row("llama3-8b", 4, 2, 8192, 8192, "sp", None),
    Row("llama3-8b", 4, 1, 8192, 8192, "zero", "fsdp"),
    Row("qwen3-30b-a3b", 2, 2, 4096, 8192, "ep", None),
    # With what PyTorch needs on two GPUs.
    Row("llama3-8b", 32, 1, 4096, 128256, "zero", "fsdp", 67.7),
    Row("llama3-8b", 32, 1, 8192, 128256, "zero", "fsdp", 86.4),
]
MESHES = {"one": [], "dp": ["--dp", "{}", "--zero", "0"], "tp": ["--tp", "{}"],
          "sp": ["--sp", "{}"], "ep": ["--ep", "{}"],
          "zero": ["--dp", "{}", "--zero", "3"]}
# Not measured: caches are filled, buffers touched.
WARM_UP = 5


def name_of(row):
  return (f"{row.model} x{row.layers} {row.batch}x{row.seq} "
          f"v{row.vocabulary} {row.mesh}")


def is_of(row, ranks):
  return (row.mesh == "one") == (ranks == 1)


def flags_of(row, args):
  batch = row.batch * (args.ranks if row.mesh in ("dp", "zero") else 1)
  dims = [f"layers={row.layers}", f"batch={batch}", f"seq={row.seq}",
          f"vocabulary={row.vocabulary}"]
  flags = [row.model, "--train", "--dtype", "bf16", "--graph", "--machine",
           args.machine]
  for dim in dims:
    flags += ["--dim", dim]
  if row.gib:
    flags += ["--memory-gib", str(row.gib)]
  return flags + [flag.format(args.ranks) for flag in MESHES[row.mesh]]


class GpuWatch:
  """What nvidia-smi says of the GPUs from start() on."""

  def __init__(self, ranks):
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    self.gpus = gpus[:ranks] if gpus[0] else list(map(str, range(ranks)))
    self.looks, self.ended = [], threading.Event()
    self.thread = threading.Thread(target=self.watch)

  def start(self):
    if not self.thread.is_alive():
      self.thread.start()

  def stop(self):
    self.ended.set()
    if self.thread.is_alive():
      self.thread.join()

  def watch(self):
    while not self.ended.wait(0.1):
      out, error = said(
          ["nvidia-smi", "--query-gpu=memory.used,clocks.sm,power.draw",
           "--id=" + ",".join(self.gpus), "--format=csv,noheader,nounits"], 10)
      if not error:
        self.looks.append([list(map(float, line.split(",")))
                           for line in out.splitlines()])

  def found(self):
    """GiB of the first GPU that are in use, at most; MHz and W of the slowest,
    in the mean over the last two thirds, when clocks have settled."""
    if not self.looks:
      return {"gib": 0}
    late = self.looks[len(self.looks) // 3:]
    means = [(statistics.mean(look[i][1] for look in late),
              statistics.mean(look[i][2] for look in late))
             for i in range(len(self.gpus))]
    mhz, watts = min(means)
    return {"gib": max(look[0][0] for look in self.looks) / 1024,
            "mhz": mhz, "watts": watts}


def compiled(row, args, folder, more):
  """What asyra-opt predicts: ms, GiB. Compiles what is not in the folder."""
  report = os.path.join(folder, "report.txt")
  if not os.path.exists(report):
    out, error = said([os.path.join(args.tools, "asyra-opt"),
                       *flags_of(row, args), *more, "-o", folder],
                      args.timeout)
    if error:
      raise RuntimeError(error)
    with open(report, "w") as file:
      file.write(out)
  with open(os.path.join(folder, "training.json")) as file:
    ms = json.load(file)["predicted_us"] / 1e3
  with open(report) as file:
    gib = re.search(r"([\d.]+) of [\d.]+ GiB a device", file.read())
  return ms, float(gib.group(1)) if gib else None


def write_tokens(path, count, limit):
  """Random tokens, as a file of llm.c."""
  tokens = array.array("H", (random.randrange(limit) for _ in range(count)))
  with open(path, "wb") as file:
    file.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
    tokens.tofile(file)


def trained(row, args, folder):
  """Median ms of a step, and what GpuWatch found."""
  batch = row.batch * (args.ranks if row.mesh in ("dp", "zero") else 1)
  tokens = batch * row.seq
  data, table = (os.path.join(folder, name)
                 for name in ("tokens.bin", "steps.csv"))
  write_tokens(data, 4 * tokens + 1, min(row.vocabulary, 1 << 16))
  watch = GpuWatch(args.ranks)
  with subprocess.Popen(
      [os.path.join(args.tools, "asyra-train"), folder, "--random-weights",
       "--device", "cuda", "--data", data, "--steps",
       str(WARM_UP + args.steps), "--rate", "1e-5", "--csv", table],
      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
    killer = threading.Timer(args.timeout, run.kill)
    killer.start()
    line = "no word"
    for line in run.stdout:
      # First values are there, and what made them is gone.
      if line.startswith("step"):
        watch.start()
    killer.cancel()
  watch.stop()
  if run.returncode != 0:
    raise RuntimeError(line.strip())
  with open(table) as file:
    times = [tokens / float(step["tokens_per_s"]) * 1e3
             for step in csv.DictReader(file)]
  return {"ms": statistics.median(times[WARM_UP:]), **watch.found()}


def forms_of(row, args):
  """Flags of each way to schedule a row."""
  search = ["--search-steps", str(args.search_steps)]
  forms = {"scheduled": search}
  if row.mesh == "one":  # nothing to hide
    return forms
  if not row.gib:  # else it does not fit
    forms = {"plain": ["--scheduler", "serial", "--tiles", "1"], **forms}
  if args.overlap:
    forms["overlaps"] = [*search, "--overlap"]
  return forms


def measured(row, args, folder, more):
  """What is predicted, and what a step takes."""
  os.makedirs(folder, exist_ok=True)
  try:
    ms, gib = compiled(row, args, folder, more)
    found = {"predicted_ms": ms, "predicted_gib": gib}
    if not args.compile_only:
      found.update(trained(row, args, folder))
    return found
  except RuntimeError as error:
    return {"error": str(error)}


def ours(row, args):
  """By schedule: predicted and measured."""
  found = {}
  with tempfile.TemporaryDirectory() as unkept:
    for form, more in forms_of(row, args).items():
      folder = os.path.join(args.programs or unkept,
                            name_of(row).replace(" ", "-"), form)
      found[form] = measured(row, args, folder, more)
  return found


def torchs(row, args):
  """By mode."""
  if row.torch is None:
    return {}
  modes = "eager,compile" + (",async" if row.torch == "tp" else "")
  out, error = said(
      ["torchrun", "--nproc-per-node", str(args.ranks),
       os.path.join(HERE, "torch_step.py"), row.model, str(row.layers),
       str(row.batch), str(row.seq), str(row.vocabulary), row.torch, modes],
      args.timeout)
  if error:
    return {"torch": {"error": error}}
  found = [json.loads(line) for line in out.splitlines()
           if line.startswith("{")]
  return {f"torch {one.pop('mode')}": one for one in found}


def lines_of(row, found):
  best = min((one["ms"] for name, one in found.items()
              if name.startswith("torch") and "ms" in one), default=None)
  for name, one in found.items():
    text = f"{name_of(row):<40} {name:<14}"
    if "error" in one:
      yield text + one["error"]
      continue
    if "ms" not in one:
      yield text + f"{one['predicted_ms']:>9.2f} ms predicted"
      continue
    text += f"{one['ms']:>9.2f} ms"
    if "predicted_ms" in one:
      text += f" {one['ms'] / one['predicted_ms'] - 1:>+7.1%} off"
      text += f" {one['gib']:>6.1f} GiB"
      if one["predicted_gib"]:
        text += f", said {one['predicted_gib']:.1f}"
      if "mhz" in one:
        text += f", {one['mhz']:.0f} MHz, {one['watts']:.0f} W"
      if best:
        text += f", {one['ms'] / best:.2f}x of the best of torch"
    else:
      text += f" {one['peak_gib']:>6.1f} GiB allocated"
    yield text


def summary(table):
  """Of all rows: errors of times, of gains."""
  errors, gains = [], []
  for found in table.values():
    good = [one for one in found.values()
            if "predicted_ms" in one and "ms" in one]
    errors += [abs(one["ms"] / one["predicted_ms"] - 1) for one in good]
    if all(form in found and found[form] in good
           for form in ("plain", "scheduled")):
      plain, scheduled = found["plain"], found["scheduled"]
      gains.append(abs(scheduled["ms"] / plain["ms"] -
                       scheduled["predicted_ms"] / plain["predicted_ms"]))
  if errors:
    print(f"median error of {len(errors)} times "
          f"{statistics.median(errors):.1%}")
  if gains:
    print(f"median error of {len(gains)} gains {statistics.median(gains):.1%} "
          "of a step")


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("out")
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--ranks", type=int, default=1)
  parser.add_argument("--rows", default="")
  parser.add_argument("--steps", type=int, default=15)
  parser.add_argument("--search-steps", type=int, default=1000)
  parser.add_argument("--overlap", action="store_true")
  parser.add_argument("--torch", action="store_true")
  parser.add_argument("--timeout", type=float, default=300)
  parser.add_argument("--programs", help="folder of compiled steps")
  parser.add_argument("--compile-only", action="store_true")
  args = parser.parse_args()
  if args.compile_only and not args.programs:
    parser.error("--compile-only needs --programs")
  os.makedirs(args.out, exist_ok=True)
  table = {}
  for row in ROWS:
    if not is_of(row, args.ranks) or not re.search(args.rows, name_of(row)):
      continue
    found = ours(row, args)
    if args.torch and not args.compile_only:
      found.update(torchs(row, args))
    table[name_of(row)] = found
    print(*lines_of(row, found), sep="\n", flush=True)
    with open(os.path.join(args.out, "gpu_train.json"), "w") as file:
      json.dump({"ranks": args.ranks, "machine": args.machine, "rows": table},
                file, indent=1)
  summary(table)
  failed = any("error" in one for found in table.values()
               for one in found.values())
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
