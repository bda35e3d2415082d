"""Pipelines from the command line, and what shows programs between passes.

Usage: pipeline_test.py SOURCE_DIR TOOLS_DIR
"""

import os
import sys
import unittest

from tool_test import DIMS, LLAMA, ToolTest, run

# The default pipeline, where there is one collective strategy.
DEFAULT = (
    "canonicalize, raise_norm, raise_activation, raise_moe, raise_rotary, "
    "split_projections, raise_attention, canonicalize, merge_expert_rows, "
    "pad_dims{tp_strategy=replicated}, plan_sharding{tp_strategy=replicated}, "
    "partition, fuse, schedule, plan_memory")
MESH = ["--tp", "2", "--sp", "2"]


class Pipelines(ToolTest):

  def program(self, *flags):
    out = self.path("program.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, *flags, "-o", out)
    with open(out) as file:
      return file.read()

  def test_the_default_way_can_be_spelled(self):
    default = self.program(*MESH, "--tp-strategy", "replicated",
                           "--reduce-scatter", "fused")
    spelled = self.program("--mesh", "sp=2,tp=2", "--passes", DEFAULT)
    self.assertEqual(default, spelled)

  def test_what_the_search_may_decide_can_be_spelled(self):
    plan = [*MESH, "--tp-strategy", "replicated", "--reduce-scatter", "fused"]
    spelled = DEFAULT.replace(
        "schedule,", 'schedule{opened="form_overlaps"},')
    self.assertNotEqual(spelled, DEFAULT)
    self.assertEqual(
        self.program(*plan, "--overlap"),
        self.program("--mesh", "sp=2,tp=2", "--passes", spelled))

  def test_programs_between_passes_are_written(self):
    folder = self.path("dumps")
    self.passes("asyra-opt", LLAMA, *DIMS, *MESH, "--tiles", "2", "--dump-dir",
                folder)
    names = sorted(os.listdir(folder))
    passes = [name.split("-", 1)[1] for name in names]
    self.assertEqual([int(name[:4]) for name in names],
                     list(range(1, len(names) + 1)))
    for name in ["canonicalize", "raise_attention", "partition", "fuse", "tile",
                 "start_collectives", "plan_memory"]:
      self.assertIn(name + ".asyra", passes)
    self.assertEqual(passes[-1], "plan_memory.asyra")
    # Each is a program that the tools take.
    self.passes("asyra-run", os.path.join(folder, names[-1]),
                "--random-weights")
    self.fails("--dump-dir /dev/null/x", "asyra-opt", LLAMA, *DIMS,
               "--dump-dir", "/dev/null/x")

  def test_programs_between_passes_are_simulated_and_printed(self):
    said = run("asyra-opt", LLAMA, *DIMS, *MESH, "--tiles", "2",
               "--simulate-each").stderr
    self.assertRegex(said, r"after partition: \S+ \S+ a step\n")
    self.assertRegex(
        said, r"// candidate: 2 tiles along the batch\nafter start_collectives")
    said = run("asyra-opt", LLAMA, *DIMS, *MESH, "--print-changed", "--passes",
               "canonicalize, canonicalize").stderr
    self.assertEqual(said.count("// after canonicalize\n"), 1)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
