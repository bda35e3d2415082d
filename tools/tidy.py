#!/usr/bin/env python3
"""Runs clang-tidy over the sources of the libraries and tools.

Most of its time for a source goes into the headers, which it reads and matches
anew for each. So it is given the batches of batches.py, and the sources of a
batch that does not compile one by one.

Usage: tidy.py [--one-by-one] BUILD_DIR
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

from batches import batches_of, includes, write_batches

SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# cuDNN's frontend is a header that takes minutes to look through.
SOURCES = re.compile(r"(ir|simulator|passes|executor|frontends|models|tools)/"
                     r"(?!cuda/cudnn/).*\.cc")
# For each function that takes a string by value, as many of CLI11's headers do,
# one check looks for all calls in the file: 30 s.
CLI = re.compile(r"[<\"]CLI/CLI\.")
SLOW_WITH_CLI = "--checks=-performance-unnecessary-value-param"
# Has omp.h, which clang-tidy may not come with.
GCC_HEADERS = subprocess.run(["g++", "-print-file-name=include"], text=True,
                             stdout=subprocess.PIPE, check=True).stdout.strip()
FINDING = re.compile(r"^(?P<place>\S+:\d+:\d+): (?:error|warning): .*", re.M)


def commands(build):
  """How each source is compiled: {path: arguments without its own name}."""
  with open(os.path.join(build, "compile_commands.json"),
            encoding="utf-8") as file:
    entries = json.load(file)
  found = {}
  for entry in entries:
    path = os.path.relpath(entry["file"], SOURCE_DIR)
    if SOURCES.fullmatch(path):
      flags = re.sub(r" -o \S+| -c \S+", "", entry["command"])
      found[path] = (entry["directory"], flags)
  return found


def batches_of_one_command(sources):
  """Batches of one library and one command each."""
  by_command = {}
  for path, flags in sorted(sources.items()):
    by_command.setdefault((path.split("/")[0], flags), []).append(path)
  return [batch for paths in by_command.values() for batch in batches_of(paths)]


def write_commands(build, sources, batches):
  """A file for each batch, and how it is compiled; returns their names."""
  folder = os.path.join(build, "batches")
  paths = write_batches(folder, batches)
  entries = []
  for path, batch in zip(paths, batches):
    directory, flags = sources[batch.sources[0]]
    entries.append({"directory": directory, "file": path,
                    "command": f"{flags} -c {path}"})
  with open(os.path.join(folder, "compile_commands.json"), "w",
            encoding="utf-8") as file:
    json.dump(entries, file)
  return paths


def tidy(build, path, flags):
  """Exit code and text of clang-tidy."""
  result = subprocess.run(
      ["clang-tidy", "-p", build, "-quiet", f"--extra-arg=-idirafter{GCC_HEADERS}",
       f"--config-file={SOURCE_DIR}/.clang-tidy", *flags, path], cwd=SOURCE_DIR,
      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT, text=True, check=False)
  return result.returncode, result.stdout


def tidy_batch(build, path, batch):
  """Texts of the failed runs, and whether the batch compiled."""
  with_cli = any(includes(source, CLI) for source in batch.sources)
  flags = [SLOW_WITH_CLI] if with_cli else []
  code, text = tidy(os.path.join(build, "batches"), path, flags)
  if code == 0:
    return [], True
  if "clang-diagnostic-error" not in text:
    return [text], True
  results = [tidy(build, os.path.join(SOURCE_DIR, source), flags)
             for source in batch.sources]
  return [text for code, text in results if code != 0], False


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("build", metavar="BUILD_DIR")
  parser.add_argument("--one-by-one", action="store_true")
  parser.add_argument("-j", type=int, default=os.cpu_count())
  args = parser.parse_args()
  build = os.path.abspath(args.build)
  sources = commands(build)
  batches = batches_of_one_command(sources)
  if args.one_by_one:
    batches = [batch for path in sources for batch in batches_of([path])]
  files = write_commands(build, sources, batches)
  # The longest first, so that none is left when the others have ended.
  order = sorted(range(len(batches)), reverse=True, key=lambda i: sum(
      os.path.getsize(os.path.join(SOURCE_DIR, path))
      for path in batches[i].sources))
  with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
    results = list(pool.map(
        lambda i: tidy_batch(build, files[i], batches[i]), order))
  apart = sum(len(batches[i].sources) for i, (_, together) in zip(order, results)
              if not together)
  findings, unknown = set(), []
  for texts, _ in results:
    for text in texts:
      found = [match[0] for match in FINDING.finditer(text)]
      findings.update(found)
      if not found:
        unknown.append(text)
  for line in sorted(findings) + unknown:
    print(line)
  print(f"{len(sources)} sources in {len(batches)} batches, {apart} of them "
        f"one by one: {len(findings)} findings")
  return 1 if findings or unknown else 0


if __name__ == "__main__":
  sys.exit(main())
