#!/usr/bin/env python3
"""Layers of Llama as PyTorch's users shard them: DTensor tensor parallelism
with norms along the sequence, bf16, causal attention by cuDNN, grouped heads.
Prints one line of JSON for each mode: the step's median in ms.

Usage: torchrun --nproc-per-node N torch_llama.py MODEL LAYERS BATCH SEQ MODES
MODEL is llama3-8b or llama3-70b; MODES some of eager,compile,async
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
    parallelize_module)
from torch.nn import functional

from torch_modes import measure_modes, some_of, start_rank

# Hidden, inner, heads, heads of keys.
SIZES = {"llama3-8b": (4096, 14336, 32, 8), "llama3-70b": (8192, 28672, 64, 8)}
MODES = ["eager", "compile", "async"]


class Norm(nn.Module):

  def __init__(self, hidden):
    super().__init__()
    self.weight = nn.Parameter(torch.ones(hidden))

  def forward(self, x):
    return functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Attention(nn.Module):

  def __init__(self, hidden, heads, kv_heads):
    super().__init__()
    self.head = hidden // heads
    self.q = nn.Linear(hidden, hidden, bias=False)
    self.k = nn.Linear(hidden, kv_heads * self.head, bias=False)
    self.v = nn.Linear(hidden, kv_heads * self.head, bias=False)
    self.out = nn.Linear(hidden, hidden, bias=False)

  def forward(self, x, cos, sin):
    batch, seq, _ = x.shape

    def heads(y):
      return y.view(batch, seq, -1, self.head)

    def rotated(y):
      a, b = y.chunk(2, -1)
      return y * cos + torch.cat((-b, a), -1) * sin

    q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
    y = functional.scaled_dot_product_attention(
        rotated(q).transpose(1, 2), rotated(k).transpose(1, 2),
        v.transpose(1, 2), is_causal=True, enable_gqa=True)
    return self.out(y.transpose(1, 2).reshape(batch, seq, -1))


class Mlp(nn.Module):

  def __init__(self, hidden, inner):
    super().__init__()
    self.gate = nn.Linear(hidden, inner, bias=False)
    self.up = nn.Linear(hidden, inner, bias=False)
    self.down = nn.Linear(inner, hidden, bias=False)

  def forward(self, x):
    return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):

  def __init__(self, hidden, inner, heads, kv_heads):
    super().__init__()
    self.norm1, self.norm2 = Norm(hidden), Norm(hidden)
    self.attention = Attention(hidden, heads, kv_heads)
    self.mlp = Mlp(hidden, inner)

  def forward(self, x, cos, sin):
    x = x + self.attention(self.norm1(x), cos, sin)
    return x + self.mlp(self.norm2(x))


def sharded(layer, mesh):
  whole, rows = Replicate(), Shard(1)
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
  return layer


def rotation(seq, head):
  place = torch.arange(seq, device="cuda").float()
  rate = 500000 ** (-torch.arange(0, head, 2, device="cuda").float() / head)
  angle = torch.outer(place, rate).repeat(1, 2)[None, :, None, :]
  return angle.cos().bfloat16(), angle.sin().bfloat16()


def step_of(model, count, batch, seq, mode):
  hidden, inner, heads, kv_heads = SIZES[model]
  mesh = init_device_mesh("cuda", (dist.get_world_size(),))
  torch._dynamo.reset()
  torch._inductor.config._micro_pipeline_tp = mode == "async"
  if mode == "async":
    from torch.distributed._symmetric_memory import enable_symm_mem_for_group
    enable_symm_mem_for_group(mesh.get_group().group_name)
  layers = []
  for _ in range(count):
    with torch.device("cuda"):
      layer = Layer(hidden, inner, heads, kv_heads).to(torch.bfloat16)
    layer = sharded(layer, mesh)
    layers.append(layer if mode == "eager"
                  else torch.compile(layer, fullgraph=True))
  cos, sin = rotation(seq, hidden // heads)
  x = torch.randn(batch, seq // mesh.size(), hidden, device="cuda",
                  dtype=torch.bfloat16)

  def step():
    y = x
    for layer in layers:
      y = layer(y, cos, sin)
    return y

  return step


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("model", choices=SIZES)
  for number in ("layers", "batch", "seq"):
    parser.add_argument(number, type=int)
  parser.add_argument("modes", type=some_of(MODES),
                      help=f"some of {','.join(MODES)}")
  args = parser.parse_args()
  start_rank()
  for backend in ("flash", "mem_efficient", "math"):
    getattr(torch.backends.cuda, f"enable_{backend}_sdp")(False)
  torch.backends.cuda.enable_cudnn_sdp(True)
  measure_modes(args.modes, lambda mode: step_of(
      args.model, args.layers, args.batch, args.seq, mode))


if __name__ == "__main__":
  main()
