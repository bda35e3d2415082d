"""Checks every #include of the source tree against the layers of the design.

  ir/support <- ir <- ir/gpu <- simulator <- passes; executor includes ir and
  ir/gpu, frontends and models ir only; c, tools and tests include anything.
  Within passes: analysis <- rewrite <- raise, train, fuse; train <- shard; all
  of them <- schedule; the files beside these folders include all of them.

Usage: layering_test.py SOURCE_DIR. Prints each offence as FILE:LINE.
"""

import pathlib
import re
import sys

# Folders of passes, and those that each may include.
PASS_ARROWS = {
    "passes/analysis": set(),
    "passes/rewrite": {"passes/analysis"},
    "passes/raise": {"passes/analysis", "passes/rewrite"},
    "passes/train": {"passes/analysis", "passes/rewrite"},
    "passes/shard": {"passes/analysis", "passes/rewrite", "passes/train"},
    "passes/fuse": {"passes/analysis", "passes/rewrite"},
    "passes/schedule": {"passes/analysis", "passes/rewrite", "passes/shard",
                        "passes/train", "passes/fuse"},
}
PASSES = set(PASS_ARROWS)
# Of the files beside them, what a pass is made of; and what searches among
# schedules also runs passes by name.
PASS_BASE = {"passes/pass.h"}
SCHEDULE_BASE = {"passes/pass_manager.h", "passes/pipeline.h"}
IR = {"ir", "ir/support"}
MAY_INCLUDE = {
    "ir/support": {"ir/support"},
    "ir": IR,
    # Of GPUs and their libraries, what executors go by and costs foresee.
    "ir/gpu": {"ir/gpu"} | IR,
    "simulator": {"simulator", "ir/gpu"} | IR,
    "passes": {"passes", "simulator", "ir/gpu"} | IR | PASSES,
    **{
        folder: inner | {folder, "simulator", "ir/gpu"} | IR
        for folder, inner in PASS_ARROWS.items()
    },
    "executor": {"executor", "ir/gpu"} | IR,
    "frontends": {"frontends"} | IR,
    "models": {"models"} | IR,
}
UNRESTRICTED = {"c", "tools", "tests"}
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


def layer_of(path):
  """The folder, of those with rules of their own the innermost one."""
  inner = "/".join(path.split("/")[:2])
  return inner if inner in MAY_INCLUDE else path.split("/", 1)[0]


def allowed(layer, include):
  """Whether a file of the layer may include the path."""
  if layer in PASSES and include in PASS_BASE:
    return True
  if layer == "passes/schedule" and include in SCHEDULE_BASE:
    return True
  return layer_of(include) in MAY_INCLUDE[layer]


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
    for number, line in enumerate(path.read_text().splitlines(), 1):
      match = INCLUDE.match(line)
      if not match:
        continue
      target = layer_of(match.group(1))
      ours = target in layers and "/" in match.group(1)
      if ours and not allowed(layer, match.group(1)):
        yield name, number, f"{layer} must not include {match.group(1)}"
      if not (source_dir / match.group(1)).exists() and ours:
        yield name, number, f"{match.group(1)} does not exist"
      if "/" not in match.group(1):
        yield name, number, f"{match.group(1)} is not named from the root"


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
        "passes/p.cc": '#include "simulator/m.h"\n#include "ir/a.h"\n',
        "passes/pass.h": '#include "passes/raise/r.h"\n',
        "passes/raise/r.h": '#include "passes/pass.h"\n',
        "passes/analysis/a.h": '#include "passes/raise/r.h"\n',
        "passes/schedule/s.h": '#include "passes/raise/r.h"\n',
        "simulator/m.h": '#include "passes/p.h"\n',
        "executor/e.cu": '#include "simulator/m.h"\n#include "e.h"\n',
        "common/c.h": "",
        "tests/t.cc": '#include "passes/p.h"\n',
    }
    for name, text in files.items():
      path = root / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(text)
    found = [(name, line) for name, line, _ in offences(root)]
    expected = [("common/c.h", 1), ("executor/e.cu", 1), ("executor/e.cu", 2),
                ("ir/b.h", 1), ("ir/support/s.h", 2), ("passes/analysis/a.h", 1),
                ("passes/schedule/s.h", 1), ("simulator/m.h", 1),
                ("simulator/m.h", 1)]
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
