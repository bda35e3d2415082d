"""Tables of simulated steps in a page of docs/results.

A tool lists the rows of each table. A row knows the steps that it needs and how
they become a line; the last lines of a table are made from the lines above, so
that they can be checked without the steps. Each table is between two markers of
the page, `<!-- NAME -->` and `<!-- end of NAME -->`.

Flags of such a tool: --build DIR, where tools/asyra-opt is; --jobs N; --check,
which compares without writing: heads, last lines, and the rows whose steps it
runs again, the first and every Table.check_every-th after it.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from typing import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclasses.dataclass(frozen=True)
class Step:
  """A step to simulate: a program's text or a model's name, and flags."""

  program: str
  flags: tuple

  def run(self, build):
    """What asyra-opt reports as JSON; None if the step does not fit."""
    with tempfile.TemporaryDirectory() as folder:
      path = self.program
      if "\n" in path:
        path = os.path.join(folder, "step.asyra")
        with open(path, "w") as file:
          file.write(self.program)
      args = [os.path.join(build, "tools", "asyra-opt"), path, *self.flags,
              "--report", "json"]
      run = subprocess.run(args, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL)
    if run.returncode == 0:
      return json.loads(run.stdout)
    if "fit" in run.stderr:
      return None
    sys.exit(f"{' '.join(args)}: {run.stderr}\n{self.program}")


@dataclasses.dataclass
class Row:
  steps: list  # of Step
  line: Callable  # from what the steps report, in this order, to a line


@dataclasses.dataclass
class Table:
  name: str
  head: list  # of names of columns
  rows: list  # of Row
  last: Callable = lambda lines: []  # from the lines of rows to the last ones
  # From the lines of rows to what may not be, each a sentence.
  faults: Callable = lambda lines: []
  check_every: int = 1

  def checked(self):
    return range(0, len(self.rows), self.check_every)


def line(*cells):
  return "| " + " | ".join(str(cell) for cell in cells) + " |"


def cells(text):
  """The cells of a line."""
  return [cell.strip() for cell in text.strip().strip("|").split("|")]


def mean(values):
  """The geometric mean."""
  values = list(values)
  return math.exp(sum(map(math.log, values)) / len(values))


class Page:
  """A page's text and where its tables are."""

  def __init__(self, path):
    self.path = path
    with open(path) as file:
      self.text = file.read()

  def _place(self, name):
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in self.text or end not in self.text:
      sys.exit(f"{self.path}: no markers of table {name}")
    return self.text.index(begin) + len(begin) + 1, self.text.index(end)

  def lines(self, name):
    begin, end = self._place(name)
    return self.text[begin:end].splitlines()

  def put(self, name, lines):
    begin, end = self._place(name)
    self.text = self.text[:begin] + "\n".join(lines) + "\n" + self.text[end:]

  def write(self):
    with open(self.path, "w") as file:
      file.write(self.text)


def run_all(steps, build, jobs):
  """Reports by step; each step runs once."""
  steps = list(dict.fromkeys(steps))
  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    return dict(zip(steps, pool.map(lambda step: step.run(build), steps)))


def head_of(table):
  return [line(*table.head), "|" + " --- |" * len(table.head)]


def differences(table, page, reports):
  """What is wrong with a table of the page: lines that are not what the checked
  rows and the last lines should be, and faults."""
  there = page.lines(table.name)
  head = head_of(table)
  expected = list(there[len(head):len(head) + len(table.rows)])
  if len(expected) < len(table.rows):
    return [f"{page.path}: table {table.name} has {len(expected)} rows, "
            f"not {len(table.rows)}"]
  for i in table.checked():
    row = table.rows[i]
    expected[i] = row.line(*[reports[step] for step in row.steps])
  faults = table.faults(expected)
  expected = head + expected + table.last(expected)
  expected += [""] * (len(there) - len(expected))
  there += [""] * (len(expected) - len(there))
  place = f"{page.path}: table {table.name}"
  return ([f"{place} has\n  {old}\nwhere now is\n  {new}"
           for old, new in zip(there, expected) if old != new] +
          [f"{place}: {fault}" for fault in faults])


def main(page_path, tables, doc):
  """Writes or checks the page, as the flags say; the exit status."""
  parser = argparse.ArgumentParser(
      description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--jobs", type=int, default=os.cpu_count())
  parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
  parser.add_argument("--check", action="store_true")
  flags = parser.parse_args()
  page = Page(page_path)
  of_table = lambda table: table.checked() if flags.check else range(
      len(table.rows))
  reports = run_all(
      [step for table in tables for i in of_table(table)
       for step in table.rows[i].steps], flags.build, flags.jobs)
  if not flags.check:
    for table in tables:
      rows = [row.line(*[reports[step] for step in row.steps])
              for row in table.rows]
      page.put(table.name, head_of(table) + rows + table.last(rows))
    page.write()
  wrong = [text for table in tables
           for text in differences(table, page, reports)]
  for text in wrong:
    print(text)
  return 1 if wrong else 0
