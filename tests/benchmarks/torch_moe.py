#!/usr/bin/env python3
"""The block of experts of Qwen3-30B-A3B as PyTorch's users shard it: a router,
tokens to their experts and back by all_to_all, grouped matmuls; bf16. Tokens
are shared out evenly between the experts, so that all shapes are known.
Prints one line of JSON for each mode: the block's median in ms.

Usage: torchrun --nproc-per-node N torch_moe.py TOKENS_OF_A_RANK MODES
MODES are some of eager,compile
"""

import argparse

import torch
import torch.distributed as dist
from torch.nn import functional

from torch_modes import measure_modes, some_of, start_rank

HIDDEN, EXPERTS, CHOSEN, INNER = 2048, 128, 8, 768
MODES = ["eager", "compile"]


class Block(torch.nn.Module):

  def __init__(self, tokens, ranks):
    super().__init__()
    own = EXPERTS // ranks
    self.ranks, self.tokens, self.own = ranks, tokens, own

    def weight(*shape):
      return torch.nn.Parameter(0.02 * torch.randn(shape, device="cuda",
                                                   dtype=torch.bfloat16))

    self.router = weight(HIDDEN, EXPERTS)
    self.gate_up = weight(own, HIDDEN, 2 * INNER)
    self.down = weight(own, INNER, HIDDEN)
    # Each token's choices, evenly over the experts, and where they lie sorted.
    choices = torch.arange(tokens * CHOSEN, device="cuda") % EXPERTS
    order = choices.argsort(stable=True)
    self.sender = order // CHOSEN
    self.place = order.argsort()
    self.rows = tokens * CHOSEN // EXPERTS  # of an expert, from one rank
    self.ends = (torch.arange(1, own + 1, device="cuda") * self.rows *
                 ranks).int()

  def exchange(self, rows):
    received = torch.empty_like(rows)
    dist.all_to_all_single(received, rows)
    return received

  def forward(self, x):
    chances = (x @ self.router).float().softmax(-1).topk(CHOSEN)[0]
    rows = self.exchange(x[self.sender])
    rows = rows.view(self.ranks, self.own, self.rows, HIDDEN)
    rows = rows.transpose(0, 1).reshape(-1, HIDDEN)
    gate, up = torch._grouped_mm(rows, self.gate_up,
                                 offs=self.ends).chunk(2, -1)
    rows = torch._grouped_mm(functional.silu(gate) * up, self.down,
                             offs=self.ends)
    rows = rows.view(self.own, self.ranks, self.rows, HIDDEN)
    rows = self.exchange(rows.transpose(0, 1).reshape(-1, HIDDEN))
    rows = rows[self.place].view(self.tokens, CHOSEN, HIDDEN)
    return (rows * chances[..., None].to(x.dtype)).sum(1)


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("tokens", type=int, help="of a rank")
  parser.add_argument("modes", type=some_of(MODES),
                      help=f"some of {','.join(MODES)}")
  args = parser.parse_args()
  start_rank()
  x = torch.randn(args.tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)
  block = Block(args.tokens, dist.get_world_size())

  def step_of(mode):
    step = block if mode == "eager" else torch.compile(block)
    return lambda: step(x)

  measure_modes(args.modes, step_of)


if __name__ == "__main__":
  main()
