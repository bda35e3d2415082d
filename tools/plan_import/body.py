"""The body of the overlap that a plan is for: a collective and the matmuls
beside it, as it stands in a program, or a usual one."""

import dataclasses
import re

from plan_import.refusal import Refusal

OVERLAP = re.compile(r"\s*(%\S+(?:, %\S+)*) = overlap\((.*)\) \{$")
OP = re.compile(r"\s*%(\d+) = (\w+)\(([^()]*)\)(?: \{(.*)\})? : (.*)$")
RETURN = re.compile(r"\s*return (.*)$")
TYPE = re.compile(r"\w+\[(.*)\]( partial\(.*\))?$")
GATHERS = ("all_gather",)
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")

# The usual bodies, of two dimensions.
USUAL = {
    "all_gather": """
      %2 = all_gather(%0) {dim=0, axes=x} : f32[8, 8]
      %3 = matmul(%2, %1) : f32[8, 8@x]
      return %3""",
    "reduce_scatter": """
      %2 = matmul(%0, %1) : f32[8, 8] partial(x)
      %3 = reduce_scatter(%2) {dim=0, axes=x} : f32[8@x, 8]
      return %3""",
    "all_reduce": """
      %2 = matmul(%0, %1) : f32[8, 8] partial(x)
      %3 = all_reduce(%2) {axes=x} : f32[8, 8]
      return %3""",
    "all_to_all": """
      %2 = matmul(%0, %1) : f32[8@x, 8]
      %3 = all_to_all(%2) {from=0, to=1, axes=x} : f32[8, 8@x]
      return %3""",
}


@dataclasses.dataclass
class Op:
  """An op of a body; `cut` says of each dimension of its result whether the
  group's axes cut it."""
  value: int
  name: str
  operands: list
  attrs: dict
  dims: list

  def cut(self, axes):
    cut = []
    for dim in self.dims:
      of = names(dim.partition("@")[2])
      if any(axis in of for axis in axes) and not all(a in of for a in axes):
        raise Refusal(f"%{self.value}: dim {dim} is cut by a part of axes "
                      + ", ".join(axes))
      cut.append(all(axis in of for axis in axes))
    return cut


def names(text):
  """Names of axes: of "tp" or "(sp, tp)"."""
  return [name.strip() for name in text.strip("()[]").split(",") if name]


def split_commas(text):
  """Splits at commas outside brackets."""
  parts, depth, part = [], 0, ""
  for char in text:
    depth += (char in "([") - (char in ")]")
    if char == "," and depth == 0:
      parts.append(part.strip())
      part = ""
    else:
      part += char
  return [*parts, part.strip()] if part.strip() else parts


