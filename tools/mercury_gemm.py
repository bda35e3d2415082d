"""A gather before a matmul and a scatter behind one, for
tools/mercury_table.py: one op after the other, as AsyncTP, as found.

AsyncTP is a chunk plan that is written out (ir/README.md, Chunk plans): each
shard is a piece, own first before a gather and last before a scatter, and
copies go to one rank after the other.
"""

import dataclasses

from mercury_attention import SEARCH, Machine
from table_page import Step

N = 8
GATHER = """  %2 = all_gather(%0) {{dim=0, axes=tp}} : bf16[{m}, {inner}]
  %3 = matmul(%2, %1) : bf16[{m}, {cols}@tp]
"""
SCATTER = """  %2 = matmul(%0, %1) : bf16[{m}, {cols}] partial(tp)
  %3 = reduce_scatter(%2) {{dim=0, axes=tp}} : bf16[{m}@tp, {cols}]
"""
PROGRAM = """asyra 1 local
mesh (tp={n})

program @f(%x: {x}, %w: {w} weight) -> ({y}) {{
{body}  return %y
}}
"""


def _peers():
  return range(1, N)


def _gather_plan():
  ready = "; ".join(f"post ready to copy 0 of r+{k}" for k in _peers())
  pieces = "; ".join(f"await came from copy 0 of r+{k}; piece %3[#r+{k}, #r]"
                     for k in _peers())
  copies = "; ".join(
      f"await ready from compute of r-{k}; put %0[#r, :] to %2 of r-{k}; "
      f"post came to compute of r-{k}" for k in _peers())
  return (f"plan {{ queues compute, copy 0 rank r: on compute: {ready}; "
          f"piece %3[#r, #r] from %0, %1; {pieces} on copy 0: {copies} }}")


def _scatter_plan():
  scratch = " ".join(f"scratch s{k}: %2[#r, :] of r+{k}" for k in _peers())
  ready = "; ".join(f"post ready to copy 0 of r+{k}" for k in _peers())
  pieces = "; ".join(f"piece %2[#r+{k}, :]; post done to copy 0"
                     for k in _peers())
  come = "; ".join(f"await came from copy 0 of r+{k}" for k in _peers())
  summands = ", ".join(f"s{k}" for k in _peers())
  copies = "; ".join(
      f"await done from compute; await ready from compute of r+{k}; "
      f"put %2[#r+{k}, :] to s{N - k} of r+{k}; post came to compute of r+{k}"
      for k in _peers())
  return (f"plan {{ queues compute, copy 0 rank r: {scratch} on compute: "
          f"{ready}; {pieces}; piece %2[#r, :]; {come}; "
          f"sum in rank order %2, {summands} to %3[#r, :] on copy 0: "
          f"{copies} }}")


@dataclasses.dataclass(frozen=True)
class Gemm:
  machine: Machine
  part: str  # AG or RS
  rows: int  # of all devices
  hidden: int
  columns: int  # of all devices, behind a gather
  depth: int  # of all devices, before a scatter

  def _program(self, plan):
    gathers = self.part == "AG"
    sizes = dict(m=self.rows, inner=self.hidden,
                 cols=self.columns if gathers else self.hidden)
    body = (GATHER if gathers else SCATTER).format(**sizes)
    if gathers:
      x, w, y = (f"bf16[{self.rows}@tp, {self.hidden}]",
                 f"bf16[{self.hidden}, {self.columns}@tp]",
                 f"bf16[{self.rows}, {self.columns}@tp]")
    else:
      x, w, y = (f"bf16[{self.rows}, {self.depth}@tp]",
                 f"bf16[{self.depth}@tp, {self.hidden}]",
                 f"bf16[{self.rows}@tp, {self.hidden}]")
    if plan:
      body = (f"  %y = overlap(%x, %w) {{\n{body}    return %3\n"
              f"  }} {plan} : {y}\n")
    else:
      for old, new in (("%0", "%x"), ("%1", "%w"), ("%3", "%y")):
        body = body.replace(old, new)
    return PROGRAM.format(n=N, x=x, w=w, y=y, body=body)

  def steps(self):
    plan = _gather_plan() if self.part == "AG" else _scatter_plan()
    flags = (*self.machine.flags(), *SEARCH)
    as_written = [flag for flag in flags if flag != "--overlap"]
    return [Step(self._program(None), flags),
            Step(self._program(plan), (*as_written, "--tiles", "1"))]
