"""Adds the computation to a schedule, and the order of its steps."""

import dataclasses

from plan_import.schedule import Action, Memory, Region

# How long copies and sums take where only their order counts.
COPY_TICKS, SUM_TICKS = 100, 1


def join_sums(actions):
  """Sums that only another sum of the rank reads become part of it, so that
  ranks which add the same parts can add them in one order."""
  readers = {}
  for action in actions:
    for region in action.reads:
      readers.setdefault(region.memory, []).append(action)
  makers = {a.write.memory: a for a in actions if a.kind == "sum"}
  gone = set()
  for action in actions:
    if action.kind != "sum":
      continue
    reads = []
    for region in action.reads:
      maker = makers.get(region.memory)
      joins = (maker is not None and region.memory.role == "scratch"
               and readers[region.memory] == [action]
               and maker.write.span == action.write.span)
      if joins:
        gone.add(maker)
        reads += maker.reads
        action.after = [a for a in action.after if a is not maker]
        action.after += [a for a in maker.after if a not in action.after]
      else:
        reads.append(region)
    action.reads = reads
  return [action for action in actions if action not in gone]


def set_times(actions):
  """When each would begin and end if computing took no time."""
  free = {}
  for action in actions:
    begin = max([a.end for a in action.after], default=0)
    ticks = SUM_TICKS
    if action.kind == "copy":
      ticks = COPY_TICKS
      begin = max(begin, free.get(action.queue, 0))
      free[action.queue] = begin + ticks
    action.start, action.end = begin, begin + ticks


def gaps(group, first, count, done):
  """Runs of the span that are not in the set `done` of chunks."""
  runs = []
  for index in range(first, first + count):
    if (group, index) in done:
      continue
    if runs and sum(runs[-1]) == index:
      runs[-1][1] += 1
    else:
      runs.append([index, 1])
  return runs


def add_makers(body, schedule):
  """Pieces that compute what the collective moves, each for the step that needs
  it first."""
  made, pieces = {}, {}
  matmul = body.matmuls[0]
  actions = sorted(schedule.actions, key=lambda a: a.start)  # stable
  for action in actions:
    for region in action.reads:
      if region.memory.role != "moved":
        continue
      rank = region.memory.rank
      done = made.setdefault(rank, {})
      group, first, count = region.span
      for index, size in gaps(group, first, count, done):
        memory = region.memory
        piece = Action("piece", rank, "compute", [],
                       Region(memory, (group, index, size)), [], matmul.value,
                       action.start, action.start)
        pieces.setdefault(rank, []).append(piece)
        done.update({(group, index + k): piece for k in range(size)})
      for piece in dict.fromkeys(done[(group, first + k)]
                                 for k in range(count)):
        action.after.append(piece)
        piece.start = piece.end = min(piece.start, action.start)
  return [piece for rank in sorted(pieces) for piece in pieces[rank]]


def own_chunks(schedule, rank):
  parts = schedule.chunks // schedule.ranks
  return [(None, rank * parts + k) for k in range(parts)]


def add_readers(body, schedule):
  """Pieces that compute what a gather's chunks are for: the rank's own at once,
  the others as they come."""
  pieces = []
  for matmul in body.matmuls:
    made = []
    for rank in range(schedule.ranks):
      own = own_chunks(schedule, rank)
      made.append(Action("piece", rank, "compute", [],
                         Region(Memory(rank, "result"), (*own[0], len(own))),
                         [], matmul.value))
    for action in schedule.actions:
      memory = action.write.memory
      if memory.role != "result":
        continue
      for index, count in gaps(*action.write.span,
                               own_chunks(schedule, memory.rank)):
        made.append(Action("piece", memory.rank, "compute", [],
                           Region(memory, (None, index, count)), [action],
                           matmul.value, action.end, action.end))
    pieces += made if any(matmul.cut(body.axes)) else equal_pieces(made)
  return pieces


def equal_pieces(pieces):
  """Cuts pieces where those of any rank begin: ranks that all compute the whole
  result do it in equal ones, so that its bytes are equal."""
  begins = {piece.write.span[1] for piece in pieces}
  cut = []
  for piece in pieces:
    _, first, count = piece.write.span
    ends = sorted(k for k in begins if first < k < first + count)
    for begin, end in zip([first, *ends], [*ends, first + count]):
      write = Region(piece.write.memory, (None, begin, end - begin))
      cut.append(dataclasses.replace(piece, write=write))
  return cut


def own_gather_copies(schedule):
  """Copies of the ranks' own chunks into what is gathered, where the schedule
  has none."""
  written = {rank: set() for rank in range(schedule.ranks)}
  for action in schedule.actions:
    if action.write.memory.role == "result":
      group, first, count = action.write.span
      written[action.write.memory.rank].update(
          (group, first + k) for k in range(count))
  copies = []
  for rank, done in written.items():
    own = own_chunks(schedule, rank)
    for index, count in gaps(*own[0], len(own), done):
      span = (None, index, count)
      copies.append(Action("copy", rank, (rank, "own"),
                           [Region(Memory(rank, "operand"), span)],
                           Region(Memory(rank, "result"), span), []))
  return copies


def with_pieces(body, schedule):
  """All actions of the plan, with times that order them."""
  schedule.actions = join_sums(schedule.actions)
  if body.kind == "all_gather" and body.result in body.returned:
    schedule.actions += own_gather_copies(schedule)
  set_times(schedule.actions)
  add = add_readers if body.kind == "all_gather" else add_makers
  return add(body, schedule) + schedule.actions
