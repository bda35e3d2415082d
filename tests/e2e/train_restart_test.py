"""Training runs whose ranks die: they end with one named error, and started
again they go on from the last checkpoint as if nothing had happened.

Usage: train_restart_test.py SOURCE_DIR TOOLS_DIR [MPIRUN]
"""

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from tool_test import TOOLS_DIR, ToolTest

MPIRUN = sys.argv[3] if len(sys.argv) > 3 else None
TORCHRUN = shutil.which(os.environ.get("ASYRA_TORCHRUN", "torchrun"))
TRAIN = os.path.join(TOOLS_DIR, "asyra-train")
LIMIT_S = 120  # nothing here takes as long, unless it hangs
# How often the run of threads is killed at least; with 200 of them it takes some
# minutes.
KILLS = int(os.environ.get("ASYRA_KILLS", "3"))
STEPS = max(60, 8 * KILLS)
# A step takes milliseconds, compiling a second.
MODEL = ["gpt3-tiny", "--dim", "seq=16", "--tiles", "1", "--scheduler",
         "serial", "--dp", "2", "--tp", "2", "--train"]
RUN = ["--rate", "0.01", "--steps", str(STEPS), "--save-every", "3", "--keep",
       "2", "--shuffle"]


def files_of(folder):
  """Name and bytes of all files in a folder."""
  found = {}
  for name in sorted(os.listdir(folder)):
    with open(os.path.join(folder, name), "rb") as file:
      found[name] = file.read()
  return found


class Restart(ToolTest):

  def setUp(self):
    super().setUp()
    self.text = self.path("text.txt", "".join(
        random.Random(1).choice("abcd \n") for _ in range(5000)))
    self.random = random.Random(2)
    self.folder = self.path("training")
    self.passes("asyra-opt", *MODEL, "-o", self.folder)

  def args(self, run):
    return [self.folder, *RUN, "--data", self.text, "--checkpoint", self.path(run),
            "--log", self.path(run + ".jsonl")]

  def start(self, args, ranks=None):
    """A run of threads, or of processes that mpirun starts."""
    command = [TRAIN, *args]
    env = dict(os.environ)
    if ranks is not None:
      env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
      command = [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n",
                 str(ranks)] + command
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    self.addCleanup(process.communicate)
    self.addCleanup(process.kill)  # the first of the two
    return process

  def finish(self, process):
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err

  def steps_of(self, run):
    """Lines of the log: steps that were made, again and again."""
    try:
      with open(self.path(run + ".jsonl")) as file:
        return sum(1 for _ in file)
    except FileNotFoundError:
      return 0

  def wait_for_steps(self, process, run, count):
    """Until the run has made `count` steps more, or has ended."""
    wanted = self.steps_of(run) + count
    until = time.monotonic() + LIMIT_S
    while process.poll() is None and self.steps_of(run) < wanted:
      self.assertLess(time.monotonic(), until, "the run does not go on")
      time.sleep(0.002)

  def complete_run(self):
    """The last checkpoint of a run that nothing happens to."""
    self.passes("asyra-train", *self.args("whole"))
    return self.last("whole")

  def last(self, run):
    names = sorted(os.listdir(self.path(run)))
    self.assertEqual(names[-1], f"step-{STEPS:08}")
    self.assertLessEqual(len(names), 2)
    return files_of(os.path.join(self.path(run), names[-1]))

  def assert_same_end(self, run, whole):
    """Every bit of params, states, data position and step."""
    end = self.last(run)
    self.assertEqual(list(end), list(whole))
    for name, content in whole.items():
      self.assertEqual(end[name], content, name)

  def test_a_killed_run_goes_on_bit_by_bit(self):
    whole = self.complete_run()
    kills = 0
    for _ in range(100 + 2 * KILLS):
      process = self.start(self.args("killed"))
      if kills < KILLS + 5:
        self.wait_for_steps(process, "killed", self.random.randint(1, 12))
        if process.poll() is None:
          kills += 1
          process.kill()
      code, _, err = self.finish(process)
      if code == 0:
        break
      self.assertEqual(code, -signal.SIGKILL, err)
    self.assertGreaterEqual(kills, KILLS)
    self.assert_same_end("killed", whole)


  def test_a_checkpoint_that_cannot_be_written_is_named(self):
    def limit_files():
      resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

    # Python ignores SIGXFSZ, and so does its child.
    result = subprocess.run([TRAIN, *self.args("limited")],
                            stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=LIMIT_S,
                            preexec_fn=limit_files, restore_signals=False)
    self.assertEqual(result.returncode, 1)
    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
    self.assertIn("step-00000003.partial-", result.stderr)
    self.assertIn("File too large", result.stderr)
    self.assertEqual(os.listdir(self.path("limited")), [])


