"""asyra-bench on the cpu: what it writes prices the program it was made for.

Usage: bench_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import sys
import unittest

from tool_test import ToolTest

GPT = ["gpt3-tiny", "--tp", "2", "--dim", "layers=1", "--dim", "batch=2",
       "--dim", "seq=32"]
CPU = ["--device", "cpu", "--bench-ranks", "2"]


class BenchTest(ToolTest):

  def test_machine_prices_the_program_by_measurements(self):
    machine = self.path("here.machine")
    said = self.passes("asyra-bench", *GPT, *CPU, "--seconds", "60",
                       "--no-grid", "--set", "host.gpus=3", "--machine-out",
                       machine)
    self.assertIn("matmul(", said)
    self.assertNotIn("not measured", said)
    with open(machine) as file:
      written = json.load(file)
    self.assertEqual(written["name"], "here")
    self.assertEqual(written["host"]["gpus"], 3)
    with open(self.path("here.table")) as file:
      points = json.load(file)["points"]
    self.assertIn(2, [point.get("ranks") for point in points])
    # Everything was measured as it stands there.
    profile = self.path("profile.json")
    self.passes("asyra-sim", "run", *GPT, "--machine", machine, "--strict",
                "--tiles", "1", "--json", profile)
    with open(profile) as file:
      sources = {source["name"]: source["us"]
                 for source in json.load(file)["sources"]}
    self.assertGreater(sources["measured"], 0)
    self.assertEqual(sources.get("formula", 0), 0)

  def test_time_that_is_over_leaves_calls_out(self):
    table = self.path("some.table")
    said = self.passes("asyra-bench", *CPU, "--seconds", "1", "-o", table)
    self.assertIn("the time was over", said)
    self.assertGreater(os.path.getsize(table), 0)

  def test_wrong_flags(self):
    self.fails("should end in .machine", "asyra-bench", *CPU,
               "--machine-out", "here")
    self.fails("leaves nothing to measure", "asyra-bench", *CPU, "--no-grid")
    self.fails("--seconds is 0", "asyra-bench", *CPU, "--seconds", "0")
    self.fails("no-such-model", "asyra-bench", "no-such-model", *CPU)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
