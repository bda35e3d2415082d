"""Ranks that are processes, each with a command line of its own: what one is
told and another is not is refused before anything runs, by the flag and both
values.

Usage: rank_flags_test.py SOURCE_DIR TOOLS_DIR
"""

import os
import re
import socket
import subprocess
import sys
import unittest

from tool_test import TOOLS_DIR, ToolTest, launched, run

# Values for flags whose kind of value does not say one.
VALUES = {
    "--dim": "batch=2", "--mesh": "dp=2", "--set": "gpu.sms=100",
    "--shard": "x=whole", "--machine": "h100x8", "--rate": "0.003",
    "--final": "0.25", "--temperature": "0.5", "--momentum": "0.5",
    "--beta1": "0.5", "--beta2": "0.5", "--rtol": "0.5", "--atol": "0.5",
    "--passes": "canonicalize", "--clip": "2.5", "--eps": "0.25",
    "--decay": "0.25", "--memory-gib": "1.5", "--capacity": "1.5",
}
# Flags that go with another one, which both ranks have.
WITH = {
    "--propagate": ["--shard", "x=whole"],
    "--momentum": ["--optimizer", "sgd"],
    "--restart-data": ["--checkpoint", "ck"],
    "--keep": ["--checkpoint", "ck"],
    "--save-every": ["--checkpoint", "ck"],
    "--evaluate-batches": ["--evaluate-every", "5"],
}
# Of other modes than training, or what a rank may have for itself.
MODES = {"--help", "--version", "--check", "--sample", "--prompt",
         "--temperature", "--rtol", "--export-onnx", "--export-hf"}
OF_ONE_RANK = {
    "--data", "--evaluate-data", "--every", "--log", "--csv", "--html",
    "--profile", "--print-after", "--print-changed", "--dump-dir",
    "--simulate-each", "--tuning", "--save-tuning", "--communicator",
    "--secret", "--timeout", "--dry-run"
}


def flags_of(tool):
  """Each flag of --help, its negation if there is one, and the kind of its
  value: "INT", "", ..."""
  text = run(tool, "--help").stdout
  return re.findall(
      r"^  (?:-\w,)?(--[\w-]+)(?:,(--no-[\w-]+))?[^ ]*"
      r"(?: ((?:TEXT|INT|FLOAT)\S*))?", text, re.MULTILINE)


def value_of(flag, kind):
  """A value that is no default; a list, empty for a flag without one."""
  if flag in VALUES:
    return [VALUES[flag]]
  if "{" in kind:
    choices, _, default = re.search(r"\{(.*)\}(=(.*))?", kind).groups()
    return [next(one for one in choices.split(",") if one != default and
                 one != kind.rpartition("=")[2])]
  if not kind:
    return []
  return ["x" if kind.startswith("TEXT") else "7"]


def free_port():
  with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    return one.getsockname()[1]


class RankFlags(ToolTest):

  def setUp(self):
    super().setUp()
    self.text = self.path("text", "the quick brown fox. " * 200)
    self.train = ["asyra-train", "gpt3-tiny", "--data", self.text, "--steps",
                  "20", "--rate", "1e-3", "--timeout", "30"]

  def errors(self, commands):
    """What ranks say that are started so; all fail."""
    port = free_port()
    ranks = [
        subprocess.Popen([os.path.join(TOOLS_DIR, tool), *args],
                         env=launched(rank, len(commands), port), cwd=self.dir,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for rank, (tool, *args) in enumerate(commands)
    ]
    said = [process.communicate(timeout=300) for process in ranks]
    for process, (out, err) in zip(ranks, said):
      self.assertEqual(process.returncode, 1, out + err)
    return [err for _, err in said]

  def refused(self, message, *commands):
    before = sorted(os.listdir(self.dir))
    for err in self.errors(commands):
      self.assertRegex(err, message)
      self.assertEqual(err.count("\n"), 1, err)
    self.assertEqual(sorted(os.listdir(self.dir)), before)

  def test_every_flag_of_a_training_is_compared_or_of_one_rank(self):
    compared = 0
    for flag, negation, kind in flags_of("asyra-train"):
      if flag in MODES or flag in OF_ONE_RANK:
        continue
      value = value_of(flag, kind)
      told = value[0] if value else "false" if negation else "true"
      if flag in ("--rate", "--steps"):
        odd = list(self.train)
        odd[odd.index(flag) + 1] = value[0]
      else:
        odd = self.train + WITH.get(flag, []) + [negation or flag, *value]
      with self.subTest(flag):
        self.refused(
            rf"{flag} is .* on rank 0 and {told} on rank 1",
            self.train + WITH.get(flag, []), odd)
      compared += 1
    self.assertGreater(compared, 60)

  def test_tokens_are_compared_and_not_their_names(self):
    same = self.path("other_name", "the quick brown fox. " * 200)
    other = self.path("other", "the quick brown cat. " * 200)

    def named(path):
      return [path if one == self.text else one for one in self.train]

    self.refused(
        "--data is 4200 bytes in 1 file, hash [0-9a-f]{16} on rank 0 and "
        "4200 bytes in 1 file, hash [0-9a-f]{16} on rank 1",
        self.train + ["--dp", "2", "--dim", "batch=4", "--dim", "seq=16"],
        named(other) + ["--dp", "2", "--dim", "batch=4", "--dim", "seq=16"])
    # The next error: the world has two ranks, the program one.
    self.refused("the world has 2", self.train, named(same))

  def test_a_number_is_the_same_however_it_is_written(self):
    odd = ["0.001" if one == "1e-3" else one for one in self.train]
    self.refused("--seed is 1 on rank 0 and 7 on rank 1",
                 self.train + ["--seed", "1"], odd + ["--seed", "7"])
    self.refused("the world has 2", self.train + ["--seed", "1"], odd)

  def test_a_default_is_the_same_as_its_value(self):
    defaults = ["--seed", "1", "--save-every", "0", "--evaluate-every", "0",
                "--shuffle", "--fuse", "--bucket", "--join", "--optimizer", "adamw", "--zero", "auto",
                "--overlap=false"]
    train = self.train + ["--dp", "4", "--dim", "batch=4", "--dim", "seq=16"]
    self.refused("the world has 2", train, train + defaults)

  def test_what_asyra_run_is_told(self):
    args = ["asyra-run", "gpt3-tiny", "--dim", "seq=16", "--dim", "batch=2",
            "--dp", "2", "--search-steps", "20", "--tiles", "1"]
    self.refused("--seed is 1 on rank 0 and 7 on rank 1", args,
                 args + ["--seed", "7"])
    self.refused("--repeat is 1 on rank 0 and 3 on rank 1", args,
                 args + ["--repeat", "3"])
    self.refused("the tool is asyra-run .* on rank 0 and asyra-train ",
                 args, self.train)
    self.refused("the input input_ids is not given on rank 0 and i64.* of hash "
                 ".* on rank 1", args, args + ["--input", "input_ids=5"])
    self.refused("the input input_ids is i64.* of hash .* on rank 0 and i64.* "
                 "of hash .* on rank 1", args + ["--input", "input_ids=3"],
                 args + ["--input", "input_ids=5"])


if __name__ == "__main__":
  unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
