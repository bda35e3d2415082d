"""What the tests of the command line tools share.

A test is run as: TEST.py SOURCE_DIR TOOLS_DIR [TestClass.test ...]
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
  """The folder of the model's inputs and outputs as PyTorch has them."""
  return os.path.join(os.path.dirname(model), "test_data_set_0")


def run(tool, *args):
  return subprocess.run([os.path.join(TOOLS_DIR, tool), *args],
                        stdin=subprocess.DEVNULL, capture_output=True,
                        text=True, timeout=300)


def gpus():
  """How many this host has."""
  try:
    said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
  except FileNotFoundError:
    return 0
  return said.stdout.count("GPU ")


def launched(rank, ranks, port, **variables):
  """The environment of a rank of one host, as torchrun sets it."""
  return dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks),
              LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks),
              MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **variables)


class ToolTest(unittest.TestCase):

  def setUp(self):
    scratch = tempfile.TemporaryDirectory()
    self.addCleanup(scratch.cleanup)
    self.dir = scratch.name

  def own_cache(self):
    """What the tools remember from here on is of this test alone."""
    before = os.environ.get("ASYRA_CACHE_DIR")
    os.environ["ASYRA_CACHE_DIR"] = self.path("cache")
    if before is None:
      self.addCleanup(os.environ.pop, "ASYRA_CACHE_DIR")
    else:
      self.addCleanup(os.environ.__setitem__, "ASYRA_CACHE_DIR", before)

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
