"""Causal attention of one sequence over all ranks by PyTorch's context_parallel,
bf16, with cuDNN: ms of forward and of backward, a JSON line for each way that
keys reach the ranks.

Usage: torchrun --nproc-per-node N torch_context.py HEADS KEY_HEADS TOKENS...
"""

import json
import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.nn.attention import SDPBackend, sdpa_kernel

HEAD_SIZE = 128
RUNS = 20


def timed(step):
  for _ in range(4):
    step()
  times = []
  for _ in range(RUNS):
    dist.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    torch.cuda.synchronize()
    times.append(begin.elapsed_time(end))
  slowest = torch.tensor(statistics.median(times), device="cuda")
  dist.all_reduce(slowest, dist.ReduceOp.MAX)
  return slowest.item()


def measured(mesh, heads, key_heads, tokens):
  q, k, v = (torch.randn(1, n, tokens, HEAD_SIZE, device="cuda",
                         dtype=torch.bfloat16)
             for n in (heads, key_heads, key_heads))
  with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), context_parallel(
      mesh, buffers=(q, k, v), buffer_seq_dims=(2, 2, 2)):
    inputs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    dy = torch.randn_like(q)

    def forward(x=(q, k, v)):
      return F.scaled_dot_product_attention(
          *x, is_causal=True, enable_gqa=heads != key_heads)

    def both():
      torch.autograd.grad(forward(inputs), inputs, dy)

    forward_ms = timed(forward)
    return forward_ms, timed(both) - forward_ms


def main():
  heads, key_heads, *lengths = map(int, sys.argv[1:])
  torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
  dist.init_process_group("nccl")
  mesh = init_device_mesh("cuda", (dist.get_world_size(),))
  for tokens in lengths:
    for rotate in ("allgather", "alltoall"):
      set_rotate_method(rotate)
      forward_ms, backward_ms = measured(mesh, heads, key_heads, tokens)
      if dist.get_rank() == 0:
        print(json.dumps({"tokens": tokens, "rotate": rotate,
                          "forward_ms": forward_ms,
                          "backward_ms": backward_ms}), flush=True)
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
