#!/usr/bin/env python3
"""A gather before a matmul and a scatter behind one, as PyTorch runs them in
bf16: one after the other (eager), compiled with async tensor parallelism
(async), and by the operators of symmetric memory (fused). Prints a line of JSON
for each mode and pair: the median in us of the slowest rank, or the error.

Usage: torchrun --nproc-per-node N torch_pairs.py PAIRS.json MODES [--device cpu]
PAIRS.json is a list of {name, gathers, rows, inner, columns}, the matmul of each
rank, as asyra-bench --pairs --json writes it; MODES some of eager,fused,async
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

MODES = ["eager", "fused", "async"]
WARM_UP = 3
SAMPLES = 9
ROW_US = 2000  # of repetitions without a pause, as they run in a step


def start_rank(device):
  rank = int(os.environ["LOCAL_RANK"])
  if device == "cpu":
    dist.init_process_group("gloo")
    return torch.device("cpu")
  torch.cuda.set_device(rank)
  here = torch.device("cuda", rank)
  dist.init_process_group("nccl", device_id=here)
  return here


class Pair:
  """Operands of one pair, and what it computes in a mode."""

  def __init__(self, shape, device):
    ranks = dist.get_world_size()
    rows, inner, columns = shape["rows"], shape["inner"], shape["columns"]
    self.gathers = shape["gathers"]
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16

    def matrix(*sizes):
      return torch.randn(*sizes, device=device, dtype=dtype)

    self.x = matrix(rows // ranks if self.gathers else rows, inner)
    self.weight = matrix(inner, columns)
    self.whole = matrix(rows, inner) if self.gathers else None
    self.part = None if self.gathers else matrix(rows // ranks, columns)
    self.group = dist.group.WORLD

  def eager(self):
    if self.gathers:
      dist.all_gather_into_tensor(self.whole, self.x)
      return self.whole @ self.weight
    dist.reduce_scatter_tensor(self.part, self.x @ self.weight)
    return self.part

  def fused(self):
    name = self.group.group_name
    if self.gathers:
      return torch.ops.symm_mem.fused_all_gather_matmul(
          self.x, [self.weight], 0, name)
    return torch.ops.symm_mem.fused_matmul_reduce_scatter(
        self.x, self.weight, "sum", 0, name)

  def functional(self, x, weight):
    from torch.distributed import _functional_collectives as functional
    if self.gathers:
      return functional.all_gather_tensor(x, 0, self.group) @ weight
    return functional.reduce_scatter_tensor(x @ weight, "sum", 0, self.group)

  def step(self, mode):
    if mode != "async":
      return getattr(self, mode)
    torch._dynamo.reset()
    torch._inductor.config._micro_pipeline_tp = True
    compiled = torch.compile(self.functional, fullgraph=True, dynamic=False)
    return lambda: compiled(self.x, self.weight)


class Clock:
  """Of this rank's device, in us."""

  def __init__(self, device):
    self.device = device

  def row_us(self, step, count):
    dist.barrier()
    if self.device.type == "cpu":
      begin = time.monotonic()
      for _ in range(count):
        step()
      return (time.monotonic() - begin) * 1e6
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
      step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3

  def slowest(self, values):
    everyone = torch.tensor(values, device=self.device, dtype=torch.float64)
    dist.all_reduce(everyone, dist.ReduceOp.MAX)
    return everyone.tolist()

  @torch.no_grad()
  def median_us(self, step):
    for _ in range(WARM_UP):
      one_us = self.row_us(step, 1)
    count = max(1, min(20, round(ROW_US / self.slowest([one_us])[0])))
    samples = [self.row_us(step, count) / count for _ in range(SAMPLES)]
    return statistics.median(self.slowest(samples))


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("pairs")
  parser.add_argument("modes", type=lambda text: text.split(","))
  parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
  args = parser.parse_args()
  unknown = set(args.modes) - set(MODES)
  if unknown:
    parser.error(f"modes are some of {', '.join(MODES)}, not {unknown}")
  device = start_rank(args.device)
  if device.type == "cuda" and set(args.modes) & {"fused", "async"}:
    from torch.distributed._symmetric_memory import enable_symm_mem_for_group
    enable_symm_mem_for_group(dist.group.WORLD.group_name)
  clock = Clock(device)
  with open(args.pairs) as file:
    shapes = json.load(file)
  for mode in args.modes:
    for shape in shapes:
      said = {"mode": mode, "pair": shape["name"]}
      try:
        said["us"] = clock.median_us(Pair(shape, device).step(mode))
      except Exception as error:  # of one pair; the others count all the same
        said["error"] = repr(error)[:300]
      if dist.get_rank() == 0:
        print(json.dumps(said), flush=True)
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
