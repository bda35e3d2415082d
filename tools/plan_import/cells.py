"""What chunks lie in the memory of the ranks while a schedule is followed."""

import dataclasses

from plan_import.refusal import Refusal
from plan_import.schedule import Action, Memory, Region, is_before


@dataclasses.dataclass(eq=False)
class Version:
  """What a cell holds from one write to the next. `action` is what makes it,
  `thread`, `position` where its writer is, `readers` their clocks."""
  chunk: tuple
  summands: frozenset
  memory: Memory
  action: Action = None
  thread: object = None
  position: int = -1
  place: str = "the beginning"
  readers: list = dataclasses.field(default_factory=list)


def describe(chunk, summands, ranks):
  group, index = chunk
  text = f"chunk {index}"
  if group is not None:
    text += f" from {group[0]} to {group[1]}"
  if len(summands) < ranks:
    text += " summed over " + ", ".join(map(str, sorted(summands)))
  return text


class Cells:
  """Cells by (rank, buffer, index). `wanted` has for each cell of a result the
  chunk it ends with."""

  def __init__(self, ranks, kind, wanted):
    self.ranks, self.kind, self.wanted = ranks, kind, wanted
    self.all = frozenset(range(ranks))
    self.actions = []
    self._cells, self._in_result = {}, set()
    self._base = {}

  def base(self, rank, role):
    """The memory of the operand, of what is moved, or of the result."""
    return self._base.setdefault((rank, role), Memory(rank, role))

  def begin(self, cell, chunk):
    """Puts into a cell what the rank has before the schedule begins."""
    partial = self.kind in ("reduce_scatter", "all_reduce")
    role = "operand" if self.kind == "all_gather" else "moved"
    summands = frozenset([cell[0]]) if partial else self.all
    self._cells[cell] = Version(chunk, summands, self.base(cell[0], role))
    # A gather's own chunk in place of the result is read where it is.
    if self.kind == "all_gather" and self.wanted.get(cell) == chunk:
      self._in_result.add((cell[0], chunk))

  def read(self, cell, clock, place):
    """The version in a cell; refuses one that nothing orders before."""
    version = self._cells.get(cell)
    rank, buffer, index = cell
    if version is None:
      raise Refusal(f"{place}: reads {buffer}[{index}], which nothing wrote")
    if version.thread is not None and not is_before(
        version.thread, version.position, clock):
      raise Refusal(f"{place}: reads {buffer}[{index}] of {version.place}, and "
                    "nothing orders it behind that")
    version.readers.append((clock, place))
    return version

  def write(self, cells, chunks, summands, at):
    """The regions in which a step puts chunks into cells, and for each region
    the cells of it: runs in one memory. `at` is (thread, position, clock,
    place). The action is to be set by `made`."""
    runs = []
    for cell, chunk, of in zip(cells, chunks, summands):
      self._check_order(cell, at)
      result = self._is_first_result(cell, chunk, of)
      last = runs[-1] if runs else None
      follows = last and (last["result"], last["of"]) == (result, of) and (
          last["chunks"][-1] == (chunk[0], chunk[1] - 1))
      if not follows:
        last = {"result": result, "of": of, "chunks": [], "cells": []}
        runs.append(last)
      last["chunks"].append(chunk)
      last["cells"].append(cell)
    for run in runs:
      self._place(run, at)
    return runs

  def _place(self, run, at):
    thread, position, _, place = at
    rank = run["cells"][0][0]
    group, first = run["chunks"][0]
    span = (group, first, len(run["chunks"]))
    if run["result"]:
      memory = self.base(rank, "result")
    else:
      memory = Memory(rank, "scratch", run["of"], span)
    run["region"] = Region(memory, span)
    run["versions"] = []
    for cell, chunk in zip(run["cells"], run["chunks"]):
      version = Version(chunk, run["of"], memory, None, thread, position, place)
      self._cells[cell] = version
      run["versions"].append(version)

  @staticmethod
  def made(run, action):
    for version in run["versions"]:
      version.action = action

  def _is_first_result(self, cell, chunk, summands):
    if self.wanted.get(cell) != chunk or summands != self.all:
      return False
    key = (cell[0], chunk)
    if key in self._in_result:
      return False
    self._in_result.add(key)
    return True

  def _check_order(self, cell, at):
    _, _, clock, place = at
    old = self._cells.get(cell)
    if old is None:
      return
    _, buffer, index = cell
    if old.thread is not None and not is_before(old.thread, old.position,
                                                clock):
      raise Refusal(f"{place}: writes {buffer}[{index}], as {old.place} does, "
                    "and nothing orders them")
    for reader, where in old.readers:
      if any(clock.get(key, -1) < value for key, value in reader.items()):
        raise Refusal(f"{place}: writes {buffer}[{index}], which {where} may "
                      "still read: nothing orders them")

  def finish(self, place_of, name_of):
    """Checks that every cell of a result ends with its chunk."""
    for cell, chunk in self.wanted.items():
      rank, buffer, index = cell
      version = self._cells.get(cell)
      has = "nothing" if version is None else describe(
          version.chunk, version.summands, self.ranks)
      if version is not None and (version.chunk, version.summands) == (
          chunk, self.all):
        continue
      raise Refusal(f"{place_of(rank)}: {buffer}[{index}] ends with {has}, "
                    f"{name_of} puts {describe(chunk, self.all, self.ranks)} "
                    "there")

  def untouched(self):
    """Cells of results that the schedule never writes, with their chunk."""
    for cell, chunk in self.wanted.items():
      if (cell[0], chunk) not in self._in_result:
        yield cell, self._cells[cell]


def source_runs(versions):
  """Splits versions into (first, count) of runs that lie behind each other in
  one memory."""
  runs = []
  for k, version in enumerate(versions):
    before = versions[k - 1] if k else None
    if before and (before.memory, before.summands) == (
        version.memory, version.summands) and before.chunk == (
            version.chunk[0], version.chunk[1] - 1):
      runs[-1][1] += 1
    else:
      runs.append([k, 1])
  return runs
