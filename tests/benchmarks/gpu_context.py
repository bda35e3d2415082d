#!/usr/bin/env python3
"""Causal attention of one sequence that the GPUs of this host share: by heads, by
rows with gathered keys, by rows in stripes, each with keys that come in parts,
and as PyTorch's context_parallel runs it.

The forms of one input take turns, step by step. Of each: ms predicted and
measured, forward alone and with gradients.

Usage: gpu_context.py TOOLS_DIR [--machine M] [--ranks 2] [--torch]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS, KEY_HEADS, HEAD_SIZE = 32, 8, 128
SCALE = "causal=true, scale=0.08838834764831843"


def spread(tokens, heads):
  return f"bf16[1, {tokens}@sp, {heads}, {HEAD_SIZE}]"


def whole(tokens, heads):
  return f"bf16[1, {tokens}, {heads}, {HEAD_SIZE}]"


class Program:
  """Lines of a program. Its output is small: a step copies it to the host."""

  def __init__(self, ranks, tokens, gradients):
    self.ranks, self.tokens, self.gradients = ranks, tokens, gradients
    self.lines, self.inputs, self.results = [], [], []

  def input(self, name, type_):
    self.inputs.append(f"%{name}: {type_} weight")

  def add(self, results, call, *types):
    names = ", ".join(f"%{name}" for name in results.split())
    self.lines.append(f"  {names} = {call} : {', '.join(types)}")

  def attend(self, suffix, q, k, v, rows, attrs, heads):
    """rows: how many, and "@sp" or "". heads: "@sp" or ""."""
    q_type = f"bf16[1, {rows[0]}{rows[1]}, {HEADS}{heads}, {HEAD_SIZE}]"
    sums = f"f32[1, {HEADS}{heads}, {rows[0]}{rows[1]}]"
    if not self.gradients:
      self.add(f"y{suffix}", f"attention(%{q}, %{k}, %{v}) {{{attrs}}}", q_type)
      return
    self.add(f"y{suffix} l{suffix}",
             f"attention(%{q}, %{k}, %{v}) {{{attrs}, log_sums=true}}", q_type,
             sums)
    k_type = (f"bf16[1, {self.tokens}, {KEY_HEADS}{heads}, {HEAD_SIZE}]" +
              (" partial(sp)" if rows[1] else ""))
    # The gradient of y is y.
    self.add(f"dq{suffix} dk{suffix} dv{suffix}",
             f"attention_grad(%{q}, %{k}, %{v}, %y{suffix}, %l{suffix}, "
             f"%y{suffix}) {{{attrs}, of=\"qkv\"}}", q_type, k_type, k_type)

  def keep(self, name, heads):
    """Sums a value over its rows, for the output."""
    type_ = f"bf16[1, {heads}, {HEAD_SIZE}]"
    self.add(f"{name}.sum", f"reduce_sum(%{name}) {{dims=[1], keep=false}}",
             f"{type_} partial(sp)")
    self.add(f"{name}.all", f"all_reduce(%{name}.sum) {{axes=sp}}", type_)
    self.results.append((f"%{name}.all", type_))

  def text(self):
    types = ", ".join(type_ for _, type_ in self.results)
    names = ", ".join(name for name, _ in self.results)
    return (f"asyra 1 local\nmesh (sp={self.ranks})\n\n"
            f"program @attention({', '.join(self.inputs)}) -> ({types}) {{\n" +
            "\n".join(self.lines) + f"\n  return {names}\n}}\n")


def by_heads(ranks, tokens, gradients):
  p = Program(ranks, tokens, gradients)
  for name, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
    p.input(name, spread(tokens, heads))
    p.add(f"{name}h", f"all_to_all(%{name}) {{from=1, to=2, axes=sp}}",
          f"bf16[1, {tokens}, {heads}@sp, {HEAD_SIZE}]")
  p.attend("h", "qh", "kh", "vh", (tokens, ""), SCALE, "@sp")
  back = [("y", HEADS)] + [("dq", HEADS), ("dk", KEY_HEADS),
                           ("dv", KEY_HEADS)] * gradients
  for name, heads in back:
    p.add(name, f"all_to_all(%{name}h) {{from=2, to=1, axes=sp}}",
          spread(tokens, heads))
    p.keep(name, heads)
  return p.text()


def gathered(p, striped):
  for name in ("k", "v"):
    p.input(name, spread(p.tokens, KEY_HEADS))
    p.add(f"{name}w", f"all_gather(%{name}) {{dim=1, axes=sp}}",
          whole(p.tokens, KEY_HEADS))
    if striped:
      p.add(f"{name}n", f"unstripe(%{name}w) {{dim=1, pairs={p.ranks}}}",
            whole(p.tokens, KEY_HEADS))


def scattered(p, name, striped):
  type_ = whole(p.tokens, KEY_HEADS) + " partial(sp)"
  source = name
  if striped:
    p.add(f"{name}.both", f"add(%{name}0, %{name}1)", type_)
    p.add(f"{name}.striped", f"stripe(%{name}.both) "
          f"{{dim=1, pairs={p.ranks}}}", type_)
    source = f"{name}.striped"
  p.add(f"{name}.own", f"reduce_scatter(%{source}) {{dim=1, axes=sp}}",
        spread(p.tokens, KEY_HEADS))
  p.keep(f"{name}.own", KEY_HEADS)


def by_rows(ranks, tokens, gradients):
  p = Program(ranks, tokens, gradients)
  p.input("q", spread(tokens, HEADS))
  gathered(p, striped=False)
  p.attend("", "q", "kw", "vw", (tokens, "@sp"), SCALE, "")
  p.keep("y", HEADS)
  if gradients:
    p.keep("dq", HEADS)
    for name in ("dk", "dv"):
      scattered(p, name, striped=False)
  return p.text()


def by_stripes(ranks, tokens, gradients):
  """Rows are in stripes already, as they are within a model."""
  p = Program(ranks, tokens, gradients)
  half = tokens // 2
  for i in range(2):
    p.input(f"q{i}", spread(half, HEADS))
  gathered(p, striped=True)
  for i, attrs in enumerate((f"runs={ranks}",
                             f"runs=-{ranks}, offset={half}")):
    p.attend(str(i), f"q{i}", "kn", "vn", (half, "@sp"), f"{SCALE}, {attrs}",
             "")
  for name in ["y"] + ["dq"] * gradients:
    p.add(name, f"add(%{name}0, %{name}1)", spread(half, HEADS))
    p.keep(name, HEADS)
  for name in ("dk", "dv") if gradients else ():
    scattered(p, name, striped=True)
  return p.text()


# Forms with the same inputs, which take turns.
GROUPS = [
    [("heads", by_heads, "never"), ("rows", by_rows, "never"),
     ("rows, keys in parts", by_rows, "2")],
    [("stripes", by_stripes, "never"), ("stripes, keys in parts", by_stripes,
                                        "2")]]


def said(command, timeout):
  done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                        capture_output=True, timeout=timeout)
  if done.returncode != 0:
    sys.exit(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
  return done.stdout


def compiled(form, args, tokens, gradients, folder):
  name, program, walk = form
  path = os.path.join(folder, name.replace(" ", "_").replace(",", ""))
  with open(path + ".local.asyra", "w", encoding="utf-8") as file:
    file.write(program(args.ranks, tokens, gradients))
  said([os.path.join(args.tools, "asyra-opt"), path + ".local.asyra",
        "--machine", args.machine, "--key-walk", walk, "--head-parts", "1",
        "-o", path + ".asyra"], 120)
  return path + ".asyra"


def ours(args, tokens, gradients):
  """(predicted, measured) ms by form."""
  times = {}
  for group in GROUPS:
    with tempfile.TemporaryDirectory() as folder:
      first, *others = [compiled(form, args, tokens, gradients, folder)
                        for form in group]
      out = said([os.path.join(args.tools, "asyra-run"), first,
                  "--random-weights", "--device", "cuda", "--repeat",
                  str(args.repeat), "--json", "--machine", args.machine,
                  "--against", *others], 240)
    for form, one in zip(group, json.loads(out)["in_turn"]):
      times[form[0]] = (one["predicted_us"] / 1e3,
                        one["steps"]["median_us"] / 1e3)
  return times


def torchs(args):
  """ms by tokens, of the better way to move keys: forward, and both."""
  out = said(["torchrun", "--nproc-per-node", str(args.ranks),
              os.path.join(HERE, "torch_context.py"), str(HEADS),
              str(KEY_HEADS), *map(str, args.tokens)], 240)
  best = {}
  for line in out.splitlines():
    if not line.startswith("{"):
      continue
    one = json.loads(line)
    both = one["forward_ms"] + one["backward_ms"]
    forward, least = best.get(one["tokens"], (both, both))
    best[one["tokens"]] = (min(forward, one["forward_ms"]), min(least, both))
  return best


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tools")
  parser.add_argument("--machine", default="h200x2")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--repeat", type=int, default=40)
  parser.add_argument("--tokens", type=int, nargs="+", default=[16384, 32768])
  parser.add_argument("--torch", action="store_true")
  args = parser.parse_args()
  theirs = torchs(args) if args.torch else {}
  print(f"{'tokens':>7}  {'form':<24}{'forward':>9}{'said':>9}"
        f"{'both':>9}{'said':>9}")
  for tokens in args.tokens:
    forward, both = (ours(args, tokens, gradients)
                     for gradients in (False, True))
    for form, (predicted, ms) in forward.items():
      print(f"{tokens:>7}  {form:<24}{ms:>9.2f}{predicted:>9.2f}"
            f"{both[form][1]:>9.2f}{both[form][0]:>9.2f}", flush=True)
    if tokens in theirs:
      print(f"{tokens:>7}  {'PyTorch':<24}{theirs[tokens][0]:>9.2f}{'':>9}"
            f"{theirs[tokens][1]:>9.2f}", flush=True)


if __name__ == "__main__":
  main()
