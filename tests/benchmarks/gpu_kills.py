#!/usr/bin/env python3
"""Kills one of the ranks that are processes, again and again, at random moments
of a run: while it starts, prepares, takes steps, or ends.

Each time the others have to end within --limit seconds with one line that says
what happened, and nothing may be left in the memory of the GPUs. Prints how
many kills came before and in the steps, how many runs had ended already, and
the longest time that a rank outlived the killed one. Exits with 1 if anything
went wrong.

Usage: gpu_kills.py PROGRAM.asyra TOOLS_DIR [--ranks 2] [--kills 50]
           [--device cuda] [--repeat 2000] [--timeout 10] [--limit 30]
           [--seed 1] [--between 0,1.05] [--at-once 1]

Long steps put the kills into steps (--repeat 20000 --between 0.5,0.95), few
ones into preparation (--repeat 1 --between 0,0.9), the last part into teardown
(--repeat 1 --between 0.9,1.02).
"""

import argparse
import collections
import concurrent.futures
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

# More than this on a GPU that nobody uses is a leak.
LEAK_MIB = 64


def used_mib():
  """Of each GPU; empty without GPUs."""
  try:
    said = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used",
         "--format=csv,noheader,nounits"], capture_output=True, text=True)
  except FileNotFoundError:
    return []
  return [int(line) for line in said.stdout.split() if line.isdigit()]


def stacks(process):
  """Of its threads, by whichever tool there is."""
  for tool in (["eu-stack", "-m", "-p"], ["gdb", "-batch", "-ex",
                                          "thread apply all bt", "-p"]):
    try:
      return subprocess.run(tool + [str(process)], capture_output=True,
                            text=True, timeout=20).stdout
    except (FileNotFoundError, subprocess.TimeoutExpired):
      continue
  return "(there is neither eu-stack nor gdb)\n"


class Run:
  """The ranks of one run, their outputs in files."""

  def __init__(self, args, port):
    self.begin = time.monotonic()
    self.logs, self.ranks = [], []
    for rank in range(args.ranks):
      env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(args.ranks),
                 LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(args.ranks),
                 MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
      log = tempfile.TemporaryFile("w+")
      self.logs.append(log)
      self.ranks.append(subprocess.Popen(
          [os.path.join(args.tools, "asyra-run"), args.program, "--device",
           args.device, "--random-weights", "--repeat", str(args.repeat),
           "--timeout", str(args.timeout)],
          env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

  def seconds(self):
    return time.monotonic() - self.begin

  def wait(self, limit):
    """Whether all have ended within `limit` seconds; kills what has not, and
    says what it was waiting for."""
    end = time.monotonic() + limit
    while any(rank.poll() is None for rank in self.ranks):
      if time.monotonic() > end:
        for number, rank in enumerate(self.ranks):
          if rank.poll() is None:
            print(f"rank {number} said:\n{self.said(number)}its threads are "
                  f"in:\n{stacks(rank.pid)}", flush=True)
        for rank in self.ranks:
          rank.kill()
          rank.wait()
        return False
      time.sleep(0.01)
    return True

  def said(self, rank):
    self.logs[rank].seek(0)
    return self.logs[rank].read()

  def errors(self, rank):
    return [line for line in self.said(rank).splitlines()
            if line.startswith("asyra-run: ")]


def kill_once(args, port, after, victim):
  """(what was seen, seconds that the others took, or that a whole run took
  which had ended), or raises."""
  run = Run(args, port)
  while run.seconds() < after and run.ranks[victim].poll() is None:
    time.sleep(0.002)
  if run.ranks[victim].poll() is not None:
    if not run.wait(args.limit):
      raise RuntimeError("a run without a kill has not ended")
    return "had ended", run.seconds()
  run.ranks[victim].send_signal(signal.SIGKILL)
  at = time.monotonic()
  if not run.wait(args.limit):
    raise RuntimeError(f"rank {victim} was killed after {after:.2f} s, others "
                       f"have not ended within {args.limit:g} s")
  took = time.monotonic() - at
  ended = 0
  for rank, process in enumerate(run.ranks):
    if rank == victim:
      continue
    # A rank that had all it needs from the killed one ends well.
    ended += process.returncode == 0
    if process.returncode not in (0, 1) or (
        process.returncode == 1 and len(run.errors(rank)) != 1):
      raise RuntimeError(f"rank {victim} was killed after {after:.2f} s, rank "
                         f"{rank} has ended with {process.returncode}:\n"
                         f"{run.said(rank)}")
  if ended:
    return "in the end", took
  return "before the end", took


def check_memory(before):
  """What is used once the driver has cleaned up."""
  for _ in range(50):
    after = used_mib()
    if all(b <= a + LEAK_MIB for a, b in zip(before, after)):
      return
    time.sleep(0.1)
  raise RuntimeError(f"MiB in use on the GPUs: {before} before, {after} after")


def whole_run(args, port):
  """The seconds that a run takes, beside as many as there will be."""
  runs = [Run(args, port + i) for i in range(args.at_once)]
  seconds = []
  for run in runs:
    if not run.wait(300) or any(rank.returncode for rank in run.ranks):
      sys.exit("a run without a kill fails:\n" + run.said(0))
    seconds.append(run.seconds())
  return sum(seconds) / len(seconds)


def at_once(args, kills, before):
  """What kill_once gives or raises for each, and a leak behind all of them."""
  results = []
  with concurrent.futures.ThreadPoolExecutor(len(kills)) as runs:
    for run in [runs.submit(kill_once, args, *kill) for kill in kills]:
      results.append(run.exception() or run.result())
  try:
    check_memory(before)
  except RuntimeError as error:
    results.append(error)
  return results


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("program")
  parser.add_argument("tools")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--kills", type=int, default=50,
                      help="of runs that had not ended")
  parser.add_argument("--device", default="cuda")
  parser.add_argument("--repeat", type=int, default=2000)
  parser.add_argument("--timeout", type=float, default=10)
  parser.add_argument("--limit", type=float, default=30)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--between", default="0,1.05",
                      help="when a rank is killed, as parts of a whole run")
  parser.add_argument("--at-once", type=int, default=1, metavar="N",
                      help="runs beside each other, on the same devices; memory "
                      "is looked at when all of them have ended")
  args = parser.parse_args()
  first, last = (float(part) for part in args.between.split(","))
  chance = random.Random(args.seed)
  port = chance.randrange(20000, 30000)
  before = used_mib()
  seconds = whole_run(args, port)
  print(f"seed {args.seed}, a run takes {seconds:.1f} s")
  seen, longest, failed = collections.Counter(), 0, 0
  whole = [seconds] * 3  # the last runs that had ended say how long one takes
  # Some runs have ended before their kill.
  for _ in range(2 * args.kills):
    if sum(seen.values()) - seen["had ended"] + failed >= args.kills:
      break
    port += args.at_once
    usual = statistics.median(whole[-5:])
    kills = [(port + i, chance.uniform(first, last) * usual,
              chance.randrange(args.ranks)) for i in range(args.at_once)]
    for result in at_once(args, kills, before):
      if isinstance(result, RuntimeError):
        print(result, flush=True)
        failed += 1
        continue
      kind, took = result
      seen[kind] += 1
      if kind == "had ended":
        whole.append(took)
      else:
        longest = max(longest, took)
    print(f"  {dict(seen)}, {failed} wrong", flush=True)
  for kind in ("before the end", "in the end", "had ended"):
    print(f"{seen[kind]:4} {kind}")
  print(f"{failed:4} went wrong; the others ended within {longest:.1f} s")
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
