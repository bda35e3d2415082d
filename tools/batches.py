#!/usr/bin/env python3
"""Finds sources that may be compiled as one.

Most of the time for a source goes into the headers. A batch is a file that
includes some sources: no local name of one is a local name of another, or in
its headers, and none says `using namespace`. CMake compiles batches
(ASYRA_UNITY), and clang-tidy reads them (tools/tidy.py).

Usage: batches.py SOURCE... Prints each batch as a line, its sources apart by
commas.
"""

import functools
import os
import re
import sys

SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SIZE = 12  # sources; larger ones save little more, and take longer to end

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
LOCAL = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (\w+)", re.M)
OTHER = re.compile(
    r"^(?!template|struct|class|union|enum|using [\w:]+;|[A-Z_]+\(|//|[}#])"
    r"[^\s(=\[{;]"
    r"[^(=\[{;\n]*?(\w+)\s*(?:[(=\[{;]|$)", re.M)
USING = re.compile(r"^using namespace", re.M)
MACRO = re.compile(r"^#define (\w+)", re.M)
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)


@functools.cache
def text_of(path):
  with open(os.path.join(SOURCE_DIR, path), encoding="utf-8") as file:
    return RAW_STRING.sub("", file.read())


def names_in(text):
  return {*TYPE.findall(text), *OTHER.findall(text)}


def local_names(path):
  """Names of the source alone."""
  names = set(MACRO.findall(text_of(path)))
  for block in LOCAL.findall(text_of(path)):
    names |= names_in(block)
  return names


@functools.cache
def headers_of(path):
  """The headers that the file includes of the tree, and those that these do."""
  headers = {header for header in INCLUDE.findall(text_of(path))
             if os.path.exists(os.path.join(SOURCE_DIR, header))}
  return headers.union(*map(headers_of, headers))


def seen_names(path):
  """Names in the headers of the source."""
  return set().union(*(names_in(text_of(header)) for header in headers_of(path)))


def batches_of(sources):
  """Lists of the paths in which no two sources clash."""
  batches = []  # of (local names, those in headers, sources)
  alone = [path for path in sources if USING.search(text_of(path))]
  for path in sources:
    if path in alone:
      continue
    local, seen = local_names(path), seen_names(path)
    for batch_local, batch_seen, batch in batches:
      if (len(batch) < SIZE and not local & (batch_local | batch_seen) and
          not batch_local & seen):
        batch.append(path)
        batch_local |= local
        batch_seen |= seen
        break
    else:
      batches.append((local, seen, [path]))
  return [batch for _, _, batch in batches] + [[path] for path in alone]


if __name__ == "__main__":
  for batch in batches_of(sys.argv[1:]):
    print(",".join(batch))
