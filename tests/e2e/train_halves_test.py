"""Training whose parameters are stored in halves: the same run as with whole
ones, on any mesh, with checkpoints of either.

Usage: train_halves_test.py SOURCE_DIR TOOLS_DIR
"""

import csv
import os
import random
import unittest

from tool_test import ToolTest

# Nothing is searched: compiling takes a second.
OF_TYPE = ["llama3-tiny", "--dim", "vocabulary=128", "--dim", "seq=16",
           "--dim", "batch=4", "--tiles", "1", "--scheduler", "serial",
           "--dtype"]
MODEL = [*OF_TYPE, "bf16"]
WHOLE = "--whole-params"


class Halves(ToolTest):

  def setUp(self):
    super().setUp()
    self.text = self.path("text.txt", "".join(
        random.Random(1).choice("abcd \n") for _ in range(4000)))

  def losses(self, *args, steps=6):
    """Of the steps that a run takes, and the norms."""
    table = self.path("losses.csv")
    # A rate that does not depend on the number of steps.
    self.passes("asyra-train", *args, "--data", self.text, "--rate", "0.01",
                "--final", "1", "--steps", str(steps), "--csv", table)
    with open(table) as file:
      rows = [(row["step"], row["loss"], row["norm"])
              for row in csv.DictReader(file)]
    os.remove(table)
    return rows

  def compiled(self, *args):
    """The text of a step."""
    folder = self.path("training")
    self.passes("asyra-opt", *args, "--train", "-o", folder)
    with open(os.path.join(folder, "step.asyra")) as file:
      return file.read()

  def test_losses_are_those_of_whole_params(self):
    for mesh in [[], ["--dp", "2", "--tp", "2"], ["--dp", "2", "--sp", "2"],
                 ["--dp", "2", "--zero", "3"],
                 ["--dp", "2", "--zero", "3", "--accumulate", "2"],
                 ["--tp", "2", "--accumulate", "3"]]:
      with self.subTest(mesh=mesh):
        self.assertEqual(self.losses(*MODEL, *mesh),
                         self.losses(*MODEL, *mesh, WHOLE))

  def test_evaluations_and_checked_runs_are_the_same(self):
    for flags in [["--evaluate-every", "2", "--evaluate-batches", "1"],
                  ["--check-finite"]]:
      with self.subTest(flags=flags):
        self.assertEqual(self.losses(*MODEL, *flags),
                         self.losses(*MODEL, *flags, WHOLE))

  def test_checkpoints_fit_both(self):
    # They have plain numbers.
    even = self.losses(*MODEL)
    for first, then in [([WHOLE], []), ([], [WHOLE]), ([], [])]:
      run = ["--checkpoint", self.path("run" + "".join(first + ["-"] + then))]
      with self.subTest(first=first, then=then):
        self.assertEqual(self.losses(*MODEL, *first, *run, steps=3), even[:3])
        self.assertEqual(self.losses(*MODEL, *then, *run), even[3:])

  def test_casts_of_params_are_views(self):
    whole = self.compiled(*MODEL, WHOLE)
    self.assertNotIn("upper_half", whole)
    text = self.compiled(*MODEL)
    params = whole.count(" param,")
    self.assertEqual(text.count("upper_half("), params)
    self.assertEqual(text.count("= cast("), whole.count("= cast(") - params)
    self.assertIn("in_halves=true", text)
    # Every update writes where its param is, or the step would copy it.
    for line in text.splitlines():
      if "adamw(" in line:
        self.assertNotIn(" at ", line)

  def test_others_stay_whole(self):
    for flags in [["bf16", "--optimizer", "sgd"], ["f32"], ["f16"]]:
      with self.subTest(flags=flags):
        self.assertNotIn("upper_half", self.compiled(*OF_TYPE, *flags))
    # Updates that may come before readers, or are gathered.
    params = self.compiled(*MODEL).count("upper_half(")
    for flags in [["--clip", "0"], ["--dp", "2", "--zero", "1"]]:
      with self.subTest(flags=flags):
        text = self.compiled(*MODEL, *flags)
        self.assertLess(text.count("upper_half("), params / 2)


if __name__ == "__main__":
  unittest.main(argv=[__file__])
