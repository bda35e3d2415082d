"""Writes the actions of a plan as its text ("Chunk plans" in ir/README.md).

Queues of a rank run their actions in order. An action that needs one of another
queue awaits a post behind that, unless its queue knows already: what a queue
knows is a clock over all queues.
"""

import math

from plan_import.refusal import Refusal

MOST_QUEUES = 16
COMPUTE = "compute"
CLASS = {"piece": 0, "sum": 1, "copy": 2}
WIDTH = 78


class Writer:

  def __init__(self, body, schedule, actions):
    self.body, self.schedule = body, schedule
    self.ranks = schedule.ranks
    self.units = math.lcm(self.ranks, schedule.chunks)
    if body.kind == "all_to_all":
      self.units = self.ranks * schedule.chunks
    self.parts = self.units // self.ranks
    self.actions = sorted(actions, key=self._key)
    self._number_queues()
    self.steps = {}    # by (rank, queue)
    self.scratch = {}  # by rank
    self._knows = {}   # by (rank, queue): {(rank, queue): index}
    self._clock_of = {}
    self._ready = set()
    self._name_scratch()
    self._add_all()

  # Order -------------------------------------------------------------------

  def _relative(self, action):
    group, first, count = action.write.span
    if group is not None:
      # The rank's own part comes last: nobody waits for it.
      ranks = [(r - action.rank - 1) % self.ranks for r in group]
      return (*ranks, first, count)
    own = action.rank * self.schedule.chunks // self.ranks
    return ((first - own) % self.schedule.chunks, count)

  def _peer(self, action):
    others = [r for r in action.ranks() if r != action.rank]
    return (others[0] - action.rank) % self.ranks if others else self.ranks

  def _key(self, action):
    # Ranks that do the same have their actions in equal order.
    return (action.start, CLASS[action.kind], self._peer(action),
            self._relative(action), action.value or 0)

  def _number_queues(self):
    """Gives the queues that copy numbers: those to near ranks first, and in the
    order in which they begin."""
    self.queue_name = {}
    for rank in range(self.ranks):
      first = {}
      for action in self.actions:
        if action.rank == rank and action.kind == "copy":
          first.setdefault(action.queue, (self._peer(action),
                                          self._key(action)))
      names = sorted(first, key=lambda queue: first[queue])
      if len(names) >= MOST_QUEUES:
        raise Refusal(f"rank {rank} copies on {len(names)} queues, a plan has "
                      f"{MOST_QUEUES - 1} beside the one that computes")
      for number, name in enumerate(names):
        self.queue_name[name] = f"copy {number}"
    count = len(set(self.queue_name.values()))
    self.queues = [COMPUTE] + [f"copy {k}" for k in range(count)]

  def _queue(self, action):
    name = COMPUTE if action.kind != "copy" else self.queue_name[action.queue]
    return (action.rank, name)

  def _name_scratch(self):
    for rank in range(self.ranks):
      self.scratch[rank] = []
    for action in self.actions:
      memory = action.write.memory
      if memory.role == "scratch" and memory.name is None:
        memory.name = "to be numbered"
        self.scratch[memory.rank].append(memory)
    for rank, memories in self.scratch.items():
      memories.sort(key=lambda m, r=rank: self._scratch_key(m, r))
      for number, memory in enumerate(memories):
        memory.name = f"s{number}"

  def _scratch_key(self, memory, rank):
    group, first, count = memory.span
    ranks = [] if group is None else [(r - rank) % self.ranks for r in group]
    own = 0 if group is not None else rank * self.schedule.chunks // self.ranks
    size = self.schedule.chunks
    return (len(memory.summands), ranks, (first - own) % size, count,
            sorted((r - rank) % self.ranks for r in memory.summands))

  # Signals -----------------------------------------------------------------

  def _add_all(self):
    self._posts = {}  # by action: [(name, the queue that awaits it)]
    entries = {}      # by queue: [("await" or "do", ..)]
    for action in self.actions:
      queue = self._queue(action)
      self._begin(action, queue, entries)
      action.index = self._run(queue, entries, ("do", action))
      self._clock_of[id(action)] = dict(self._knows[queue])
    for rank in range(self.ranks):
      self._end(rank, entries)
    for queue, listed in entries.items():
      self.steps[queue] = self._steps_of(listed)
    self.posts_ready()

  def _run(self, queue, entries, entry):
    entries.setdefault(queue, []).append(entry)
    knows = self._knows.setdefault(queue, {})
    knows[queue] = knows.get(queue, 0) + 1
    return knows[queue]

  def _begin(self, action, queue, entries):
    for rank in sorted(action.ranks() - {action.rank}):
      self._await_ready(queue, rank, entries)
    for other in sorted(action.after, key=self._key):
      self._await(queue, other, entries)

  def _await_ready(self, queue, rank, entries):
    """The queue may use memory of `rank` and post to it: its op has begun."""
    if (queue, rank) in self._ready or queue[0] == rank:
      return
    self._ready.add((queue, rank))
    self._run(queue, entries, ("await", "ready", (rank, COMPUTE)))

  def _await(self, queue, action, entries):
    poster = self._queue(action)
    if poster == queue or self._knows.get(queue, {}).get(poster, 0) >= (
        action.index):
      return
    if poster[0] != queue[0]:
      self._await_ready_before(poster, queue[0], action, entries)
    name = "done" if poster[1] == COMPUTE else "came"
    self._posts.setdefault(action, []).append((name, queue))
    self._run(queue, entries, ("await", name, poster))
    knows = self._knows[queue]
    for key, value in self._clock_of[id(action)].items():
      if knows.get(key, 0) < value:
        knows[key] = value

  def _await_ready_before(self, poster, rank, action, entries):
    """A queue that posts to another rank has awaited it before `action`."""
    if (poster, rank) in self._ready:
      return
    self._ready.add((poster, rank))
    at = entries[poster].index(("do", action))
    entries[poster].insert(at, ("await", "ready", (rank, COMPUTE)))

  def _end(self, rank, entries):
    """The op of a rank ends when nobody uses its memory any more."""
    for action in self.actions:
      if action.rank != rank and rank in action.ranks():
        self._await((rank, COMPUTE), action, entries)

  def _steps_of(self, listed):
    steps = []
    for entry in listed:
      if entry[0] == "await":
        steps.append(("await", entry[1], entry[2]))
        continue
      steps.append(("do", entry[1]))
      steps += [("post", name, other)
                for name, other in self._posts.get(entry[1], [])]
    return steps

  def posts_ready(self):
    """Every rank says first, to the queues that await it, that it is there."""
    for rank in range(self.ranks):
      queues = [queue for queue, other in self._ready if other == rank]
      queues.sort(key=lambda q: ((q[0] - rank) % self.ranks, q[1]))
      ready = [("post", "ready", queue) for queue in queues]
      key = (rank, COMPUTE)
      self.steps[key] = ready + self.steps.get(key, [])

  # Text --------------------------------------------------------------------

  def text(self):
    """"plan {\\n ... }\\n"; one block if all ranks do the same."""
    alike = [self._block(rank, alike=True) for rank in range(self.ranks)]
    if all(block == alike[0] for block in alike):
      blocks = alike[:1]
    else:
      blocks = [self._block(rank, alike=False) for rank in range(self.ranks)]
    lines = ["plan {", "  queues " + ", ".join(self.queues)]
    for block in blocks:
      lines += block
    return "\n".join([*lines, "}", ""])

  def _block(self, rank, alike):
    names = Names(self, rank, alike)
    lines = [f"  rank {'r' if alike else rank}:"]
    for memory in self.scratch[rank]:
      lines.append("    " + names.declaration(memory))
    for queue in self.queues:
      steps = self.steps.get((rank, queue), [])
      if not steps:
        continue
      words = [names.step(step) for step in merged(steps)]
      lines += wrapped(f"    on {queue}:", words)
    return lines


