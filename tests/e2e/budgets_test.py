"""Limits of memory and of the search, as asyra-opt keeps them: the least that a
refusal prints compiles and a smaller number does not, a limit that the schedule
without one meets changes nothing, and more steps are never slower.

ASYRA_SEEDS draws that many random cases instead of the few that are given;
what was seen is counted.

Usage: budgets_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import random
import re
import sys
import unittest

from tool_test import ToolTest, run

GPT = ["gpt3-125m", "--dim", "layers=2", "--dim", "batch=8", "--dim", "seq=512"]
LLAMA = ["llama3-8b", "--dim", "layers=1", "--dim", "batch=4", "--dim",
         "seq=2048"]
INFERENCE = GPT + ["--dp", "2", "--machine", "h20x8"]
TRAINING = LLAMA + ["--dp", "2", "--machine", "a800x8", "--train", "--overlap"]
# The program that accumulates needs more than the step.
ACCUMULATING = ["gpt3-tiny", "--dim", "layers=1", "--dim", "batch=64", "--tp",
                "2", "--train", "--accumulate", "2", "--no-bucket",
                "--tp-strategy", "sequence", "--recompute", "none",
                "--loss-chunks", "1", "--reduce-scatter", "fused"]
STEPS = [200, 1000, 5000] if "ASYRA_SEEDS" in os.environ else [200, 1000]


def random_case(choice):
  model = list(choice.choice([GPT, LLAMA, ["gpt3-tiny", "--dim", "batch=8"],
                              ["llama3-8b", "--dim", "layers=2", "--dim",
                               "batch=8", "--dim", "seq=512"]]))
  model += choice.choice([["--dp", "2"], ["--tp", "2"], ["--dp", "4"],
                          ["--tp", "4"], ["--dp", "2", "--tp", "2"],
                          ["--dp", "2", "--sp", "2"]])
  model += ["--machine", choice.choice(["h20x8", "b200x8", "a800x8", "h100x8",
                                        "h200x8"])]
  training = choice.choice([[], ["--train"], ["--train", "--zero", "3"],
                            ["--train", "--overlap"],
                            ["--train", "--accumulate", "2"]])
  if "--zero" in training and "--dp" not in model:
    training = ["--train"]  # --zero would have no effect
  return model + training


def cases(*given):
  count = os.environ.get("ASYRA_SEEDS")
  if count is None:
    return given
  return [random_case(random.Random(seed)) for seed in range(int(count))]


class Budgets(ToolTest):

  def compiled(self, case, gib, steps):
    """The makespan and the bytes of a device; none where it is refused, and
    what is said."""
    result = run("asyra-opt", *case, "--memory-gib", gib, "--search-steps",
                 str(steps), "--report", "json")
    if result.returncode != 0:
      # Behind lines of progress, where it takes long.
      return None, result.stderr.splitlines()[-1]
    return json.loads(result.stdout), result.stdout

  def test_the_least_that_is_printed_is_the_least(self):
    seen = 0
    for case in cases(INFERENCE, ACCUMULATING):
      with self.subTest(" ".join(case)):
        report, said = self.compiled(case, "0.01", 200)
        self.assertIsNone(report, said)
        least = re.search(r"the least that one takes is ([\d.]+) GiB", said)
        self.assertIsNotNone(least, said)
        least = least.group(1)
        digits = len(least.partition(".")[2])
        report, said = self.compiled(case, least, 200)
        self.assertIsNotNone(report, said)
        low, high, unit = 0.01, float(least), 10.0**-digits
        if "ASYRA_SEEDS" not in os.environ:
          low = high - 2 * unit
        # By bisection between what was refused and that number.
        while high - low > 1.5 * unit:
          middle = round((low + high) / 2, digits)
          report, said = self.compiled(case, f"{middle:.{digits}f}", 200)
          self.assertIsNone(report, f"{middle} compiles")
          self.assertIn(f"the least that one takes is {least} GiB", said)
          low = middle
        seen += 1
    print(f"{seen} leasts hold")

  def test_a_limit_that_is_met_costs_nothing(self):
    for case in cases(INFERENCE, TRAINING):
      with self.subTest(" ".join(case)):
        free, said = self.compiled(case, "0", 200)
        self.assertIsNotNone(free, said)
        peak = free["optimized"]["device_bytes"]
        limited, said = self.compiled(case, f"{peak / 2**30 + 1e-5:.5f}", 200)
        self.assertIsNotNone(limited, said)
        self.assertEqual(limited["optimized"], free["optimized"])

  def test_more_steps_are_never_slower(self):
    for case in cases(INFERENCE, TRAINING):
      with self.subTest(" ".join(case)):
        times = []
        for steps in STEPS:
          report, said = self.compiled(case, "0", steps)
          self.assertIsNotNone(report, said)
          times.append(report["optimized"]["makespan_us"])
        self.assertEqual(times, sorted(times, reverse=True))


if __name__ == "__main__":
  unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
