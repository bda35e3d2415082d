"""Programs that are made: collectives, reductions, padding, equal bytes.

Part of cli_test.py.
"""

import os
import re
import sys

from tool_test import DIMS, LLAMA, SOURCE_DIR, ToolTest, recorded, run

sys.path.append(os.path.join(SOURCE_DIR, "tests", "benchmarks"))
from gpu_memory import UNSCHEDULED


class Schedule(ToolTest):

  def test_small_collectives_are_joined(self):
    for mesh in [["--sp", "2"], ["--sp", "2", "--tiles", "1"]]:
      out = self.path("model.asyra")
      report = self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--verbose", "-o", out)
      self.assertIn("bucket: joined all_gather of ", report)
      with open(out) as file:
        text = file.read()
      self.assertRegex(text, r"\n  %\S+, %\S+ = start all_gather\(%\S+, %\S+\)")
      for device in ["cpu", "interpreter"]:
        self.passes("asyra-run", out, "--device", device, "--check",
                    recorded(LLAMA))
      # One future is waited for twice, the other never.
      names = re.search(r"\n  (%\S+), (%\S+) = start", text)
      broken = self.path("broken.asyra",
                         text.replace(f"wait({names[2]})", f"wait({names[1]})"))
      self.fails(f"{names[1]} is waited for 2 times", "asyra-run", broken)
      apart = self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--no-join", "--verbose")
      self.assertNotIn("joined", apart)

  def test_reductions_are_decomposed_where_that_is_asked_for(self):
    for mesh in [["--tp", "2"], ["--tp", "2", "--sp", "2"],
                 ["--tp", "4", "--tiles", "2"]]:
      mesh = [*mesh, "--tp-strategy", "sequence"]
      for form, moves in [("decomposed", "all_to_all"),
                          ("fused", "reduce_scatter")]:
        out = self.path("model.asyra")
        self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--reduce-scatter", form, "-o", out)
        with open(out) as file:
          text = file.read()
        self.assertIn(f" = {moves}(" if "form=one_kernel" in text else
                      f"start {moves}(", text)
        self.assertEqual("stack_partial" in text, form == "decomposed")
        self.assertEqual("reduce_scatter(" in text, form == "fused")
        for device in ["cpu", "interpreter"]:
          self.passes("asyra-run", out, "--device", device, "--check",
                      recorded(LLAMA))
      self.passes("asyra-run", LLAMA, *DIMS, *mesh, "--reduce-scatter", "decomposed",
                  "--device", "interpreter", "--compare-single")
    text = self.passes("asyra-opt", LLAMA, *DIMS, "--sp", "2", "--reduce-scatter", "decomposed",
                       "--verbose")
    self.assertIn("decompose_reduce_scatter: none of 0 is of one value", text)
    # Where nothing can be copied, nothing is tried.
    model = ["llama3-8b", "--dim", "layers=2", "--tp", "4"]
    for machine, tried in [("h200x8", True), ("rtx4090x8", False)]:
      text = self.passes("asyra-opt", *model, "--machine", machine, "--verbose")
      self.assertEqual(", reduce-scatter decomposed" in text, tried, machine)
    text = self.passes("asyra-opt", *model, "--reduce-scatter", "fused", "--verbose")
    self.assertNotIn("reduce-scatter decomposed", text)
    # Of all that a device has, libraries alone take more than this.
    for option in ["--memory-gib", "--capacity"]:
      for gib, text in [("1.5", "1.50 GiB"), ("1e-7", "107 bytes")]:
        self.fails(f"no schedule found fits in {text} of a device: the least",
                   "asyra-opt", *model, option, gib, "--reduce-scatter", "decomposed")

  def test_benchmarks_know_the_program_before_it_is_scheduled(self):
    for model in [["llama3-tiny", "--tp", "2"], ["gpt3-tiny", "--sp", "2"],
                  ["qwen3-moe-tiny", "--ep", "2"]]:
      out = self.path("model.asyra")
      passes = ["--passes", UNSCHEDULED]
      self.passes("asyra-opt", *model, *passes, "-o", out)
      with open(out) as file:
        text = file.read()
      # Of the collective strategies that are tried, the one that costs least
      # unscheduled comes first.
      said = run("asyra-opt", *model, "--print-after", "fuse",
                 "--search-steps", "1")
      first = said.stderr.split("// after fuse")[1]
      self.assertEqual(first, "\n" + text)
      self.passes("asyra-sim", "run", *model, *passes)
      self.passes("asyra-run", *model, *passes)

  def test_equal_input_gives_equal_bytes(self):
    for name in ["a.asyra", "b.asyra"]:
      self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "2", "-o",
                  self.path(name))
    for suffix in [".asyra", ".safetensors"]:
      with open(self.path("a" + suffix), "rb") as a, \
           open(self.path("b" + suffix), "rb") as b:
        self.assertEqual(a.read(), b.read())

  def test_padded_weights_are_padded_when_they_are_loaded(self):
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "3", "--passes",
                "canonicalize, pad_dims{always=true}, plan_sharding, partition",
                "-o", out)
    with open(out) as file:
      self.assertIn(" weight padded from [256, 64]", file.read())
    self.passes("asyra-run", out, "--check", recorded(LLAMA))
