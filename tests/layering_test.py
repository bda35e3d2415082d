"""Checks every #include of the source tree against the layers of the design.

  ir/support <- ir <- ir/gpu <- simulator <- passes; executor includes ir and
  ir/gpu, frontends and models ir only; c, tools and tests include anything.

  ir: the files beside the folders <- memory, verify, weights; verify <- plans <-
  ops; a few files put programs and their parts together (IR_TOPS).

  simulator: machine <- cost <- replay <- report.

  passes: analysis <- rewrite <- raise, train, fuse; train <- shard; order <- tile
  <- memory and order <- transport in schedule; all of them <- search; the files
  beside these folders include all of them.

  executor: what devices, kernels and communicators are made of (DEVICE_BASE),
  tuning, cpu <- comm <- mpi, tcp <- the files beside these folders <- bench.
  Trainer (the files beside train) and train are one. Within cuda: device <-
  codegen, hopper <- cudnn, gemm, flash, packed <- kernels <- comm; some files put it all together
  (PLATFORMS).

  No circle of units that include each other has more than LARGEST_CIRCLE.

  In passes, passes/search and the folders of passes/schedule no header includes a header whose source
  includes it in turn.

Usage: layering_test.py SOURCE_DIR. Prints each offence as FILE:LINE.
"""

import pathlib
import re
import sys

# Folders of ir, and those that each may include beside "ir" and "ir/support".
IR_ARROWS = {
    "ir/memory": set(),
    "ir/plans": {"ir/verify"},
    "ir/ops": {"ir/plans"},
    # The shards of keys that rows see.
    "ir/verify": {"ir/ops/attention_places.h"},
    "ir/weights": set(),
}
# Files beside these folders that put a program and its parts together.
IR_TOPS = {"ir/interpreter.h", "ir/interpreter.cc", "ir/program_file.h",
           "ir/program_file.cc"}
IR = {"ir", "ir/support"} | set(IR_ARROWS) | IR_TOPS
IR_GPU = IR | {"ir/gpu"}

SIMULATOR_ARROWS = {
    "simulator/machine": set(),
    "simulator/cost": {"simulator/machine"},
    "simulator/replay": {"simulator/machine", "simulator/cost"},
    "simulator/report": {"simulator/machine", "simulator/cost",
                         "simulator/replay"},
}
SIMULATOR = IR_GPU | set(SIMULATOR_ARROWS)

# Folders of passes, and those that each may include.
PASS_ARROWS = {
    "passes/analysis": set(),
    "passes/rewrite": {"passes/analysis"},
    "passes/raise": {"passes/analysis", "passes/rewrite"},
    "passes/train": {"passes/analysis", "passes/rewrite"},
    "passes/shard": {"passes/analysis", "passes/rewrite", "passes/train"},
    "passes/fuse": {"passes/analysis", "passes/rewrite"},
    "passes/schedule/order": {"passes/analysis", "passes/train"},
    "passes/schedule/tile": {"passes/analysis", "passes/schedule/order",
                             "passes/pass_manager.h"},
    "passes/schedule/transport": {"passes/analysis", "passes/schedule/order",
                                  "passes/pass_manager.h"},
    "passes/schedule/memory": {"passes/analysis", "passes/train",
                               "passes/schedule/tile"},
}
# What searches among sharded and scheduled programs also runs passes by name.
PASS_ARROWS["passes/search"] = set(PASS_ARROWS) | {
    "passes/pass_manager.h", "passes/pipeline.h", "passes/compile_options.h",
    "passes/compile_result.h"}
# Of the files beside them, what a pass is made of.
PASS_BASE = {"passes/pass.h"}

# Of the files beside the folders of the executor, what devices, their kernels
# and communicators are made of.
DEVICE_BASE = {"executor/composite_kernel.h", "executor/device.h",
               "executor/failure.h", "executor/kernel.h",
               "executor/matmul_plan.h", "executor/reference.h",
               "executor/stream.h", "executor/strides.h"}
