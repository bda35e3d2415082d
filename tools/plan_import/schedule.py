"""A schedule between a reader of one form and the writer of plan text.

A chunk is a pair (group, index). In gathers and reductions the group is None,
and the index counts equal parts of the whole value along one dimension. In an
exchange the group is (source, destination), and the index counts parts of what
goes from one to the other. A span is a run of chunks of one group.

Memory is written once: a chunk that replaces another gets a memory of its own.
"""

import dataclasses

from plan_import.refusal import Refusal


@dataclasses.dataclass(eq=False)
class Memory:
  """Memory of one rank. Roles: operand, moved (the collective's operand where
  that is computed), result (of the collective), scratch."""
  rank: int
  role: str
  summands: frozenset = None  # scratch of a partial value: whose
  span: tuple = None          # scratch: (group, first, count)
  name: str = None            # scratch


@dataclasses.dataclass(eq=False)
class Region:
  memory: Memory
  span: tuple


@dataclasses.dataclass(eq=False)
class Action:
  """A step of one rank: a copy, from or to another rank or inside one; a sum; a
  piece of the computation."""
  kind: str
  rank: int
  queue: object  # "compute", or a name of a queue that copies
  reads: list
  write: Region
  after: list    # actions that have to be done before
  value: int = None  # of a piece: the value of the body
  start: int = 0
  end: int = 0
  index: int = 0     # on its queue

  def ranks(self):
    """The ranks whose memory it uses."""
    return {region.memory.rank for region in [*self.reads, self.write]}


@dataclasses.dataclass
class Schedule:
  kind: str          # of the collective
  ranks: int
  chunks: int        # of the whole value; of an exchange: of one group
  actions: list      # in an order in which they can run
  notes: list        # lines that say what the plan has not


def clock_after(thread, position, before):
  """The clock of a node of a thread, which runs its nodes in order: behind
  those with the clocks `before`. It has, of each thread, the last node that
  comes before."""
  clock = {}
  for other in before:
    for key, value in other.items():
      if clock.get(key, -1) < value:
        clock[key] = value
  clock[thread] = position
  return clock


def is_before(thread, position, clock):
  return clock.get(thread, -1) >= position


def topological(nodes, before, name):
  """The nodes, each behind those of before[node], else in their order; refuses
  a circle by the names of its nodes."""
  done, order = {}, []
  for root in nodes:
    if done.get(root):
      continue
    stack = [(root, iter(before[root]))]
    done[root] = False
    while stack:
      node, rest = stack[-1]
      for other in rest:
        if other not in done:
          done[other] = False
          stack.append((other, iter(before[other])))
          break
        if not done[other]:
          circle = [n for n, _ in stack]
          circle = circle[circle.index(other):]
          raise Refusal(f"{name(circle[-1])}: waits for itself: " + " <- ".join(
              name(n) for n in [other, *reversed(circle)]))
      else:
        done[node] = True
        order.append(node)
        stack.pop()
  return order
