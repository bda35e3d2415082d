"""Checking results: tolerances, verdicts, recordings.

Part of cli_test.py.
"""

import json
import os

from tool_test import DIMS, LLAMA, SOURCE_DIR, ToolTest, recorded


class Check(ToolTest):

  def test_a_result_beyond_the_tolerance_fails(self):
    text = self.fails("of 1 of 1 output are beyond rtol 0, atol 0", "asyra-run", LLAMA, *DIMS,
                      "--tp", "2", "--check", recorded(LLAMA), "--rtol", "0",
                      "--atol", "0")
    self.assertIn("elements differ, first %", text)

  def test_a_check_ends_with_a_verdict(self):
    args = [LLAMA, "--check", recorded(LLAMA)]  # --dim is what is recorded
    text = self.passes("asyra-run", *args, "--tp", "2", "--sp", "2")
    self.assertTrue(text.endswith(
        "check passed: 1 output within rtol 0.0001, atol 1e-05\n"), text)
    self.assertIn("output %logits f32[4,64,256]: ", text)
    said = json.loads(self.passes("asyra-run", *args, "--rtol", "0.5", "--tp",
                                  "2", "--sp", "2", "--json"))
    self.assertIs(said["passed"], True)
    output = said["outputs"][0]
    self.assertEqual((output["name"], output["rtol"], output["atol"]),
                     ("logits", 0.5, 1e-5))
    text = self.fails("of 1 of 1 output are beyond rtol 0, atol 0", "asyra-run",
                      *args, "--rtol", "0", "--atol", "0")
    self.assertRegex(text, r"\ncheck failed: \d+ elements of 1 of 1 output are "
                           r"beyond rtol 0, atol 0\n$")
    self.fails("recorded input input_ids is i64[4,64], the program's "
               "%input_ids is i64[2,64]", "asyra-run", *args, "--dim",
               "batch=2")

  def test_recordings_must_fit(self):
    self.fails(self.path("none"), "asyra-run", LLAMA, *DIMS, "--passes",
               "canonicalize", "--check", self.path("none"))
    self.fails("recorded input input_ids is i64[4,64]", "asyra-run", LLAMA,
               "--dim", "batch=2", "--dim", "seq=64", "--passes",
               "canonicalize", "--check", recorded(LLAMA))

  def test_nothing_is_checked_on_made_up_weights(self):
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "-o", out)
    os.remove(self.path("model.safetensors"))
    for flags in [[], ["--random-weights"]]:
      self.fails("--check: there is no data for the weights "
                 "m.model.embed_tokens.weight, ", "asyra-run", out, "--check",
                 recorded(LLAMA), *flags)
    self.fails("--check: there is no data for the weights ", "asyra-run",
               "llama3-tiny", "--check", recorded(LLAMA))
    said = json.loads(self.passes("asyra-run", "llama3-tiny", "--json"))
    self.assertGreater(said["random_weights"], 0)

  def test_an_output_is_as_exact_as_what_it_is_computed_through(self):
    model = os.path.join(SOURCE_DIR, "tests/models/half-inside/model.onnx")
    dims = ["--dim", "batch=4", "--dim", "seq=8"]
    for mesh in [["--tp", "2"], ["--dp", "2", "--tp", "2"]]:
      for device in ["cpu", "interpreter"]:
        self.passes("asyra-run", model, *dims, *mesh, "--device", device,
                    "--compare-single")