EXECUTOR_ARROWS = {
    **{header: {"executor/tuning"} for header in DEVICE_BASE},
    "executor/cpu": set(),
    "executor/comm": {"executor/cpu", "executor/tuning"},
    "executor/mpi": {"executor/comm", "executor/cpu"},
    "executor/tcp": {"executor/comm", "executor/cpu"},
    "executor": {"executor/comm", "executor/mpi", "executor/tcp",
                 "executor/train", "executor/tuning"},
    "executor/train": {"executor", "executor/comm"},
    "executor/bench": {"executor", "executor/comm"},
}
CUDA = "executor/cuda/"
CUDA_ARROWS = {
    CUDA + "device": {"executor/tuning"},
    CUDA + "gemm": {CUDA + "device", CUDA + "codegen", CUDA + "hopper",
                    "executor/tuning"},
    CUDA + "codegen": {CUDA + "device", "executor/tuning"},
    # The problems are those of our own kernels.
    CUDA + "cudnn": {CUDA + "device", CUDA + "codegen", "executor/tuning",
                     CUDA + "kernels/attention_problem.h",
                     CUDA + "kernels/conv.h"},
    CUDA + "hopper": {CUDA + "device"},
    CUDA + "flash": {CUDA + "device", CUDA + "codegen", CUDA + "hopper",
                     CUDA + "kernels/attention_problem.h"},
    CUDA + "packed": {CUDA + "device", CUDA + "codegen", CUDA + "hopper",
                      CUDA + "kernels/packed_rows.h"},
    CUDA + "kernels": {CUDA + "device", CUDA + "gemm", CUDA + "codegen",
                       CUDA + "cudnn", CUDA + "flash", CUDA + "packed"},
    CUDA + "comm": {CUDA + "device", CUDA + "codegen", CUDA + "kernels",
                    "executor/comm"},
}
# Beside what they are made of, what puts devices together and runs programs on
# them.
PLATFORMS = {"executor/cpu/run_on_cpu.h", "executor/cpu/run_on_cpu.cc",
             CUDA + "device/absent.cc", CUDA + "device/cuda_device.cc",
             CUDA + "device/cuda_platform.h", CUDA + "device/cuda_platform.cc"}

# A layer is a folder without the layers within it, or a file. It may include
# itself and these layers and files.
MAY_INCLUDE = {
    "ir/support": set(),
    "ir": {"ir/support"},
    **{folder: inner | {"ir", "ir/support"}
       for folder, inner in IR_ARROWS.items()},
    **{source: IR for source in IR_TOPS},
    # Of GPUs and their libraries, what executors go by and costs foresee.
    "ir/gpu": IR,
    **{folder: inner | IR_GPU for folder, inner in SIMULATOR_ARROWS.items()},
    "passes": SIMULATOR | set(PASS_ARROWS),
    **{folder: inner | PASS_BASE | SIMULATOR
       for folder, inner in PASS_ARROWS.items()},
    "executor/tuning": IR_GPU,
    **{folder: inner | DEVICE_BASE | IR_GPU
       for folder, inner in (EXECUTOR_ARROWS | CUDA_ARROWS).items()},
    **{source: set(EXECUTOR_ARROWS | CUDA_ARROWS) | PLATFORMS | IR_GPU
       for source in PLATFORMS},
    "frontends": IR | {"models"},
    "models": IR,
}
UNRESTRICTED = {"c", "tools", "tests"}
# Where a header and the source of a header that it includes must not depend on
# each other.
ACYCLIC = {"passes", "passes/search", "passes/schedule/memory",
           "passes/schedule/order", "passes/schedule/tile",
           "passes/schedule/transport"}
# Units that include each other in a circle, at most.
LARGEST_CIRCLE = 6
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


def layer_of(path):
  """The innermost layer that holds a file; its first folder if none does."""
  parts = path.split("/")
  for length in range(len(parts), 0, -1):
    layer = "/".join(parts[:length])
    if layer in MAY_INCLUDE:
      return layer
  return parts[0]


def allowed(layer, include):
  """Whether a file of the layer may include the path."""
  return (layer_of(include) in MAY_INCLUDE[layer] | {layer} or
          include in MAY_INCLUDE[layer])


def includes(path):
  """Yields (line, included) of each #include of the tree's own files."""
  for number, line in enumerate(path.read_text().splitlines(), 1):
    match = INCLUDE.match(line)
    if match:
      yield number, match.group(1)


def cycles(source_dir):
  """Yields (file, line, message) of headers A that include B.h, though B.cc
  includes A."""
  for folder in sorted(ACYCLIC):
    for header in sorted((source_dir / folder).glob("*.h")):
      name = header.relative_to(source_dir).as_posix()
      for number, included in includes(header):
        source = (source_dir / included).with_suffix(".cc")
        if source.exists() and name in (i for _, i in includes(source)):
          yield name, number, (f"includes {included}, whose source includes "
                               f"{name}: move what both need to a third file")


def units(source_dir):
  """Which units, a header and its source, include which others."""
  arrows = {}
  for path in sorted(source_dir.rglob("*")):
    name = path.relative_to(source_dir).as_posix()
    if path.suffix not in SUFFIXES or name.startswith(("build/", ".", "tests/")):
      continue
    unit = name.rsplit(".", 1)[0]
    others = {included.rsplit(".", 1)[0] for _, included in includes(path)
              if (source_dir / included).exists()}
    arrows.setdefault(unit, set()).update(others - {unit})
  return arrows


