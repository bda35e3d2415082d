"""Runs the situations of a group: each gives the value that is right for it.

A situation is a folder tests/cases/GROUP/NAME with what the commands read and a
case.json:

  what   the situation, and what is right, in a sentence or two
  links  {path: target}: links that are made before the runs
  runs   a list of
    command  a tool and its arguments; runs in a copy of the folder
    over     flags that are added in turn; default: none, --dp 2 and --tp 2
    exit     the exit code; default 0. Another one comes with one line on stderr
             that begins with the tool's name
    says     texts that the run prints
    never    texts that it does not print
    loss     the number that it prints behind the word loss, to 4 digits
    exports  {file: {tensor: shape}}: tensors of a .safetensors file that it
             writes; null: there is none of that name

A command `asyra-train MODEL --check .` that is right has compared each gradient
of gradients.safetensors by its name. Needs no Python packages.

Usage: cases_test.py SOURCE_DIR TOOLS_DIR GROUP
"""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE_DIR, TOOLS_DIR, GROUP = sys.argv[1:4]
CASES = os.path.join(SOURCE_DIR, "tests/cases")
MESHES = ["", "--dp 2", "--tp 2"]
CASE_KEYS = {"what", "links", "runs"}
RUN_KEYS = {"command", "over", "exit", "says", "never", "loss", "exports"}


def names(folder):
  return sorted(os.listdir(folder))


def shapes_of(path):
  """The shapes of the tensors of a .safetensors file, by name."""
  with open(path, "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
  return {name: tensor["shape"] for name, tensor in header.items()
          if name != "__metadata__"}


def description(folder):
  """The case.json of a situation; raises ValueError where it is none."""
  path = os.path.join(folder, "case.json")
  if not os.path.isfile(path):
    raise ValueError(f"{folder} is no situation: it has no case.json")
  with open(path, encoding="utf-8") as file:
    case = json.load(file)
  unknown = case.keys() - CASE_KEYS
  for run in case.get("runs", []):
    unknown |= run.keys() - RUN_KEYS
  if unknown:
    raise ValueError(f"{path}: unknown keys: {', '.join(sorted(unknown))}")
  if not case.get("what") or not case.get("runs"):
    raise ValueError(f"{path}: it says nothing, or has no runs")
  return case


def copied(folder, case, scratch):
  """A copy of the folder with its links, in a new folder of `scratch`."""
  copy = os.path.join(tempfile.mkdtemp(dir=scratch), "case")
  shutil.copytree(folder, copy)
  for link, target in case.get("links", {}).items():
    path = os.path.join(copy, link)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)
  return copy


def wrong_exports(wanted, folder):
  for file, tensors in wanted.items():
    path = os.path.join(folder, file)
    if not os.path.exists(path):
      yield f"{file} is not written"
      continue
    shapes = shapes_of(path)
    for name, shape in tensors.items():
      if shapes.get(name) != shape:
        yield f"{name} has shape {shapes.get(name)} in {file}, not {shape}"


def wrong_gradients(args, folder, said):
  """Whether each recorded gradient was compared by its name."""
  if "--check" not in args or args[args.index("--check") + 1] != ".":
    return
  recorded = len(shapes_of(os.path.join(folder, "gradients.safetensors")))
  compared = re.search(r"(\d+) gradients? compared by name", said)
  if compared is None or int(compared.group(1)) != recorded:
    yield f"{recorded} gradients are recorded, not all compared by name"


def wrong_loss(wanted, said):
  found = re.search(r"loss +([-+.\d]+(?:e[-+]?\d+)?)", said)
  if found is None or abs(float(found.group(1)) - wanted) > 1e-4 * abs(wanted):
    yield f"the loss is {found and found.group(1)}, not {wanted}"


def faults(run, args, folder, result):
  """What is wrong with a finished run, in words."""
  exit_code = run.get("exit", 0)
  said = result.stdout + result.stderr
  if result.returncode != exit_code:
    yield f"exit code {result.returncode}, not {exit_code}"
  elif exit_code != 0 and (result.stderr.count("\n") != 1 or
                           not result.stderr.startswith(args[0] + ": ")):
    yield "the error is not one line of the tool"
  for text in run.get("says", []):
    if text not in said:
      yield f"it does not say '{text}'"
  for text in run.get("never", []):
    if text in said:
      yield f"it says '{text}'"
  if "loss" in run:
    yield from wrong_loss(run["loss"], said)
  if exit_code == 0:
    yield from wrong_gradients(args, folder, said)
  yield from wrong_exports(run.get("exports", {}), folder)


def verdict(folder, case, run, flags, scratch):
  """What is wrong with this run over a mesh, or None."""
  args = shlex.split(run["command"]) + shlex.split(flags)
  copy = copied(folder, case, scratch)
  tool = os.path.join(TOOLS_DIR, args[0])
  environment = dict(os.environ, ASYRA_CACHE_DIR=os.path.join(scratch, "cache"))
  result = subprocess.run([tool, *args[1:]], cwd=copy, capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=300,
                          env=environment)
  wrong = "; ".join(faults(run, args, copy, result))
  if not wrong:
    return None
  said = (result.stdout + result.stderr)[-600:].strip()
  command = " ".join(shlex.quote(arg) for arg in args)
  return f"{os.path.basename(folder)}: {command}\n  {wrong}\n  " + (
      said.replace("\n", "\n  "))


class Cases(unittest.TestCase):

  def test_every_situation_is_right(self):
    group = os.path.join(CASES, GROUP)
    cases = [(os.path.join(group, name), description(os.path.join(group, name)))
             for name in names(group)]
    jobs = [(folder, case, run, flags) for folder, case in cases
            for run in case["runs"] for flags in run.get("over", MESHES)]
    with tempfile.TemporaryDirectory() as scratch, \
        concurrent.futures.ThreadPoolExecutor(2) as pool:
      verdicts = list(pool.map(lambda job: verdict(*job, scratch), jobs))
    wrong = [one for one in verdicts if one]
    print(f"{len(cases)} situations, {len(jobs)} runs, {len(wrong)} wrong")
    self.assertTrue(jobs)
    if wrong:
      self.fail("\n".join(["", *wrong]))

  def test_what_is_no_situation_is_found(self):
    with tempfile.TemporaryDirectory() as folder:
      for text in [None, "{}", '{"what": "x", "runs": []}',
                   '{"what": "x", "runs": [{"command": "y", "exits": 1}]}']:
        if text is not None:
          with open(os.path.join(folder, "case.json"), "w") as file:
            file.write(text)
        with self.assertRaises(ValueError):
          description(folder)

  def test_wrong_values_are_found(self):
    result = subprocess.CompletedProcess([], 1, "step 1  loss 3.5182\n", "no\n")
    run = {"says": ["yes"], "never": ["no"], "loss": 3.6,
           "exports": {"none.safetensors": {}}}
    wrong = list(faults(run, ["asyra-run"], "/nowhere", result))
    self.assertEqual(len(wrong), 5, wrong)
    right = {"exit": 1, "says": ["asyra"], "loss": 3.5182}
    result.stderr = "asyra-run: no\n"
    self.assertEqual(list(faults(right, ["asyra-run"], "/nowhere", result)), [])


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[4:])
