"""Installs the build, builds each project of this folder against it, and runs
it.

Usage: install_test.py SOURCE_DIR BUILD_DIR CXX_FLAGS
"""

import os
import re
import subprocess
import sys
import tempfile

SOURCE_DIR, BUILD_DIR, CXX_FLAGS = sys.argv[1:4]
MODEL = os.path.join(SOURCE_DIR, "models", "gpt2-tiny-op23")
# Each with its arguments and what it prints. That of GPUs prints why it cannot
# run where there are not two.
PROJECTS = {
    "training_step": ([], r"weights 3\.000 -2\.000, loss 0\.0000"),
    "simulate": ([], r"h100x8: \d+ us.*\ntwice the NVLink: \d+ us"),
    "compile_and_run": ([MODEL], r"2 ranks, 1 output, largest error \d\.\de-0[4-9]"),
    "gpus": ([MODEL], r"us a step|(?i:no gpu|gpus|without cuda|driver)"),
}
MAY_FAIL = ["gpus"]


def run(*command, may_fail=False):
  result = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
  if result.returncode != 0 and not may_fail:
    sys.exit(f"{' '.join(command)}\n{result.stdout}")
  return result.stdout


def try_project(name, prefix, scratch):
  build = os.path.join(scratch, name)
  run("cmake", "-S", os.path.join(SOURCE_DIR, "tests", "install", name), "-B",
      build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}")
  run("cmake", "--build", build)
  arguments, expected = PROJECTS[name]
  said = run(os.path.join(build, name), *arguments, may_fail=name in MAY_FAIL)
  print(f"{name}: {said.strip()}")
  if not re.search(expected, said):
    sys.exit(f"{name} said {said!r}, not {expected!r}")


def main():
  with tempfile.TemporaryDirectory() as scratch:
    prefix = os.path.join(scratch, "prefix")
    run("cmake", "--install", BUILD_DIR, "--prefix", prefix, "--strip")
    for name in PROJECTS:
      try_project(name, prefix, scratch)


if __name__ == "__main__":
  main()
