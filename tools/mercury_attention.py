"""Attention over devices that share the tokens, for tools/mercury_table.py: its
program, the forms that papers fix, and what asyra-opt is left to find.

Tokens come in and go out sharded over all devices, in natural order. Without
that asyra-opt would take queries, keys and values sharded by heads, and nothing
would move.
"""

import dataclasses
import math

from table_page import Step

PROGRAM = """asyra 1 global

program @attention(%q: {q}, %k: {kv}, %v: {kv}) -> ({q}) {{
  %qh = reshape(%q) {{shape=[{q_shape}]}} : bf16[{q_shape}]
  %kh = reshape(%k) {{shape=[{kv_shape}]}} : bf16[{kv_shape}]
  %vh = reshape(%v) {{shape=[{kv_shape}]}} : bf16[{kv_shape}]
  %o = attention(%qh, %kh, %vh) {{causal={causal}, scale=0.0884}} :
      bf16[{q_shape}]
  %y = reshape(%o) {{shape=[{width}]}} : {q}
  return %y
}}
"""
HEADS = 32
KV_HEADS = {"MHA": 32, "GQA": 8}
HEAD_SIZE = 128
# What every step is given: as operator_table.py, plans of overlaps too.
SEARCH = ("--overlap", "--search-steps", "200")
# Fixed forms gather and exchange all before attention.
WHOLE = ("--key-walk", "never", "--head-parts", "1")


@dataclasses.dataclass(frozen=True)
class Machine:
  """Hosts of a machine of simulator/machines with so many GPUs each. Over
  several hosts each has one NIC of so many GB/s."""

  name: str
  hosts: int
  gpus: int
  network_gbps: float = 0

  @property
  def devices(self):
    return self.hosts * self.gpus

  def flags(self):
    flags = ["--machine", self.name]
    if self.hosts > 1:
      for value in (f"host.gpus={self.gpus}", "network.nics=1",
                    f"network.gbps.achievable={self.network_gbps}"):
        flags += ["--set", value]
    return tuple(flags)


@dataclasses.dataclass(frozen=True)
class Attention:
  machine: Machine
  heads: str  # of KV_HEADS
  batch: int
  tokens: int
  causal: bool = False

  def program(self):
    sizes = f"{self.batch}, {self.tokens}"
    kv_heads = KV_HEADS[self.heads]
    return PROGRAM.format(
        q=f"bf16[{sizes}, {HEADS * HEAD_SIZE}]",
        kv=f"bf16[{sizes}, {kv_heads * HEAD_SIZE}]",
        q_shape=f"{sizes}, {HEADS}, {HEAD_SIZE}",
        kv_shape=f"{sizes}, {kv_heads}, {HEAD_SIZE}",
        width=f"{sizes}, {HEADS * HEAD_SIZE}",
        causal="true" if self.causal else "false")

  def step(self, mesh, pins, *flags):
    return Step(self.program(), (*self.machine.flags(), "--mesh", mesh,
                                 "--shard", pins, *SEARCH, *flags))

  def factors(self):
    """Sizes that the heads may have beside rows, both shared."""
    n = self.machine.devices
    most = math.gcd(KV_HEADS[self.heads], n)
    return [u for u in range(2, most + 1) if most % u == 0 and u < n]

  def rows(self):
    """Context parallelism: keys and values are gathered."""
    return [self.step(f"sp={self.machine.devices}",
                      "q|k|v|y|qh|o=1@sp;kh|vh=whole", "--propagate", *WHOLE)]

  def ulysses(self):
    if KV_HEADS[self.heads] % self.machine.devices != 0:
      return []
    return [self.step(f"sp={self.machine.devices}",
                      "q|k|v|y=1@sp;qh|kh|vh|o=2@sp", "--propagate", *WHOLE)]

  def usp(self):
    """Rows over the outer devices, heads over the inner ones."""
    n = self.machine.devices
    return [self.step(f"sp.context={n // u},sp={u}",
                      "q|k|v|y=1@(sp.context,sp);qh|o=1@sp.context,2@sp;"
                      "kh|vh=2@sp", "--propagate", *WHOLE)
            for u in self.factors()]

  def found(self):
    n = self.machine.devices
    whole = self.step(f"sp={n}", "q|k|v|y.*=1@sp")
    return [whole] + [self.step(f"sp.context={n // u},sp={u}",
                                "q|k|v|y.*=1@(sp.context,sp)")
                      for u in self.factors()]

  def fixed(self):
    """Forms that are fixed, by what the page calls them."""
    return {"gathered keys": self.rows(), "Ulysses": self.ulysses(),
            "USP": self.usp()}

  def steps(self):
    return [step for steps in self.fixed().values()
            for step in steps] + self.found()


def form_of(said, step):
  """How attention is shared, from the collectives of a step that was found:
  all_to_all shares heads, all that is not shares rows; and in what parts."""
  mesh = step.flags[step.flags.index("--mesh") + 1]
  sizes = {name: int(size) for name, size in
           (axis.split("=") for axis in mesh.split(","))}
  shared = set()
  for collective in said["collectives"]:
    kind, axes = collective["what"].split(" over ")
    if kind != "all_to_all":
      # sp.parts is a part of sp.
      shared |= {axis.removesuffix(".parts").removesuffix(".hosts")
                 for axis in axes.strip("()").split(",")}
  rows = math.prod(sizes.get(axis, 1) for axis in shared)
  heads = math.prod(sizes.values()) // rows
  forms = [f"{rows} rows"] * (rows > 1) + [f"{heads} heads"] * (heads > 1)
  striped = any(remark.startswith(("stripe_sequence: tokens are striped",
                                   "tokens are striped"))
                for remark in said["remarks"])
  parts = [word.strip() for word in said["schedule"].split(",")
           if word.strip().startswith(("keys in", "heads in"))]
  return ", ".join([" x ".join(forms)] + ["striped"] * striped + parts)


class Result:
  """Times in ms and GiB of a device of each form; None: not possible, or it
  does not fit."""

  def __init__(self, case, said):
    said = iter(said)
    self.serial, self.ms, self.gib = {}, {}, {}
    for name, steps in case.fixed().items():
      reports = [one for one in [next(said) for _ in steps] if one]
      self._take(name, reports)
    found = [(one, step) for one, step in zip(said, case.found()) if one]
    self._take("found", [one for one, _ in found])
    self.form = form_of(*min(found, key=lambda pair: pair[0]["optimized"]
                             ["makespan_us"])) if found else ""

  def _take(self, name, reports):
    if not reports:
      self.serial[name] = self.ms[name] = self.gib[name] = None
      return
    us = lambda one: one["optimized"]["makespan_us"]
    best = min(reports, key=us)
    self.serial[name] = min(
        one["baseline"]["makespan_us"] for one in reports) / 1e3
    self.ms[name] = us(best) / 1e3
    self.gib[name] = best["optimized"]["device_bytes"] / 2**30

  def over(self, name, serial=True):
    """How many times as long as what was found a fixed form takes."""
    ms = (self.serial if serial else self.ms)[name]
    return None if ms is None or not self.ms["found"] else ms / self.ms["found"]
