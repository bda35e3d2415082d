"""Ranks as processes: asyra-run under mpirun gives what it gives with threads,
and what goes wrong on one rank is a named error on the others and never hangs.

Usage: mpi_test.py SOURCE_DIR TOOLS_DIR MPIRUN
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

from tool_test import DIMS, GPT2, LLAMA, SOURCE_DIR, TOOLS_DIR, ToolTest

MPIRUN = sys.argv[3]
RUN = "asyra-run"
LIMIT_S = 120  # nothing here takes as long, unless it hangs

# The scheduler, tiles, ranks and their mesh.
SCHEDULES = [("search", "2", 2, "--tp 2"), ("segrr", "2", 4, "--tp 2 --sp 2"),
             ("round_robin", "4", 2, "--tp 2"), ("serial", "2", 2, "--sp 2")]


def start(ranks, *args, programs=None, options=(), tool=RUN):
  """Begins `ranks` ranks, or one for each of `programs` (lists of args).
  `options` are mpirun's."""
  env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
             OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
  command = [MPIRUN, "--oversubscribe", "--bind-to", "none", *options]
  for number, own in enumerate(programs or [args]):
    command += [":"] if number else []
    command += ["-n", "1" if programs else str(ranks),
                os.path.join(TOOLS_DIR, tool), *own]
  return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)


def outputs_of(text):
  """What a run says of each output."""
  lines = [line for line in text.splitlines() if line.startswith("output %")]
  assert lines, text
  return lines


def errors_of(err, rank, tool=RUN):
  return [line for line in err.splitlines()
          if line.startswith(f"{tool}: rank {rank}: ")]


def finish(process):
  try:
    out, err = process.communicate(timeout=LIMIT_S)
  except subprocess.TimeoutExpired:
    process.kill()
    raise
  return process.returncode, out, err


def process_of(launcher, rank):
  """The process of a rank, once it is there."""
  until = time.monotonic() + LIMIT_S
  while time.monotonic() < until:
    for pid in filter(str.isdigit, os.listdir("/proc")):
      try:
        with open(f"/proc/{pid}/stat") as file:
          parent = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{pid}/environ", "rb") as file:
          variables = file.read().split(b"\0")
      except OSError:
        continue
      if (parent == launcher.pid and
          f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables):
        return int(pid)
    time.sleep(0.05)
  raise AssertionError(f"rank {rank} did not start")


