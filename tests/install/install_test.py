"""Installs the build, builds each project of this folder against it, and runs
it. Compiles a source of a project that adds this one as a subdirectory.

Usage: install_test.py SOURCE_DIR BUILD_DIR CXX_FLAGS
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

SOURCE_DIR, BUILD_DIR, CXX_FLAGS = sys.argv[1:4]
MODEL = os.path.join(SOURCE_DIR, "models", "gpt2-tiny-op23")
# Of a file that does not change: the loss of a batch depends on what it has.
TEXT = os.path.join(SOURCE_DIR, "LICENSE")
# Each with its arguments and what it prints. That of GPUs prints why it cannot
# run where there are not two.
PROJECTS = {
    "training_step": ([], r"weights 3\.000 -2\.000, loss 0\.0000"),
    "simulate": ([], r"h100x8: \d+ us.*\ntwice the NVLink: \d+ us"),
    "compile_and_run": ([MODEL], r"2 ranks, 1 output, largest error \d\.\de-0[4-9]"),
    "c_api": ([os.path.join(MODEL, "model.onnx"), "{training}", TEXT, "{scratch}/c"],
              r"2 ranks, \d+ us\nlogits -?\d.*\nsteps 1 to 20: loss .*\n"
              r"steps 21 to 40: loss "),
    "train_gpt": ([TEXT, "40", "{scratch}/gpt"],
                  r"step 20 loss \d\.\d+\nstep 40 loss [0-4]\.\d"),
    "gpus": ([MODEL], r"us a step|(?i:no gpu|gpus|no cuda|driver)"),
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
  training = os.path.join(scratch, "training")
  arguments = [argument.format(training=training, scratch=scratch)
               for argument in arguments]
  said = run(os.path.join(build, name), *arguments, may_fail=name in MAY_FAIL)
  print(f"{name}: {said.strip()}")
  if not re.search(expected, said):
    sys.exit(f"{name} said {said!r}, not {expected!r}")


def try_python(prefix, scratch):
  """The shared library of C, from Python; it exports nothing but asyra.h."""
  (library,) = glob.glob(os.path.join(prefix, "lib*", "**", "libasyra_c.so"),
                         recursive=True)
  major = re.search(r"VERSION_MAJOR (\d+)",
                    open(os.path.join(SOURCE_DIR, "c", "asyra.h")).read())[1]
  soname = f"libasyra_c.so.{major}"
  if f"[{soname}]" not in run("readelf", "-d", library):
    sys.exit(f"{library}: its soname is not {soname}")
  lines = run("nm", "-D", "--defined-only", library).splitlines()
  exported = {line.split()[-1].split("@")[0] for line in lines}
  declared = set(re.findall(
      r"\b(asyra_\w+)\(",
      open(os.path.join(SOURCE_DIR, "c", "asyra.h")).read()))
  # With the name of its version.
  if exported - {"ASYRA_2"} != declared:
    sys.exit(f"{library} exports, or lacks: {exported ^ declared}")
  said = run(sys.executable,
             os.path.join(SOURCE_DIR, "tests", "install", "from_python",
                          "main.py"),
             os.path.join(os.path.dirname(library), soname),
             os.path.join(MODEL, "model.onnx"),
             os.path.join(scratch, "training"), TEXT)
  print(f"from_python: {said.strip()}")
  expected = (r"\d+ us simulated\nlogits -?\d.*\n.*no built-in model.*\n"
              r"steps 1 to 20: loss (\S+) to (\S+)")
  found = re.search(expected, said)
  if not found or float(found[2]) > 0.8 * float(found[1]):
    sys.exit(f"from_python said {said!r}")


def try_plugin(prefix, scratch):
  """Archives of the package in a shared library of another project."""
  build = os.path.join(scratch, "plugin")
  run("cmake", "-S", os.path.join(SOURCE_DIR, "tests", "install", "plugin"),
      "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
      f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}")
  run("cmake", "--build", build)
  said = run(sys.executable, "-c", f"""import ctypes
plugin = ctypes.CDLL({os.path.join(build, "libplugin.so")!r})
plugin.plugin_twice.restype = ctypes.c_double
print(plugin.plugin_twice(ctypes.c_double(21)))""")
  print(f"plugin: {said.strip()}")
  if said != "42.0\n":
    sys.exit(f"plugin said {said!r}")


SUBDIRECTORY = """cmake_minimum_required(VERSION 3.25)
project(application LANGUAGES CXX)
add_subdirectory({source} asyra)
if(TARGET GTest::gtest OR TARGET ir_test)
  message(FATAL_ERROR "the tests came along")
endif()
add_executable(application {source}/tests/install/training_step/main.cc)
target_link_libraries(application PRIVATE asyra::executor)
"""


def try_subdirectory(scratch):
  """Without building the libraries, which takes minutes."""
  folder = os.path.join(scratch, "application")
  os.mkdir(folder)
  with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
    file.write(SUBDIRECTORY.format(source=SOURCE_DIR))
  build = os.path.join(folder, "build")
  run("cmake", "-G", "Ninja", "-S", folder, "-B", build, "-DASYRA_CUDA=OFF",
      f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}")
  outputs = run("ninja", "-C", build, "-t", "targets", "all")
  name = re.search(r"^(CMakeFiles/application\.dir/.*\.o):", outputs, re.M)[1]
  run("cmake", "--build", build, "--target", name)
  print("subdirectory: compiled")


def main():
  with tempfile.TemporaryDirectory() as scratch:
    prefix = os.path.join(scratch, "prefix")
    run("cmake", "--install", BUILD_DIR, "--prefix", prefix, "--strip")
    # The folder that c_api trains.
    run(os.path.join(prefix, "bin", "asyra-opt"), "gpt3-tiny", "--train",
        "--dp", "2", "--search-steps", "20", "-o",
        os.path.join(scratch, "training"))
    for name in PROJECTS:
      try_project(name, prefix, scratch)
    try_python(prefix, scratch)
    try_plugin(prefix, scratch)
    try_subdirectory(scratch)


if __name__ == "__main__":
  main()
