"""Reads a schedule of AutoOverlap in the form of its paper: a function that
gives the plan of one rank, `DevicePlan`, with transfers of shards between
ranks.

The function is called for each rank. Known names in it:

  rank, mesh                  the rank's number, how many there are
  shard(k), shard(k, p, n)    shard k of the buffer; part p of n of it
  DevicePlan(dev=rank)        a plan; .tensors_involved[buf], .local_regions
                              .setdefault(buf, []).append(shard), .add_op(..)
  Transfer(op=.., src_buf=, src_region=, dst_buf=, dst_region=, peer=,
           shard_idx=, dependency=)
  TransferOp.PUSH, .PULL      to the peer; from the peer
  P2P(src_rank, dst_rank, src_chunk, dst_chunk, dependency)
                              a push if the source adds it, else a pull

A dependency is (rank, index), or a list of them: the operation comes behind
that one. Operations of a rank come one after the other.
"""

import dataclasses
import math

from plan_import.cells import Cells, source_runs
from plan_import.python_subset import Evaluator, Opaque, parse
from plan_import.refusal import Refusal
from plan_import.schedule import (Action, Region, Schedule, clock_after,
                                  topological)

TRANSFER = ("op", "src_buf", "src_region", "dst_buf", "dst_region", "peer",
            "shard_idx", "chunk_idx", "dependency")
MOST_PARTS, MOST_OPERATIONS = 64, 1 << 14


@dataclasses.dataclass(frozen=True)
class Part:
  """Part `part` of `parts` of a shard."""
  shard: int
  part: int
  parts: int


@dataclasses.dataclass(eq=False)
class Operation:
  line: int
  rank: int
  index: int
  pulls: bool
  source: int
  target: int
  region: Part
  waits: list

  def name(self):
    return f"line {self.line}: operation {self.index} of rank {self.rank}"


class DevicePlan:

  def __init__(self, dev):
    self.dev = dev
    self.regions = {}
    self.tensors = {}
    self.operations = []
    self.attributes = {"tensors_involved": self.tensors,
                       "local_regions": self.regions, "add_op": self.add}

  def add(self, node, args, keywords):
    if len(args) != 1 or keywords or not isinstance(args[0], dict):
      Evaluator.refuse(node, "adds no transfer")
    self.operations.append((node.lineno, args[0]))
    if len(self.operations) > MOST_OPERATIONS:
      Evaluator.refuse(node, f"more than {MOST_OPERATIONS} operations")


class TransferOps:
  attributes = {"PUSH": "push", "PULL": "pull", "LOCAL_COPY": "local copy"}


def integer(node, value, low, high, what):
  if isinstance(value, bool) or not isinstance(value, int) or (
      not low <= value < high):
    Evaluator.refuse(node, f"{what} is {value!r}, there are {low} to "
                     f"{high - 1}")
  return value


