"""Ranks as processes that are killed (SIGKILL) or stopped (SIGSTOP) at random
moments of a training run: while they start, meet, compile, make steps, write
checkpoints and end. The other ranks must end within the timeout, with an error
that names the rank; the next run goes on from the checkpoint that is left; and
what it learns in the end must be, bit by bit, what a run learns that nothing
happens to.

Usage: rank_attacks.py SOURCE_DIR TOOLS_DIR [MPIRUN]

ASYRA_ATTACKS: kills and stops of each transport (2). ASYRA_ATTACKS_SEED (1).
Prints the counts, and each attack with ASYRA_ATTACKS_VERBOSE=1.
"""

import collections
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOOLS_DIR = sys.argv[2]
MPIRUN = sys.argv[3] if len(sys.argv) > 3 else None
ATTACKS = int(os.environ.get("ASYRA_ATTACKS", "2"))
SEED = int(os.environ.get("ASYRA_ATTACKS_SEED", "1"))
VERBOSE = os.environ.get("ASYRA_ATTACKS_VERBOSE") == "1"
TRAIN = os.path.join(TOOLS_DIR, "asyra-train")
RANKS = 3
TIMEOUT_S = 4
# Until what is left of a run must have ended: what a rank waits for may come to
# wait only when the rank has begun a step that nobody ends, and machines that
# run tests are slow.
MARGIN_S = 26
STEPS = 40
CRASHES = re.compile(r"terminate called|Segmentation|Assert|Sanitizer|CHECK|"
                     r"Signal: (?!Killed)|core dumped|\*\*\*.*double free")


def free_port():
  with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    return one.getsockname()[1]


class Run:
  """Ranks of one run; self.ranks are their process ids."""

  def __init__(self, args, transport):
    self.transport = transport
    self.errors = [tempfile.TemporaryFile("w+") for _ in range(RANKS)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
    if transport == "mpi":
      env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
      self.processes = [self.start(
          [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(RANKS),
           TRAIN, *args], env, 0)]
      return
    env.update(WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
               TORCHELASTIC_RUN_ID="attacks")
    self.processes = [
        self.start([TRAIN, *args], dict(env, RANK=str(r), LOCAL_RANK=str(r)), r)
        for r in range(RANKS)]

  def start(self, command, env, rank):
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=self.errors[rank])

  def pid_of(self, rank):
    """None: it has not begun, or has ended."""
    if self.transport == "tcp":
      process = self.processes[rank]
      return process.pid if process.poll() is None else None
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
      try:
        with open(f"/proc/{pid}/stat") as file:
          parent = int(file.read().rsplit(")", 1)[1].split()[1])
        if parent != self.processes[0].pid:
          continue
        with open(f"/proc/{pid}/environ", "rb") as file:
          if wanted in file.read().split(b"\0"):
            return int(pid)
      except (OSError, IndexError, ValueError):
        continue
    return None

  def wait(self, seconds, but=None):
    """Whether all but one process end in time."""
    until = time.monotonic() + seconds
    for rank, process in enumerate(self.processes):
      if rank == but and self.transport == "tcp":
        continue
      try:
        process.wait(max(0.01, until - time.monotonic()))
      except subprocess.TimeoutExpired:
        return False
    return True

  def left(self):
    """The threads of the ranks that are there, and what they wait in."""
    found = []
    for rank in range(RANKS):
      pid = self.pid_of(rank)
      if pid is None:
        continue
      for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as stat:
          state = stat.read().rsplit(")", 1)[1].split()[0]
        with open(f"/proc/{pid}/task/{task}/wchan") as wait:
          found.append((rank, f"{state} {wait.read()}"))
    return found

  def end(self):
    for rank in range(RANKS):
      pid = self.pid_of(rank)
      if pid is not None:
        os.kill(pid, signal.SIGKILL)
    for process in self.processes:
      process.kill()
      process.wait()

  def said(self, but=None):
    texts = []
    for rank, file in enumerate(self.errors):
      if rank == but and self.transport == "tcp":
        continue
      file.seek(0)
      texts.append(file.read())
    return "".join(texts)

  def codes(self, but=None):
    return [process.returncode for rank, process in enumerate(self.processes)
            if not (rank == but and self.transport == "tcp")]