def circles(arrows):
  """Yields sets of units each of which includes all others of the set, by way
  of others (Kosaraju)."""
  def walk(unit, edges, seen, order):
    stack = [(unit, iter(sorted(edges.get(unit, ()))))]
    seen.add(unit)
    while stack:
      at, rest = stack[-1]
      for other in rest:
        if other not in seen:
          seen.add(other)
          stack.append((other, iter(sorted(edges.get(other, ())))))
          break
      else:
        stack.pop()
        order.append(at)

  order, seen, back = [], set(), {}
  for unit in sorted(arrows):
    for other in arrows[unit]:
      back.setdefault(other, set()).add(unit)
    if unit not in seen:
      walk(unit, arrows, seen, order)
  seen = set()
  for unit in reversed(order):
    if unit not in seen:
      circle = []
      walk(unit, back, seen, circle)
      yield set(circle)


def offences(source_dir):
  """Yields (file, line, message); also for folders that have no layer."""
  layers = set(MAY_INCLUDE) | UNRESTRICTED
  for path in sorted(source_dir.rglob("*")):
    name = path.relative_to(source_dir).as_posix()
    if path.suffix not in SUFFIXES or name.startswith(("build/", ".")):
      continue
    layer = layer_of(name)
    if layer not in layers:
      yield name, 1, f"the folder {layer} is in no layer"
      continue
    if layer in UNRESTRICTED:
      continue
    for number, included in includes(path):
      target = layer_of(included)
      ours = target in layers and "/" in included
      if ours and not allowed(layer, included):
        yield name, number, f"{layer} must not include {included}"
      if not (source_dir / included).exists() and ours:
        yield name, number, f"{included} does not exist"
      if "/" not in included:
        yield name, number, f"{included} is not named from the root"
  yield from cycles(source_dir)
  for circle in circles(units(source_dir)):
    if len(circle) > LARGEST_CIRCLE:
      yield min(circle), 1, f"a circle of {len(circle)}: {sorted(circle)}"


def self_test():
  """The checker finds what it should; run first, in a scratch folder."""
  import tempfile
  with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    files = {
        "ir/a.h": '#include "ir/support/s.h"\n',
        "ir/b.h": '#include "ir/gpu/g.h"\n',
        "ir/gpu/g.h": '#include "ir/a.h"\n',
        "ir/support/s.h": '#include <vector>\n  # include "ir/a.h"\n',
        "passes/p.cc": '#include "simulator/cost/m.h"\n#include "ir/a.h"\n',
        "passes/pass.h": '#include "passes/raise/r.h"\n',
        "passes/raise/r.h": '#include "passes/pass.h"\n',
        "passes/analysis/a.h": '#include "passes/raise/r.h"\n',
        "passes/schedule/order/s.h": '#include "passes/raise/r.h"\n',
        "passes/schedule/order/x.h": '#include "passes/schedule/order/y.h"\n',
        "passes/schedule/order/y.h": "",
        "passes/schedule/order/y.cc": '#include "passes/schedule/order/x.h"\n',
        "simulator/cost/m.h": '#include "passes/p.h"\n',
        "executor/e.cu": '#include "simulator/cost/m.h"\n#include "e.h"\n',
        "executor/kernel.h": '#include "executor/tuning/t.h"\n',
        "executor/tuning/t.h": '#include "executor/kernel.h"\n',
        "executor/cuda/gemm/g.h": '#include "executor/kernel.h"\n',
        "executor/cuda/device/d.h": '#include "executor/cuda/gemm/g.h"\n',
        "executor/cuda/device/cuda_device.cc":
            '#include "executor/cuda/gemm/g.h"\n',
        "common/c.h": "",
        "tests/t.cc": '#include "passes/p.h"\n',
    }
    for name, text in files.items():
      path = root / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(text)
    found = [(name, line) for name, line, _ in offences(root)]
    expected = [("common/c.h", 1), ("executor/cuda/device/d.h", 1),
                ("executor/e.cu", 1), ("executor/e.cu", 2),
                ("executor/tuning/t.h", 1),
                ("ir/b.h", 1), ("ir/support/s.h", 2),
                ("passes/analysis/a.h", 1),
                ("passes/schedule/order/s.h", 1), ("simulator/cost/m.h", 1),
                ("simulator/cost/m.h", 1), ("passes/schedule/order/x.h", 1)]
    chain = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
  if {"a", "b", "c"} not in list(circles(chain)):
    sys.exit("the layering check does not find a circle")
  if found != expected:
      sys.exit(f"the layering check itself is wrong: it finds {found}")


def main():
  self_test()
  found = list(offences(pathlib.Path(sys.argv[1])))
  for name, line, message in found:
    print(f"{name}:{line}: {message}")
  if found:
    sys.exit(f"{len(found)} includes against the layers of the design")


if __name__ == "__main__":
  main()