class Mpi(ToolTest):

  def ranks_pass(self, ranks, *args):
    code, out, err = finish(start(ranks, *args))
    self.assertEqual(code, 0, err + out)
    return out

  def assert_errors(self, err, message, ranks):
    for rank in ranks:
      lines = errors_of(err, rank)
      self.assertEqual(len(lines), 1, err)
      self.assertIn(message, lines[0])

  def compiled(self, name, *mesh):
    out = self.path(name)
    self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "-o", out)
    return out

  def test_models_equal_their_recordings(self):
    for model, mesh, ranks in [
        (LLAMA, ["--tp", "4", "--sp", "2", "--tiles", "2"], 8),
        (LLAMA, ["--tp", "2", "--tiles", "1"], 2),
        (GPT2, ["--tp", "2", "--dp", "2", "--tiles", "2"], 4),
        (GPT2, ["--tp", "2", "--sp", "2", "--tiles", "1"], 4),
    ]:
      args = [model, *DIMS, *mesh, "--check",
              os.path.join(os.path.dirname(model), "test_data_set_0")]
      threads = self.passes("asyra-run", *args)
      processes = self.ranks_pass(ranks, *args)
      self.assertEqual(outputs_of(threads), outputs_of(processes))
    moe = ["qwen3-moe-tiny", "--ep", "4"]
    self.assertEqual(outputs_of(self.passes("asyra-run", *moe)),
                     outputs_of(self.ranks_pass(4, *moe)))

  def test_ranks_pass_a_gate_together(self):
    self.own_cache()
    bad = [LLAMA, *DIMS, "--tp", "2", "--tiles", "4", "--scheduler", "serial",
           "--inject-comm-us", "4000", "--gate", "measured", "--check",
           os.path.join(os.path.dirname(LLAMA), "test_data_set_0")]
    text = self.ranks_pass(2, *bad)
    # Which one is faster is measured, and not the same on a loaded machine.
    kept = r"gate: kept (scheduled|unscheduled): median "
    self.assertRegex(text, kept)
    name = re.search(kept, text).group(1)
    self.assertRegex(text, r"\n\d+ all_reduce\(tp\) by messages of MPI\n")
    self.assertIn(f"gate: kept {name} (remembered): median ",
                  self.ranks_pass(2, *bad))
    # Threads are another machine.
    self.assertRegex(self.passes("asyra-run", *bad), kept)

  def test_every_tiny_model_under_some_schedule(self):
    models = os.path.join(SOURCE_DIR, "models")
    names = sorted(name for name in os.listdir(models) if "-tiny" in name)
    self.assertGreaterEqual(len(names), 12)
    for i, name in enumerate(names):
      scheduler, tiles, ranks, mesh = SCHEDULES[i % len(SCHEDULES)]
      folder = os.path.join(models, name)
      fixed = name.endswith("op23") or (
          name.startswith("vit") and "legacy" not in name)
      dims = [] if fixed else DIMS[:2 if name.startswith("vit") else 4]
      with self.subTest(model=name, scheduler=scheduler):
        self.ranks_pass(ranks, os.path.join(folder, "model.onnx"), *dims,
                        *mesh.split(), "--tiles", tiles, "--scheduler",
                        scheduler, "--check",
                        os.path.join(folder, "test_data_set_0"))

  def test_a_rank_that_is_killed_is_named(self):
    model = self.compiled("model.asyra", "--tp", "4", "--tiles", "2")
    # mpirun alone ends all ranks when it sees that one has gone, which may be
    # before they have said why; with recovery they end by themselves.
    for options in [], ["--enable-recovery"]:
      with self.subTest(options=options):
        process = start(4, model, "--repeat", "10000000", options=options)
        victim = process_of(process, 2)
        time.sleep(3)  # into the steps
        os.kill(victim, signal.SIGKILL)
        code, _, err = finish(process)
        spoke = [rank for rank in [0, 1, 3]
                 if options or errors_of(err, rank)]
        # Not the timeout's message: they have noticed before it is over.
        self.assert_errors(err, "rank 2 failed: its process has ended", spoke)
        if not options:
          # mpirun's own status says what the lost rank died of, or 1.
          self.assertIn(code, [1, 128 + signal.SIGKILL])

  def test_a_rank_that_stalls_is_named_after_the_timeout(self):
    model = self.compiled("model.asyra", "--tp", "2", "--tiles", "2")
    process = start(2, model, "--repeat", "10000000", "--timeout", "2")
    victim = process_of(process, 1)
    time.sleep(3)
    os.kill(victim, signal.SIGSTOP)
    code, _, err = finish(process)
    self.assertEqual(code, 1)
    self.assertRegex(err, r"asyra-run: rank 0: .*(rank 1 did not come within "
                     r"2 s|nothing was heard from rank 1 within 2 s)")

  def test_ranks_must_run_the_same(self):
    mine = self.compiled("mine.asyra", "--tp", "2", "--tiles", "1")
    # Bucketing would merge tiles this small again.
    other = self.compiled("other.asyra", "--tp", "2", "--tiles", "2",
                          "--no-bucket")
    code, _, err = finish(start(2, programs=[[mine], [other]]))
    self.assertEqual(code, 1)
    self.assert_errors(err, "ranks do not agree on the program: ", [0, 1])

  def test_ranks_must_be_told_the_same(self):
    model = ["gpt3-tiny", "--dim", "batch=2", "--dim", "seq=16", "--dp", "2"]
    text = self.path("text", "the quick brown fox. " * 200)
    train = [*model, "--data", text, "--rate", "1e-3", "--steps", "4"]
    before = sorted(os.listdir(self.dir))
    for tool, mine, other, message in [
        ("asyra-run", [*model, "--repeat", "3"], [*model, "--repeat", "4"],
         "--repeat is 3 on rank 0 and 4 on rank 1"),
        ("asyra-train", [*train, "--accumulate", "2"], train,
         "--accumulate is 2 on rank 0 and 1 on rank 1"),
        ("asyra-train", [*train, "--checkpoint", self.path("ck")], train,
         "--checkpoint is .*ck on rank 0 and not given on rank 1")]:
      code, _, err = finish(start(2, programs=[mine, other], tool=tool))
      self.assertEqual(code, 1, err)
      for rank in range(2):
        self.assertRegex("".join(errors_of(err, rank, tool)), message)
    self.assertEqual(sorted(os.listdir(self.dir)), before)

  def test_ranks_must_have_the_same_weights(self):
    mine = self.compiled("mine.asyra", "--tp", "2")
    with open(mine) as file:
      other = self.path("other.asyra", file.read())
    with open(self.path("mine.safetensors"), "rb") as file:
      weights = bytearray(file.read())
    for at in range(len(weights) // 2, len(weights)):
      weights[at] ^= 1
    with open(self.path("other.safetensors"), "wb") as file:
      file.write(weights)
    code, _, err = finish(start(2, programs=[[mine], [other]]))
    self.assertEqual(code, 1)
    self.assert_errors(err, "ranks do not agree on the weights: line", [0, 1])

  def test_a_rank_that_cannot_load_is_named(self):
    mine = self.compiled("mine.asyra", "--tp", "2")
    with open(mine) as file:
      text = file.read()
    cut = self.path("cut.asyra", text[:len(text) // 2])
    code, _, err = finish(start(2, programs=[[mine], [cut]]))
    self.assertEqual(code, 1)
    self.assert_errors(err, "cut.asyra: line", [0, 1])
    self.assertIn("asyra-run: rank 0: rank 1 failed: ", err)

  def test_a_rank_with_damaged_weights_is_named(self):
    mine = self.compiled("mine.asyra", "--tp", "2")
    other = self.compiled("other.asyra", "--tp", "2")
    weights = self.path("other.safetensors")
    os.truncate(weights, os.path.getsize(weights) - 1)
    code, _, err = finish(start(2, programs=[[mine], [other]]))
    self.assertEqual(code, 1)
    self.assert_errors(err, "other.safetensors", [0, 1])

  def test_the_world_must_fit_the_program(self):
    mine = self.compiled("mine.asyra", "--tp", "2")
    code, _, err = finish(start(3, mine))
    self.assertEqual(code, 1)
    self.assert_errors(err, "the program is for 2 devices, (tp=2), the world "
                       "has 3 ranks", [0, 1, 2])


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
