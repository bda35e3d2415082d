"""What tests of training share: small models, and what runs of them say."""

import csv
import json
import os

from tool_test import LLAMA, ToolTest

SHAPE = ["--dim", "batch=4", "--dim", "seq=16"]
TEXT = "the quick brown fox jumps over the lazy dog. " * 60
RATE = ["--rate", "0.01"]
# Nothing is searched: compiling takes a second.
QUICK = ["--tiles", "1", "--scheduler", "serial"]


class TrainTest(ToolTest):

  def setUp(self):
    super().setUp()
    self.text = self.path("text.txt", TEXT)

  def train(self, *args, steps=5):
    """The rows of the csv that a run writes, as numbers."""
    out = self.path("out.csv")
    self.passes("asyra-train", *args, *RATE, "--data", self.text, "--steps",
                str(steps), "--csv", out)
    with open(out) as file:
      rows = list(csv.reader(file))
    self.assertEqual(rows[0], ["step", "loss", "norm", "tokens_per_s"])
    self.assertEqual([row[0] for row in rows[1:]],
                     [str(i + 1) for i in range(steps)])
    return rows[1:]

  def losses(self, *args, **options):
    return [float(row[1]) for row in self.train(*args, *QUICK, **options)]

  def assert_close(self, losses, others):
    self.assertEqual(len(losses), len(others))
    for loss, other in zip(losses, others):
      self.assertLessEqual(abs(loss - other), 1e-12 * abs(other))

  def compiled(self, *flags):
    folder = self.path("training")
    self.passes("asyra-opt", LLAMA, *SHAPE, *QUICK, *flags, "--train", "-o",
                folder)
    return folder

  def run_of(self, folder, *args):
    """Losses by step of a run that logs, and what it says."""
    log = self.path("log.jsonl")
    said = self.passes("asyra-train", folder, *RATE, "--data", self.text,
                       "--log", log, *args)
    with open(log) as file:
      lines = [json.loads(line) for line in file]
    os.remove(log)
    return {line["step"]: line["loss"] for line in lines if "loss" in line}, said

  def refused(self, message, *args):
    """Fails with one line, and writes nothing."""
    before = sorted(os.listdir(self.dir))
    self.fails(message, "asyra-train", *args, "--csv", self.path("no.csv"),
               "--html", self.path("no.html"))
    self.assertEqual(sorted(os.listdir(self.dir)), before)
