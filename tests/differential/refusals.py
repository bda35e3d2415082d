"""What asyra-run may refuse, and whether the reason that it gives is true.

Of a model is known: `inputs`, the shapes of its inputs; `not_padded_right`, the
names of those with a row that is not ones, then zeros; `rows_of_zeros`, of those
with such a row.
"""

import re


def size_of_mesh(flags):
  """Devices along each axis that the flags ask for."""
  axes = {}
  for flag, value in zip(flags, flags[1:]):
    if flag in ("--dp", "--tp", "--sp", "--ep"):
      axes[flag[2:]] = int(value)
    if flag == "--mesh":
      axes |= {name: int(size) for name, size in
               (axis.split("=") for axis in value.split(","))}
  return axes


NAME = r'(?: "(?:[^"\\]|\\.)*")?'  # of a dimension, where the model gives one
DIM = re.compile(rf"dim \d+{NAME} of \S+ has size (\d+) "
                 r"\((\d+) does not divide it\)")


def dims_do_not_divide(found, flags, case):
  """Each dimension that is said not to divide does not."""
  size = int(found["size"])
  return all(int(by) == size and int(n) % size
             for n, by in DIM.findall(found["why"]))


def too_few_experts(found, flags, case):
  return int(found["count"]) % int(found["devices"]) != 0


def does_not_cut(found, flags, case):
  """The size on a device is not a multiple of the number of tiles."""
  size, tiles = int(found["size"]), int(found["tiles"])
  return size % tiles != 0 and size <= max(
      (n for shape in case["inputs"] for n in shape), default=0)


def none_is_labelled(found, flags, case):
  """None of the dimensions that are listed is said to be it."""
  return f", {found['what']})" not in found["dims"]


def no_such_dim(found, flags, case):
  dim = int(found["dim"])
  return any(len(shape) <= dim for shape in case["inputs"]) or (
      not case["inputs"])


def other_rows(found, flags, case):
  """A mask that is not padded on the right, or has a row without a key."""
  name = "rows_of_zeros" if found["must"] else "not_padded_right"
  return "--padding" in flags and found["input"] in case[name]


AXIS = r"axis (?P<axis>\w+) of size (?P<size>\d+) shards "
REASONS = [
    ("no op goes in parts along a dimension that divides",
     AXIS + r"nothing: it is for (?P<why>.*no op can be computed in parts.*)",
     dims_do_not_divide),
    ("no dimension divides", AXIS + r"nothing: it is for (?P<why>.*)",
     dims_do_not_divide),
    ("experts do not divide",
     AXIS + r"no experts: there are (?P<count>\d+) of them \(.*\) for "
     r"(?P<devices>\d+) devices", too_few_experts),
    ("there are no experts", AXIS + r"no experts: the model has none",
     lambda found, flags, case: "--ep" in flags or "--experts" in flags),
    ("tiles do not cut",
     rf"dim (?P<dim>\d+){NAME} of input \S+ is (?P<size>\d+) on a device, it "
     r"does not cut into (?P<tiles>\d+) tiles", does_not_cut),
    ("no dimension is what tiles cut",
     r"no dim of the data inputs is the (?P<what>batch|sequence)(?P<dims>.*)",
     none_is_labelled),
    ("no input has the tiled dimension",
     r"no data input has a dim (?P<dim>\d+)", no_such_dim),
    ("rows are not padded on the right",
     r"row \d+ of input (?P<input>\S+) has (?:a )?\S+ at place \d+"
     r"(?P<must>, where it must have a 1)?", other_rows),
]


def judge(text, flags, case):
  """The reason's name, empty where it is none, and whether it is true."""
  for name, pattern, is_true in REASONS:
    found = re.search(pattern, text)
    if found:
      return name, is_true(found, flags, case)
  return "", False
