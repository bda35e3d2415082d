"""Runs every tiny model on as many GPUs as there are, against the outputs that
were recorded from PyTorch: as a graph and op by op, as it is and in tiles, with
matmuls that take up bias and residual.

GPUs are shared out, since collectives of processes that take turns on one GPU
wait for ranks that have no turn. Prints SKIP where there is no GPU.

Usage: cuda_test.py SOURCE_DIR TOOLS_DIR [REGEX of "MODEL MESH"]
"""

import concurrent.futures
import os
import queue
import re
import subprocess
import sys

SOURCE_DIR, TOOLS_DIR = sys.argv[1:3]
ONLY = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
MODELS_DIR = os.path.join(SOURCE_DIR, "models")
# By the devices they take.
MESHES = {1: [""], 2: ["--tp 2", "--sp 2"], 4: ["--tp 2 --sp 2", "--tp 4"],
          8: ["--tp 4 --sp 2"]}
EXPERT_MESHES = {2: ["--ep 2"], 4: ["--ep 4"], 8: ["--tp 2 --ep 4"]}
MODES = [["--no-graphs", "--debug-memory"], ["--repeat", "3"],
         ["--tiles", "2", "--search-steps", "60", "--repeat", "3",
          "--epilogues", "estimated"]]


def count_gpus():
  try:
    said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
  except FileNotFoundError:
    return 0
  return len(re.findall(r"^GPU \d", said.stdout, re.MULTILINE))


def symbolic_dims(model):
  if model.startswith("vit"):
    return ["--dim", "batch=4"] if "legacy" in model else []
  if model.endswith("op23"):
    return []
  return ["--dim", "batch=4", "--dim", "seq=64"]


def run(model, mesh, mode, gpus):
  """(what is wrong or None, ops computed on the host)."""
  folder = os.path.join(MODELS_DIR, model)
  args = [os.path.join(folder, "model.onnx"), *symbolic_dims(model),
          *mesh.split(), *mode, "--device", "cuda", "--timeout", "60",
          "--check", os.path.join(folder, "test_data_set_0")]
  try:
    result = subprocess.run([os.path.join(TOOLS_DIR, "asyra-run"), *args],
                            stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=200,
                            env={**os.environ, "CUDA_VISIBLE_DEVICES":
                                 ",".join(map(str, gpus))})
  except subprocess.TimeoutExpired:
    return "hangs", set()
  fallback = re.search(r"without a kernel: (.*)", result.stdout)
  ops = set(re.findall(r"\w+", fallback.group(1))) if fallback else set()
  if result.returncode == 0 and "max abs error" in result.stdout:
    return None, ops
  return result.stderr.strip() or result.stdout.strip(), ops


def run_all(cases, count):
  """Yields each case with a result of run, as soon as it is there: as many at a
  time on `count` GPUs as there are sets of them."""
  for size in sorted({size for size, *_ in cases}):
    free = queue.Queue()
    for first in range(0, count - size + 1, size):
      free.put(range(first, first + size))

    def one(case):
      gpus = free.get()
      try:
        return run(*case[1:], gpus)
      finally:
        free.put(gpus)

    of_size = [case for case in cases if case[0] == size]
    with concurrent.futures.ThreadPoolExecutor(count // size) as pool:
      yield from zip(of_size, pool.map(one, of_size))


def main():
  count = count_gpus()
  if count == 0:
    print("SKIP: there is no GPU")
    return 0
  models = sorted(name for name in os.listdir(MODELS_DIR) if "-tiny" in name)
  wanted = []
  for model in models:
    meshes = {n: MESHES[n] + ("moe" in model) * EXPERT_MESHES.get(n, [])
              for n in MESHES}
    wanted += [(n, model, mesh, mode) for n in meshes
               for mesh in meshes[n] for mode in MODES
               if ONLY.search(f"{model} {mesh}")]
  cases = [case for case in wanted if case[0] <= count]
  done, failed, fallbacks = 0, 0, set()
  for (_, model, mesh, mode), (problem, ops) in run_all(cases, count):
    fallbacks |= ops
    done += 1
    failed += bool(problem)
    print(f"{done}/{len(cases)}", "FAILED" if problem else "ok", model, mesh,
          *mode, *([":", problem] if problem else []), flush=True)
  print(f"{len(cases)} cases on {count} GPUs, {failed} failed; "
        f"ops without a kernel: {' '.join(sorted(fallbacks)) or 'none'}")
  if len(cases) < len(wanted):
    print(f"{len(wanted) - len(cases)} cases left out: they take more GPUs")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())
