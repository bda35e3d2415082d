"""Programs at planned offsets: every tiny model, tiled or not, is written by
asyra-opt with its memory planned, read by asyra-run and executed with every
byte checked as it is used (--debug-memory). It must give the outputs that were
recorded from PyTorch.

Usage: memory_test.py SOURCE_DIR TOOLS_DIR
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE_DIR, TOOLS_DIR = sys.argv[1:3]
MODELS_DIR = os.path.join(SOURCE_DIR, "models")
MESHES = ["--tp 2", "--sp 2", "--tp 2 --sp 2"]
EXPERT_MESHES = ["--ep 2"]
TILES = ["1", "2", "4"]


def tool(name, *args):
  return subprocess.run([os.path.join(TOOLS_DIR, name), *args],
                        stdin=subprocess.DEVNULL, capture_output=True,
                        text=True, timeout=300)


def symbolic_dims(model):
  """What the model's recorded inputs bind its symbolic dimensions to."""
  if model.startswith("vit"):
    return ["--dim", "batch=4"] if "legacy" in model else []
  if model.endswith("op23"):
    return []
  return ["--dim", "batch=4", "--dim", "seq=64"]


def run(model, mesh, tiles, folder):
  """None, or what is wrong."""
  source = os.path.join(MODELS_DIR, model)
  path = os.path.join(folder, f"{model}{mesh}{tiles}.asyra".replace(" ", ""))
  written = tool("asyra-opt", os.path.join(source, "model.onnx"),
                 *symbolic_dims(model), *mesh.split(), "--tiles", tiles,
                 "--search-steps", "200", "-o", path)
  if written.returncode != 0:
    return written.stderr.strip()
  with open(path, encoding="utf-8") as program:
    if not program.readline().startswith("asyra 1 allocated"):
      return "not allocated"
  result = tool("asyra-run", path, "--debug-memory", "--check",
                os.path.join(source, "test_data_set_0"))
  said = result.stderr.strip() or result.stdout.strip()
  return None if result.returncode == 0 else said


class Memory(unittest.TestCase):

  def test_every_model_at_planned_offsets(self):
    models = sorted(name for name in os.listdir(MODELS_DIR) if "-tiny" in name)
    self.assertGreaterEqual(len(models), 12)
    cases = [(model, mesh, tiles) for model in models
             for mesh in MESHES + EXPERT_MESHES * ("moe" in model)
             for tiles in TILES]
    with tempfile.TemporaryDirectory() as folder:
      with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda case: run(*case, folder), cases))
    failed = [f"{' '.join(case)}: {problem}"
              for case, problem in zip(cases, said) if problem]
    print(f"{len(cases)} cases, {len(failed)} failed")
    self.assertEqual(failed, [])


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
