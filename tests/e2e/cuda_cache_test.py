"""What GPUs found out is kept: a second run measures nothing, files that are no
use are replaced, and ranks that are processes share tuning results.

Prints SKIP where there is no GPU.

Usage: cuda_cache_test.py SOURCE_DIR TOOLS_DIR
"""

import glob
import os
import subprocess
import sys
import unittest

from tool_test import DIMS, LLAMA, TOOLS_DIR, ToolTest, gpus

CHECK = ["--check", os.path.join(os.path.dirname(LLAMA), "test_data_set_0")]
CUDA = [LLAMA, *DIMS, *CHECK, "--device", "cuda"]


def start(folder, *args, **variables):
  env = dict(os.environ, ASYRA_CACHE_DIR=folder, **variables)
  return subprocess.Popen([os.path.join(TOOLS_DIR, "asyra-run"), *args],
                          env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def fnv1a(data):
  value = 0xcbf29ce484222325
  for byte in data:
    value = (value ^ byte) * 0x100000001b3 % 2**64
  return value


def read_result(path):
  """(key, us, value) of a file that was kept."""
  with open(path, "rb") as file:
    _, key, text = file.read().split(b"\n")
  us, value = text.split(b"\t")
  return key, us, value


def write_result(path, key, us, value):
  text = us + b"\t" + value
  with open(path, "wb") as file:
    file.write(b"asyra cache 1: %d + %d bytes, %016x\n" %
               (len(key), len(text), fnv1a(key + text)))
    file.write(key + b"\n" + text)


def results(folder):
  """Values by key, without the times."""
  found = {}
  for path in glob.glob(os.path.join(folder, "*.tuning")):
    key, _, value = read_result(path)
    found[key] = value
  return found


def stamps(folder):
  return {path: os.stat(path).st_mtime_ns
          for path in glob.glob(os.path.join(folder, "*"))}


class CacheTest(ToolTest):

  def ends_well(self, process, errors=""):
    out, err = process.communicate(timeout=300)
    self.assertEqual(process.returncode, 0, err + out)
    if errors:
      self.assertEqual(err.count("\n"), 1, err)
    self.assertIn(errors, err)
    self.assertTrue(errors or not err, err)

  def test_a_second_run_finds_all(self):
    folder = self.path("cache")
    self.ends_well(start(folder, *CUDA))
    before = stamps(folder)
    self.assertTrue(results(folder))
    self.assertFalse(any(".tmp" in path for path in before), before)
    self.assertTrue(any(path.endswith(".cubin") for path in before))
    self.ends_well(start(folder, *CUDA))
    self.assertEqual(stamps(folder), before)

  def test_malformed_tuning_results_are_measured_anew(self):
    folder = self.path("cache")
    self.ends_well(start(folder, *CUDA))
    before = results(folder)
    for path in glob.glob(os.path.join(folder, "*.tuning")):
      key, us, _ = read_result(path)
      write_result(path, key, us, b"none")
    self.ends_well(start(folder, *CUDA))
    after = results(folder)
    self.assertEqual(set(after), set(before))
    self.assertNotIn(b"none", after.values())

  # As if other versions of the libraries had left them under these keys.
  def test_tuning_results_of_other_shapes_do_no_harm(self):
    folder = self.path("cache")
    self.ends_well(start(folder, *CUDA))
    files = sorted(glob.glob(os.path.join(folder, "*.tuning")))
    kept = [read_result(path) for path in files]
    for path, mine, other in zip(files, kept, kept[1:] + kept[:1]):
      write_result(path, mine[0], *other[1:])
    self.ends_well(start(folder, *CUDA))

  def test_files_cut_short_are_replaced(self):
    folder = self.path("cache")
    self.ends_well(start(folder, *CUDA))
    for i, path in enumerate(sorted(stamps(folder))):
      os.truncate(path, os.path.getsize(path) * (i % 4) // 4)
    self.ends_well(start(folder, *CUDA))
    self.assertTrue(all(os.path.getsize(path) for path in stamps(folder)))
    self.assertTrue(results(folder))

  def test_no_cache_and_one_that_cannot_be_written(self):
    self.ends_well(start("", *CUDA))
    file = self.path("file", "no folder")
    self.ends_well(start(os.path.join(file, "cache"), *CUDA),
                   "asyra-run: warning: the cache")

  # Each measures for itself, and then takes what the first one has found.
  @unittest.skipIf(gpus() < 2, "takes two GPUs")
  def test_processes_share_tuning_results(self):
    folders = [self.path(f"cache{rank}") for rank in range(2)]
    ranks = [start(folder, *CUDA, "--tp", "2", "--check-deterministic",
                   RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                   LOCAL_WORLD_SIZE="2", MASTER_PORT="29631")
             for rank, folder in enumerate(folders)]
    for rank in ranks:
      self.ends_well(rank)
    self.assertTrue(results(folders[0]))
    self.assertEqual(results(folders[0]), results(folders[1]))


if __name__ == "__main__":
  if gpus() == 0:
    print("SKIP: there is no GPU")
    sys.exit()
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
