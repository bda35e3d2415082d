"""Which runs of asyra-run a model gets, and what became of one."""

import os
import re
import subprocess
from dataclasses import dataclass

import refusals

TIMEOUT_S = 120

MESHES = [
    "--tp 2", "--tp 2", "--tp 4", "--sp 2", "--sp 2", "--sp 4", "--dp 2",
    "--dp 2", "--dp 4", "--tp 3", "--ep 2", "--tp 2 --sp 2", "--dp 2 --tp 2",
    "--dp 2 --sp 2", "--dp 2 --tp 2 --sp 2", "--tp 2 --ep 2", "--dp 2 --ep 2",
    "--mesh x=2", "--mesh x=2", "--mesh x=4", "--mesh x=2,y=2",
    "--mesh tp=2,x=2", "--mesh x=3"]
SCHEDULERS = ["search", "segrr", "round_robin", "serial"]
MACHINES = ["h200x8", "h200x8", "a100x8", "rtx4090x8"]


# Not a flag of asyra-run: asyra-opt writes the program, asyra-run reads it.
AS_TEXT = "--as-text"


def schedule_flags(rng):
  """How a program over a mesh is cut and ordered."""
  flags = ["--search-steps", str(rng.choice([10, 20, 40, 80, 300]))]
  if rng.random() < 0.4:
    flags += ["--tiles", str(rng.randint(2, 4))]
    if rng.random() < 0.5:
      flags += ["--tile-dim", rng.choice(["batch", "sequence"])]
  if rng.random() < 0.6:
    flags += ["--scheduler", rng.choice(SCHEDULERS)]
  for flag, chance in (("--no-fuse", 0.15), ("--no-bucket", 0.1),
                       ("--no-join", 0.1), ("--reduce-scatter decomposed", 0.15),
                       ("--tp-strategy sequence", 0.15),
                       ("--tp-strategy replicated", 0.1),
                       ("--ep-strategy all_gather", 0.1),
                       ("--epilogues estimated", 0.2),
                       ("--epilogues none", 0.1)):
    if rng.random() < chance and flag.split()[0] not in flags:
      flags += flag.split()
  if rng.random() < 0.3:
    flags += ["--machine", rng.choice(MACHINES)]
  return flags


def without_idle(flags):
  """The tools refuse flags that change nothing beside the others."""
  drop = set()
  if "--scheduler" in flags:
    drop |= {"--no-bucket", "--no-join"}
    if flags[flags.index("--scheduler") + 1] != "search":
      drop |= {"--search-steps"}
  if "--no-bucket" in flags:
    drop |= {"--no-join"}
  if "--no-fuse" in flags:
    drop |= {"--epilogues"}
  for axis in ["tp", "ep"]:
    if not re.search(rf"--{axis} |\b{axis}=", " ".join(flags)):
      drop |= {f"--{axis}-strategy"}
  kept, takes_value = [], False
  for flag in flags:
    if flag[:2] == "--":
      takes_value = flag not in drop
    if takes_value:
      kept.append(flag)
  return kept


def careful_flags(rng):
  """What makes the device look harder."""
  roll = rng.random()
  if roll < 0.15:
    return ["--device", "interpreter"]
  if roll < 0.3:
    return ["--debug-memory", "--repeat", "3"]
  if roll < 0.4:
    return ["--repeat", "25", "--check-deterministic"]
  if roll < 0.5:
    return [AS_TEXT]
  return ["--repeat", "2"] if roll < 0.55 else []


def padding_flags(rng):
  """Masks as lengths: where rows are others, the run is refused."""
  return ["--padding", "right"] if rng.random() < 0.3 else []


def draw_runs(rng, count):
  """One device, the interpreter, and `count` meshes: lists of flags."""
  runs = [["--no-fuse"] if rng.random() < 0.15 else [],
          ["--device", "interpreter"]]
  for flags in runs:
    flags += padding_flags(rng)
  for _ in range(count):
    flags = [*rng.choice(MESHES).split(), *schedule_flags(rng)]
    flags += padding_flags(rng)
    runs.append([*without_idle(flags), *careful_flags(rng)])
  return runs


@dataclass
class Verdict:
  """`kind` is passed, refused, or what is wrong; `reason` says more."""
  kind: str
  reason: str
  said: str = ""

  @property
  def ok(self):
    return self.kind in ("passed", "refused")


WRONG = re.compile(r"(is|are) beyond |recorded is|its bytes have changed|"
                   r"differ in|is off the result|not deterministic|"
                   r"--check-deterministic|outside of|guard")


def classify(code, out, err, flags, case):
  """`case` is what case.py describes of the model."""
  text = err.strip()
  if code == 0:
    return Verdict("passed", "", out)
  if code != 1:
    return Verdict("crash", f"exit code {code}", text)
  if not text or "\n" in text or re.search(r"INTERNAL|CHECK|[Ii]nternal", text):
    return Verdict("internal", text.split("\n", maxsplit=1)[0], text)
  reason, true = refusals.judge(text, flags, case)
  if reason:
    return Verdict("refused" if true else "untrue", reason, text)
  if WRONG.search(text):
    return Verdict("wrong", re.sub(r"\d+", "#", text), text)
  return Verdict("unexpected", text, text)


def commands(tools_dir, folder, case, flags):
  """The command lines of a run of the model in `folder`, one after another."""
  model = os.path.join(folder, "model.onnx")
  compiled = [f"--dim={name}={size}" for name, size in case["dims"].items()]
  compiled += [flag for flag in flags if flag != AS_TEXT]
  check = ["--check", os.path.join(folder, "test_data_set_0"), "--rtol",
           str(case["rtol"]), "--atol", str(case["atol"])]
  run_tool = os.path.join(tools_dir, "asyra-run")
  if AS_TEXT not in flags:
    return [[run_tool, model, *compiled, *check]]
  # Runs of a case may go at once: each has a program of its own.
  name = re.sub(r"\W+", "_", " ".join(flags))
  program = os.path.join(folder, f"program{name}.asyra")
  return [[os.path.join(tools_dir, "asyra-opt"), model, *compiled, "-o",
           program], [run_tool, program, *check]]


def run(tools_dir, folder, case, flags):
  for command in commands(tools_dir, folder, case, flags):
    try:
      result = subprocess.run(command, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
      return Verdict("hang", f"over {TIMEOUT_S} s")
    verdict = classify(result.returncode, result.stdout, result.stderr, flags,
                       case)
    if verdict.kind != "passed":
      break
  return verdict