class Reader:

  def __init__(self, text, ranks, function, pushes):
    if not 2 <= ranks <= 64:
      raise Refusal(f"--ranks {ranks}: a plan has from 2 to 64")
    self.ranks, self.pushes = ranks, pushes
    functions = parse(text)
    if function is None and len(functions) != 1:
      raise Refusal("functions " + (", ".join(functions) or "are not there")
                    + ": --function says which")
    self.function = functions.get(function or next(iter(functions)))
    if self.function is None:
      raise Refusal(f"there is no function {function}, there are "
                    + ", ".join(functions))

  # Names that a schedule uses ----------------------------------------------

  def _names(self):
    def call(names, make):
      def run(node, args, keywords):
        known = dict(zip(names, args))
        for key, value in keywords.items():
          if key not in names or key in known:
            Evaluator.refuse(node, f"argument {key} is not known")
          known[key] = value
        if len(args) > len(names):
          Evaluator.refuse(node, f"{len(args)} arguments, it takes "
                           f"{len(names)}")
        return make(node, known)
      return run

    def refused(why):
      return lambda node, args, keywords: Evaluator.refuse(node, why)

    torch = Opaque("torch")
    torch.attributes = {"Size": lambda node, args, keywords: Opaque("size")}
    return {
        "mesh": self.ranks, "buf": "buf", "torch": torch,
        "range": lambda node, args, keywords: range(*args),
        "min": lambda node, args, keywords: min(*args),
        "max": lambda node, args, keywords: max(*args),
        "shard": call(("k", "part", "parts"), self._shard),
        "DevicePlan": call(("dev",), lambda node, a: DevicePlan(a.get("dev"))),
        "Transfer": call(TRANSFER, lambda node, a: {"node": node, **a}),
        "TransferOp": TransferOps,
        "P2P": call(("src_rank", "dst_rank", "src_chunk", "dst_chunk",
                     "dependency"), lambda node, a: {"node": node, **a}),
        "Collective": refused("a collective inside a plan; say its transfers, "
                              "or leave it to the program"),
        "Chunk": refused("a chunk of sizes alone has no place, shard(k) has"),
    }

  def _shard(self, node, given):
    if "k" not in given:
      Evaluator.refuse(node, "which shard?")
    parts = integer(node, given.get("parts", 1), 1, MOST_PARTS + 1, "parts")
    if ("part" in given) != ("parts" in given):
      Evaluator.refuse(node, "part and parts go together")
    return Part(integer(node, given["k"], 0, self.ranks, "a shard"),
                integer(node, given.get("part", 0), 0, parts, "a part"), parts)

  # Operations --------------------------------------------------------------

  def _plan_of(self, rank):
    plan = Evaluator(self._names()).call(
        self.function, {"rank": rank, "mesh": self.ranks, "buf": "buf"})
    where = f"line {self.function.lineno}: {self.function.name}"
    if not isinstance(plan, DevicePlan):
      raise Refusal(f"{where}: for rank {rank} it returns no DevicePlan")
    if plan.dev != rank:
      raise Refusal(f"{where}: for rank {rank} it returns the plan of "
                    f"{plan.dev!r}")
    regions = [(buf, r) for buf, listed in plan.regions.items()
               for r in (listed if isinstance(listed, list) else [listed])]
    if len(plan.regions) != 1 or [r for _, r in regions] != [
        Part(rank, 0, 1)]:
      raise Refusal(f"{where}: rank {rank} begins with {len(regions)} regions "
                    f"of {len(plan.regions)} buffers; plans are imported for "
                    "a gather: with its own shard of one")
    self.buffer = regions[0][0]
    for name in plan.tensors:
      if name != self.buffer:
        raise Refusal(f"{where}: rank {rank} also has tensor {name!r}; a plan "
                      "moves a box to the same box of one value")
    return [self._operation(line, rank, index, given)
            for index, (line, given) in enumerate(plan.operations)]

  def _operation(self, line, rank, index, given):
    node = given["node"]
    if "src_rank" in given or "dst_rank" in given:
      return self._p2p(line, rank, index, given)
    for key in ("op", "src_buf", "src_region", "dst_buf", "dst_region",
                "peer"):
      if key not in given:
        Evaluator.refuse(node, f"has no {key}")
    if given["op"] not in ("push", "pull"):
      Evaluator.refuse(node, f"a {given['op']} between two places of the value "
                       "that is gathered: there is one for each box")
    for key in ("src_buf", "dst_buf"):
      if given[key] != self.buffer:
        Evaluator.refuse(node, f"{key} is {given[key]!r}, the rank has "
                         f"{self.buffer!r}")
    region = self._same_region(node, given["src_region"], given["dst_region"])
    for key in ("shard_idx", "chunk_idx"):
      if given.get(key, region.shard) != region.shard:
        Evaluator.refuse(node, f"{key} is {given[key]!r}, the region is of "
                         f"shard {region.shard}")
    peer = integer(node, given["peer"], 0, self.ranks, "peer")
    if peer == rank:
      Evaluator.refuse(node, f"rank {rank} is its own peer")
    pulls = given["op"] == "pull"
    ends = (peer, rank) if pulls else (rank, peer)
    return Operation(line, rank, index, pulls, *ends, region,
                     self._waits(node, given.get("dependency")))

  def _p2p(self, line, rank, index, given):
    node = given["node"]
    for key in ("src_rank", "dst_rank", "src_chunk", "dst_chunk"):
      if key not in given:
        Evaluator.refuse(node, f"has no {key}")
    ends = [integer(node, given[key], 0, self.ranks, key)
            for key in ("src_rank", "dst_rank")]
    if rank not in ends or ends[0] == ends[1]:
      Evaluator.refuse(node, f"goes from {ends[0]} to {ends[1]}, in the plan "
                       f"of rank {rank}")
    region = self._same_region(node, given["src_chunk"], given["dst_chunk"])
    return Operation(line, rank, index, rank == ends[1], *ends, region,
                     self._waits(node, given.get("dependency")))

  @staticmethod
  def _same_region(node, source, target):
    for region in (source, target):
      if not isinstance(region, Part):
        Evaluator.refuse(node, f"region {region!r} is no shard(k)")
    if source != target:
      Evaluator.refuse(node, f"from {source} to {target}: a plan moves a box "
                       "to the same box")
    return source

  def _waits(self, node, given):
    if given is None:
      return []
    waits = given if isinstance(given, list) else [given]
    for wait in waits:
      if not isinstance(wait, tuple) or len(wait) != 2:
        Evaluator.refuse(node, f"dependency {wait!r} is no (rank, index)")
      integer(node, wait[0], 0, self.ranks, "rank of a dependency")
      integer(node, wait[1], 0, MOST_OPERATIONS, "index of a dependency")
    return waits

  # Following them ----------------------------------------------------------

  def read(self):
    lists = [self._plan_of(rank) for rank in range(self.ranks)]
    operations = sorted((o for listed in lists for o in listed),
                        key=lambda o: o.index)
    parts = math.lcm(*(o.region.parts for o in operations), 1)
    if parts > MOST_PARTS:
      raise Refusal(f"parts of shards have {parts} in common, more than "
                    f"{MOST_PARTS}")
    before = {}
    for o in operations:
      before[o] = [lists[o.rank][o.index - 1]] if o.index else []
      for rank, index in o.waits:
        if index >= len(lists[rank]):
          raise Refusal(f"{o.name()}: depends on operation {index} of rank "
                        f"{rank}, which has {len(lists[rank])}")
        before[o].append(lists[rank][index])
    return self._follow(operations, before, parts)

  def _follow(self, operations, before, parts):
    count = self.ranks * parts
    wanted = {(r, self.buffer, k): (None, k) for r in range(self.ranks)
              for k in range(count)}
    cells, clock_of = Cells(self.ranks, "all_gather", wanted), {}
    for cell, chunk in wanted.items():
      if chunk[1] // parts == cell[0]:
        cells.begin(cell, chunk)
    actions, action_of = [], {}
    for o in topological(operations, before, Operation.name):
      clock_of[o] = clock_after(o.rank, o.index,
                                [clock_of[b] for b in before[o]])
      made = self._transfer(o, cells, clock_of[o], parts)
      others = [b for b in before[o]
                if (b.rank, b.index) != (o.rank, o.index - 1)]
      waits = [a for b in others for a in action_of[b]]
      for action in made:
        action.after = list(dict.fromkeys(action.after + waits))
      actions += made
      action_of[o] = made
    where = f"line {self.function.lineno}: {self.function.name}"
    cells.finish(lambda rank: f"{where}, rank {rank}", "a gather")
    return Schedule("all_gather", self.ranks, count, actions, [
        f"schedule {self.function.name} of AutoOverlap for {self.ranks} ranks",
        *(["pulls are said as pushes of the rank that has the data"]
          if self.pushes and any(o.pulls for o in operations) else [])])

  def _transfer(self, o, cells, clock, parts):
    size = parts // o.region.parts
    first = o.region.shard * parts + o.region.part * size
    places = range(first, first + size)
    versions = [cells.read((o.source, self.buffer, k), clock, o.name())
                for k in places]
    carrier = o.source if self.pushes else o.rank
    actions = []
    for begin, count in source_runs(versions):
      run = versions[begin:begin + count]
      made = cells.write([(o.target, self.buffer, v.chunk[1]) for v in run],
                         [v.chunk for v in run], [v.summands for v in run],
                         (o.rank, o.index, clock, o.name()))
      for to in made:
        if to["region"].memory.role != "result":
          raise Refusal(f"{o.name()}: rank {o.target} has chunk "
                        f"{to['chunks'][0][1]} already")
        action = Action("copy", carrier, (carrier, 0),
                        [Region(run[0].memory, to["region"].span)],
                        to["region"], list(dict.fromkeys(
                            v.action for v in run if v.action is not None)))
        cells.made(to, action)
        actions.append(action)
    return actions


def read(text, ranks, function=None, pushes=False):
  """The schedule of a file for so many ranks; a Refusal names the line."""
  try:
    return Reader(text, ranks, function, pushes).read()
  except RecursionError:
    raise Refusal("too deep") from None
