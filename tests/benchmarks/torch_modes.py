"""What torch_llama.py and torch_moe.py share: a rank on each GPU, steps that are
timed, and a line of JSON for each mode: the step's median in ms, or its error.
"""

import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist

STEPS = 20


def some_of(known):
  """The type of an argument: modes, with commas between them."""

  def modes(text):
    for mode in text.split(","):
      if mode not in known:
        raise argparse.ArgumentTypeError(
            f"mode is '{mode}', it should be one of {', '.join(known)}")
    return text.split(",")

  return modes


def start_rank():
  """As torchrun started it."""
  rank = int(os.environ["LOCAL_RANK"])
  torch.cuda.set_device(rank)
  dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
  torch.manual_seed(rank)


@torch.no_grad()
def median_ms(step):
  """Of the slowest rank."""
  for _ in range(5):
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


def measure_modes(modes, make_step):
  """Prints what step(), which make_step(mode) gives, takes in each mode; the
  rank ends here."""
  for mode in modes:
    try:
      said = {"mode": mode, "ms": median_ms(make_step(mode))}
    except Exception as error:  # of one mode; the others count all the same
      said = {"mode": mode, "error": repr(error)[:300]}
    if dist.get_rank() == 0:
      print(json.dumps(said), flush=True)
  dist.destroy_process_group()