class Campaign:

  def __init__(self, folder, transport):
    self.transport = transport
    self.random = random.Random(f"{SEED} {transport}")
    self.counts = collections.Counter()
    self.training = os.path.join(folder, "training")
    self.text = os.path.join(folder, "text.txt")
    self.run = os.path.join(folder, f"run-{transport}")
    if not os.path.exists(self.text):
      with open(self.text, "w") as file:
        file.write("".join(self.random.choice("abcd \n") for _ in range(5000)))
      subprocess.run([os.path.join(TOOLS_DIR, "asyra-opt"), "gpt3-tiny", "--dim",
                      "seq=16", "--dim", "batch=6", "--tiles", "1",
                      "--scheduler", "serial", "--dp", str(RANKS), "--train",
                      "-o", self.training],
                     check=True, stdout=subprocess.DEVNULL)
    # What a run learns that nothing happens to, and how long it takes.
    self.run = os.path.join(folder, f"whole-{transport}")
    begin = time.monotonic()
    run = self.start()
    assert run.wait(300), "the first run does not end"
    assert set(run.codes()) == {0}, run.said()
    self.whole_s = time.monotonic() - begin
    self.whole = self.last()
    self.run = os.path.join(folder, f"run-{transport}")

  def start(self):
    return Run([self.training, "--data", self.text, "--rate", "0.01", "--steps",
                str(STEPS), "--save-every", "3", "--keep", "2", "--shuffle",
                "--timeout", str(TIMEOUT_S), "--checkpoint", self.run],
               self.transport)

  def last(self):
    found = {}
    folder = os.path.join(self.run, f"step-{STEPS:08}")
    for name in sorted(os.listdir(folder)):
      with open(os.path.join(folder, name), "rb") as file:
        found[name] = file.read()
    return found

  def attack(self, number):
    """One rank of one run; whether it came before the end."""
    victim = self.random.randrange(RANKS)
    moment = self.random.uniform(0, self.whole_s)
    run = self.start()
    time.sleep(moment)
    until = time.monotonic() + 5
    pid = run.pid_of(victim)
    while pid is None and time.monotonic() < until and run.processes[0].poll() is None:
      pid = run.pid_of(victim)  # mpirun has not begun it
    if pid is None:
      run.wait(TIMEOUT_S + MARGIN_S)
      self.judge(run, None, "late", moment)
      return False
    name = signal.Signals(number).name
    try:
      os.kill(pid, number)
    except ProcessLookupError:
      pid = None
    ended = run.wait(TIMEOUT_S + MARGIN_S, but=victim)
    left = [] if ended else run.left()
    if not ended and not [r for r, _ in left if r != victim]:
      # The other ranks have ended; it is mpirun that waits for the last one.
      self.counts["only mpirun waits"] += 1
    elif not ended:
      self.report("hangs", f"{name} of rank {victim} after {moment:.2f} s, "
                  f"what is left: {left}", run.said(victim))
    elif number == signal.SIGSTOP and self.transport == "tcp":
      # It finds out too, when it goes on.
      os.kill(pid, signal.SIGCONT)
      if not run.wait(TIMEOUT_S + MARGIN_S):
        self.report("hangs", f"rank {victim} that goes on, stopped after "
                    f"{moment:.2f} s", run.said())
    if ended:
      self.judge(run, victim, f"{name} of rank {victim}", moment)
    run.end()
    return True

  def judge(self, run, victim, what, moment):
    said, codes = run.said(victim), run.codes(victim)
    place = f"{what} after {moment:.2f} s, codes {codes}"
    if VERBOSE:
      print(self.transport, place, said.strip().splitlines()[:3], flush=True)
    killed = {128 + signal.SIGKILL, -signal.SIGKILL}  # what mpirun gives on
    allowed = {0, 1} | (killed if run.transport == "mpi" else set())
    if "/mpirun(" in said:  # in the trace of the one that crashed
      self.counts["mpirun crashes"] += 1
    elif CRASHES.search(said) or not set(codes) <= allowed:
      self.report("crashes", place, said)
    if re.search(r"rank \d+: rank \d+: ", said):
      self.report("named twice", place, said)
    ours = [line for line in said.splitlines() if line.startswith("asyra")]
    if any(len(line) > 600 for line in ours):
      self.report("long", place, said)
    # mpirun itself says who was killed, and may end the others first.
    names = rf"ranks?[\d ]* {victim}\b|{victim} \(PID|rank {victim} "
    if victim is not None and set(codes) != {0} and not re.search(names, said):
      # Before they have met and after they have left MPI knows nobody; mpirun
      # ends the others, and once in a while does not say whom it has lost.
      if "asyra" not in said and self.transport == "mpi":
        self.counts["named by mpirun alone"] += 1
      elif "MPI_Init_thread has not returned" in said:
        self.counts["unnamed in MPI_Init"] += 1
      else:
        self.report("unnamed", place, said)
    if set(codes) == {0} and os.path.exists(
        os.path.join(self.run, f"step-{STEPS:08}")):
      self.compare(place)

  def compare(self, place):
    """A run that is complete; the next one begins anew."""
    self.counts["complete"] += 1
    if self.last() != self.whole:
      self.report("wrong", place, "another checkpoint")
    shutil.rmtree(self.run)

  def report(self, kind, place, said):
    self.counts[kind] += 1
    print(f"{self.transport}: {kind}: {place}\n{said.strip()[:2000]}\n",
          flush=True)

  def finish(self):
    """The checkpoint that is left leads to the same end."""
    run = self.start()
    if not run.wait(120) or set(run.codes()) != {0}:
      self.report("hangs", "the last run", run.said())
      run.end()
      return
    self.compare("the last run")


def main():
  transports = ["tcp"] + (["mpi"] if MPIRUN else [])
  bad = False
  with tempfile.TemporaryDirectory() as folder:
    for transport in transports:
      campaign = Campaign(folder, transport)
      for number, name, count in [(signal.SIGKILL, "kills", ATTACKS),
                                  (signal.SIGSTOP, "stops", (ATTACKS + 3) // 4)]:
        while campaign.counts[name] < count:
          campaign.counts[name] += campaign.attack(number)
      campaign.finish()
      kinds = ["kills", "stops", "complete", "unnamed in MPI_Init",
               "named by mpirun alone", "only mpirun waits", "mpirun crashes"]
      bad |= any(kind not in kinds for kind in campaign.counts)
      print(transport, ", ".join(
          f"{kind} {campaign.counts[kind]}"
          for kind in kinds + ["hangs", "wrong", "crashes", "unnamed", "long",
                               "named twice"]), flush=True)
  sys.exit(bad)


if __name__ == "__main__":
  main()
