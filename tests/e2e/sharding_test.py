"""Runs every tiny model on every mesh: sharding does not change results,
neither on the interpreter nor through the executor on the cpu, and neither does
cutting the batch or the sequence into tiles.

A sharded run must agree with the same program on one device to 1e-5 of the
output's largest magnitude (f16: 2e-3), and with the outputs that were recorded
from PyTorch, within the tolerances of `asyra-run --check`.

Usage: sharding_test.py SOURCE_DIR TOOLS_DIR
"""

import concurrent.futures
import os
import subprocess
import sys
import unittest

SOURCE_DIR, TOOLS_DIR = sys.argv[1:3]
MODELS_DIR = os.path.join(SOURCE_DIR, "models")
# Every case on every device, or in every schedule and all tiles; else on one, in
# turn, in half of the tiles, and one in three with a searched schedule: models
# are there in several spellings.
ALL = bool(os.environ.get("ASYRA_ALL_SHARDINGS"))

# Over 3 devices nothing divides; over 4, 257 words do not.
DENSE_MESHES = [
    "--tp 2", "--tp 3", "--tp 4", "--sp 2", "--sp 4", "--dp 2 --tp 2",
    "--tp 2 --sp 2", "--tp 4 --sp 2", "--mesh tp=2,x=2",
    "--tp 2 --reduce-scatter decomposed", "--tp 2 --sp 2 --tp-strategy sequence --reduce-scatter decomposed"
]
EXPERT_MESHES = ["--ep 2", "--ep 4", "--tp 2 --ep 4", "--sp 2 --ep 4",
                 "--dp 2 --sp 2 --ep 4"]

DEVICES = ["interpreter", "cpu"]

# Built-in models have no data: random weights and inputs, one device only as
# the reference.
BUILTIN = ["gpt3-tiny", "gpt3-tiny --dim vocabulary=257", "llama3-tiny",
           "qwen3-moe-tiny"]


PROGRAMS_DIR = os.path.join(SOURCE_DIR, "tests", "e2e", "programs")
PROGRAM_MESHES = ["--tp 2", "--sp 2", "--dp 2", "--dp 2 --tp 2", "--mesh a=2"]

TILED_MESHES = ["--tp 2", "--sp 2", "--tp 2 --sp 2 --tp-strategy sequence"]
TILED_EXPERT_MESHES = ["--ep 2"]
# Of 4 sequences of 64 tokens, as recorded, and of 12 of 48.
TILES = [(2, "batch"), (4, "batch"), (2, "sequence"), (4, "sequence")]
BUILTIN_TILES = [(3, "batch"), (2, "sequence"), (3, "sequence"),
                 (4, "sequence")]
TILED_PIPELINE = (
    "canonicalize, raise_norm, raise_activation, raise_moe, raise_rotary, "
    "split_projections, raise_attention, canonicalize, merge_expert_rows, "
    "pad_dims{{{0}}}, plan_sharding{{{0}}}, partition, "
    "tile{{tiles={1}, dim={2}}}, "
    "start_collectives, reorder{{scheduler={3}, steps=40}}{4}")
# Each with and without bucketing.
SCHEDULES = [(scheduler, bucket)
             for bucket in [", bucket", ""]
             for scheduler in ["search", "segrr", "round_robin", "serial"]]


def is_moe(model):
  return "moe" in model


def symbolic_dims(model):
  """What the model's recorded inputs bind its symbolic dimensions to."""
  if model.startswith("vit"):
    return ["--dim", "batch=4"] if "legacy" in model else []
  if model.endswith("op23"):
    return []
  return ["--dim", "batch=4", "--dim", "seq=64"]


