#!/usr/bin/env python3
"""Trains a built-in model with ASYRA and with PyTorch on one GPU, from the same
weights on the same batches, and compares the loss of each step. PyTorch runs
in bf16 (f32 master weights, fused AdamW), by default eager and compiled, and in
f32: the distance of its two types is the noise of bf16.

Usage: torch_train.py TOOLS DATA OUT --model gpt2-124m [--dim layers=12 ...]
TOOLS has asyra-opt and asyra-train; DATA is any file, whose bytes are tokens;
OUT gets losses.csv and the programs.
"""

import argparse
import csv
import json
import math
import pathlib
import re
import statistics
import subprocess
import time

import numpy as np
import torch
from torch.nn import functional

BETAS, EPS, DECAY, CLIP, FINAL = (0.9, 0.95), 1e-8, 0.1, 1.0, 0.1


def read_safetensors(path):
  """Gives name: (dtype, shape, bytes)."""
  data = path.read_bytes()
  length = int.from_bytes(data[:8], "little")
  header = json.loads(data[8:8 + length])
  header.pop("__metadata__", None)
  begin = 8 + length
  return {
      name: (one["dtype"], one["shape"],
             data[begin + one["data_offsets"][0]:begin +
                  one["data_offsets"][1]]) for name, one in header.items()
  }


def write_safetensors(path, tensors):
  header, at = {}, 0
  for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape,
                    "data_offsets": [at, at + len(data)]}
    at += len(data)
  text = json.dumps(header).encode()
  text += b" " * (-len(text) % 8)
  with open(path, "wb") as file:
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for _, _, data in tensors.values():
      file.write(data)


def first_values(program, seed):
  """Values of the params of an .asyra file."""
  random = np.random.default_rng(seed)
  values = {}
  head = program.read_text().split("{\n", 1)[0]
  for name, sizes in re.findall(r"%([\w.]+): f32\[([\d, ]+)\] param", head):
    shape = [int(size) for size in sizes.split(",")]
    if len(shape) == 1:
      value = np.full(shape, 0 if name.endswith(".bias.weight") else 1)
    else:
      value = random.standard_normal(shape, dtype=np.float32) * 0.02
    values[name] = value.astype(np.float32)
  return values


def learning_rate(step, steps, peak, warmup):
  if step < warmup:
    return peak * (step + 1) / warmup
  part = (step - warmup) / max(1, steps - warmup)
  return peak * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * part)))


class Weights:
  """By name, in the type of the computation."""

  def __init__(self, params, dtype):
    self.params, self.dtype = params, dtype

  def __call__(self, name):
    return self.params[f"{name}.weight"].to(self.dtype)


def attention(q, k, v):
  y = functional.scaled_dot_product_attention(
      q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True,
      enable_gqa=k.shape[2] != q.shape[2])
  return y.transpose(1, 2).flatten(2)


def gpt(w, ids, layers, head, base):
  del base  # no rotation
  def norm(x, name):
    return functional.layer_norm(x, x.shape[-1:], w(name), w(f"{name}.bias"),
                                 1e-5)

  def linear(x, name):
    return torch.addmm(w(f"{name}.bias"), x.flatten(0, 1),
                       w(name)).view(*x.shape[:-1], -1)

  def heads(x, name):
    return linear(x, name).unflatten(-1, (-1, head))

  table = w("embed_tokens")
  x = table[ids] + w("embed_positions")[:ids.shape[1]]
  for i in range(layers):
    at = f"layer{i}."
    h = norm(x, at + "attention_norm")
    y = attention(*(heads(h, at + part + "_proj") for part in "qkv"))
    x = x + linear(y, at + "o_proj")
    h = linear(norm(x, at + "mlp_norm"), at + "up_proj")
    x = x + linear(functional.gelu(h, approximate="tanh"), at + "down_proj")
  return norm(x, "norm") @ table.T


def llama(w, ids, layers, head, base):
  def norm(x, name):
    return functional.rms_norm(x, x.shape[-1:], w(name), 1e-5)

  def linear(x, name):
    return functional.linear(x, w(name))

  seq = ids.shape[1]
  frequency = base**(-torch.arange(0, head, 2, device=ids.device) / head)
  angle = torch.outer(torch.arange(seq, device=ids.device), frequency)
  cos, sin = (f(torch.cat((angle, angle), -1))[None, :, None].to(w.dtype)
              for f in (torch.cos, torch.sin))

  def rotated(x):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin

  x = functional.embedding(ids, w("embed_tokens"))
  for i in range(layers):
    at = f"layer{i}."
    h = norm(x, at + "input_norm")
    q, k, v = (linear(h, f"{at}{part}_proj").unflatten(-1, (-1, head))
               for part in "qkv")
    x = x + linear(attention(rotated(q), rotated(k), v), at + "o_proj")
    h = norm(x, at + "post_attention_norm")
    h = functional.silu(linear(h, at + "gate_proj")) * linear(h, at + "up_proj")
    x = x + linear(h, at + "down_proj")
  return linear(norm(x, "norm"), "logits")


# By name: what computes it, elements of a head, the base of rotations.
MODELS = {"gpt2-124m": (gpt, 64, None), "llama3-8b": (llama, 128, 5e5),
          "llama3-tiny": (llama, 8, 1e4)}