def rank_processes(launcher, variable=b"OMPI_COMM_WORLD_RANK"):
  """The processes of a launcher by rank, once all are there."""
  until = time.monotonic() + LIMIT_S
  while time.monotonic() < until:
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
      try:
        with open(f"/proc/{pid}/stat") as file:
          parent = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{pid}/environ", "rb") as file:
          variables = dict(entry.split(b"=", 1)
                           for entry in file.read().split(b"\0")
                           if b"=" in entry)
      except OSError:
        continue
      rank = variables.get(variable)
      if parent == launcher.pid and rank is not None:
        found[int(rank)] = int(pid)
    if len(found) == 4:
      return found
    time.sleep(0.02)
  raise AssertionError("the ranks did not start")


@unittest.skipIf(MPIRUN is None, "no mpirun")
class RestartProcesses(Restart):
  # Those of threads.
  test_a_killed_run_goes_on_bit_by_bit = None
  test_a_checkpoint_that_cannot_be_written_is_named = None

  def assert_one_error(self, err, message, victim):
    """Each rank that is left says so in one line, unless mpirun ends it before:
    it does once the first of them has ended."""
    said = 0
    for rank in set(range(4)) - {victim}:
      lines = [line for line in err.splitlines()
               if line.startswith(f"asyra-train: rank {rank}: ")]
      self.assertLessEqual(len(lines), 1, err)
      for line in lines:
        self.assertIn(message, line)
      said += len(lines)
    self.assertGreaterEqual(said, 1, err)

  def test_a_killed_rank_is_named_and_the_next_start_goes_on(self):
    whole = self.complete_run()
    for victim in (2, 0):
      process = self.start(self.args("killed"), ranks=4)
      ranks = rank_processes(process)
      self.wait_for_steps(process, "killed", self.random.randint(5, 15))
      os.kill(ranks[victim], signal.SIGKILL)
      code, _, err = self.finish(process)
      self.assertNotEqual(code, 0)
      self.assert_one_error(err, f"rank {victim} failed: its process has ended",
                            victim)
    # Threads go on where processes ended, and the other way round.
    process = self.start(self.args("killed"))
    self.wait_for_steps(process, "killed", 6)
    process.kill()
    self.finish(process)
    code, out, err = self.finish(self.start(self.args("killed"), ranks=4))
    self.assertEqual(code, 0, err)
    self.assertIn("goes on from", out)
    self.assert_same_end("killed", whole)

  def test_a_stalled_rank_is_named_after_the_timeout(self):
    process = self.start([*self.args("stalled"), "--timeout", "2"], ranks=4)
    ranks = rank_processes(process)
    self.wait_for_steps(process, "stalled", 5)
    os.kill(ranks[1], signal.SIGSTOP)
    begin = time.monotonic()
    code, _, err = self.finish(process)
    self.assertNotEqual(code, 0)
    self.assertLess(time.monotonic() - begin, 30)
    # Others name the rank that they waited for, which waited for it.
    self.assertRegex(err, r"rank \d did not come within 2 s")
    code, _, err = self.finish(self.start(self.args("stalled"), ranks=4))
    self.assertEqual(code, 0, err)
    self.assert_same_end("stalled", self.complete_run())


