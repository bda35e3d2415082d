#!/usr/bin/env python3
"""Whether the training loop keeps its promises on the GPUs of this host.

  resume     a run that is stopped in its middle and goes on has the losses of
             one that was not: within --noise of them on GPUs, whose attention
             adds in no fixed order, bit by bit on cpus
  meshes     the same checkpoint on another mesh and on one device: the loss of
             the next step agrees within --noise
  torchrun   ranks as processes have the losses of ranks as threads, within
             --noise; a rank that is killed is started again, and the run ends
             where the others do
  ctest      the tests with the label gpu of BUILD_DIR

Each check says passed, FAILED or skipped; exits with 1 if one has failed. With
--device cpu all of it runs without a GPU, which tests this script.

Usage: gpu_training_loop.py TOOLS_DIR [--device cuda] [--ranks 2]
           [--torchrun torchrun] [--build BUILD_DIR] [--noise 0.02]
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS, HALF = 40, 20
LIMIT_S = 600


class Failed(Exception):
  pass


class Loop:
  """Runs of one small model in a scratch folder."""

  def __init__(self, args, scratch):
    self.args, self.scratch = args, scratch
    self.text = self.path("text")
    with open(self.text, "w") as file:
      for number in range(4000):
        file.write(f"{number} and {number + 1} make {2 * number + 1}. ")

  def path(self, name):
    return os.path.join(self.scratch, name)

  def tool(self, name):
    return os.path.join(self.args.tools, name)

  def compiled(self, name, *mesh):
    folder = self.path(name)
    types = [] if self.args.device == "cpu" else ["--dtype", "bf16"]
    said(self.tool("asyra-opt"), "gpt3-tiny", "--dim", "batch=8", "--dim",
         "seq=64", *types, *mesh, "--search-steps", "50", "--train", "-o",
         folder)
    return folder

  def command(self, folder, run, steps):
    # The rate is the same however many steps are asked for.
    return [self.tool("asyra-train"), folder, "--data", self.text, "--rate",
            "0.003", "--warmup", "0", "--final", "1", "--steps", str(steps),
            "--device", self.args.device, "--checkpoint", self.path(run),
            "--save-every", "5", "--log", self.path(run + ".jsonl")]

  def train(self, folder, run, steps):
    said(*self.command(folder, run, steps))
    return self.losses(run)

  def losses(self, run):
    """By step; where a step was made twice, the last."""
    with open(self.path(run + ".jsonl")) as file:
      lines = [json.loads(line) for line in file]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}

  def compare(self, losses, others, steps):
    noise = 0 if self.args.device == "cpu" else self.args.noise
    worst = max(abs(losses[step] - others[step]) / abs(others[step])
                for step in steps)
    if worst > noise:
      raise Failed(f"losses differ by {worst:.2g}, more than {noise:g}")
    return f"losses of {len(steps)} steps differ by at most {worst:.2g}"


def said(*command, **options):
  result = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=LIMIT_S, **options)
  if result.returncode != 0:
    raise Failed(f"{os.path.basename(command[0])}: {result.stdout[-2000:]}")
  return result.stdout


def resume(loop):
  folder = loop.compiled("resume", "--dp", str(loop.args.ranks))
  whole = loop.train(folder, "whole", STEPS)
  loop.train(folder, "parts", HALF)
  parts = loop.train(folder, "parts", STEPS)
  return loop.compare(parts, whole, range(1, STEPS + 1))


def meshes(loop):
  """Other meshes add in other orders, on cpus too."""
  ranks = str(loop.args.ranks)
  one_more = {}
  for name, mesh in [("dp", ["--dp", ranks]), ("tp", ["--tp", ranks]),
                     ("one", [])]:
    folder = loop.compiled("mesh_" + name, *mesh)
    run = "from_" + name
    if name == "dp":
      loop.train(folder, run, HALF)
      shutil.copytree(loop.path(run), loop.path("newest"))
    else:
      shutil.copytree(loop.path("newest"), loop.path(run))
    one_more[name] = loop.train(folder, run, HALF + 1)[HALF + 1]
  worst = max(abs(loss / one_more["dp"] - 1) for loss in one_more.values())
  noise = 1e-5 if loop.args.device == "cpu" else loop.args.noise
  if worst > noise:
    raise Failed(f"losses after step {HALF} are {one_more}")
  return f"dp, tp and one device differ by at most {worst:.2g}"


def kill_a_rank(process, rank):
  """One of the processes that torchrun has started."""
  for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
      with open(f"/proc/{pid}/stat") as file:
        parent = int(file.read().rpartition(")")[2].split()[1])
      with open(f"/proc/{pid}/environ", "rb") as file:
        found = b"RANK=%d" % rank in file.read().split(b"\0")
    except OSError:
      continue
    if found and parent == process.pid:
      os.kill(int(pid), signal.SIGKILL)
      return
  raise Failed(f"torchrun has no rank {rank}")


def torchrun(loop):
  launcher = shutil.which(loop.args.torchrun)
  if launcher is None:
    return None
  folder = loop.compiled("processes", "--dp", str(loop.args.ranks))
  threads = loop.train(folder, "threads", STEPS)
  command = [launcher, "--standalone", "--nproc-per-node",
             str(loop.args.ranks), "--max-restarts", "2", "--no-python", "--",
             *loop.command(folder, "processes_run", STEPS)]
  process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
  try:
    log = loop.path("processes_run.jsonl")
    until = time.monotonic() + LIMIT_S
    while not os.path.exists(log) or len(loop.losses("processes_run")) < 8:
      if process.poll() is not None or time.monotonic() > until:
        raise Failed(f"torchrun: {process.communicate()[0][-2000:]}")
      time.sleep(0.01)
    kill_a_rank(process, loop.args.ranks - 1)
    out = process.communicate(timeout=LIMIT_S)[0]
  finally:
    process.kill()
  if process.returncode != 0 or "goes on from" not in out:
    raise Failed(f"after the kill: {out[-2000:]}")
  return loop.compare(loop.losses("processes_run"), threads,
                      range(1, STEPS + 1))


def ctest(loop):
  if loop.args.build is None:
    return None
  out = said("ctest", "--test-dir", loop.args.build, "-L", "gpu",
             "--output-on-failure")
  return out.strip().splitlines()[-1]


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("tools")
  parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--torchrun", default="torchrun")
  parser.add_argument("--build")
  parser.add_argument("--noise", type=float, default=0.02)
  args = parser.parse_args()
  args.tools = os.path.abspath(args.tools)
  failed = False
  with tempfile.TemporaryDirectory() as scratch:
    loop = Loop(args, scratch)
    for check in (resume, meshes, torchrun, ctest):
      try:
        result = check(loop)
        verdict = "skipped" if result is None else f"passed: {result}"
      except Failed as error:
        failed, verdict = True, f"FAILED: {error}"
      print(f"{check.__name__:9} {verdict}", flush=True)
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
