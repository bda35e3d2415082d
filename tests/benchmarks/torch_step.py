#!/usr/bin/env python3
"""Whole training steps (forward, loss, backward, exchange of gradients,
clipping, AdamW) as PyTorch's users run them. Prints one line of JSON for each mode: the
median step in ms, its peak memory, or its error.

Usage: torchrun --nproc-per-node N torch_step.py MODEL LAYERS BATCH SEQ
           VOCABULARY PARALLEL MODES
MODEL is gpt2-124m, llama3-8b or llama3-70b; PARALLEL is
  one, ddp  f32 parameters, computed in bf16 by autocast; BATCH of one rank
  fsdp      FSDP2: shards of f32 parameters, gathered in bf16; BATCH of one rank
  tp        bf16 parameters and moments, norms along the sequence, a loss over
            a sharded vocabulary; BATCH of all ranks
MODES some of eager,compile,async; async, for tp, hides what DTensor exchanges.
"""

import argparse
import contextlib
import json
import statistics

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
    loss_parallel, parallelize_module)
from torch.nn import functional

from torch_modes import some_of, start_rank

# Hidden, inner, heads, heads of keys.
SIZES = {"llama3-8b": (4096, 14336, 32, 8), "llama3-70b": (8192, 28672, 64, 8),
         "gpt2-124m": (768, 3072, 12, 12)}
MODES = ["eager", "compile", "async"]
WARM_UP, STEPS = 5, 10
CLIP = 1.0


class RmsNorm(nn.Module):

  def __init__(self, hidden):
    super().__init__()
    self.weight = nn.Parameter(torch.ones(hidden))

  def forward(self, x):
    return functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Attention(nn.Module):

  def __init__(self, hidden, heads, kv_heads, gpt):
    super().__init__()
    self.head, self.gpt = hidden // heads, gpt
    self.q = nn.Linear(hidden, hidden, bias=gpt)
    self.k = nn.Linear(hidden, kv_heads * self.head, bias=gpt)
    self.v = nn.Linear(hidden, kv_heads * self.head, bias=gpt)
    self.out = nn.Linear(hidden, hidden, bias=gpt)

  def forward(self, x, cos, sin):
    batch, seq, _ = x.shape
    q, k, v = (part(x).view(batch, seq, -1, self.head)
               for part in (self.q, self.k, self.v))
    if not self.gpt:
      def rotated(y):
        a, b = y.chunk(2, -1)
        return y * cos + torch.cat((-b, a), -1) * sin

      q, k = rotated(q), rotated(k)
    y = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
        is_causal=True, enable_gqa=k.shape[2] != q.shape[2])
    return self.out(y.transpose(1, 2).reshape(batch, seq, -1))


class Mlp(nn.Module):

  def __init__(self, hidden, inner, gpt):
    super().__init__()
    self.up = nn.Linear(hidden, inner, bias=gpt)
    self.down = nn.Linear(inner, hidden, bias=gpt)
    self.gate = None if gpt else nn.Linear(hidden, inner, bias=False)

  def forward(self, x):
    if self.gate is None:
      return self.down(functional.gelu(self.up(x), approximate="tanh"))
    return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):

  def __init__(self, hidden, inner, heads, kv_heads, gpt):
    super().__init__()
    norm = nn.LayerNorm if gpt else RmsNorm
    self.norm1, self.norm2 = norm(hidden), norm(hidden)
    self.attention = Attention(hidden, heads, kv_heads, gpt)
    self.mlp = Mlp(hidden, inner, gpt)

  def forward(self, x, cos, sin):
    x = x + self.attention(self.norm1(x), cos, sin)
    return x + self.mlp(self.norm2(x))


class Model(nn.Module):

  def __init__(self, name, layers, seq, vocabulary):
    super().__init__()
    hidden, inner, heads, kv_heads = SIZES[name]
    gpt = name.startswith("gpt")
    self.tokens = nn.Embedding(vocabulary, hidden)
    self.places = nn.Embedding(seq, hidden) if gpt else None
    self.layers = nn.ModuleList(
        Layer(hidden, inner, heads, kv_heads, gpt) for _ in range(layers))
    self.norm = nn.LayerNorm(hidden) if gpt else RmsNorm(hidden)
    self.head = nn.Linear(hidden, vocabulary, bias=False)
    if gpt:
      self.head.weight = self.tokens.weight

  def forward(self, ids, cos, sin):
    x = self.tokens(ids)
    if self.places is not None:
      x = x + self.places.weight
    for layer in self.layers:
      x = layer(x, cos, sin)
    return self.head(self.norm(x))