def merged(steps):
  """Steps with counts: awaits of one signal that follow each other are one."""
  result = []
  for step in steps:
    if step[0] == "await" and result and result[-1][:3] == step:
      result[-1] = (*step, result[-1][3] + 1)
    elif step[0] == "await":
      result.append((*step, 1))
    else:
      result.append(step)
  return result


def wrapped(head, words):
  lines = [head]
  for k, word in enumerate(words):
    word += ";" if k + 1 < len(words) else ""
    if len(lines[-1]) + 1 + len(word) > WIDTH:
      lines.append("       ")
    lines[-1] += " " + word
  return lines


class Names:
  """Texts of one rank: of its number, or alike for all of `rank r`."""

  def __init__(self, writer, rank, alike):
    self.writer, self.here, self.alike = writer, rank, alike
    self.body, self.ranks = writer.body, writer.ranks

  def rank(self, rank):
    if not self.alike:
      return str(rank)
    moves = (rank - self.here) % self.ranks
    if moves == 0:
      return "r"
    if 2 * moves <= self.ranks:
      return f"r+{moves}"
    return f"r-{self.ranks - moves}"

  def shard(self, first, count, parts):
    """Parts [first, first + count) of all shards' parts."""
    shard, first = divmod(first, parts)
    common = math.gcd(first, count, parts)
    first, count, parts = first // common, count // common, parts // common
    name = "#" + self.rank(shard)
    if (first, count, parts) == (0, 1, 1):
      return name
    if count == 1:
      return f"{name}({first}/{parts})"
    return f"{name}({first}:{first + count}/{parts})"

  def ranges(self, span):
    """Ranges by dimension of what the collective moves."""
    group, first, count = span
    body, writer = self.body, self.writer
    if group is None:
      scale = writer.units // writer.schedule.chunks
      return {body.dim: self.shard(first * scale, count * scale, writer.parts)}
    parts = writer.parts
    return {body.dim: "#" + self.rank(group[0]),
            body.to_dim: self.shard(group[1] * parts + first, count, parts)}

  def box(self, region, span=None):
    memory = region.memory
    span = span or region.span
    dims = self.body.dims_text(len(self.body.collective.dims),
                               self.ranges(span))
    if memory.role == "scratch":
      return f"{memory.name}[{dims}]"
    value = {"operand": self.body.operand, "moved": self.body.moved,
             "result": self.body.result}[memory.role]
    return f"%{value}[{dims}]"

  def name(self, region):
    return self.box(region).partition("[")[0]

  def declaration(self, memory):
    value = self.body.moved
    box = self.body.box(value, self.ranges(memory.span))
    text = f"scratch {memory.name}: {box}"
    if self.body.kind in ("all_gather", "all_to_all"):
      return text
    if len(memory.summands) == self.ranks:
      return text + " of all"
    of = sorted(memory.summands, key=lambda r: (r - self.here) % self.ranks)
    return text + " of " + ", ".join(self.rank(r) for r in of)

  def step(self, step):
    if step[0] == "do":
      return getattr(self, "_" + step[1].kind)(step[1])
    kind, name, (rank, queue) = step[:3]
    count = f"{step[3]} " if kind == "await" and step[3] > 1 else ""
    of = "" if rank == self.here else f" of {self.rank(rank)}"
    word = "from" if kind == "await" else "to"
    return f"{kind} {count}{name} {word} {queue}{of}"

  def _copy(self, action):
    source, to = action.reads[0], action.write
    text = f"{self.box(source)}"
    if source.memory.rank != action.rank:
      return (f"get {text} of {self.rank(source.memory.rank)} to "
              f"{self.name(to)}")
    if to.memory.rank != action.rank:
      return f"put {text} to {self.name(to)} of {self.rank(to.memory.rank)}"
    return f"copy {text} to {self.name(to)}"

  def _sum(self, action):
    reads = ", ".join(self.name(region) for region in action.reads)
    return f"sum in rank order {reads} to {self.box(action.write)}"

  def _piece(self, action):
    matmul = next(m for m in self.body.matmuls if m.value == action.value)
    ranges = {d: "#" + self.rank(self.here)
              for d, cut in enumerate(matmul.cut(self.body.axes)) if cut}
    if self.body.kind != "all_gather":
      ranges.update(self.ranges(action.write.span))
      dims = self.body.dims_text(len(matmul.dims), ranges)
      return f"piece %{matmul.value}[{dims}]"
    at = self.body.gathered_dim(matmul)
    ranges[at] = self.ranges(action.write.span)[self.body.dim]
    dims = self.body.dims_text(len(matmul.dims), ranges)
    text = f"piece %{matmul.value}[{dims}]"
    if action.after:
      return text
    operands = [self.body.operand if v == self.body.moved else v
                for v in matmul.operands]
    return text + " from " + ", ".join(f"%{v}" for v in operands)


def write(body, schedule, actions):
  """The text of a plan with all these actions."""
  return Writer(body, schedule, actions).text()
