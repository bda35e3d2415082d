"""Runs the command line tools as users do: exit codes, output, errors.

Usage: cli_test.py SOURCE_DIR TOOLS_DIR
"""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE_DIR, TOOLS_DIR = sys.argv[1:3]
LLAMA = os.path.join(SOURCE_DIR, "models/llama-tiny-op18/model.onnx")
GPT2 = os.path.join(SOURCE_DIR, "models/gpt2-tiny-op18/model.onnx")
DIMS = ["--dim", "batch=4", "--dim", "seq=64"]


def recorded(model):
  return os.path.join(os.path.dirname(model), "test_data_set_0")


def run(tool, *args):
  return subprocess.run([os.path.join(TOOLS_DIR, tool), *args],
                        stdin=subprocess.DEVNULL, capture_output=True,
                        text=True, timeout=300)


class CommandLine(unittest.TestCase):

  def setUp(self):
    scratch = tempfile.TemporaryDirectory()
    self.addCleanup(scratch.cleanup)
    self.dir = scratch.name

  def path(self, name, text=None):
    path = os.path.join(self.dir, name)
    if text is not None:
      with open(path, "w") as file:
        file.write(text)
    return path

  def passes(self, tool, *args):
    result = run(tool, *args)
    self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
    self.assertEqual(result.stderr, "")
    return result.stdout

  def fails(self, message, tool, *args):
    """Exit code 1 and one line on stderr that contains `message`."""
    result = run(tool, *args)
    self.assertEqual(result.returncode, 1, result.stderr + result.stdout)
    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
    self.assertTrue(result.stderr.startswith(tool + ": "), result.stderr)
    self.assertIn(message, result.stderr)
    return result.stdout

  def test_a_compiled_model_computes_what_pytorch_recorded(self):
    for model, mesh in [(LLAMA, ["--tp", "4", "--sp", "2", "--tiles", "2"]),
                        (GPT2, ["--tp", "2", "--dp", "2", "--tiles", "2"])]:
      out = self.path("model.asyra")
      self.passes("asyra-opt", model, *DIMS, *mesh, "-o", out)
      text = self.passes("asyra-run", out, "--check", recorded(model))
      self.assertIn("max abs error", text)
      self.passes("asyra-run", model, *DIMS, *mesh, "--check", recorded(model))

  def test_equal_input_gives_equal_bytes(self):
    for name in ["a.asyra", "b.asyra"]:
      self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "2", "-o",
                  self.path(name))
    for suffix in [".asyra", ".safetensors"]:
      with open(self.path("a" + suffix), "rb") as a, \
           open(self.path("b" + suffix), "rb") as b:
        self.assertEqual(a.read(), b.read())

  def test_random_inputs_depend_on_the_seed_alone(self):
    runs = [self.passes("asyra-run", GPT2, "--dim", "batch=2", "--dim",
                        "seq=8", "--passes", "canonicalize", "--seed", seed)
            for seed in ["1", "1", "2"]]
    self.assertEqual(runs[0], runs[1])
    self.assertNotEqual(runs[0], runs[2])

  def test_a_result_beyond_the_tolerance_fails(self):
    text = self.fails("beyond rtol 0 and atol 0", "asyra-run", LLAMA, *DIMS,
                      "--tp", "2", "--check", recorded(LLAMA), "--rtol", "0",
                      "--atol", "0")
    self.assertIn("elements differ, first element", text)

  def test_errors_are_one_line_that_names_the_place(self):
    for tool in ["asyra-opt", "asyra-run"]:
      self.fails("MODEL", tool)
      self.fails("--no-such-flag", tool, LLAMA, "--no-such-flag")
      self.fails("none.asyra", tool, self.path("none.asyra"))
      self.fails("none.onnx", tool, self.path("none.onnx"))
      self.fails("bad.asyra: line 1, column 1", tool,
                 self.path("bad.asyra", "no program"))
      self.fails("bad.onnx", tool, self.path("bad.onnx", "no model"))
      self.fails("batch", tool, LLAMA)
      self.fails("--dim batch", tool, LLAMA, "--dim", "batch")
      self.fails("no-such-machine", tool, LLAMA, *DIMS, "--machine",
                 "no-such-machine")
      self.fails("no_such_pass", tool, LLAMA, *DIMS, "--passes",
                 "no_such_pass")

  def test_recordings_must_fit(self):
    self.fails(self.path("none"), "asyra-run", LLAMA, *DIMS, "--passes",
               "canonicalize", "--check", self.path("none"))
    self.fails("recorded input input_ids is i64[4,64]", "asyra-run", LLAMA,
               "--dim", "batch=2", "--dim", "seq=64", "--passes",
               "canonicalize", "--check", recorded(LLAMA))

  def test_damaged_weights_are_refused(self):
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "-o", out)
    weights = self.path("model.safetensors")
    os.truncate(weights, os.path.getsize(weights) - 1)
    self.fails("model.safetensors", "asyra-run", out)
    os.remove(weights)
    self.passes("asyra-run", out)  # random ones


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