def shard_by_tensor(model, mesh, mode):
  whole, rows = Replicate(), Shard(1)
  parallelize_module(model, mesh, {
      "tokens": RowwiseParallel(input_layouts=whole, output_layouts=rows),
      "norm": SequenceParallel(),
      "head": ColwiseParallel(input_layouts=rows, output_layouts=Shard(-1),
                              use_local_output=False)})
  for layer in model.layers:
    parallelize_module(layer, mesh, {
        "norm1": SequenceParallel(),
        "attention": PrepareModuleInput(
            input_layouts=(rows, None, None),
            desired_input_layouts=(whole, None, None)),
        "attention.q": ColwiseParallel(),
        "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=rows),
        "norm2": SequenceParallel(),
        "mlp": PrepareModuleInput(input_layouts=(rows,),
                                  desired_input_layouts=(whole,)),
        "mlp.gate": ColwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(output_layouts=rows)})
  if mode == "async":
    from torch.distributed._symmetric_memory import enable_symm_mem_for_group
    enable_symm_mem_for_group(mesh.get_group().group_name)


def shard_fully(model, mesh):
  from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
  policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                reduce_dtype=torch.float32)
  for layer in model.layers:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
  fully_shard(model, mesh=mesh, mp_policy=policy)


def rotation(seq, head):
  place = torch.arange(seq, device="cuda").float()
  rate = 500000 ** (-torch.arange(0, head, 2, device="cuda").float() / head)
  angle = torch.outer(place, rate).repeat(1, 2)[None, :, None, :]
  return angle.cos().bfloat16(), angle.sin().bfloat16()


def model_of(args, mode):
  """It, sharded, and the context that it computes in."""
  torch.manual_seed(0)
  with torch.device("cuda"):
    model = Model(args.model, args.layers, args.seq, args.vocabulary)
  mesh = init_device_mesh("cuda", (dist.get_world_size(),))
  if args.parallel == "tp":
    model = model.to(torch.bfloat16)
    shard_by_tensor(model, mesh, mode)
  if mode != "eager":
    for i, layer in enumerate(model.layers):
      model.layers[i] = torch.compile(layer, fullgraph=True)
  if args.parallel == "fsdp":
    shard_fully(model, mesh)
  if args.parallel == "ddp":
    model = nn.parallel.DistributedDataParallel(model,
                                                gradient_as_bucket_view=True)
  is_cast = args.parallel in ("one", "ddp")
  return model, (torch.autocast("cuda", torch.bfloat16) if is_cast
                 else contextlib.nullcontext())


def step_of(args, mode):
  torch._dynamo.reset()
  torch._inductor.config._micro_pipeline_tp = mode == "async"
  model, context = model_of(args, mode)
  hidden, _, heads, _ = SIZES[args.model]
  cos, sin = rotation(args.seq, hidden // heads)
  # Ranks of a tensor parallel model have the same tokens.
  seed = 1 if args.parallel == "tp" else 1 + dist.get_rank()
  random = torch.Generator(device="cuda").manual_seed(seed)
  ids, labels = (torch.randint(0, args.vocabulary, (args.batch, args.seq),
                               device="cuda", generator=random)
                 for _ in range(2))
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

  def loss_of(logits):
    return functional.cross_entropy(logits.flatten(0, 1).float(),
                                    labels.flatten())

  if mode != "eager" and args.parallel != "tp":
    loss_of = torch.compile(loss_of)
  split = (loss_parallel if args.parallel == "tp" else contextlib.nullcontext)

  def step():
    with context:
      logits = model(ids, cos, sin)
    with split():
      loss_of(logits).backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

  return step


def median_ms(step):
  """Of the slowest rank."""
  for _ in range(WARM_UP):
    step()
  torch.cuda.synchronize()
  times = []
  for _ in range(STEPS):
    dist.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    torch.cuda.synchronize()
    times.append(begin.elapsed_time(end))
  slowest = torch.tensor(times, device="cuda")
  dist.all_reduce(slowest, dist.ReduceOp.MAX)
  return statistics.median(slowest.tolist())


def measured(args, mode):
  torch.cuda.empty_cache()
  torch.cuda.reset_peak_memory_stats()
  try:
    ms = median_ms(step_of(args, mode))
  except Exception as error:  # of one mode; the others count all the same
    return {"mode": mode, "error": repr(error)[:300]}
  return {"mode": mode, "ms": ms,
          "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("model", choices=SIZES)
  for number in ("layers", "batch", "seq", "vocabulary"):
    parser.add_argument(number, type=int)
  parser.add_argument("parallel", choices=["one", "ddp", "fsdp", "tp"])
  parser.add_argument("modes", type=some_of(MODES))
  args = parser.parse_args()
  start_rank()
  for backend in ("flash", "mem_efficient", "math"):
    getattr(torch.backends.cuda, f"enable_{backend}_sdp")(False)
  torch.backends.cuda.enable_cudnn_sdp(True)
  for mode in args.modes:
    said = measured(args, mode)
    if dist.get_rank() == 0:
      print(json.dumps(said), flush=True)
    dist.barrier()
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
