#!/usr/bin/env python3
"""Writes sources that may be compiled as one into batches.

Most of the time for a source goes into the headers. A batch is a file that
includes some sources. Where a name in an unnamed namespace of one is also one
of another, or in its headers, the batch gives it another name: a macro, around
the one source, after the headers of all. Names that this would also change
elsewhere, in headers or behind `::`, `.` and `->`, and those that GTest prints,
stay what they are; such sources go into different batches, and so do those that
say `using namespace`. CMake compiles batches (ASYRA_UNITY), and clang-tidy reads
them (tools/tidy.py).

Usage: batches.py DIR SOURCE... Writes the batches to DIR and prints their names.
"""

import functools
import os
import re
import sys

SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SIZE = 24  # sources; larger ones save little more, and take longer to end
# Templates of these are compiled anew in each batch: sources that use them go
# together.
HEAVY = re.compile(r"[<\"](?:nlohmann/json|CLI/CLI|cudnn_frontend)\.")

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
ANY_INCLUDE = re.compile(r"^#include .*\n", re.M)
LOCAL = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (\w+)", re.M)
OTHER = re.compile(
    r"^(?!template|struct|class|union|enum|static_assert|using [\w:]+;"
    r"|[A-Z_]+\(|//|[}#])"
    r"[^\s(=\[{;]"
    r"[^(=\[{;\n]*?(\w+)\s*(?:[(=\[{;]|$)", re.M)
UNSCOPED = re.compile(r"^enum(?! class)[^{;]*\{(.*?)\}", re.M | re.S)
ENUMERATOR = re.compile(r"(?:^|,)\s*(\w+)")
USING = re.compile(r"^using namespace", re.M)
MACRO = re.compile(r"^#define (\w+)", re.M)
CONDITION = re.compile(r"^ *# *if", re.M)
COMMENT = re.compile(r"//.*")
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)
# What this project calls functions, types and constants.
OURS = re.compile(r"(?:k[A-Z]|[A-Z]\w*[a-z])\w*")
# After which a name is not the local one, or is printed.
NOT_OURS = re.compile(
    r"(?:::|\.|->)\s*(\w+)"
    r"|\b(?:TEST\w*|INSTANTIATE\w+|TYPED_TEST\w*)\(\s*(?:\w+,\s*)?(\w+)")
IN_MACROS_OF_GTEST = {"Message", "Test", "TestInfo"}


@functools.cache
def text_of(path):
  with open(os.path.join(SOURCE_DIR, path), encoding="utf-8") as file:
    return RAW_STRING.sub("", file.read())


def names_in(text):
  names = {*TYPE.findall(text), *OTHER.findall(text)}
  for body in UNSCOPED.findall(text):
    names.update(ENUMERATOR.findall(COMMENT.sub("", body)))
  return names


@functools.cache
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


@functools.cache
def header_names(header):
  return names_in(text_of(header))


@functools.cache
def header_words(header):
  return set(re.findall(r"\w+", COMMENT.sub("", text_of(header))))


@functools.cache
def seen_names(path):
  """Names in the headers of the source."""
  return set().union(*map(header_names, headers_of(path)))


@functools.cache
def movable_names(path):
  """Local names that a macro may change."""
  text = COMMENT.sub("", text_of(path))
  if CONDITION.search(text):
    return set()  # its headers depend on it
  names = {name for name in local_names(path) if OURS.fullmatch(name)}
  names -= set(MACRO.findall(text)) | IN_MACROS_OF_GTEST
  for found in NOT_OURS.findall(text):
    names -= set(found)
  return names.difference(*map(header_words, headers_of(path)))


class Batch:
  """Sources, with the names that are changed in each."""

  def __init__(self):
    self.sources = []
    self.changed = {}  # by source

  def local(self, path):
    return local_names(path) - self.changed.get(path, set())

  def add(self, path):
    """Whether it can be one more."""
    if len(self.sources) == SIZE:
      return False
    change = {}
    for other in self.sources:
      # Of two local ones, that of the later source changes.
      mine = local_names(path) & (self.local(other) | seen_names(other))
      others = self.local(other) & seen_names(path)
      if mine - movable_names(path) or others - movable_names(other):
        return False
      change.setdefault(path, set()).update(mine)
      change.setdefault(other, set()).update(others)
    self.sources.append(path)
    for source, names in change.items():
      self.changed.setdefault(source, set()).update(names)
    return True

  def text(self):
    parts = []
    if any(self.changed.values()):
      for path in self.sources:
        if not CONDITION.search(text_of(path)):
          parts += ANY_INCLUDE.findall(text_of(path))
    parts = list(dict.fromkeys(parts))
    for path in self.sources:
      names = sorted(self.changed.get(path, ()))
      short = os.path.relpath(os.path.join(SOURCE_DIR, path), SOURCE_DIR)
      suffix = re.sub(r"\W", "_", os.path.splitext(short)[0])
      parts += [f"#define {name} {name}_{suffix}\n" for name in names]
      parts.append(f'#include "{short}"\n')
      parts += [f"#undef {name}\n" for name in names]
    return "".join(parts)


def includes(path, pattern):
  """Whether the source matches, or a header of the tree that it includes."""
  return any(pattern.search(text_of(file)) for file in {path, *headers_of(path)})


def batches_of(sources):
  """Batches of the paths, which are relative to the tree's root or absolute."""
  batches = []
  groups = [sources]
  if len(sources) > SIZE:
    groups = [[path for path in sources if includes(path, HEAVY) == heavy]
              for heavy in (False, True)]
  for group in groups:
    of_group = []
    for path in group:
      alone = USING.search(text_of(path))
      if alone or not any(batch.add(path) for batch in of_group):
        batch = Batch()
        batch.add(path)
        (batches if alone else of_group).append(batch)
    batches += of_group
  return batches


def write_if_changed(path, text):
  try:
    with open(path, encoding="utf-8") as file:
      if file.read() == text:
        return
  except FileNotFoundError:
    pass
  with open(path, "w", encoding="utf-8") as file:
    file.write(text)


def write_batches(folder, batches):
  """Their paths."""
  os.makedirs(folder, exist_ok=True)
  paths = []
  for number, batch in enumerate(batches):
    paths.append(os.path.join(folder, f"batch{number}.cc"))
    write_if_changed(paths[-1], batch.text())
  return paths


if __name__ == "__main__":
  for written in write_batches(sys.argv[1], batches_of(sys.argv[2:])):
    print(written)
