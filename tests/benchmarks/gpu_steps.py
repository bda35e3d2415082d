#!/usr/bin/env python3
"""Steps of large models on the GPUs of this host: scheduled, unscheduled and,
with --torch, as PyTorch runs them, all in one go.

For each row, the program as it was partitioned and its schedule take turns; the
machine says what the simulator predicts of both. Then come the medians of all
errors of prediction, and of gains.

Usage: gpu_steps.py TOOLS_DIR [--machine M] [--ranks 2] [--rows REGEX] [--torch]
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# What a model computes besides its layers is kept small.
HEAD = {"llama3-8b": ["vocabulary=8192", "logits=1"],
        "llama3-70b": ["vocabulary=8192", "logits=1"],
        "gpt3-6.7b": ["vocabulary=8192", "logits=1"],
        "qwen3-30b-a3b": ["vocabulary=8192", "logits=1"]}
# Model, layers, batch, sequence, the one axis of the mesh.
ROWS = [
    ("llama3-8b", 4, 2, 8192, "tp"),
    ("llama3-8b", 4, 4, 4096, "tp"),
    ("llama3-8b", 4, 8, 1024, "tp"),
    # Short prompts.
    ("llama3-8b", 4, 1, 128, "tp"),
    ("llama3-8b", 4, 1, 512, "tp"),
    ("llama3-8b", 4, 1, 1024, "tp"),
    ("llama3-8b", 4, 1, 2048, "tp"),
    ("llama3-70b", 2, 1, 1024, "tp"),
    ("llama3-70b", 2, 2, 4096, "tp"),
    ("llama3-70b", 2, 1, 8192, "tp"),
    ("gpt3-6.7b", 4, 4, 2048, "tp"),
    ("qwen3-30b-a3b", 2, 2, 4096, "tp"),
    ("llama3-8b", 4, 2, 8192, "sp"),
    ("llama3-8b", 2, 2, 32768, "sp"),
    ("llama3-8b", 4, 8, 2048, "sp"),
    ("gpt3-6.7b", 4, 4, 2048, "sp"),
    ("qwen3-30b-a3b", 2, 4, 4096, "ep"),
    # One block of experts alone, so many tokens on each rank.
    ("moe-block", 1, 1, 8192, "ep"),
    ("moe-block", 1, 1, 4096, "ep"),
    ("moe-block", 1, 1, 1024, "ep"),
]
# That of qwen3-30b-a3b, with room for an even share of the tokens: the work of
# torch_moe.py, and some us of looking tokens up: a step moves its inputs and
# outputs between host and device, so that both are kept small.
MOE_BLOCK = """asyra 1 global

