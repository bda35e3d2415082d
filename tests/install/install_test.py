"""Installs the build, builds a project of its own against it, and runs it.

Usage: install_test.py BUILD_DIR PROJECT_DIR CXX_FLAGS
"""

import os
import subprocess
import sys
import tempfile

BUILD_DIR, PROJECT_DIR, CXX_FLAGS = sys.argv[1:4]


def run(*command):
  result = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
  if result.returncode != 0:
    sys.exit(f"{' '.join(command)}\n{result.stdout}")
  return result.stdout


def main():
  with tempfile.TemporaryDirectory() as scratch:
    prefix = os.path.join(scratch, "prefix")
    build = os.path.join(scratch, "build")
    run("cmake", "--install", BUILD_DIR, "--prefix", prefix)
    run("cmake", "-S", PROJECT_DIR, "-B", build,
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}")
    run("cmake", "--build", build)
    said = run(os.path.join(build, "embedding"))
    if "weights 3.000 -2.000" not in said:
      sys.exit(f"the project ran and said: {said}")


if __name__ == "__main__":
  main()