def run(model, mesh, device, searched=True):
  """None, or what is wrong with the model on the mesh."""
  schedule = ["--search-steps", "60"] if searched else ["--scheduler", "segrr"]
  args = ["--compare-single", "--device", device, *schedule, *mesh.split()]
  if model in BUILTIN:
    args = [*model.split(), *args]
  elif model.endswith(".asyra"):
    args = [os.path.join(PROGRAMS_DIR, model), "--random-weights", *args]
  else:
    folder = os.path.join(MODELS_DIR, model)
    args = [os.path.join(folder, "model.onnx"), *symbolic_dims(model), *args,
            "--check", os.path.join(folder, "test_data_set_0")]
  result = subprocess.run([os.path.join(TOOLS_DIR, "asyra-run"), *args],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
  said = result.stderr.strip() or result.stdout.strip()
  compared = "off one device by" in result.stdout
  return None if result.returncode == 0 and compared else said


def run_tiled(model, mesh, tiles, dim, schedule):
  """None, or what is wrong with the model on the mesh, cut into tiles."""
  mesh, _, strategy = mesh.partition(" --tp-strategy ")
  strategy = f"tp_strategy={strategy}" if strategy else ""
  args = [*mesh.split(), "--print-after", "tile",
          "--passes", TILED_PIPELINE.format(strategy, tiles, dim, *schedule)]
  if model in BUILTIN:
    args = [*model.split(), "--dim", "batch=12", "--dim", "seq=48",
            "--compare-single", *args]
    compared = "off one device by"
  else:
    folder = os.path.join(MODELS_DIR, model)
    args = [os.path.join(folder, "model.onnx"), *symbolic_dims(model),
            "--check", os.path.join(folder, "test_data_set_0"), *args]
    compared = "max abs error"
  result = subprocess.run([os.path.join(TOOLS_DIR, "asyra-run"), *args],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
  if result.returncode != 0:
    return result.stderr.strip()
  said = result.stdout + result.stderr
  return None if compared in said and f"of={tiles}" in said else "not tiled"


class Sharding(unittest.TestCase):

  def test_every_model_on_every_mesh(self):
    models = sorted(name for name in os.listdir(MODELS_DIR) if "-tiny" in name)
    self.assertGreaterEqual(len(models), 12)
    pairs = [(model, mesh) for model in models + BUILTIN
             for mesh in DENSE_MESHES + EXPERT_MESHES * is_moe(model)]
    cases = [(*pair, device, ALL or i % 3 == 0) for i, pair in enumerate(pairs)
             for device in (DEVICES if ALL else [DEVICES[i % 2]])]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      problems = list(pool.map(lambda case: run(*case), cases))
    failed = [f"{model} {mesh} {device}: {problem}"
              for (model, mesh, device, _), problem in zip(cases, problems)
              if problem]
    print(f"{len(cases)} cases, {len(failed)} failed")
    self.assertEqual(failed, [])

  def test_axes_are_used_where_they_may_be(self):
    cases = [(program, mesh, device) for program in os.listdir(PROGRAMS_DIR)
             for mesh in PROGRAM_MESHES for device in DEVICES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      problems = list(pool.map(lambda case: run(*case), cases))
    failed = [(case, problem) for case, problem in zip(cases, problems)
              if problem]
    self.assertEqual(failed, [])

  def test_every_model_in_tiles(self):
    models = sorted(name for name in os.listdir(MODELS_DIR) if "-tiny" in name)
    cases = [(model, mesh, tiles, dim) for k, model in enumerate(models + BUILTIN)
             for i, mesh in enumerate(
                 TILED_MESHES + TILED_EXPERT_MESHES * is_moe(model))
             for n, (tiles, dim) in enumerate(
                 BUILTIN_TILES * (model in BUILTIN) or TILES)
             if ALL or (k + i + n) % 2 == 0
             # Images have channels there, and of 4 sequences a device has 2.
             and not (model.startswith("vit") and dim == "sequence")
             and not (mesh == "--ep 2" and model not in BUILTIN and tiles > 2
                      and dim == "batch")]
    if ALL:
      cases = [(*case, schedule) for case in cases for schedule in SCHEDULES]
    else:
      cases = [(*case, SCHEDULES[i % len(SCHEDULES)])
               for i, case in enumerate(cases)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      problems = list(pool.map(lambda case: run_tiled(*case), cases))
    failed = [f"{model} {mesh} {tiles} tiles of the {dim}, "
              f"{scheduler}{bucket}: {problem}"
              for (model, mesh, tiles, dim, (scheduler, bucket)), problem
              in zip(cases, problems) if problem]
    print(f"{len(cases)} tiled cases, {len(failed)} failed")
    self.assertEqual(failed, [])


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
