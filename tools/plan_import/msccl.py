"""Follows an algorithm of MSCCL on all GPUs, chunk by chunk.

Thread blocks run their steps in order. A step may wait for one of another block
of its GPU (depid, deps). The k-th step that sends from one GPU to another on a
channel goes with the k-th one that receives there. What a step reads is what
its place in memory holds at that time; two steps that use a place with no order
between them are refused.
"""

from plan_import import msccl_xml
from plan_import.cells import Cells, describe, source_runs
from plan_import.schedule import (Action, Memory, Region, Schedule, clock_after,
                                  topological)


class Follower:

  def __init__(self, algo):
    self.algo = algo
    self.ranks = algo.values["ngpus"]
    self.chunks = algo.values["nchunksperloop"]
    self.parts = self.chunks // self.ranks
    self.kind = msccl_xml.COLLECTIVES[algo.values["coll"]]
    self.inplace = algo.values["inplace"] == 1
    self.cells = Cells(self.ranks, self.kind, self._wanted())
    self.waits = 0
    self._actions = []  # (position of its node, number there, action)
    self._sent = {}     # by node that sends: [versions]
    self._clocks = {}

  # Places ------------------------------------------------------------------

  def _wanted(self):
    """For each cell of a result the chunk that the collective puts there."""
    wanted = {}
    for rank in range(self.ranks):
      if self.kind in ("all_gather", "all_reduce"):
        chunks = [(None, k) for k in range(self.chunks)]
      elif self.kind == "reduce_scatter":
        chunks = [(None, rank * self.parts + k) for k in range(self.parts)]
      else:
        chunks = [((source, rank), k) for source in range(self.ranks)
                  for k in range(self.parts)]
      for index, chunk in enumerate(chunks):
        wanted[self._cell(rank, "o", index)] = chunk
    return wanted

  def _begin(self):
    for rank in range(self.ranks):
      if self.kind == "all_gather":
        chunks = [(None, rank * self.parts + k) for k in range(self.parts)]
      elif self.kind == "all_to_all":
        chunks = [((rank, to), k) for to in range(self.ranks)
                  for k in range(self.parts)]
      else:
        chunks = [(None, k) for k in range(self.chunks)]
      for index, chunk in enumerate(chunks):
        self.cells.begin(self._cell(rank, "i", index), chunk)

  def _cell(self, rank, buffer, index):
    """The cell of a place; in place, input and output share theirs."""
    if self.inplace:
      if self.kind == "all_gather" and buffer == "i":
        return (rank, "o", rank * self.parts + index)
      if self.kind == "reduce_scatter" and buffer == "o":
        return (rank, "i", rank * self.parts + index)
      if buffer == "o" and self.kind in ("all_reduce", "all_to_all"):
        return (rank, "i", index)
    return (rank, buffer, index)

  def _cells_of(self, step, which):
    """The cells that a step names as src or dst."""
    rank = self.rank_of[step]
    buffer = step.values[which + "buf"]
    first, count = step.values[which + "off"], step.values["cnt"]
    gather, scatter = (self.kind == "all_gather",
                       self.kind == "reduce_scatter")
    size = {"i": self.parts if gather else self.chunks,
            "o": self.parts if scatter else self.chunks,
            "s": self.algo.children[rank].values["s_chunks"]}[buffer]
    if first < 0 or first + count > size:
      step.refuse(f"{which} is {buffer}[{first}:{first + count}], {buffer} has "
                  f"{size} chunks")
    return [self._cell(rank, buffer, first + k) for k in range(count)]

  # Order -------------------------------------------------------------------

  def _collect(self):
    """Lists the steps, what each has to wait for, and who receives."""
    self.rank_of, self.block_of, self.before = {}, {}, {}
    self.sender = {}  # by the step that receives
    steps = []
    for gpu in self.algo.children:
      for tb in gpu.children:
        for k, step in enumerate(tb.children):
          steps.append(step)
          self.rank_of[step] = gpu.values["id"]
          self.block_of[step] = tb
          self.before[step] = [tb.children[k - 1]] if k else []
    for gpu in self.algo.children:
      for tb in gpu.children:
        for step in tb.children:
          self._add_dependence(gpu, tb, step)
    self._match()
    return steps

  def _add_dependence(self, gpu, tb, step):
    block, number = step.values["depid"], step.values["deps"]
    if block < 0:
      return
    if block >= len(gpu.children) or not (
        0 <= number < len(gpu.children[block].children)):
      step.refuse(f"it waits for step {number} of tb {block}, which is not "
                  "there")
    other = gpu.children[block].children[number]
    if gpu.children[block] is tb and number >= step.values["s"]:
      step.refuse(f"it waits for step {number} of its own tb, which comes "
                  "later")
    if other.values["hasdep"] != 1:
      step.refuse(f"it waits for step {number} of tb {block}, line "
                  f"{other.line}, whose hasdep is 0: it never tells")
    self.waits += 1
    self.before[step].append(other)

  def _match(self):
    """Pairs sends and receives, in their order on each channel."""
    blocks = {}
    for gpu in self.algo.children:
      for tb in gpu.children:
        for key in ("send", "recv"):
          peer = tb.values[key]
          if peer < 0:
            continue
          ends = (gpu.values["id"], peer)
          way = (ends if key == "send" else ends[::-1]) + (tb.values["chan"],)
          known = blocks.setdefault((key, way), tb)
          if known is not tb:
            tb.refuse(f"{key} {peer} on channel {tb.values['chan']} is also of "
                      f"line {known.line}: which step goes with which?")
    for way in sorted({way for _, way in blocks}):
      lists = []
      for key, kinds in (("send", msccl_xml.SENDS),
                         ("recv", msccl_xml.RECEIVES)):
        tb = blocks.get((key, way))
        lists.append([s for s in tb.children if s.values["type"] in kinds]
                     if tb else [])
      self._pair(way, *lists)

  def _pair(self, way, sends, receives):
    for send, receive in zip(sends, receives):
      if send.values["cnt"] != receive.values["cnt"]:
        receive.refuse(f"cnt is {receive.values['cnt']}, that of line "
                       f"{send.line}, which sends it, is {send.values['cnt']}")
      self.sender[receive] = send
      self.before[receive].append(send)
    for step in sends[len(receives):]:
      step.refuse(f"gpu {way[1]} does not receive it on channel {way[2]}: "
                  f"{len(sends)} sends, {len(receives)} receives")
    for step in receives[len(sends):]:
      step.refuse(f"gpu {way[0]} does not send it on channel {way[2]}: "
                  f"{len(sends)} sends, {len(receives)} receives")

  # Steps -------------------------------------------------------------------

  def follow(self):
    steps = self._collect()
    order = topological(steps, self.before,
                        lambda s: f"line {s.line}: {s.name}")
    self.position = {step: k for k, step in enumerate(order)}
    self._begin()
    for step in order:
      tb = self.block_of[step]
      self._clocks[step] = clock_after(
          tb, step.values["s"], [self._clocks[b] for b in self.before[step]])
      self._number = 0
      self._run(step)
    self.cells.finish(lambda rank: (
        f"line {self.algo.children[rank].line}: gpu {rank}"),
        self.algo.values["coll"])
    actions = [action for *_, action in
               sorted(self._actions, key=lambda entry: entry[:2])]
    return Schedule(self.kind, self.ranks,
                    self.parts if self.kind == "all_to_all" else self.chunks,
                    actions + self._own_copies(), self._notes())

  def _at(self, step):
    return (self.block_of[step], step.values["s"], self._clocks[step],
            f"line {step.line}: {step.name}")

  def _read(self, step, which):
    _, _, clock, place = self._at(step)
    return [self.cells.read(cell, clock, place)
            for cell in self._cells_of(step, which)]

  def _add(self, step, action):
    self._actions.append((self.position[step], self._number, action))
    self._number += 1
    return action

  def _queue(self, step):
    return (self.rank_of[step], self.block_of[step].values["id"])

  def _run(self, step):
    kind = step.values["type"]
    if kind == "s":
      self._sent[step] = self._read(step, "src")
    elif kind == "cpy":
      source = self._read(step, "src")
      self._move(step, source, step, "dst")
    elif kind == "re":
      self._sum(step, self._read(step, "src"), self._read(step, "dst"), "dst")
    elif kind in ("r", "rcs"):
      self._move(self.sender[step], self._sent[self.sender[step]], step, "dst")
      if kind == "rcs":
        self._sent[step] = self._read(step, "dst")
    elif kind in ("rrc", "rrs", "rrcs"):
      come = self._arrive(step)
      self._sum(step, come, self._read(step, "src"),
                None if kind == "rrs" else "dst")
      if kind == "rrcs":
        self._sent[step] = self._read(step, "dst")

  def _move(self, carrier, source, step, which):
    """Copies versions to the cells of `step`, by the queue of `carrier`."""
    cells = self._cells_of(step, which)
    for first, count in source_runs(source):
      run = source[first:first + count]
      made = self.cells.write(cells[first:first + count],
                              [v.chunk for v in run], [v.summands for v in run],
                              self._at(step))
      k = 0
      for to in made:
        self._copy(carrier, run[k:k + len(to["cells"])], to["region"], to)
        k += len(to["cells"])

  def _copy(self, carrier, versions, write, run=None):
    after = [v.action for v in versions if v.action is not None]
    action = Action("copy", self.rank_of[carrier], self._queue(carrier),
                    [Region(versions[0].memory, write.span)], write,
                    list(dict.fromkeys(after)))
    position, number = self.position[carrier], len(self._actions)
    self._actions.append((position, number, action))
    if run is not None:
      self.cells.made(run, action)
    return action

  def _arrive(self, step):
    """What comes to be added: versions in memory of their own."""
    come = []
    sender = self.sender[step]
    source = self._sent[sender]
    for first, count in source_runs(source):
      run = source[first:first + count]
      group, index = run[0].chunk
      span = (group, index, count)
      memory = Memory(self.rank_of[step], "scratch", run[0].summands, span)
      action = self._copy(sender, run, Region(memory, span))
      for version in run:
        come.append(type(version)(version.chunk, version.summands, memory,
                                  action))
    return come

  def _sum(self, step, one, two, which):
    """Adds versions, into the cells that `which` names or to be sent."""
    chunks, summands = [], []
    for a, b in zip(one, two):
      said = [describe(v.chunk, v.summands, self.ranks) for v in (a, b)]
      if a.chunk != b.chunk or self.kind in ("all_gather", "all_to_all"):
        step.refuse(f"adds {said[0]} and {said[1]}, {self.algo.values['coll']} "
                    "does not")
      if a.summands & b.summands:
        step.refuse(f"adds {said[0]} and {said[1]}: a part twice")
      chunks.append(a.chunk)
      summands.append(a.summands | b.summands)
    runs = self._common_runs(one, two)
    if which is None:
      self._sent[step] = []
    cells = None if which is None else self._cells_of(step, which)
    for first, count in runs:
      part = slice(first, first + count)
      if cells is None:
        self._sent[step] += self._sum_to_send(step, one[part], two[part])
        continue
      k = first
      for to in self.cells.write(cells[part], chunks[part], summands[part],
                                 self._at(step)):
        end = k + len(to["cells"])
        action = self._add_sum(step, one[k:end], two[k:end], to["region"])
        self.cells.made(to, action)
        k = end

  def _sum_to_send(self, step, one, two):
    group, index = one[0].chunk
    span = (group, index, len(one))
    of = one[0].summands | two[0].summands
    memory = Memory(self.rank_of[step], "scratch", of, span)
    action = self._add_sum(step, one, two, Region(memory, span))
    return [type(a)(a.chunk, of, memory, action) for a in one]

  def _add_sum(self, step, one, two, write):
    after = [v.action for v in [*one, *two] if v.action is not None]
    reads = [Region(v[0].memory, write.span) for v in (one, two)]
    return self._add(step, Action("sum", self.rank_of[step], "compute", reads,
                                  write, list(dict.fromkeys(after))))

  @staticmethod
  def _common_runs(one, two):
    """Runs (first, count) that are one in both lists."""
    begins = {first for versions in (one, two)
              for first, _ in source_runs(versions)}
    ends = sorted(begins)[1:] + [len(one)]
    return [(first, end - first) for first, end in zip(sorted(begins), ends)]

  def _own_copies(self):
    """Copies of what the schedule leaves where it lies, as in place it may. A
    gather's own chunks are read where they are."""
    if self.kind == "all_gather":
      return []
    actions = []
    cells = list(self.cells.untouched())
    for first, count in source_runs([version for _, version in cells]):
      version = cells[first][1]
      rank = cells[first][0][0]
      group, index = version.chunk
      span = (group, index, count)
      actions.append(Action(
          "copy", rank, (rank, "own"), [Region(version.memory, span)],
          Region(self.cells.base(rank, "result"), span), []))
    return actions

  def _notes(self):
    values = self.algo.values
    notes = [f"algorithm {values['name']} of MSCCL: {values['coll']}, "
             f"{self.ranks} gpus, {self.chunks} chunks",
             f"not said in a plan: proto {values['proto']}, "
             f"{values['nchannels']} channels"]
    for key in ("minBytes", "maxBytes", "nthreads", "outofplace"):
      if key in values:
        notes[-1] += f", {key} {values[key]}"
    if self.waits:
      notes.append(f"of {self.waits} waits between thread blocks those for "
                   "data are here; others guard memory, which a plan writes "
                   "once")
    return notes


def read(text):
  """The schedule of the text of an algorithm; a Refusal names line and
  element."""
  return Follower(msccl_xml.parse(text)).follow()