class Body:
  """`operand`, `moved` and `result` are numbers of values: what the collective
  reads and gives, and for a gather `moved` is what it gives too. `dim` is the
  dimension of them that chunks cut; of an exchange, `dim` is cut before it and
  `to_dim` after."""

  def __init__(self, lines, where, ranks):
    """Takes lines of (number, text). `ranks` are those of the schedule."""
    self.where = where
    ops, self.returned = [], []
    for number, line in lines:
      if not line.strip():
        continue
      if match := RETURN.match(line):
        self.returned = [int(v.strip()[1:]) for v in match[1].split(",")]
      else:
        ops.append(self._op(number, line))
    self._sort(ops)
    self._set_dims(ranks)

  def _op(self, number, line):
    match = OP.match(line)
    if not match:
      raise Refusal(f"{self.where}, line {number}: no op of a plan's body: "
                    f"{line.strip()}")
    value, name, operands, attrs, type_ = match.groups()
    type_ = TYPE.match(type_.strip())
    if name not in COLLECTIVES and name != "matmul":
      raise Refusal(f"{self.where}, line {number}: {name} in the body; of "
                    "matmuls and one collective plans can be imported")
    if not type_:
      raise Refusal(f"{self.where}, line {number}: no type: {line.strip()}")
    pairs = [pair.partition("=") for pair in split_commas(attrs or "")]
    return Op(int(value), name, [int(v.strip()[1:]) for v in
                                 operands.split(",")],
              {key.strip(): value for key, _, value in pairs},
              split_commas(type_[1]))

  def _sort(self, ops):
    collectives = [op for op in ops if op.name in COLLECTIVES]
    if len(collectives) != 1 or not self.returned:
      raise Refusal(f"{self.where}: the body has {len(collectives)} "
                    "collectives, a plan is imported for one")
    self.collective = collectives[0]
    self.kind = self.collective.name
    self.axes = names(self.collective.attrs.get("axes", ""))
    self.matmuls = [op for op in ops if op.name == "matmul"]
    self.moved = self.collective.value
    if self.kind not in GATHERS:
      self.moved = self.collective.operands[0]
      makers = [op for op in self.matmuls if op.value == self.moved]
      if len(self.matmuls) != 1 or not makers:
        raise Refusal(f"{self.where}: {self.kind} does not move the result of "
                      "the one matmul of the body")
    self.operand = self.collective.operands[0]
    self.result = self.collective.value

  def _set_dims(self, ranks):
    attrs = self.collective.attrs
    self.to_dim = None
    if self.kind == "all_to_all":
      self.dim, self.to_dim = int(attrs["from"]), int(attrs["to"])
    elif self.kind == "all_reduce":
      # The one that ir/plans/plan_walk.h walks: the first that divides.
      sizes = [int(dim.partition("@")[0]) for dim in self.collective.dims]
      self.dim = next((d for d, size in enumerate(sizes) if size % ranks == 0),
                      0)
    else:
      self.dim = int(attrs["dim"])

  def form(self):
    """All that the text of a plan depends on."""
    ops = [self.collective, *self.matmuls]
    return (self.returned, self.axes, self.dim,
            [(op.value, op.name, op.operands, op.attrs, op.cut(self.axes))
             for op in ops])

  def check_fits(self, kind, ranks, mesh):
    if kind != self.kind:
      raise Refusal(f"the schedule is of {kind}, {self.where} has {self.kind}")
    size = 1
    for axis in self.axes:
      if mesh and axis not in mesh:
        raise Refusal(f"{self.where}: the mesh has no axis {axis}")
      size *= mesh.get(axis, ranks) if mesh else 1
    if mesh and size != ranks:
      raise Refusal(f"the schedule has {ranks} ranks, axes "
                    f"{', '.join(self.axes)} of {self.where} have {size}")

  def box(self, value, ranges):
    """A box of what the collective reads or gives: `ranges` by dimension, else
    all of it."""
    rank = len(self.collective.dims)
    return f"%{value}[{self.dims_text(rank, ranges)}]"

  @staticmethod
  def dims_text(rank, ranges):
    return ", ".join(ranges.get(d, ":") for d in range(rank))

  def gathered_dim(self, matmul):
    """The dimension of a matmul's result that the gathered one becomes."""
    rank, own = len(matmul.dims), len(self.collective.dims)
    second = matmul.operands[0] != self.moved
    swapped = matmul.attrs.get("transpose_b" if second else "transpose_a",
                               "false") == "true"
    # Of the last two dimensions one is summed over, the other stays.
    summed = own - 1 if second == swapped else own - 2
    if matmul.operands.count(self.moved) == 1 and self.dim != summed:
      if self.dim < own - 2:
        return rank - own + self.dim
      return rank - 1 if second else rank - 2
    raise Refusal(f"{self.where}: %{matmul.value} sums over dim {self.dim} of "
                  f"%{self.moved}, and computes no parts of it")


def usual(kind):
  lines = list(enumerate(USUAL[kind].splitlines(), 1))
  return Body(lines, "the usual body", 1)


def of_program(text, path, kind, ranks, site):
  try:
    return read_program(text, path, kind, ranks, site)
  except (KeyError, ValueError) as error:
    raise Refusal(f"{path}: no program as asyra-opt writes it: "
                  f"{error}") from None


def read_program(text, path, kind, ranks, site):
  """The body of an overlap with this collective in a program, and the sizes of
  the mesh. Of several that differ in sizes alone, the first."""
  mesh, found = {}, []
  lines = text.splitlines()
  for number, line in enumerate(lines, 1):
    if match := re.match(r"mesh \((.*)\)$", line):
      mesh = {key.strip(): int(size) for key, _, size in
              (pair.partition("=") for pair in match[1].split(","))}
    if match := OVERLAP.match(line):
      names = [name.strip()[1:] for name in match[1].split(",")]
      body = body_lines(lines, number)
      of_kind = any(f" = {kind}(" in text for _, text in body)
      if site in names or (site is None and of_kind):
        found.append((names[0], body))
  if not found:
    what = f"no overlap of {kind}" if site is None else (
        f"no overlap gives %{site}")
    raise Refusal(f"{path}: {what}")
  bodies = [Body(body, f"{path}, %{name}", ranks) for name, body in found]
  if any(body.form() != bodies[0].form() for body in bodies):
    raise Refusal(f"{path}: overlaps give " + ", ".join(
        "%" + name for name, _ in found) + ": --site says which")
  return bodies[0], mesh


def body_lines(lines, first):
  """The lines of the body that begins at `first`, with their numbers."""
  body = []
  for number, line in enumerate(lines[first:], first + 1):
    if line.strip().startswith("}"):
      break
    body.append((number, line))
  return body