def free_port():
  with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    return one.getsockname()[1]


class OutOfMemory(ToolTest):
  """Runs whose address space may not grow from one step on."""

  def setUp(self):
    super().setUp()
    self.log = self.path("log.jsonl")
    text = self.path("text.txt", "the quick brown fox. " * 200)
    # A table of 8 MiB: what a checkpoint copies is not in the heap already.
    self.folder = self.path("training")
    self.passes("asyra-opt", "gpt3-tiny", "--dim", "seq=16", "--dim",
                "vocabulary=32768", "--dp", "2", "--tiles", "1", "--scheduler",
                "serial", "--train", "-o", self.folder)
    self.args = [TRAIN, self.folder, "--data", text, "--rate", "0.01",
                 "--steps", "100000", "--checkpoint", self.path("run"),
                 "--save-every", "30", "--timeout", "20", "--log", self.log]

  def start(self, rank=None, port=None):
    env = dict(os.environ)
    if rank is not None:  # as torchrun starts it
      env.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                 LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                 MASTER_PORT=str(port))
    process = subprocess.Popen(self.args, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    self.addCleanup(process.communicate)
    self.addCleanup(process.kill)
    return process

  def limit_after_a_step(self, process):
    until = time.monotonic() + LIMIT_S
    while not (os.path.exists(self.log) and os.path.getsize(self.log)):
      self.assertIsNone(process.poll())
      self.assertLess(time.monotonic(), until)
      time.sleep(0.01)
    with open(f"/proc/{process.pid}/status") as file:
      kib = next(int(line.split()[1]) for line in file
                 if line.startswith("VmSize"))
    # Room for small things: what is large is what fails.
    limit = (kib + 4096) * 1024
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))

  def finish(self, process):
    _, err = process.communicate(timeout=LIMIT_S)
    self.assertEqual(process.returncode, 1, err)
    self.assertEqual(err.count("\n"), 1, err)
    return err

  def test_threads_end_with_one_error(self):
    process = self.start()
    self.limit_after_a_step(process)
    self.assertRegex(self.finish(process),
                     r"^asyra-train: rank \d: .*after step \d+: .*out of memory")

  def test_a_process_is_named_by_the_others(self):
    port = free_port()
    ranks = [self.start(rank, port) for rank in (0, 1)]
    self.limit_after_a_step(ranks[1])
    self.assertRegex(self.finish(ranks[1]), r"rank 1: .*out of memory")
    self.assertRegex(self.finish(ranks[0]),
                     r"rank 0: .*rank 1 failed: .*out of memory")


@unittest.skipIf(TORCHRUN is None, "no torchrun")
class RestartTorchrun(Restart):
  # Those of threads.
  test_a_killed_run_goes_on_bit_by_bit = None
  test_a_checkpoint_that_cannot_be_written_is_named = None

  def start_under_torchrun(self, args):
    # Behind "--", or torchrun takes --log for an abbreviation of its own.
    process = subprocess.Popen(
        [TORCHRUN, "--standalone", "--nproc-per-node", "4", "--max-restarts",
         "2", "--no-python", "--", TRAIN, *args],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    self.addCleanup(process.communicate)
    self.addCleanup(process.kill)
    return process

  def test_torchrun_starts_the_ranks_again(self):
    whole = self.complete_run()
    process = self.start_under_torchrun(self.args("killed"))
    self.wait_for_steps(process, "killed", 8)
    os.kill(rank_processes(process, b"RANK")[2], signal.SIGKILL)
    code, out, err = self.finish(process)
    self.assertEqual(code, 0, err)
    for rank in (0, 1, 3):
      # One that torchrun ends first says nothing.
      for line in err.splitlines():
        if line.startswith(f"asyra-train: rank {rank}: "):
          self.assertIn("rank 2 failed: its process has ended", line)
    self.assertIn("goes on from", out)
    self.assert_same_end("killed", whole)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[4:])