program @moe_block(%ids: i64[RANKS, SEQ], %tokens.weight: bf16[1024, 2048] weight,
    %router.weight: bf16[128, 2048] weight,
    %gate.weight: bf16[128, 768, 2048] weight,
    %up.weight: bf16[128, 768, 2048] weight,
    %down.weight: bf16[128, 2048, 768] weight) -> (bf16[RANKS, 1, 2048]) {
  %x = embedding(%tokens.weight, %ids) : bf16[RANKS, SEQ, 2048]
  %router = matmul(%x, %router.weight) {transpose_b=true} : bf16[RANKS, SEQ, 128]
  %chances, %chosen = moe_router(%router) {k=8, normalize=true} : bf16[RANKS, SEQ, 8], i64[RANKS, SEQ, 8]
  %rows = moe_dispatch(%x, %chosen) {num_experts=128, group_size=256, capacity=16} : bf16[RANKS, 128, ROWS, 2048]
  %gate = grouped_matmul(%rows, %gate.weight) {transpose_b=true} : bf16[RANKS, 128, ROWS, 768]
  %up = grouped_matmul(%rows, %up.weight) {transpose_b=true} : bf16[RANKS, 128, ROWS, 768]
  %inner = swiglu(%gate, %up) : bf16[RANKS, 128, ROWS, 768]
  %down = grouped_matmul(%inner, %down.weight) {transpose_b=true} : bf16[RANKS, 128, ROWS, 2048]
  %y = moe_combine(%down, %chosen, %chances) {group_size=256} : bf16[RANKS, SEQ, 2048]
  %last = slice(%y) {dim=1, start=0, stop=1} : bf16[RANKS, 1, 2048]
  return %last
}
"""


def name_of(row):
  model, layers, batch, seq, axis = row
  return f"{model} x{layers} {batch}x{seq} {axis}"


def moe_block(seq, ranks):
  """A file of it."""
  text = MOE_BLOCK.replace("RANKS", str(ranks)).replace("SEQ", str(seq))
  path = os.path.join(tempfile.mkdtemp(), "moe_block.asyra")
  with open(path, "w") as file:
    file.write(text.replace("ROWS", str(seq // 16)))
  return path


def flags_of(row, ranks):
  model, layers, batch, seq, axis = row
  if model == "moe-block":
    return [moe_block(seq, ranks), "--ep", str(ranks)]
  dims = [f"layers={layers}", f"batch={batch}", f"seq={seq}", *HEAD[model]]
  flags = [model, f"--{axis}", str(ranks)]
  for dim in dims:
    flags += ["--dim", dim]
  return flags


def said(command, timeout):
  """Standard output, or what went wrong."""
  try:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=timeout)
  except subprocess.TimeoutExpired:
    return None, "took too long"
  if done.returncode != 0:
    lines = done.stderr.strip().splitlines() or ["no word"]
    return None, lines[-1]
  return done.stdout, None


def edits(args):
  """Of the machine."""
  return [flag for edit in args.set for flag in ("--set", edit)]


def ours(row, args):
  """(predicted, real) ms, scheduled and not, of the median step."""
  out, error = said(
      [os.path.join(args.tools, "asyra-run"), *flags_of(row, args.ranks),
       "--random-weights", "--device", "cuda", "--repeat", str(args.repeat),
       "--json", "--machine", args.machine, *edits(args), "--against",
       "unscheduled"], args.timeout)
  if error:
    return None, error
  in_turn = json.loads(out)["in_turn"]
  return [(one["predicted_us"] / 1e3, one["steps"]["median_us"] / 1e3)
          for one in in_turn], None


def torchs(row, args):
  """ms by mode, and errors."""
  model, layers, batch, seq, axis = row
  if model == "moe-block":
    script = ["torch_moe.py", str(seq), "eager,compile"]
  elif axis == "tp" and model.startswith("llama"):
    script = ["torch_llama.py", model, str(layers), str(batch), str(seq),
              args.modes]
  else:
    return {}
  script[0] = os.path.join(HERE, script[0])
  out, error = said(["torchrun", "--nproc-per-node", str(args.ranks), *script],
                    args.timeout)
  if error:
    return {"torch": error}
  times = {}
  for line in out.splitlines():
    if line.startswith("{"):
      one = json.loads(line)
      times[one["mode"]] = one.get("ms", one.get("error"))
  return times


def line_of(row, both, times):
  (scheduled_p, scheduled), (plain_p, plain) = both
  text = (f"{name_of(row):<28}{plain:>9.2f}{plain / plain_p - 1:>8.1%}"
          f"{scheduled:>9.2f}{scheduled / scheduled_p - 1:>8.1%}"
          f"{1 - scheduled / plain:>8.1%}{1 - scheduled_p / plain_p:>8.1%}")
  for mode, ms in times.items():
    text += (f"  {mode} {ms:.2f} ({ms / plain:.2f}x, {ms / scheduled:.2f}x)"
             if isinstance(ms, float) else f"  {mode}: {ms}")
  return text


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--set", action="append", default=[],
                      help="KEY=VALUE of the machine, as asyra-run takes it")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--repeat", type=int, default=20)
  parser.add_argument("--rows", default="")
  parser.add_argument("--torch", action="store_true")
  parser.add_argument("--modes", default="eager,compile,async")
  parser.add_argument("--timeout", type=float, default=240)
  args = parser.parse_args()
  print("ms of a step; torch's times over unscheduled and scheduled in brackets")
  print(f"{'layers':<28}{'plain':>9}{'off':>8}{'schedule':>9}{'off':>8}"
        f"{'gain':>8}{'said':>8}")
  errors, gains, failed = [], [], 0
  for row in ROWS:
    if not re.search(args.rows, name_of(row)):
      continue
    both, error = ours(row, args)
    if error:
      failed += 1
      print(f"{name_of(row):<28} {error}", flush=True)
      continue
    times = torchs(row, args) if args.torch else {}
    print(line_of(row, both, times), flush=True)
    (scheduled_p, scheduled), (plain_p, plain) = both
    errors += [abs(scheduled / scheduled_p - 1), abs(plain / plain_p - 1)]
    gains.append(abs(scheduled / plain - scheduled_p / plain_p))
  if errors:
    print(f"median error of {len(errors)} times {statistics.median(errors):.1%},"
          f" of {len(gains)} gains {statistics.median(gains):.1%} of a step")
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