def train_torch(model, layers, values, batches, args, dtype, compiled):
  """Losses, norms, and the median time of a step in ms."""
  params = {name: torch.tensor(value, device="cuda", requires_grad=True)
            for name, value in values.items()}
  matrices = [p for p in params.values() if p.dim() >= 2]
  vectors = [p for p in params.values() if p.dim() < 2]
  optimizer = torch.optim.AdamW(
      [{"params": matrices, "weight_decay": DECAY},
       {"params": vectors, "weight_decay": 0.0}],
      lr=0.0, betas=BETAS, eps=EPS, fused=True)

  def loss_of(ids, labels):
    of, head, base = MODELS[model]
    logits = of(Weights(params, dtype), ids, layers, head, base)
    return functional.cross_entropy(logits.flatten(0, 1).float(),
                                    labels.flatten())

  if compiled:
    loss_of = torch.compile(loss_of)
  losses, norms, times = [], [], []
  for step, (ids, labels) in enumerate(batches):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for group in optimizer.param_groups:
      group["lr"] = learning_rate(step, args.steps, args.rate, args.warmup)
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(ids, labels)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(params.values(), CLIP)
    optimizer.step()
    losses.append(loss.item())
    norms.append(norm.item())
    times.append((time.perf_counter() - begin) * 1e3)
  memory = torch.cuda.max_memory_allocated() / 2**30
  torch.cuda.reset_peak_memory_stats()
  return losses, norms, statistics.median(times[5:]), memory


def train_asyra(args, out):
  """Compiles the step; gives its first values, and a function that runs it."""
  folder = out / "training"
  dims = [word for one in args.dim for word in ("--dim", one)]
  subprocess.run([args.tools / "asyra-opt", args.model, "--train", *dims,
                  "--machine", args.machine, "--graph", "-o", folder],
                 check=True)
  values = first_values(folder / "step.asyra", args.seed)
  weights = folder / "step.safetensors"
  tensors = read_safetensors(weights) if weights.exists() else {}
  for name, value in values.items():
    tensors[name] = ("F32", list(value.shape), value.tobytes())
  write_safetensors(weights, tensors)

  def run():
    subprocess.run(
        [args.tools / "asyra-train", folder, "--device", "cuda", "--data",
         args.data, "--no-shuffle", "--steps", str(args.steps), "--rate",
         str(args.rate),
         "--warmup", str(args.warmup), "--final", str(FINAL), "--csv",
         out / "asyra.csv"], check=True)
    rows = list(csv.DictReader(open(out / "asyra.csv")))
    tokens = args.batch * args.seq
    times = [tokens / float(row["tokens_per_s"]) * 1e3 for row in rows]
    return ([float(row["loss"]) for row in rows],
            [float(row["norm"]) for row in rows],
            statistics.median(times[5:]), 0)

  return values, run


def batches_of(args):
  data = np.frombuffer(args.data.read_bytes(), np.uint8).astype(np.int64)
  count = args.batch * args.seq
  batches = []
  for step in range(args.steps):
    begin = step % ((len(data) - 1) // count) * count
    batches.append([
        torch.tensor(data[at:at + count], device="cuda").view(
            args.batch, args.seq) for at in (begin, begin + 1)])
  return batches


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("tools", type=pathlib.Path)
  parser.add_argument("data", type=pathlib.Path)
  parser.add_argument("out", type=pathlib.Path)
  parser.add_argument("--model", default="gpt2-124m", choices=MODELS)
  parser.add_argument("--dim", action="append", default=[])
  parser.add_argument("--layers", type=int, default=12)
  parser.add_argument("--batch", type=int, default=4)
  parser.add_argument("--seq", type=int, default=1024)
  parser.add_argument("--steps", type=int, default=50)
  parser.add_argument("--rate", type=float, default=3e-4)
  parser.add_argument("--warmup", type=int, default=10)
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--modes", default="f32,bf16,compiled")
  args = parser.parse_args()
  args.out.mkdir(parents=True, exist_ok=True)
  args.dim += [f"layers={args.layers}", f"batch={args.batch}",
               f"seq={args.seq}"]
  values, run = train_asyra(args, args.out)
  runs = {"asyra": run()}
  batches = batches_of(args)
  for mode in args.modes.split(","):
    dtype = torch.float32 if mode == "f32" else torch.bfloat16
    runs[mode] = train_torch(args.model, args.layers, values, batches, args, dtype,
                             mode == "compiled")
  with open(args.out / "losses.csv", "w") as file:
    print("step", *runs, sep=",", file=file)
    for step in range(args.steps):
      print(step + 1, *(one[0][step] for one in runs.values()), sep=",",
            file=file)
  for name, (losses, norms, ms, memory) in runs.items():
    line = (f"{args.model} {name:9} {ms:8.2f} ms a step, loss {losses[0]:.4f} "
            f"-> {losses[-1]:.4f}, norm {norms[0]:.3f} -> {norms[-1]:.3f}")
    if memory:
      line += f", {memory:.1f} GiB"
    if "f32" in runs:
      off = max(abs(a - b) for a, b in zip(losses, runs["f32"][0]))
      line += f", off f32 by {off:.4f}"
    print(line)


if __name__ == "__main__":
  main()
